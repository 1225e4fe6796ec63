//! Encodes batches as text that an encoding function appends to a chunk.

use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;

use crate::format::{EncodedChunk, Encoder, Writer};

/// Appends the text of a batch.
pub type Append = fn(&RecordBatch, &mut Vec<u8>) -> Result<()>;

/// Writes files that are nothing but the text of their batches.
pub struct TextWriter(pub Append);

impl Writer for TextWriter {
    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(TextEncoder { append: self.0, bytes: vec![] }))
    }
}

/// Encodes batches by a function that appends their text.
pub struct TextEncoder<A> {
    /// Appends the text of a batch.
    pub append: A,
    /// The text of the chunk so far.
    pub bytes: Vec<u8>,
}

impl<A: FnMut(&RecordBatch, &mut Vec<u8>) -> Result<()> + Send> Encoder for TextEncoder<A> {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        (self.append)(batch, &mut self.bytes)
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn finish(&mut self) -> Result<EncodedChunk> {
        Ok(EncodedChunk::bytes(std::mem::take(&mut self.bytes)))
    }
}
