//! Keeps the rows that come first in a sort, for a `limit` behind it.
//!
//! Of the rows of an instance, all but the first *k* are dropped whenever *k* more have been added,
//! at least `EXCESS_ROWS_MIN`. From then on, rows that do not come before the *k*-th are dropped
//! before they are copied.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;

use super::memory_runs::MemoryRuns;
use super::owned_keys::OwnedKey;
use super::ranges::SortedRuns;
use super::record_layout::RecordLayout;
use super::sort_keys::KeyEncoder;

/// Minimum rows beyond the first *k* at which rows are dropped, so that many are dropped at once.
const EXCESS_ROWS_MIN: usize = 1 << 14;

/// The number of rows to keep (top *n*), and the key of the last of them.
pub(super) struct TopN {
    rows: usize,
    /// Encodes keys of input batches.
    of_input: KeyEncoder,
    of_held: Arc<KeyEncoder>,
    held: SchemaRef,
    /// The key of the last row to keep, when as many rows have come.
    last: Option<OwnedKey>,
}

impl TopN {
    pub(super) fn new(
        rows: usize,
        of_held: Arc<KeyEncoder>,
        layout: &RecordLayout,
    ) -> Result<TopN> {
        let of_input = KeyEncoder::new(layout.input(), layout.input_keys())?;
        Ok(TopN { rows, of_input, of_held, held: layout.held().clone(), last: None })
    }

    /// The rows of an input batch that may be among the first.
    pub(super) fn candidates(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let Some(last) = &self.last else { return Ok(batch) };
        let keys = self.of_input.encode(&batch, 0)?;
        let row = |_| keys.rows.as_ref().expect("keys that are not exact have rows");
        let is_before = |key: &u128| self.of_input.compare_owned(*key, last, row) == Ordering::Less;
        let kept: BooleanArray = keys.packed.iter().map(|key| Some(is_before(key))).collect();
        match kept.true_count() {
            count if count == batch.num_rows() => Ok(batch),
            _ => Ok(filter_record_batch(&batch, &kept)?),
        }
    }

    /// Drops held rows that are not among the first, if there are many.
    pub(super) fn prune(&mut self, runs: &mut MemoryRuns) -> Result<()> {
        if runs.len() < self.rows.saturating_add(self.rows.max(EXCESS_ROWS_MIN)) {
            return Ok(());
        }
        let (encoder, held) = (self.of_held.clone(), self.held.clone());
        let ranges = SortedRuns::uncut(encoder, held, vec![runs.take()], vec![]);
        let merged = ranges.merge(0)?.first(self.rows);
        self.last = merged
            .keys()
            .last()
            .map(|last| OwnedKey::whole(self.of_held.bits(*last), ranges.whole(*last)));
        merged.batches().try_for_each(|batch| runs.push(batch?))
    }
}
