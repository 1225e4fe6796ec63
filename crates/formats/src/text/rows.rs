//! Batches of the records of a text, from a split or a stream, and errors that say which line is
//! wrong.

use std::io::BufRead;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use bytes::{Buf, Bytes};
use euphrates_flow::{Error, Kind, Result, Row};

use crate::format::guarded;
use crate::stream;
use crate::stream::Input;
use crate::text::limits::{RecordLimit, USUAL_BYTES_MAX};
use crate::text::splits::{Range, Text};

/// A decoder of text that is fed bytes and gives batches.
pub trait RowDecoder: Send {
    /// Takes in some of the bytes and says how many; none when a batch is full. No bytes at all
    /// mean that the input is at its end.
    fn decode(&mut self, bytes: &[u8]) -> Result<usize>;
    /// The batch decoded so far, if it has rows.
    fn flush(&mut self) -> Result<Option<RecordBatch>>;
    /// Whether it holds no part of a record, but whole ones if any.
    fn is_whole(&self) -> bool;
    /// Whether the header is still to come.
    fn awaits_header(&self) -> bool {
        false
    }
}

/// Makes decoders for one schema, with a bound on the rows of a batch, for the first bytes of a
/// file (where a header is) or for later ones.
pub trait RowFormat: Send {
    /// The decoder.
    type Decoder: RowDecoder;
    /// Makes one.
    fn decoder(&self, rows: usize, is_first: bool) -> Result<Self::Decoder>;
    /// The index behind the first record of `bytes`, or their length if it is not whole.
    fn record_end(&self, bytes: &[u8]) -> usize;
}

/// Finds the record at fault by decoding them once more, one by one: where it begins, and what is
/// wrong with it.
fn fault_in(format: &impl RowFormat, bytes: &[u8], is_first: bool) -> Option<(usize, Error)> {
    let mut at = 0;
    while at < bytes.len() {
        let end = at + format.record_end(&bytes[at..]);
        if let Err(error) = decode_one(format, &bytes[at..end], is_first && at == 0) {
            let line = || String::from_utf8_lossy(&bytes[at..end]);
            let row = || Row::of_text(line().trim(), "the record as it stands in the file");
            // Documents may begin lines behind the end of the one before.
            let blanks = bytes[at..end].iter().take_while(|byte| byte.is_ascii_whitespace());
            let begin = at + blanks.count();
            return Some((begin, error.in_row(row)));
        }
        at = end;
    }
    None
}

/// Where the last record of these bytes begins, which is not whole.
fn last_begin(format: &impl RowFormat, bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let end = at + format.record_end(&bytes[at..]);
        if end == bytes.len() {
            break;
        }
        at = end;
    }
    at + bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

fn decode_one(format: &impl RowFormat, record: &[u8], is_first: bool) -> Result<()> {
    guarded(|| {
        let mut decoder = format.decoder(1, is_first)?;
        let mut at = 0;
        while at < record.len() {
            match decoder.decode(&record[at..])? {
                0 => break,
                taken => at += taken,
            }
        }
        decoder.decode(&[])?;
        decoder.flush().map(drop)
    })
}

/// With the schema of the reader, whose columns the batch has.
fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &rows)?)
}

fn stuck() -> Error {
    Error::corrupt("the decoder takes no more input")
}

/// Where the bytes of records come from.
pub trait Feed<F: RowFormat>: Send {
    /// Feeds the decoder until it has a batch or the input ends.
    fn fill(&mut self, format: &F, decoder: &mut F::Decoder) -> Result<Option<RecordBatch>>;
    /// What has been fed so far was sound.
    fn begin_batch(&mut self);
    /// The error of what has been fed since, with its line.
    fn explain(&mut self, format: &F, error: Error) -> Error;
}

/// Batches, decoded from a feed.
pub struct Rows<F: RowFormat, I: Feed<F>> {
    format: F,
    feed: I,
    schema: SchemaRef,
    /// `None` when all is done, or has failed.
    decoder: Option<F::Decoder>,
}

impl<F: RowFormat> Rows<F, SplitFeed> {
    /// The batches of a range, with this schema and a bound on their rows.
    pub fn of_split(
        format: F,
        text: Arc<Text>,
        range: Range,
        schema: SchemaRef,
        rows: usize,
        limit: RecordLimit,
    ) -> Result<Self> {
        let (at, is_first) = (range.offset, range.is_first);
        let decoder = Some(format.decoder(rows, is_first)?);
        let feed = SplitFeed { text, range, part: Bytes::new(), at, began: at, is_first, limit };
        Ok(Rows { format, feed, schema, decoder })
    }
}

impl<F: RowFormat> Rows<F, StreamFeed> {
    /// The batches of an input that begins behind some `lines`, with this schema and a bound on
    /// their rows.
    pub fn of_stream(
        format: F,
        input: Input,
        lines: usize,
        schema: SchemaRef,
        rows: usize,
        limit: RecordLimit,
    ) -> Result<Self> {
        let decoder = Some(format.decoder(rows, true)?);
        let (taken, is_first, is_broken) = (vec![], true, false);
        let feed = StreamFeed { input, taken, is_first, lines, is_broken, limit };
        Ok(Rows { format, feed, schema, decoder })
    }
}

