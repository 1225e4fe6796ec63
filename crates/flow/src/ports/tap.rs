//! Observes a queue at its consumers: counts rows and bytes, and keeps the last rows on request.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;

/// Maximum rows that are kept.
pub const ROWS_MAX: usize = 100;

/// The tap of one queue.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_flow::tap::{ROWS_MAX, Tap};
///
/// let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// let tap = Tap::default();
/// tap.passed(&batch, 8000);
/// assert!(tap.rows().is_empty(), "a closed tap only counts");
/// tap.set_open(true);
/// tap.passed(&batch, 8000);
/// assert_eq!(tap.counts(), (2000, 16_000));
/// assert_eq!(tap.rows()[0].num_rows(), ROWS_MAX, "the last rows");
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
#[derive(Debug, Default)]
pub struct Tap {
    rows: AtomicU64,
    bytes: AtomicU64,
    is_open: AtomicBool,
    kept: Mutex<VecDeque<RecordBatch>>,
}

impl Tap {
    /// Counts a batch that a consumer has taken, and keeps it if the tap is open.
    pub fn passed(&self, batch: &RecordBatch, bytes: usize) {
        self.rows.fetch_add(batch.num_rows() as u64, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
        if self.is_open.load(Relaxed) {
            self.keep(batch);
        }
    }

    /// Rows and bytes counted so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.rows.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Starts or stops keeping the last rows.
    pub fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Relaxed);
        if !is_open {
            self.kept.lock().clear();
        }
    }

    /// The kept rows, oldest first.
    pub fn rows(&self) -> Vec<RecordBatch> {
        self.kept.lock().iter().cloned().collect()
    }

    fn keep(&self, batch: &RecordBatch) {
        let rows = batch.num_rows().min(ROWS_MAX);
        let mut kept = self.kept.lock();
        kept.push_back(batch.slice(batch.num_rows() - rows, rows));
        let mut spare =
            kept.iter().map(RecordBatch::num_rows).sum::<usize>().saturating_sub(ROWS_MAX);
        while let Some(first) = kept.front().map(RecordBatch::num_rows).filter(|_| spare > 0) {
            let gone = first.min(spare);
            let rest = kept.pop_front().filter(|_| gone < first);
            if let Some(rest) = rest {
                kept.push_front(rest.slice(gone, first - gone));
            }
            spare -= gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn tap_counts_always_and_keeps_rows_while_open() {
        let tap = Tap::default();
        let batch = |from: i64, to: i64| {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
            RecordBatch::try_from_iter([("n", column)]).unwrap()
        };
        tap.passed(&batch(0, 10), 80);
        assert!(tap.rows().is_empty());
        tap.set_open(true);
        tap.passed(&batch(10, 40), 240);
        tap.passed(&batch(40, 120), 640);
        let numbers = |tap: &Tap| -> Vec<i64> {
            let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().clone();
            tap.rows().iter().flat_map(|batch| column(batch).values().to_vec()).collect()
        };
        assert_eq!(numbers(&tap), (20..120).collect::<Vec<_>>());
        tap.passed(&batch(120, 1000), 7040);
        assert_eq!(numbers(&tap), (900..1000).collect::<Vec<_>>());
        assert_eq!(tap.counts(), (1000, 8000));
        tap.set_open(false);
        assert!(tap.rows().is_empty());
    }
}
