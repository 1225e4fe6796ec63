//! Keeps the rows that come first in a sort, for a `limit` behind it.
//!
//! Of the rows of an instance, all but the first *k* are dropped whenever *k* more have been added.
//! From then on, rows that do not come before the *k*-th are dropped before they are copied. In *n*
//! rows of random order, about *k* ln(*n* / *k*) come that far, so that rows are dropped
//! ln(*n* / *k*) times, even if they come one by one from a source that knows the *k*-th.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;

use super::first_rows_filter::{FirstRowsFilter, may_come_before, without_codes};
use super::keys::key_encoder::KeyEncoder;
use super::keys::owned_keys::OwnedKey;
use super::memory_runs::MemoryRuns;
use super::ranges::SortedRuns;
use super::record_layout::RecordLayout;

/// The number of rows to keep (top *n*), and the key of the last of them.
pub(super) struct TopN {
    rows: usize,
    of_held: Arc<KeyEncoder>,
    layout: Arc<RecordLayout>,
    /// When as many rows have come: the last to keep.
    last: Option<LastKept>,
    /// What a source leaves out rows by.
    filter: Option<Arc<FirstRowsFilter>>,
}

/// The last row to keep.
struct LastKept {
    key: OwnedKey,
    /// Encodes the keys of input batches.
    encoder: KeyEncoder,
    /// Its value of the first key.
    first: ArrayRef,
}

impl TopN {
    pub(super) fn new(
        rows: usize,
        of_held: Arc<KeyEncoder>,
        layout: Arc<RecordLayout>,
        filter: Option<Arc<FirstRowsFilter>>,
    ) -> TopN {
        TopN { rows, of_held, layout, last: None, filter }
    }

    /// The rows of an input batch that may be among the first: those that the first key does not
    /// exclude are compared by all keys.
    pub(super) fn candidates(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let Some(LastKept { key: last, encoder, first }) = &self.last else { return Ok(batch) };
        let keys = self.layout.input_keys();
        let (key, is_only) = (&keys[0], keys.len() == 1);
        let batch = match may_come_before(batch.column(key.column), first, key, is_only)? {
            Some(kept) => filtered(batch, &kept)?,
            None => batch,
        };
        if batch.num_rows() == 0 {
            return Ok(batch);
        }
        let keys = encoder.encode(&batch, 0)?;
        let row = |_| keys.rows.as_ref();
        let is_before = |key: &u128| encoder.compare_owned(*key, last, row) == Ordering::Less;
        let kept: BooleanArray = keys.packed.iter().map(|key| Some(is_before(key))).collect();
        filtered(batch, &kept)
    }

    /// Drops held rows that are not among the first, if there are many.
    pub(super) fn prune(&mut self, runs: &mut MemoryRuns) -> Result<()> {
        if runs.len() < self.rows.saturating_mul(2) {
            return Ok(());
        }
        let (encoder, held) = (self.of_held.clone(), self.layout.held().clone());
        let ranges = SortedRuns::uncut(encoder, held, vec![runs.take()], vec![]);
        let merged = ranges.merge(0)?.first(self.rows);
        let batches = merged.batches().collect::<Result<Vec<_>>>()?;
        if let (Some(at), Some(end)) = (merged.keys().len().checked_sub(1), batches.last()) {
            let last = merged.keys().get(at);
            let key = OwnedKey::whole(self.of_held.bits(last), ranges.whole(last));
            let (input, keys) = (self.layout.input(), self.layout.input_keys());
            let first = end.column(self.layout.keys()[0].column);
            let first = without_codes(first.slice(end.num_rows() - 1, 1))?;
            if let Some(filter) = &self.filter {
                filter.tighten(&key, first.clone(), &self.of_held)?;
            }
            let encoder = self.of_held.with_columns(input, keys)?;
            self.last = Some(LastKept { key, encoder, first });
        }
        batches.into_iter().try_for_each(|batch| runs.push(batch))
    }
}

/// The rows of a batch that are kept.
fn filtered(batch: RecordBatch, kept: &BooleanArray) -> Result<RecordBatch> {
    match kept.true_count() {
        count if count == batch.num_rows() => Ok(batch),
        _ => Ok(filter_record_batch(&batch, kept)?),
    }
}
