//! Decodes the records of a text, from a split or a stream, into batches, and locates the line of
//! an error.

use std::collections::VecDeque;
use std::io::BufRead;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use bytes::{Buf, Bytes};
use euphrates_flow::{Error, Kind, Result, Row, new_batch};

use crate::format::guarded;
use crate::stream;
use crate::stream::ByteInput;
use crate::text::limits::{HELD_TEXT_BYTES_MAX, RecordLimit};
use crate::text::row_format::{RowDecoder, RowFormat, stuck};
use crate::text::salvage::{Section, Tolerance, salvage};
use crate::text::splits::{SplitParts, Text};

/// Locates a malformed record by decoding all records again, one by one: returns where it begins,
/// and its error.
fn fault_in(format: &impl RowFormat, bytes: &[u8], is_first: bool) -> Option<(usize, Error)> {
    let mut at = 0;
    while at < bytes.len() {
        let end = at + format.record_end(&bytes[at..]);
        if let Err(error) = decode_one(format, &bytes[at..end], is_first && at == 0) {
            let line = || String::from_utf8_lossy(&bytes[at..end]);
            let row = || Row::of_text(line().trim(), "the record as it stands in the file");
            // A document may begin some lines after the end of the one before.
            let blanks = bytes[at..end].iter().take_while(|byte| byte.is_ascii_whitespace());
            let begin = at + blanks.count();
            return Some((begin, error.in_row(row)));
        }
        at = end;
    }
    None
}

/// Index at which the last, incomplete record begins.
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

/// A source of the bytes of records.
pub trait Feed<F: RowFormat>: Send {
    /// Feeds the decoder until it has a batch or the input ends.
    fn fill(&mut self, format: &F, decoder: &mut F::Decoder) -> Result<Option<RecordBatch>>;
    /// Called after each batch: later errors lie in bytes fed from here on.
    fn commit(&mut self);
    /// Adds the line to an error in the bytes fed since then.
    fn explain(&mut self, format: &F, error: Error) -> Error;
    /// Whole records from the beginning of the current batch on; `None` at the end of the input.
    /// `fill` must not be called after it.
    fn section(&mut self, format: &F) -> Result<Option<Section>>;
    /// Whether an error is one of reading, not of the text.
    fn is_broken(&self) -> bool {
        false
    }
}

/// Iterates over the batches decoded from a feed.
pub struct Rows<F: RowFormat, I: Feed<F>> {
    format: F,
    feed: I,
    schema: SchemaRef,
    /// `None` at the end or after an error.
    decoder: Option<F::Decoder>,
    /// Row limit of a batch.
    rows: usize,
    tolerance: Option<Tolerance>,
    /// Whether a record was malformed, so that the rest is read section by section.
    is_salvaging: bool,
    /// Batches of the last section.
    salvaged: VecDeque<RecordBatch>,
}

impl<F: RowFormat, I: Feed<F>> Rows<F, I> {
    fn new(format: F, feed: I, schema: SchemaRef, decoder: F::Decoder, rows: usize) -> Self {
        let (tolerance, is_salvaging, salvaged) = (None, false, VecDeque::new());
        let decoder = Some(decoder);
        Rows { format, feed, schema, decoder, rows, tolerance, is_salvaging, salvaged }
    }

    /// Reads on behind malformed records, if there is a tolerance.
    pub fn tolerating(self, tolerance: Option<Tolerance>) -> Self {
        Rows { tolerance, ..self }
    }

    /// The next batch that is salvaged.
    fn next_salvaged(&mut self) -> Result<Option<RecordBatch>> {
        let Some(tolerance) = &self.tolerance else { return Ok(None) };
        loop {
            if let Some(batch) = self.salvaged.pop_front() {
                return Ok(Some(batch));
            }
            let Some(section) = self.feed.section(&self.format)? else { return Ok(None) };
            self.salvaged =
                salvage(&self.format, &self.schema, self.rows, &section, tolerance)?.into();
        }
    }
}

impl<F: RowFormat> Rows<F, SplitFeed> {
    /// The batches of a range, with this schema and a row limit.
    pub fn of_split(
        format: F,
        text: Arc<Text>,
        range: SplitParts,
        schema: SchemaRef,
        rows: usize,
        limit: RecordLimit,
    ) -> Result<Self> {
        let (at, is_first) = (range.offset, range.is_first);
        let decoder = format.decoder(rows, is_first)?;
        let feed = SplitFeed { text, range, part: Bytes::new(), at, began: at, is_first, limit };
        Ok(Rows::new(format, feed, schema, decoder, rows))
    }
}

impl<F: RowFormat> Rows<F, StreamFeed> {
    /// The batches of an input that begins after some `lines`, with this schema and a row limit.
    pub fn of_stream(
        format: F,
        input: ByteInput,
        lines: usize,
        schema: SchemaRef,
        rows: usize,
        limit: RecordLimit,
    ) -> Result<Self> {
        let decoder = format.decoder(rows, true)?;
        let (taken, is_first, is_broken) = (vec![], true, false);
        let feed = StreamFeed { input, taken, is_first, lines, is_broken, limit };
        Ok(Rows::new(format, feed, schema, decoder, rows))
    }
}

