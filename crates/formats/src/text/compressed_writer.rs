//! Writes a plain format compressed as a whole: each chunk is an independent gzip member, bzip2
//! stream or zstd frame.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result};

use super::compression::FileCodec;
use crate::format::{ChunkMetadata, EncodedChunk, Encoder, Writer};

/// Compresses header, chunks and footer of another writer, each independently.
pub struct PackedWriter {
    /// The writer whose output is compressed.
    pub inner: Arc<dyn Writer>,
    /// The codec of every chunk.
    pub packing: FileCodec,
}

impl PackedWriter {
    fn packed(&self, parts: &[Buffer]) -> Result<Vec<Buffer>> {
        Ok(vec![Buffer::from_vec(self.packing.compress(parts).map_err(Error::failed)?)])
    }
}

impl Writer for PackedWriter {
    fn header(&self) -> Result<Vec<Buffer>> {
        // Also if the header is empty: zero bytes are no valid gzip file.
        self.packed(&self.inner.header()?)
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(PackedEncoder { inner: self.inner.encoder()?, packing: self.packing }))
    }

    fn footer(&self, chunks: Vec<(u64, ChunkMetadata)>) -> Result<Vec<Buffer>> {
        let parts = self.inner.footer(chunks)?;
        if parts.iter().all(|part| part.is_empty()) { Ok(vec![]) } else { self.packed(&parts) }
    }
}

struct PackedEncoder {
    inner: Box<dyn Encoder>,
    packing: FileCodec,
}

impl Encoder for PackedEncoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.inner.push(batch)
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    fn finish(&mut self) -> Result<EncodedChunk> {
        let EncodedChunk { parts, note } = self.inner.finish()?;
        let packed = self.packing.compress(&parts).map_err(Error::failed)?;
        Ok(EncodedChunk { parts: vec![Buffer::from_vec(packed)], note })
    }
}
