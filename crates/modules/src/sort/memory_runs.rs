//! Sorted runs of records in memory: chunks of keys that are sorted when they are full.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use arrow::row::Rows;
use euphrates_flow::{Result, batch_bytes, split_batch};
use euphrates_policy::sort::chunk_keys;

use super::key_sorting::{Presorted, sort_keys};
use super::keys::key_encoder::KeyEncoder;

/// Records of one instance, with their keys in sorted chunks.
pub(crate) struct MemoryRuns {
    encoder: Arc<KeyEncoder>,
    /// The records, in the order of arrival.
    pub(crate) batches: Vec<RecordBatch>,
    /// The full row encodings of the keys, for each batch; `None` if none of its keys is tied.
    pub(crate) rows: Vec<Option<Rows>>,
    /// Sorted keys; each chunk is a run.
    pub(crate) chunks: Vec<Vec<u128>>,
    open: Vec<u128>,
    keys: usize,
    bytes: usize,
}

impl MemoryRuns {
    pub(crate) fn new(encoder: Arc<KeyEncoder>) -> MemoryRuns {
        let (batches, rows, chunks, open) = (vec![], vec![], vec![], vec![]);
        MemoryRuns { encoder, batches, rows, chunks, open, keys: 0, bytes: 0 }
    }

    /// Adds a batch, and sorts the chunk if it is full.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        for batch in split_batch(batch) {
            let keys = self.encoder.encode(&batch, self.batches.len())?;
            self.bytes += batch_bytes(&batch) + keys.packed.len() * size_of::<u128>();
            self.bytes += keys.rows.as_ref().map_or(0, Rows::size);
            self.keys += keys.packed.len();
            self.open.extend_from_slice(&keys.packed);
            self.batches.push(batch);
            self.rows.push(keys.rows);
            if self.open.len() >= chunk_keys(self.keys) {
                self.close();
                self.open.reserve_exact(chunk_keys(self.keys));
            }
        }
        Ok(())
    }

    /// Sorts the last chunk.
    pub(crate) fn close(&mut self) {
        let mut keys = std::mem::take(&mut self.open);
        if !keys.is_empty() {
            sort_keys(&self.encoder, &mut keys, |batch| self.rows[batch].as_ref(), Presorted::No);
            self.chunks.push(keys);
        }
    }

    /// Bytes of records and keys.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Takes all runs, and leaves none.
    pub(crate) fn take(&mut self) -> MemoryRuns {
        self.close();
        let fresh = MemoryRuns::new(self.encoder.clone());
        std::mem::replace(self, fresh)
    }
}
