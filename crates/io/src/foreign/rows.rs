//! Batches of the records of a text, from a split or a stream, and errors that say which line is
//! wrong.

use std::io::BufRead;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use bytes::Bytes;
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Kind, Result, Row};

use super::text::{Range, Text};
use super::{Input, guarded, stream};

/// A batch of records that are longer than expected ends when it has this many bytes.
pub const TEXT_BYTES_MAX: usize = 4 * BATCH_BYTES_TARGET;

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
    fn explain(&self, format: &F, error: Error) -> Error;
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
    /// The batches of a range, with this schema and so many rows at most.
    pub fn of_split(
        format: F,
        text: Arc<Text>,
        range: Range,
        schema: SchemaRef,
        rows: usize,
    ) -> Result<Self> {
        let Range { parts, offset, is_first } = range;
        let decoder = Some(format.decoder(rows, is_first)?);
        let feed = SplitFeed { text, parts, at: (0, 0), began: (0, 0), offset, is_first };
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
    ) -> Result<Self> {
        let decoder = Some(format.decoder(rows, true)?);
        let feed = StreamFeed { input, taken: vec![], is_first: true, lines, is_broken: false };
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

/// A split, in memory.
pub struct SplitFeed {
    text: Arc<Text>,
    parts: Vec<Bytes>,
    /// The part and the byte in it that are decoded next.
    at: (usize, usize),
    /// Where in the parts the batch being decoded began.
    began: (usize, usize),
    /// Where the first part begins in the file.
    offset: u64,
    /// It begins the file.
    is_first: bool,
}

impl<F: RowFormat> Feed<F> for SplitFeed {
    fn fill(&mut self, _: &F, decoder: &mut F::Decoder) -> Result<Option<RecordBatch>> {
        while let Some(part) = self.parts.get(self.at.0) {
            if self.at.1 == part.len() {
                self.at = (self.at.0 + 1, 0);
                continue;
            }
            match decoder.decode(&part[self.at.1..])? {
                0 => return decoder.flush()?.map(Some).ok_or_else(stuck),
                taken => self.at.1 += taken,
            }
        }
        decoder.decode(&[])?;
        decoder.flush()
    }

    fn begin_batch(&mut self) {
        self.began = self.at;
    }

    fn explain(&self, format: &F, error: Error) -> Error {
        let (part, byte) = self.began;
        let mut bytes = self.parts.get(part).map(|part| part[byte..].to_vec()).unwrap_or_default();
        self.parts.iter().skip(part + 1).for_each(|part| bytes.extend_from_slice(part));
        let before: usize = self.parts[..part].iter().map(Bytes::len).sum();
        let begin = self.offset + (before + byte) as u64;
        let is_first = self.is_first && before + byte == 0;
        let (at, error) = fault_in(format, &bytes, is_first).unwrap_or((0, error));
        let offset = begin + at as u64;
        match self.text.line(offset) {
            Ok(line) => error.at(format!("line {line}")),
            Err(_) => error.at(format!("byte {offset}")),
        }
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
}

impl StreamFeed {
    /// The error of the last record, which is too long, with its line.
    fn overlong(&self, format: &impl RowFormat) -> Error {
        let mut at = 0;
        loop {
            let end = at + format.record_end(&self.taken[at..]);
            if end == self.taken.len() {
                break;
            }
            at = end;
        }
        let blanks = self.taken[at..].iter().take_while(|byte| byte.is_ascii_whitespace());
        let before = lines(&self.taken[..at + blanks.count()]);
        stream::endless().at(format!("line {}", self.lines + before + 1))
    }
}

impl<F: RowFormat> Feed<F> for StreamFeed {
    fn fill(&mut self, format: &F, decoder: &mut F::Decoder) -> Result<Option<RecordBatch>> {
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
            // Whole records of a batch may stand before the one that is too long.
            if self.taken.len() > stream::RECORD_BYTES_MAX + TEXT_BYTES_MAX {
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
    }

    fn explain(&self, format: &F, error: Error) -> Error {
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
