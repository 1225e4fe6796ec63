//! Memory budget of expression evaluation: memory is reserved before it is allocated.
//!
//! A function that produces text or bytes reserves the maximum size of its result
//! (`expression/functions/result_size.rs`). If a batch exceeds the budget, it is evaluated in
//! slices; if a single row does, it is an error. So no expression allocates beyond the budget, and
//! no text array comes near the two gigabytes that its offsets can address.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use datafusion_common::DataFusionError;
use euphrates_flow::{BATCH_ROWS_MAX, Error, Kind, Result, Setup};

/// Bounds of the bytes produced for a slice at once.
const SLICE_BYTES_MAX: usize = 8 << 20;
const SLICE_BYTES_MIN: usize = 1 << 20;

/// Bounds of the bytes produced for a single row: no 32-bit offset overflows.
const VALUE_BYTES_MAX: usize = 1 << 30;
const VALUE_BYTES_MIN: usize = 16 << 20;

/// Approximate bytes of a value that reserves nothing: a number, or the inline part of a text view.
const COLUMN_BYTES: usize = 16;

/// Maximum bytes of a folded constant. A longer one is evaluated row by row.
const CONSTANT_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static METER: Cell<BudgetMeter> =
        const { Cell::new(BudgetMeter { most: usize::MAX, taken: 0 }) };
}

#[derive(Clone, Copy)]
struct BudgetMeter {
    most: usize,
    taken: usize,
}

/// The memory that an instance may use to evaluate expressions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    slice_bytes: usize,
    value_bytes: usize,
    /// Maximum rows of a slice.
    rows_max: usize,
}

impl Budget {
    /// A share of the flow's budget.
    pub(crate) fn of(setup: &Setup) -> Budget {
        Budget::within(setup.budget_bytes / setup.instances_here.max(1))
    }

    /// A fraction of an instance's share.
    pub(crate) fn within(share: usize) -> Budget {
        Budget {
            slice_bytes: (share / 64).clamp(SLICE_BYTES_MIN, SLICE_BYTES_MAX),
            value_bytes: (share / 4).clamp(VALUE_BYTES_MIN, VALUE_BYTES_MAX),
            rows_max: BATCH_ROWS_MAX,
        }
    }

    /// The same budget, with slices small enough for this number of computed columns.
    pub(crate) fn for_columns(self, columns: usize) -> Budget {
        let rows = 2 * self.slice_bytes / (columns.max(1) * COLUMN_BYTES);
        Budget { rows_max: rows.clamp(1, BATCH_ROWS_MAX), ..self }
    }
}

/// Adaptive number of rows in a slice, learned from the previous ones.
#[derive(Debug)]
pub(crate) struct SliceRows(AtomicUsize);

impl Default for SliceRows {
    fn default() -> SliceRows {
        SliceRows(AtomicUsize::new(BATCH_ROWS_MAX))
    }
}

impl SliceRows {
    /// Calls `work` on slices that fit the budget, and `give` with the result of each. An empty
    /// batch is one slice.
    pub(crate) fn each<T>(
        &self,
        rows: usize,
        budget: &Budget,
        mut work: impl FnMut(Range<usize>) -> Result<T>,
        mut give: impl FnMut(Range<usize>, T) -> Result<()>,
    ) -> Result<()> {
        let mut start = 0;
        loop {
            let most = self.0.load(Relaxed).min(budget.rows_max);
            let count = most.clamp(1, BATCH_ROWS_MAX).min(rows - start);
            let bytes = if count > 1 { budget.slice_bytes } else { budget.value_bytes };
            let (done, taken) = metered(bytes, || work(start..start + count));
            if taken > bytes && count > 1 {
                // The number of rows that would have fit, if all are equally large.
                let fewer = (count as u128 * bytes as u128 / taken as u128) as usize;
                self.0.store(fewer.clamp(1, count / 2), Relaxed);
                continue;
            }
            give(start..start + count, done?)?;
            if taken < bytes / 4 && count == self.0.load(Relaxed) {
                self.0.store((count * 2).min(BATCH_ROWS_MAX), Relaxed);
            }
            start += count;
            if start >= rows {
                return Ok(());
            }
        }
    }
}

/// Computes a constant, if it is short.
pub(crate) fn constant<T>(compute: impl FnOnce() -> Option<T>) -> Option<T> {
    let (value, taken) = metered(CONSTANT_BYTES_MAX, compute);
    value.filter(|_| taken <= CONSTANT_BYTES_MAX)
}

/// Calls `work` with a budget, and returns the bytes it reserved.
fn metered<T>(most: usize, work: impl FnOnce() -> T) -> (T, usize) {
    struct Restore(BudgetMeter);
    impl Drop for Restore {
        fn drop(&mut self) {
            METER.set(self.0);
        }
    }
    let _restore = Restore(METER.replace(BudgetMeter { most, taken: 0 }));
    let done = work();
    (done, METER.get().taken)
}

/// Whether more has been reserved than the budget allows.
pub(crate) fn is_exceeded() -> bool {
    let BudgetMeter { most, taken } = METER.get();
    taken > most
}

/// Calls `work` again with the same budget, to find the row at fault.
pub(crate) fn again<T>(work: impl FnOnce() -> T) -> T {
    metered(METER.get().most, work).0
}

/// The bytes that can still be reserved.
pub(crate) fn left() -> usize {
    let BudgetMeter { most, taken } = METER.get();
    most.saturating_sub(taken)
}

/// Reserves bytes before they are allocated.
pub(crate) fn take(bytes: usize) -> Result<(), DataFusionError> {
    let BudgetMeter { most, taken } = METER.get();
    let taken = taken.saturating_add(bytes);
    METER.set(BudgetMeter { most, taken });
    match taken <= most {
        true => Ok(()),
        false => Err(DataFusionError::ResourcesExhausted(
            "more is to be made of a row than its share of the memory holds".into(),
        )),
    }
}

/// The error for a row that exceeds the budget.
pub(crate) fn too_long() -> Error {
    let BudgetMeter { most, .. } = METER.get();
    let message = format!("more than {} MiB would be made of one row", most >> 20);
    Error::new(Kind::Resource, message)
        .remedy("make shorter values, or give the flow more memory; a value never exceeds 1 GiB")
}
