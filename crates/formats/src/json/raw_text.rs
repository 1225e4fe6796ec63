//! Decodes JSON records of several types into one column that holds the raw text of each.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringBuilder};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Result, new_batch};
use serde::de::IgnoredAny;

use crate::json::value_boundaries::Scanner;
use crate::text::row_format::{RowDecoder, RowFormat};

/// Creates decoders that keep the raw text of each record.
pub struct RawTextRows {
    schema: SchemaRef,
}

impl RawTextRows {
    /// Decodes to this schema, which has one string column or none.
    pub fn new(schema: SchemaRef) -> RawTextRows {
        RawTextRows { schema }
    }
}

impl RowFormat for RawTextRows {
    type Decoder = TextDecoder;

    fn decoder(&self, rows: usize, _: bool) -> Result<TextDecoder> {
        let (schema, texts) = (self.schema.clone(), StringBuilder::new());
        let (scanner, record, count) = (Scanner::default(), vec![], 0);
        Ok(TextDecoder { schema, rows, scanner, record, texts, count })
    }

    fn record_end(&self, bytes: &[u8]) -> usize {
        Scanner::default().end(bytes).unwrap_or(bytes.len())
    }
}

/// Collects the raw text of records into batches.
pub struct TextDecoder {
    schema: SchemaRef,
    /// Row limit of a batch.
    rows: usize,
    scanner: Scanner,
    /// The bytes of the current record so far.
    record: Vec<u8>,
    texts: StringBuilder,
    count: usize,
}

impl RowDecoder for TextDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.count >= self.rows || self.texts.values_slice().len() >= BATCH_BYTES_TARGET {
            return Ok(0);
        }
        let end = self.scanner.end(bytes);
        self.record.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        if end.is_some() || (bytes.is_empty() && !self.is_blank()) {
            self.take_record()?;
        }
        if end.is_none() && self.is_blank() {
            self.record.clear();
        }
        Ok(end.unwrap_or(bytes.len()))
    }

    fn is_whole(&self) -> bool {
        self.is_blank()
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return Ok(None);
        }
        let texts: ArrayRef = Arc::new(self.texts.finish());
        let columns = self.schema.fields().iter().map(|_| texts.clone()).collect();
        Ok(Some(new_batch(self.schema.clone(), columns, count)?))
    }
}

impl TextDecoder {
    fn is_blank(&self) -> bool {
        self.record.trim_ascii().is_empty()
    }

    fn take_record(&mut self) -> Result<()> {
        let record = std::mem::take(&mut self.record);
        let record = record.trim_ascii();
        let wrong = |what: String| {
            Err(Error::corrupt(format!("Not valid JSON: {what}")).remedy("correct the line"))
        };
        if let Err(error) = serde_json::from_slice::<IgnoredAny>(record) {
            return wrong(error.to_string().split(" at line ").next().unwrap_or_default().into());
        }
        self.count += 1;
        match std::str::from_utf8(record) {
            Ok("null") => self.texts.append_null(),
            Ok(text) => self.texts.append_value(text),
            Err(_) => return wrong("it is not UTF-8".into()),
        }
        Ok(())
    }
}
