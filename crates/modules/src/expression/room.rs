//! What evaluating expressions may take: memory is asked for before it is used.
//!
//! A function that makes text or bytes asks for the most that its result can have
//! (`expression/growth.rs`). A batch for which that is too much is evaluated in slices; a single
//! row for which it is too much is an error. So no expression allocates beyond the budget, and no
//! array of text comes near the two gigabytes that its offsets reach.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use datafusion_common::DataFusionError;
use euphrates_flow::{BATCH_ROWS_MAX, Error, Kind, Result, Setup};

/// What is made for a slice of a batch at once, at most.
const SLICE_BYTES_MAX: usize = 8 << 20;
const SLICE_BYTES_MIN: usize = 1 << 20;

/// What is made for a single row, at most: no offset of 32 bits is exceeded.
const VALUE_BYTES_MAX: usize = 1 << 30;
const VALUE_BYTES_MIN: usize = 16 << 20;

/// About what a value takes that asks for nothing: a number, or the beginning of a short text.
const COLUMN_BYTES: usize = 16;

/// What a constant may have; a longer one is made row by row, if there are any.
const CONSTANT_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static METER: Cell<Meter> = const { Cell::new(Meter { most: usize::MAX, taken: 0 }) };
}

#[derive(Clone, Copy)]
struct Meter {
    most: usize,
    taken: usize,
}

/// What an instance may use for expressions.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    slice_bytes: usize,
    value_bytes: usize,
    /// Rows of a slice, at most.
    rows_max: usize,
}

impl Room {
    /// A part of the flow's budget.
    pub fn of(setup: &Setup) -> Room {
        Room::within(setup.budget_bytes / setup.instances_here.max(1))
    }

    /// A part of an instance's share.
    pub fn within(share: usize) -> Room {
        Room {
            slice_bytes: (share / 64).clamp(SLICE_BYTES_MIN, SLICE_BYTES_MAX),
            value_bytes: (share / 4).clamp(VALUE_BYTES_MIN, VALUE_BYTES_MAX),
            rows_max: BATCH_ROWS_MAX,
        }
    }

    /// The same, where so many columns are made of each row: what they are made of may be one.
    pub fn for_columns(self, columns: usize) -> Room {
        let rows = 2 * self.slice_bytes / (columns.max(1) * COLUMN_BYTES);
        Room { rows_max: rows.clamp(1, BATCH_ROWS_MAX), ..self }
    }
}

/// How many rows of the next batch go into a slice: what the last ones showed.
#[derive(Debug)]
pub struct SliceRows(AtomicUsize);

impl Default for SliceRows {
    fn default() -> SliceRows {
        SliceRows(AtomicUsize::new(BATCH_ROWS_MAX))
    }
}

impl SliceRows {
    /// Does the work of these rows in slices for which there is room, and gives away what comes of
    /// each. No rows are one slice.
    pub fn each<T>(
        &self,
        rows: usize,
        room: &Room,
        mut work: impl FnMut(Range<usize>) -> Result<T>,
        mut give: impl FnMut(Range<usize>, T) -> Result<()>,
    ) -> Result<()> {
        let mut start = 0;
        loop {
            let most = self.0.load(Relaxed).min(room.rows_max);
            let count = most.clamp(1, BATCH_ROWS_MAX).min(rows - start);
            let bytes = if count > 1 { room.slice_bytes } else { room.value_bytes };
            let (done, taken) = metered(bytes, || work(start..start + count));
            if taken > bytes && count > 1 {
                // As many as would have had room, if all are alike.
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
pub fn constant<T>(compute: impl FnOnce() -> Option<T>) -> Option<T> {
    let (value, taken) = metered(CONSTANT_BYTES_MAX, compute);
    value.filter(|_| taken <= CONSTANT_BYTES_MAX)
}

/// Does something that may ask for so many bytes, and says how many it asked for.
fn metered<T>(most: usize, work: impl FnOnce() -> T) -> (T, usize) {
    struct Restore(Meter);
    impl Drop for Restore {
        fn drop(&mut self) {
            METER.set(self.0);
        }
    }
    let _restore = Restore(METER.replace(Meter { most, taken: 0 }));
    let done = work();
    (done, METER.get().taken)
}

/// Whether more has been asked for than there is.
pub fn is_exceeded() -> bool {
    let Meter { most, taken } = METER.get();
    taken > most
}

/// Does something again with the same room, to find out which row is at fault.
pub fn again<T>(work: impl FnOnce() -> T) -> T {
    metered(METER.get().most, work).0
}

/// What can still be asked for.
pub fn left() -> usize {
    let Meter { most, taken } = METER.get();
    most.saturating_sub(taken)
}

/// Asks for bytes, before they are allocated.
pub fn take(bytes: usize) -> Result<(), DataFusionError> {
    let Meter { most, taken } = METER.get();
    let taken = taken.saturating_add(bytes);
    METER.set(Meter { most, taken });
    match taken <= most {
        true => Ok(()),
        false => Err(DataFusionError::ResourcesExhausted(
            "more is to be made of a row than its share of the memory holds".into(),
        )),
    }
}

/// The error of a row for which there is no room.
pub fn too_long() -> Error {
    let Meter { most, .. } = METER.get();
    let message = format!("more than {} MiB would be made of one row", most >> 20);
    Error::new(Kind::Resource, message)
        .remedy("make shorter values, or give the flow more memory; a value never exceeds 1 GiB")
}
