//! Processes long rows one instance at a time (`euphrates_flow::long_rows`), with few copies.

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use arrow::record_batch::RecordBatch;
use euphrates_flow::long_rows::{self, LongRowTurn};
use euphrates_flow::{Result, batch_bytes, is_whole};
use euphrates_policy::memory::takes_turns;

/// Waits for the lock on long rows, if the batch is long for an instance that may hold
/// `share_bytes`.
pub(crate) fn lock_if_long(batch: &RecordBatch, share_bytes: usize) -> Option<LongRowTurn> {
    takes_turns(batch_bytes(batch), share_bytes).then(long_rows::turn)
}

/// The rows at these positions. A single row may be long; it is not copied if it is alone in its
/// buffers.
pub(crate) fn take_rows(batch: &RecordBatch, places: Vec<u32>) -> Result<RecordBatch> {
    match batch.num_rows() {
        1 if places.len() == 1 && is_whole(batch) => Ok(batch.clone()),
        _ => Ok(take_record_batch(batch, &UInt32Array::from(places))?),
    }
}
