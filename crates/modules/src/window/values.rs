//! Functions that take a value from another row of the partition.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::kernels::zip::zip;
use arrow::compute::take;
use euphrates_flow::Result;

use super::frames::WindowRows;

/// The rows that may be taken: all, or those whose value is not null.
pub(crate) struct TakenRows {
    /// Positions of these rows, ascending.
    rows: Vec<usize>,
    /// For each row, the number of these before it; one more at the end.
    before: Vec<usize>,
}

impl TakenRows {
    pub(crate) fn new(values: &ArrayRef, ignores_nulls: bool) -> TakenRows {
        let is_taken = |row: &usize| !ignores_nulls || !values.is_null(*row);
        let rows: Vec<usize> = (0..values.len()).filter(is_taken).collect();
        let mut before = Vec::with_capacity(values.len() + 1);
        let mut count = 0;
        for row in 0..values.len() {
            before.push(count);
            count += usize::from(rows.get(count) == Some(&row));
        }
        before.push(count);
        TakenRows { rows, before }
    }

    /// The n-th of these rows within a frame, from 0.
    fn nth(&self, frame: &Range<usize>, n: usize) -> Option<usize> {
        let (start, end) = (self.before[frame.start], self.before[frame.end]);
        let at = start.checked_add(n).filter(|at| *at < end)?;
        Some(self.rows[at])
    }

    fn last(&self, frame: &Range<usize>) -> Option<usize> {
        self.nth(frame, self.count(frame).checked_sub(1)?)
    }

    fn count(&self, frame: &Range<usize>) -> usize {
        self.before[frame.end] - self.before[frame.start]
    }

    /// The row that is picked of a frame in pieces.
    fn picked(&self, frame: &[Range<usize>], pick: &Pick) -> Option<usize> {
        match pick {
            Pick::Last => frame.iter().rev().find_map(|piece| self.last(piece)),
            Pick::Nth(n) => {
                let mut left = *n;
                frame.iter().find_map(|piece| {
                    let found = self.nth(piece, left);
                    left = left.saturating_sub(self.count(piece));
                    found
                })
            }
        }
    }

    /// The row that is `offset` of these rows before or behind a row, within its partition.
    fn beside(&self, row: usize, offset: i64, whole: &Range<usize>) -> Option<usize> {
        if offset == 0 {
            return Some(row);
        }
        let here = i64::try_from(self.before[row]).ok()?;
        // Behind a row that is not one of these, the next one is the first.
        let is_one = self.rows.get(self.before[row]) == Some(&row);
        let from = if offset > 0 && !is_one { here - 1 } else { here };
        let at = usize::try_from(from.checked_add(offset)?).ok()?;
        self.rows.get(at).copied().filter(|row| whole.contains(row))
    }
}

/// The first, the last, or the n-th value of each frame.
pub(crate) enum Pick {
    Nth(usize),
    Last,
}

/// A value of each frame, which has one or more pieces.
pub(crate) fn picked<const N: usize>(
    values: &ArrayRef,
    frames: &[[Range<usize>; N]],
    taken: &TakenRows,
    pick: &Pick,
) -> Result<ArrayRef> {
    let places = frames.iter().map(|frame| taken.picked(frame, pick).map(|row| row as u32));
    Ok(take(values, &places.collect::<UInt32Array>(), None)?)
}

/// The value `offset` rows behind each row of its partition, or before it if the offset is
/// negative; the default where there is no such row, and null where the offset is.
pub(crate) fn shifted(
    values: &ArrayRef,
    default: Option<&ArrayRef>,
    offset: &dyn Fn(usize) -> Option<i64>,
    rows: &WindowRows,
    taken: &TakenRows,
) -> Result<ArrayRef> {
    let beside = |row: usize, whole: &Range<usize>| taken.beside(row, offset(row)?, whole);
    let places = rows
        .partitions
        .iter()
        .flat_map(|whole| whole.clone().map(|row| beside(row, whole).map(|row| row as u32)));
    let places: UInt32Array = places.collect();
    let shifted = take(values, &places, None)?;
    match default {
        Some(default) => {
            let is_found = |row: usize| places.is_valid(row) || offset(row).is_none();
            let is_found: BooleanArray = (0..places.len()).map(|row| Some(is_found(row))).collect();
            Ok(zip(&is_found, &shifted, default)?)
        }
        None => Ok(shifted),
    }
}