impl<F: RowFormat, I: Feed<F>> Iterator for Rows<F, I> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let mut decoder = self.decoder.take()?;
        match guarded(|| self.feed.fill(&self.format, &mut decoder)).transpose()? {
            Ok(batch) => {
                self.decoder = Some(decoder);
                self.feed.begin_batch();
                Some(conform(&batch, &self.schema))
            }
            Err(error) if error.kind() == Kind::Corrupt => {
                Some(Err(self.feed.explain(&self.format, error)))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// A split. What has been decoded is not kept, but read again to say what is wrong with it.
pub struct SplitFeed {
    text: Arc<Text>,
    range: Range,
    /// What is decoded next.
    part: Bytes,
    /// Where that is in the file.
    at: u64,
    /// Where the batch being decoded began.
    began: u64,
    /// It begins the file.
    is_first: bool,
    limit: RecordLimit,
}

impl SplitFeed {
    fn held(&self) -> usize {
        (self.at - self.began) as usize
    }

    /// The error with the line of the file at an offset.
    fn at_line(&self, error: Error, offset: u64) -> Error {
        match self.text.line(offset) {
            Ok(line) => error.at(format!("line {line}")),
            Err(_) => error.at(format!("byte {offset}")),
        }
    }

    /// The bytes of the batch being decoded, up to the end of the record at fault.
    fn read_again(&mut self) -> Result<Bytes> {
        let mut end = self.at + self.part.len() as u64;
        // Behind the record at fault may stand one of any length.
        while !self.limit.is_passed((end - self.began) as usize) {
            let Some(part) = self.range.next_part()? else { break };
            end += part.len() as u64;
        }
        self.text.bytes_between(self.began, end)
    }
}

impl<F: RowFormat> Feed<F> for SplitFeed {
    fn fill(&mut self, format: &F, decoder: &mut F::Decoder) -> Result<Option<RecordBatch>> {
        let mut turn = None;
        loop {
            if self.part.is_empty() {
                let Some(part) = self.range.next_part()? else { break };
                self.part = part;
            }
            match decoder.decode(&self.part)? {
                0 => return decoder.flush()?.map(Some).ok_or_else(stuck),
                taken => {
                    self.part.advance(taken);
                    self.at += taken as u64;
                }
            }
            self.limit.hold(self.held(), &mut turn);
            if self.limit.is_passed(self.held()) {
                if !decoder.is_whole() {
                    let bytes = self.text.bytes_between(self.began, self.at)?;
                    let begin = self.began + last_begin(format, &bytes) as u64;
                    return Err(self.at_line(self.limit.error(), begin));
                }
                // What follows the last record is blank.
                if let Some(batch) = decoder.flush()? {
                    return Ok(Some(batch));
                }
                self.is_first &= decoder.awaits_header();
                self.began = self.at;
            }
        }
        decoder.decode(&[])?;
        decoder.flush()
    }

    fn begin_batch(&mut self) {
        self.is_first &= self.began == self.at;
        self.began = self.at;
    }

    fn explain(&mut self, format: &F, error: Error) -> Error {
        let begin = self.began;
        let Ok(bytes) = self.read_again() else { return error.at(format!("byte {begin}")) };
        let (at, error) = fault_in(format, &bytes, self.is_first).unwrap_or((0, error));
        self.at_line(error, begin + at as u64)
    }
}

/// A stream, read as it comes.
pub struct StreamFeed {
    input: Input,
    /// What the batch being decoded is made of, to say which line is wrong.
    taken: Vec<u8>,
    /// It begins the stream.
    is_first: bool,
    /// Lines before that.
    lines: usize,
    /// The input could not be read on: what has been taken is not at fault, but cut short.
    is_broken: bool,
    limit: RecordLimit,
}

impl StreamFeed {
    /// The error of the last record, which is too long, with its line.
    fn overlong(&self, format: &impl RowFormat) -> Error {
        let before = lines(&self.taken[..last_begin(format, &self.taken)]);
        self.limit.error().at(format!("line {}", self.lines + before + 1))
    }
}

impl<F: RowFormat> Feed<F> for StreamFeed {
    fn fill(&mut self, format: &F, decoder: &mut F::Decoder) -> Result<Option<RecordBatch>> {
        let mut turn = None;
        loop {
            let bytes = self.input.fill_buf().map_err(|error| {
                self.is_broken = true;
                stream::failed("read", &error)
            })?;
            if bytes.is_empty() {
                decoder.decode(&[])?;
                return decoder.flush();
            }
            let taken = match decoder.decode(bytes) {
                Ok(0) => return decoder.flush()?.map(Some).ok_or_else(stuck),
                Ok(taken) => taken,
                Err(error) => {
                    self.taken.extend_from_slice(bytes);
                    return Err(error);
                }
            };
            self.taken.extend_from_slice(&bytes[..taken]);
            self.input.consume(taken);
            self.limit.hold(self.taken.len(), &mut turn);
            if self.limit.is_passed(self.taken.len()) {
                if !decoder.is_whole() {
                    return Err(self.overlong(format));
                }
                // What follows the last record is blank.
                if let Some(batch) = decoder.flush()? {
                    return Ok(Some(batch));
                }
                self.is_first &= decoder.awaits_header();
                self.lines += lines(&self.taken);
                self.taken.clear();
            }
        }
    }

    fn begin_batch(&mut self) {
        self.is_first &= self.taken.is_empty();
        self.lines += lines(&self.taken);
        self.taken.clear();
        self.taken.shrink_to(USUAL_BYTES_MAX);
    }

    fn explain(&mut self, format: &F, error: Error) -> Error {
        if self.is_broken {
            return error;
        }
        let (at, error) = fault_in(format, &self.taken, self.is_first).unwrap_or((0, error));
        error.at(format!("line {}", self.lines + lines(&self.taken[..at]) + 1))
    }
}

fn lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}
