//! Sorted runs: of records in memory, and of records on disk.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use arrow::row::Rows;
use euphrates_flow::{Result, batch_bytes, split_batch};
use euphrates_policy::sort::chunk_keys;

use super::keys::KeyEncoder;
use super::owned::OwnedKey;

/// Records one instance holds, with the keys of those that have been sorted in chunks.
pub struct MemoryRuns {
    encoder: Arc<KeyEncoder>,
    /// The records, as they came.
    pub batches: Vec<RecordBatch>,
    /// Their whole keys, if integers do not hold them: one for each batch, or none at all.
    pub rows: Vec<Rows>,
    /// Keys in order, a chunk a run.
    pub chunks: Vec<Vec<u128>>,
    open: Vec<u128>,
    keys: usize,
    bytes: usize,
}

impl MemoryRuns {
    /// No records.
    pub fn new(encoder: Arc<KeyEncoder>) -> MemoryRuns {
        let (batches, rows, chunks, open) = (vec![], vec![], vec![], vec![]);
        MemoryRuns { encoder, batches, rows, chunks, open, keys: 0, bytes: 0 }
    }

    /// Takes a batch in.
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        for batch in split_batch(batch) {
            let keys = self.encoder.encode(&batch, self.batches.len())?;
            self.bytes += batch_bytes(&batch) + keys.packed.len() * size_of::<u128>();
            self.bytes += keys.rows.as_ref().map_or(0, Rows::size);
            self.keys += keys.packed.len();
            self.open.extend_from_slice(&keys.packed);
            self.batches.push(batch);
            self.rows.extend(keys.rows);
            if self.open.len() >= chunk_keys(self.keys) {
                self.close();
                self.open.reserve_exact(chunk_keys(self.keys));
            }
        }
        Ok(())
    }

    /// Sorts what has not been sorted yet: the input has ended.
    pub fn close(&mut self) {
        let mut keys = std::mem::take(&mut self.open);
        if !keys.is_empty() {
            sort_keys(&self.encoder, &mut keys, |batch| &self.rows[batch], Presorted::No);
            self.chunks.push(keys);
        }
    }

    /// Bytes held: records and keys.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Takes everything out.
    pub fn take(&mut self) -> MemoryRuns {
        self.close();
        let fresh = MemoryRuns::new(self.encoder.clone());
        std::mem::replace(self, fresh)
    }
}

/// Whether keys are a few sorted runs one behind the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Presorted {
    /// They are: the standard library's stable sort finds the runs and merges them.
    Runs,
    /// They are not.
    No,
}

/// Sorts keys; equal ones by the numbers of their rows.
pub fn sort_keys<'a>(
    encoder: &KeyEncoder,
    keys: &mut [u128],
    rows: impl Fn(usize) -> &'a Rows + Copy,
    presorted: Presorted,
) {
    let whole = |a: &u128, b: &u128| encoder.compare((*a, *b), rows).then(a.cmp(b));
    match (encoder.is_exact(), presorted) {
        (true, Presorted::No) => keys.sort_unstable(),
        (true, Presorted::Runs) => keys.sort(),
        (false, Presorted::No) => keys.sort_unstable_by(whole),
        (false, Presorted::Runs) => keys.sort_by(whole),
    }
}

/// A border between two ranges: a key, and a place among the records that share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Border {
    /// The key.
    pub key: OwnedKey,
    /// The run whose record it is.
    pub run: usize,
    /// The record's position in that run.
    pub position: usize,
}

impl Border {
    /// Before a record of a run. A key that is not whole is no record's, and has no place.
    pub fn before(key: OwnedKey, (run, position): (usize, usize)) -> Border {
        let (run, position) = if key.is_whole { (run, position) } else { (0, 0) };
        Border { key, run, position }
    }
}
