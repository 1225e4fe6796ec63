//! Long rows are worked on in turns.
//!
//! An operator copies a row several times (keys, hashes, parts), which is nothing beside an
//! instance's share of memory as long as rows are short. Where a few rows fill the share, one
//! instance of the process makes copies at a time. Whoever has the turn computes and writes to
//! scratch, and waits for no other instance, so the turn always passes on.

use std::sync::{Mutex, MutexGuard};

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, batch_bytes, is_whole};
use euphrates_policy::memory::takes_turns;

static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn, if a batch is long for an instance that may hold `share_bytes`.
pub fn turn(batch: &RecordBatch, share_bytes: usize) -> Option<MutexGuard<'static, ()>> {
    takes_turns(batch_bytes(batch), share_bytes)
        .then(|| TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// The rows at these places. A single row may be long, and is not copied where it has its buffers
/// for itself.
pub fn taken(batch: &RecordBatch, places: Vec<u32>) -> Result<RecordBatch> {
    match batch.num_rows() {
        1 if places.len() == 1 && is_whole(batch) => Ok(batch.clone()),
        _ => Ok(take_record_batch(batch, &UInt32Array::from(places))?),
    }
}
