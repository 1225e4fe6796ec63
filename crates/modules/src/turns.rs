//! Long rows are worked on in turns (`euphrates_flow::turns`), and copied as little as may be.

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use arrow::record_batch::RecordBatch;
use euphrates_flow::turns::{self, Turn};
use euphrates_flow::{Result, batch_bytes, is_whole};
use euphrates_policy::memory::takes_turns;

/// Waits for the turn, if a batch is long for an instance that may hold `share_bytes`.
pub fn turn(batch: &RecordBatch, share_bytes: usize) -> Option<Turn> {
    takes_turns(batch_bytes(batch), share_bytes).then(turns::turn)
}

/// The rows at these places. A single row may be long, and is not copied where it has its buffers
/// for itself.
pub fn taken(batch: &RecordBatch, places: Vec<u32>) -> Result<RecordBatch> {
    match batch.num_rows() {
        1 if places.len() == 1 && is_whole(batch) => Ok(batch.clone()),
        _ => Ok(take_record_batch(batch, &UInt32Array::from(places))?),
    }
}
