//! Sorted runs of records in memory: chunks of keys that are sorted when they are full.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow::row::Rows;
use euphrates_flow::{Result, batch_bytes, split_batch};
use euphrates_policy::sort::chunk_keys;

use super::key_sorting::Presorted;
use super::keys::key_encoder::KeyEncoder;
use super::packed_keys::PackedKeys;

/// Records of one instance, with their keys in sorted chunks.
pub(crate) struct MemoryRuns {
    encoder: Arc<KeyEncoder>,
    /// The records, in the order of arrival; without columns if their keys have them all.
    pub(crate) batches: Vec<RecordBatch>,
    /// The full row encodings of the keys, for each batch; `None` if none of its keys is tied.
    pub(crate) rows: Vec<Option<Rows>>,
    /// Sorted keys; each chunk is a run.
    pub(crate) chunks: Vec<PackedKeys>,
    /// The keys of the chunk that is not full; `None` before the first.
    open: Option<PackedKeys>,
    /// The buffer of the keys of a batch.
    encoded: Vec<u128>,
    keys: usize,
    bytes: usize,
}

impl MemoryRuns {
    pub(crate) fn new(encoder: Arc<KeyEncoder>) -> MemoryRuns {
        let (batches, rows, chunks, open) = (vec![], vec![], vec![], None);
        MemoryRuns { encoder, batches, rows, chunks, open, encoded: vec![], keys: 0, bytes: 0 }
    }

    /// Adds a batch, and sorts the chunk if it is full.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        for batch in split_batch(batch) {
            let buffer = std::mem::take(&mut self.encoded);
            let keys = self.encoder.encode_into(&batch, self.batches.len(), buffer)?;
            self.bytes += keys.rows.as_ref().map_or(0, Rows::size);
            self.keys += keys.packed.len();
            let open = || PackedKeys::new(&self.encoder, &batch.schema());
            let open = self.open.get_or_insert_with(open);
            let before = open.bytes();
            open.extend(&keys.packed);
            self.bytes += open.bytes() - before;
            let batch = if open.has_columns() { without_columns(&batch)? } else { batch };
            self.bytes += batch_bytes(&batch);
            self.batches.push(batch);
            self.rows.push(keys.rows);
            self.encoded = keys.packed;
            if open.len() >= chunk_keys(self.keys) {
                self.close();
                if let Some(open) = &mut self.open {
                    open.reserve_exact(chunk_keys(self.keys));
                }
            }
        }
        Ok(())
    }

    /// Sorts the last chunk.
    pub(crate) fn close(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| open.len() > 0) else { return };
        let mut keys = open.take();
        keys.sort(&self.encoder, |batch| self.rows[batch].as_ref(), Presorted::No);
        self.chunks.push(keys);
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
        let mut fresh = MemoryRuns::new(self.encoder.clone());
        fresh.encoded = std::mem::take(&mut self.encoded);
        std::mem::replace(self, fresh)
    }
}

/// As many rows as a batch has, whose values are in their keys.
fn without_columns(batch: &RecordBatch) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?)
}
