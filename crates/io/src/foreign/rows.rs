//! Batches of the records of a text split, and errors that say which line is wrong.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use bytes::Bytes;
use euphrates_flow::{Error, Result};

use super::guarded;
use super::text::{Range, Text};

/// A decoder of text that is fed bytes and gives batches.
pub trait RowDecoder: Send {
    /// Takes in some of the bytes and says how many; none when a batch is full. No bytes at all
    /// mean that the input is at its end.
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError>;
    /// The batch decoded so far, if it has rows.
    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError>;
}

/// Makes decoders for one schema: of so many rows to a batch, for bytes from this offset of the
/// file on (the header is at 0).
pub trait RowFormat: Send {
    /// The decoder.
    type Decoder: RowDecoder;
    /// Makes one.
    fn decoder(&self, rows: usize, offset: u64) -> Result<Self::Decoder>;
    /// What to do about a record that cannot be decoded.
    fn remedy(&self) -> &'static str;
}

/// The batches of a split.
pub struct Rows<F: RowFormat> {
    format: F,
    text: Arc<Text>,
    schema: SchemaRef,
    parts: Vec<Bytes>,
    /// The part and the byte in it that are decoded next.
    at: (usize, usize),
    /// Where in the parts the batch being decoded began.
    began: (usize, usize),
    /// Where the first part begins in the file.
    offset: u64,
    /// `None` when all is done, or has failed.
    decoder: Option<F::Decoder>,
}

impl<F: RowFormat> Rows<F> {
    /// The batches of a range, with this schema and so many rows at most.
    pub fn new(
        format: F,
        text: Arc<Text>,
        range: Range,
        schema: SchemaRef,
        rows: usize,
    ) -> Result<Rows<F>> {
        let decoder = Some(format.decoder(rows, range.offset)?);
        let Range { parts, offset } = range;
        Ok(Rows { format, text, schema, parts, at: (0, 0), began: (0, 0), offset, decoder })
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
        let decoded = guarded(|| Ok(self.fill(&mut decoder)))?;
        match decoded {
            Ok(None) => Ok(None),
            Ok(Some(batch)) => {
                self.decoder = Some(decoder);
                self.began = self.at;
                let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let columns = batch.columns().to_vec();
                let schema = self.schema.clone();
                Ok(Some(RecordBatch::try_new_with_options(schema, columns, &rows)?))
            }
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Feeds the decoder until it has a batch or the input ends.
    fn fill(&mut self, decoder: &mut F::Decoder) -> Result<Option<RecordBatch>, ArrowError> {
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

    /// Finds the record at fault by decoding the batch once more, record by record.
    fn explain(&self, error: &ArrowError) -> Error {
        let (part, byte) = self.began;
        let mut bytes = self.parts.get(part).map(|part| part[byte..].to_vec()).unwrap_or_default();
        self.parts.iter().skip(part + 1).for_each(|part| bytes.extend_from_slice(part));
        let before: usize = self.parts[..part].iter().map(Bytes::len).sum();
        let begin = self.offset + (before + byte) as u64;
        let mut at = 0;
        while at < bytes.len() {
            let end = at + self.text.first_record_end(&bytes[at..]);
            let offset = begin + at as u64;
            if let Some(cause) = self.fault_in(&bytes[at..end], offset) {
                return self.fault(&cause, offset);
            }
            at = end;
        }
        self.fault(error, begin)
    }

    fn fault_in(&self, record: &[u8], offset: u64) -> Option<ArrowError> {
        let mut decoder = self.format.decoder(1, offset).ok()?;
        let mut at = 0;
        while at < record.len() {
            match decoder.decode(&record[at..]) {
                Ok(0) => break,
                Ok(taken) => at += taken,
                Err(error) => return Some(error),
            }
        }
        decoder.decode(&[]).and_then(|_| decoder.flush()).err()
    }

    fn fault(&self, cause: &ArrowError, offset: u64) -> Error {
        let place = match self.text.line(offset) {
            Ok(line) => format!("line {line}"),
            Err(_) => format!("byte {offset}"),
        };
        Error::corrupt(without_line(&cause.to_string())).at(place).remedy(self.format.remedy())
    }
}

impl<F: RowFormat> Iterator for Rows<F> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.batch().transpose()
    }
}

/// The message without the decoder's own count of lines, which begins anew in every split.
fn without_line(message: &str) -> String {
    let cut = message.split(" at line ").next().unwrap_or_default();
    match cut.split_once(" for line ") {
        Some((head, tail)) => {
            let tail = tail.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{head}{tail}")
        }
        None => cut.to_string(),
    }
}

fn stuck() -> ArrowError {
    ArrowError::ParseError("the decoder takes no more input".into())
}
