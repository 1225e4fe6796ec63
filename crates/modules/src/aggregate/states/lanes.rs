//! Sums of rows of few groups, in lanes: neighbouring rows are added to several sums of their group
//! in turn, because an addition waits for the one before it to the same sum.
//!
//! Values whose sum has 64 bits for certain are added in 64 bits, without a check for each: the
//! bits of the largest value and the number of rows bound the sum. Where they do not, the rows are
//! added again in 128 bits.

use crate::batches::integer_bits::{excess_bits, magnitude_bits};

/// The most groups of which each has several sums for a batch.
pub(super) const LANE_GROUPS_MAX: usize = 256;
/// Sums of one group.
pub(super) const LANES: usize = 4;

/// A value to be summed.
pub(super) trait Summand: Copy {
    /// Its low 64 bits.
    fn low(self) -> i64;
    /// See `excess_bits`.
    fn excess(self) -> i64;
    fn wide(self) -> i128;
}

impl Summand for i64 {
    fn low(self) -> i64 {
        self
    }

    fn excess(self) -> i64 {
        0
    }

    fn wide(self) -> i128 {
        self.into()
    }
}

impl Summand for i128 {
    fn low(self) -> i64 {
        self as i64
    }

    fn excess(self) -> i64 {
        excess_bits(self)
    }

    fn wide(self) -> i128 {
        self
    }
}

/// How large values are.
#[derive(Default)]
struct Magnitude {
    /// The `magnitude_bits` of all low halves.
    low: i64,
    excess: i64,
}

impl Magnitude {
    #[inline(always)]
    fn add(&mut self, value: impl Summand) {
        self.low |= magnitude_bits(value.low());
        self.excess |= value.excess();
    }

    /// Whether the sum of this many of the values has 64 bits for certain.
    fn has_narrow_sum(&self, rows: usize) -> bool {
        let bits = u64::BITS - self.low.leading_zeros() + usize::BITS - rows.leading_zeros();
        self.excess == 0 && bits < u64::BITS
    }
}

/// Whether a batch of this many rows is added in lanes.
pub(super) fn pays(rows: usize, group_count: usize) -> bool {
    group_count <= LANE_GROUPS_MAX && group_count * LANES <= rows
}

/// The sums of a batch's rows by group; `None` if one may have more than 64 bits.
pub(super) fn narrow_sums<T: Summand>(
    values: &[T],
    groups: &[u32],
    group_count: usize,
) -> Option<Vec<i64>> {
    let mut magnitude = Magnitude::default();
    let sums = match group_count {
        1 => vec![narrow_sum(values, &mut magnitude)],
        _ => {
            let mut lanes = [[0_i64; LANE_GROUPS_MAX]; LANES];
            let mut add = |lane: usize, group: u32, value: T| {
                magnitude.add(value);
                let sum = &mut lanes[lane][group as usize % LANE_GROUPS_MAX];
                *sum = sum.wrapping_add(value.low());
            };
            in_turn(values, groups, &mut add);
            let total = |group| lanes.iter().fold(0_i64, |sum, lane| sum.wrapping_add(lane[group]));
            (0..group_count).map(total).collect()
        }
    };
    magnitude.has_narrow_sum(values.len()).then_some(sums)
}

fn narrow_sum<T: Summand>(values: &[T], magnitude: &mut Magnitude) -> i64 {
    values.iter().fold(0, |sum: i64, value| {
        magnitude.add(*value);
        sum.wrapping_add(value.low())
    })
}

/// The sums of a batch's rows by group; `None` if one overflowed 128 bits.
pub(super) fn wide_sums<T: Summand>(
    values: &[T],
    groups: &[u32],
    group_count: usize,
) -> Option<Vec<i128>> {
    if group_count == 1 {
        return wide_sum(values).map(|sum| vec![sum]);
    }
    let mut lanes = vec![[0_i128; LANES]; group_count];
    let mut fits = true;
    let mut add = |lane: usize, group: u32, value: T| {
        let sum = &mut lanes[group as usize][lane];
        let (more, over) = sum.overflowing_add(value.wide());
        *sum = more;
        fits &= !over;
    };
    in_turn(values, groups, &mut add);
    fits.then(|| lanes.iter().map(total).collect())?
}

/// The sum of all values, whose lanes stay in registers.
fn wide_sum<T: Summand>(values: &[T]) -> Option<i128> {
    let mut lanes = [0_i128; LANES];
    let mut fits = true;
    let mut add = |lane: usize, value: T| {
        let (more, over) = lanes[lane].overflowing_add(value.wide());
        lanes[lane] = more;
        fits &= !over;
    };
    let (of_four, last) = values.as_chunks::<LANES>();
    of_four.iter().for_each(|four| (0..LANES).for_each(|lane| add(lane, four[lane])));
    last.iter().for_each(|value| add(0, *value));
    total(&lanes).filter(|_| fits)
}

fn total(lanes: &[i128; LANES]) -> Option<i128> {
    lanes.iter().try_fold(0_i128, |total, lane| total.checked_add(*lane))
}

/// Adds each row to a lane.
#[inline(always)]
fn in_turn<T: Copy>(values: &[T], groups: &[u32], add: &mut impl FnMut(usize, u32, T)) {
    let (groups_of_four, last_groups) = groups.as_chunks::<LANES>();
    let (of_four, last) = values.as_chunks::<LANES>();
    for (groups, values) in groups_of_four.iter().zip(of_four) {
        for lane in 0..LANES {
            add(lane, groups[lane], values[lane]);
        }
    }
    last_groups.iter().zip(last).for_each(|(group, value)| add(0, *group, *value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_are_those_of_single_additions(
            rows in prop::collection::vec((any::<i64>(), 0_u32..5), 1..200),
            shift in 0_u32..64, groups in 1_u32..6,
        ) {
            let numbers: Vec<u32> = rows.iter().map(|(_, group)| group % groups).collect();
            let values: Vec<i64> = rows.iter().map(|(value, _)| value >> shift).collect();
            let wide: Vec<i128> = values.iter().map(|value| i128::from(*value)).collect();
            let mut expected = vec![0_i128; groups as usize];
            numbers.iter().zip(&wide).for_each(|(group, value)| expected[*group as usize] += value);
            let count = groups as usize;
            for found in [wide_sums(&wide, &numbers, count), wide_sums(&values, &numbers, count)] {
                prop_assert_eq!(found, Some(expected.clone()));
            }
            let of_wide = narrow_sums(&wide, &numbers, count);
            for found in [narrow_sums(&values, &numbers, count), of_wide] {
                // 200 rows have eight bits.
                prop_assert!(found.is_some() || shift < 9, "shifted by {shift}");
                let found = found.map(|it| it.into_iter().map(i128::from).collect::<Vec<_>>());
                prop_assert!(found.is_none_or(|found| found == *expected));
            }
        }
    }

    #[test]
    fn values_beyond_64_bits_are_not_added_in_them() {
        for value in [1_i128 << 64, 1 << 63, -1 << 64, (-1 << 63) - 1, i64::MAX.into()] {
            assert_eq!(narrow_sums(&[value, 0], &[0, 1], 2), None, "{value}");
            assert_eq!(wide_sums(&[value, 0], &[0, 1], 2), Some(vec![value, 0]));
        }
        assert_eq!(narrow_sums(&[-1_i128, 1], &[0, 1], 2), Some(vec![-1, 1]));
        assert_eq!(wide_sums(&[i128::MAX, 1], &[0, 0], 1), None);
    }
}
