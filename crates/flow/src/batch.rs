//! Batches: Arrow record batches of about a megabyte.

use arrow::record_batch::RecordBatch;

/// The size a batch aims at: large enough that a queue costs nothing, small enough that a few of
/// them fit a cache.
pub const BATCH_BYTES_TARGET: usize = 1 << 20;

/// The most rows a batch made here has: a row's number within it fits 16 bits (see `sort`).
pub const BATCH_ROWS_MAX: usize = 1 << 16;

/// The bytes of a batch that count against a queue's bound: those of its slice, not of the buffers
/// it shares with others.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    let sliced = |column: &arrow::array::ArrayRef| {
        let data = column.to_data();
        data.get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(sliced).sum()
}

/// How many rows of this size make a batch.
pub fn batch_rows(bytes_per_row: usize) -> usize {
    (BATCH_BYTES_TARGET / bytes_per_row.max(1)).clamp(1, BATCH_ROWS_MAX)
}

/// Cuts a batch that is much larger than the target into slices near it; nothing is copied.
pub fn split_batch(batch: RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let bytes = batch_bytes(&batch);
    let whole = bytes <= BATCH_BYTES_TARGET * 2 && rows <= BATCH_ROWS_MAX;
    let step = if whole { rows.max(1) } else { batch_rows(bytes.div_ceil(rows.max(1))) };
    let starts = (0..rows.max(1)).step_by(step);
    starts.map(move |start| batch.slice(start, step.min(rows - start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    fn integers(rows: usize) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    #[test]
    fn a_slice_counts_its_own_bytes_only() {
        let batch = integers(1000);
        assert_eq!(batch_bytes(&batch.slice(10, 5)), 40);
    }

    #[test]
    fn large_batches_are_cut_and_lose_nothing() {
        let parts: Vec<_> = split_batch(integers(500_000)).collect();
        assert!(parts.len() > 3);
        assert!(parts.iter().all(|part| part.num_rows() <= BATCH_ROWS_MAX));
        assert_eq!(parts.iter().map(RecordBatch::num_rows).sum::<usize>(), 500_000);
        assert_eq!(split_batch(integers(0)).count(), 1);
    }
}
