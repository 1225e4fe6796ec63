//! The interface of a format whose records are rows of text.

use std::ops::Range;

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result};

/// A decoder that is fed bytes of text and yields batches.
pub trait RowDecoder: Send {
    /// Consumes some of the bytes and returns how many; 0 if a batch is full. An empty slice marks
    /// the end of the input.
    fn decode(&mut self, bytes: &[u8]) -> Result<usize>;
    /// The batch decoded so far; `None` if it has no rows.
    fn flush(&mut self) -> Result<Option<RecordBatch>>;
    /// Whether it holds complete records only.
    fn is_whole(&self) -> bool;
    /// Whether the header is yet to be read.
    fn awaits_header(&self) -> bool {
        false
    }
}

/// Creates decoders for one schema, with a row limit per batch, for the beginning of a file (which
/// may have a header) or for later parts.
pub trait RowFormat: Send {
    /// Decodes the text of this format.
    type Decoder: RowDecoder;
    /// Creates a decoder with a row limit of `rows`.
    fn decoder(&self, rows: usize, is_first: bool) -> Result<Self::Decoder>;
    /// The index after the first record of `bytes`, or their length if it is incomplete.
    fn record_end(&self, bytes: &[u8]) -> usize;
    /// The same format for some columns of the schema alone; `None` if it reads all or none.
    fn of_columns(&self, columns: Range<usize>) -> Option<Self>
    where
        Self: Sized,
    {
        let _ = columns;
        None
    }
}

/// The error of a decoder that makes no progress.
pub fn stuck() -> Error {
    Error::corrupt("the decoder takes no more input")
}