impl<F: RowFormat, I: Feed<F>> Iterator for Rows<F, I> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.is_salvaging {
            let batch = self.next_salvaged().transpose();
            self.is_salvaging = batch.as_ref().is_some_and(|batch| batch.is_ok());
            return batch;
        }
        let mut decoder = self.decoder.take()?;
        match guarded(|| self.feed.fill(&self.format, &mut decoder)).transpose()? {
            Ok(batch) => {
                self.decoder = Some(decoder);
                self.feed.commit();
                let (schema, columns) = (self.schema.clone(), batch.columns().to_vec());
                Some(new_batch(schema, columns, batch.num_rows()).map_err(Error::from))
            }
            Err(error)
                if error.kind() == Kind::Corrupt
                    && self.tolerance.is_some()
                    && !self.feed.is_broken() =>
            {
                self.is_salvaging = true;
                self.next()
            }
            Err(error) if error.kind() == Kind::Corrupt => {
                Some(Err(self.feed.explain(&self.format, error)))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// Feeds a split. Decoded bytes are not kept; they are read again to explain an error.
pub struct SplitFeed {
    text: Arc<Text>,
    range: SplitParts,
    /// The bytes to decode next.
    part: Bytes,
    /// Offset of `part` in the file.
    at: u64,
    /// Offset at which the current batch began.
    began: u64,
    /// Whether the current batch begins the file.
    is_first: bool,
    limit: RecordLimit,
}

impl SplitFeed {
    fn held(&self) -> usize {
        (self.at - self.began) as usize
    }

    /// Adds the line at an offset of the file to an error.
    fn at_line(&self, error: Error, offset: u64) -> Error {
        match self.text.line(offset) {
            Ok(line) => error.at(format!("line {line}")),
            Err(_) => error.at(format!("byte {offset}")),
        }
    }

    /// Reads the current batch again, up to the end of the malformed record.
    fn read_again(&mut self) -> Result<Bytes> {
        let mut end = self.at + self.part.len() as u64;
        // The record after the malformed one may have any length, so the limit ends the loop.
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
                // Only whitespace follows the last record.
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

    fn commit(&mut self) {
        self.is_first &= self.began == self.at;
        self.began = self.at;
    }

    fn explain(&mut self, format: &F, error: Error) -> Error {
        let begin = self.began;
        let Ok(bytes) = self.read_again() else { return error.at(format!("byte {begin}")) };
        let (at, error) = fault_in(format, &bytes, self.is_first).unwrap_or((0, error));
        self.at_line(error, begin + at as u64)
    }

    fn section(&mut self, _: &F) -> Result<Option<Section>> {
        let (begin, is_first) = (self.began, self.is_first);
        let mut end = self.at + self.part.len() as u64;
        while let Some(part) = self.range.next_part()? {
            end += part.len() as u64;
        }
        if begin == end {
            return Ok(None);
        }
        let (bytes, line) = (self.text.bytes_between(begin, end)?, self.text.line(begin)?);
        (self.part, self.at, self.began, self.is_first) = (Bytes::new(), end, end, false);
        Ok(Some(Section { bytes, is_first, line }))
    }
}

/// Feeds a stream as its bytes arrive.
pub struct StreamFeed {
    input: ByteInput,
    /// Bytes of the current batch, kept to locate an error.
    taken: Vec<u8>,
    /// Whether the current batch begins the stream.
    is_first: bool,
    /// Number of lines before the current batch.
    lines: usize,
    /// Whether reading failed, so that the bytes taken are truncated, not malformed.
    is_broken: bool,
    limit: RecordLimit,
}

impl StreamFeed {
    /// The error of a last record that is too long, with its line.
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
                    let taken = bytes.len();
                    self.input.consume(taken);
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
                // Only whitespace follows the last record.
                if let Some(batch) = decoder.flush()? {
                    return Ok(Some(batch));
                }
                self.is_first &= decoder.awaits_header();
                self.lines += lines(&self.taken);
                self.taken.clear();
            }
        }
    }

    fn commit(&mut self) {
        self.is_first &= self.taken.is_empty();
        self.lines += lines(&self.taken);
        self.taken.clear();
        self.taken.shrink_to(HELD_TEXT_BYTES_MAX);
    }

    fn explain(&mut self, format: &F, error: Error) -> Error {
        if self.is_broken {
            return error;
        }
        let (at, error) = fault_in(format, &self.taken, self.is_first).unwrap_or((0, error));
        error.at(format!("line {}", self.lines + lines(&self.taken[..at]) + 1))
    }

    fn section(&mut self, format: &F) -> Result<Option<Section>> {
        let mut wanted = stream::READ_BYTES;
        let end = loop {
            let missing = wanted.saturating_sub(self.taken.len()) as u64;
            self.taken.append(&mut stream::up_to(&mut self.input, missing)?);
            if self.taken.len() < wanted {
                break self.taken.len();
            }
            // The last record may be incomplete.
            let end = last_begin(format, &self.taken);
            if end > 0 {
                break end;
            }
            if self.limit.is_passed(self.taken.len()) {
                return Err(self.overlong(format));
            }
            wanted = self.taken.len() * 2;
        };
        if end == 0 {
            return Ok(None);
        }
        let rest = self.taken.split_off(end);
        let bytes = Bytes::from(std::mem::replace(&mut self.taken, rest));
        let line = self.lines as u64 + 1;
        self.lines += lines(&bytes);
        Ok(Some(Section { bytes, is_first: std::mem::take(&mut self.is_first), line }))
    }

    fn is_broken(&self) -> bool {
        self.is_broken
    }
}

fn lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}
