//! The n-th smallest value of any range of rows in logarithmic time, by a wavelet matrix (Claude et
//! al., 2015): for each bit of the rows' ranks, from the highest, the rows with a zero come first.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{sort_to_indices, take};
use euphrates_flow::Result;

use crate::aggregate::functions::Finish;
use crate::aggregate::states::whole_above;
use crate::canonical_floats::canonical_floats;

/// The rows of a column that are not null, by rank.
pub(crate) struct RankedRows {
    /// The rows in the order of their values.
    sorted: Vec<u32>,
    /// For each row, and behind the last one, how many that are not null come before it.
    before: Vec<usize>,
    levels: Vec<BitLevel>,
}

/// One bit of the ranks.
struct BitLevel {
    /// For each place, how many zeros come before it.
    zeros_before: Vec<u32>,
}

impl RankedRows {
    /// Ranks the values of a column.
    pub(crate) fn new(values: &ArrayRef) -> Result<RankedRows> {
        let nulls = values.logical_nulls();
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let mut before = vec![0];
        for row in 0..values.len() {
            before.push(before[row] + usize::from(is_valid(row)));
        }
        let rows: Vec<u32> =
            (0..values.len() as u32).filter(|row| is_valid(*row as usize)).collect();
        let valid = take(values, &UInt32Array::from(rows.clone()), None)?;
        let order = sort_to_indices(&canonical_floats(&valid), None, None)?;
        let mut ranks = vec![0_u32; rows.len()];
        for (rank, place) in order.values().iter().enumerate() {
            ranks[*place as usize] = rank as u32;
        }
        let sorted = order.values().iter().map(|place| rows[*place as usize]).collect();
        let bits = usize::BITS - rows.len().saturating_sub(1).leading_zeros();
        let mut levels = vec![];
        for bit in (0..bits).rev() {
            let is_zero = |rank: &u32| rank >> bit & 1 == 0;
            let mut zeros_before = vec![0];
            for rank in &ranks {
                zeros_before.push(zeros_before[zeros_before.len() - 1] + u32::from(is_zero(rank)));
            }
            let (zeros, ones): (Vec<u32>, Vec<u32>) = ranks.iter().partition(|rank| is_zero(rank));
            ranks = zeros.into_iter().chain(ones).collect();
            levels.push(BitLevel { zeros_before });
        }
        Ok(RankedRows { sorted, before, levels })
    }

    /// The places of a frame's rows among those that are not null.
    pub(crate) fn within(&self, frame: &Range<usize>) -> Range<usize> {
        self.before[frame.start]..self.before[frame.end]
    }

    /// The row with the n-th smallest value, from 0, of these places.
    pub(crate) fn nth(&self, places: &Range<usize>, n: usize) -> usize {
        let (mut start, mut end, mut n, mut rank) = (places.start, places.end, n, 0);
        for BitLevel { zeros_before } in &self.levels {
            let zeros = |place: usize| zeros_before[place] as usize;
            let found = zeros(end) - zeros(start);
            rank *= 2;
            if n < found {
                (start, end) = (zeros(start), zeros(end));
            } else {
                let all = zeros(zeros_before.len() - 1);
                n -= found;
                (start, end) = (all + start - zeros(start), all + end - zeros(end));
                rank += 1;
            }
        }
        self.sorted[rank] as usize
    }
}

/// The places of the values on both sides of a quantile of `count` values, and its distance from
/// the lower one; `None` of no values.
pub(crate) fn quantile_places(finish: &Finish, count: usize) -> Option<(usize, usize, f64)> {
    let last = count.checked_sub(1)?;
    Some(match finish {
        Finish::QuantileDisc { fraction, descending } => {
            let below = whole_above(count as f64 * fraction).clamp(1, count);
            let place = if *descending { count - below } else { below - 1 };
            (place, place, 0.0)
        }
        Finish::Quantile(fraction) => {
            let place = last as f64 * fraction;
            (place as usize, place as usize + 1, place.fract())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nth_values_are_those_of_the_sorted_range(
            values in prop::collection::vec(prop::option::of(0..9_i64), 1..50),
            start in 0..50_usize,
            end in 0..50_usize,
        ) {
            let column: ArrayRef = Arc::new(Int64Array::from(values.clone()));
            let ranked = RankedRows::new(&column).unwrap();
            let end = end.min(values.len());
            let frame = start.min(end)..end;
            let mut sorted: Vec<i64> = values[frame.clone()].iter().flatten().copied().collect();
            sorted.sort_unstable();
            let within = ranked.within(&frame);
            prop_assert_eq!(within.len(), sorted.len());
            for (n, value) in sorted.into_iter().enumerate() {
                prop_assert_eq!(values[ranked.nth(&within, n)], Some(value));
            }
        }
    }
}
