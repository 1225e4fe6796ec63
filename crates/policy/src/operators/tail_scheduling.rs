//! Tail scheduling: a slow instance does not claim the last work units (cf. guided
//! self-scheduling).
//!
//! Free instances claim units one by one, so a slow instance claims few. The last unit that it
//! claims, however, may delay the end: its peers may finish all remaining units before it finishes
//! that one. Guided self-scheduling (Polychronopoulos and Kuck, 1987) shrinks the last units; these
//! units cannot be split that finely, so a slow instance leaves them to its peers.

use alloc::vec::Vec;
use core::ops::Range;

/// How many times slower than the average an instance must be to decline units. Smaller differences
/// can be chance.
const SLOW_TIMES: u128 = 2;

/// The progress of a module's units, as an instance that has finished one sees it.
///
/// ```
/// use euphrates_policy::tail_scheduling::UnitProgress;
///
/// let equal = |units: std::ops::Range<usize>| units.len() as u64;
/// // While the instance did unit 0, its three peers finished at least 36 others; 2 are left.
/// let slow = UnitProgress { last_finished: 0, claimed: 40, count: 42, instances: 4 };
/// assert!(slow.declines_tail(equal));
/// // While it did unit 36, they claimed one each, which they may not have finished.
/// let equal_speed = UnitProgress { last_finished: 36, ..slow };
/// assert!(!equal_speed.declines_tail(equal));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UnitProgress {
    /// The unit that this instance has just finished.
    pub last_finished: usize,
    /// Units claimed so far by all instances; units are claimed in order of their numbers.
    pub claimed: usize,
    /// Units of the module in all.
    pub count: usize,
    /// Instances that claim units, in all processes, this one included.
    pub instances: usize,
}

impl UnitProgress {
    /// Whether this instance declines all remaining units: it is slow, and its peers would finish
    /// the remainder before it finishes one more unit. `weigh` returns the total weight of some
    /// units; only ratios of weights matter.
    pub fn declines_tail(&self, weigh: impl Fn(Range<usize>) -> u64) -> bool {
        let UnitProgress { last_finished: own, claimed: given, count, instances: takers } = *self;
        if given >= count {
            return true;
        }
        // Each peer still works on one unit, claimed since or before. At worst these are the
        // heaviest ones claimed since, so only the lighter ones count as finished.
        let mut since: Vec<u64> = (own + 1..given).map(|unit| weigh(unit..unit + 1)).collect();
        since.sort_unstable();
        let done = since.len().saturating_sub(takers - 1);
        let others = since[..done].iter().copied().map(u128::from).sum::<u128>();
        let [own, next, left] =
            [own..own + 1, given..given + 1, given..count].map(|units| u128::from(weigh(units)));
        let is_slow = others > own * takers as u128 * SLOW_TIMES;
        // The peers' speed is what they finished while this instance finished its own unit.
        is_slow && left * own < next * others
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Simulated end time of the last worker.
    fn end(weights: &[u64], speeds: &[f64], may_decline: bool) -> f64 {
        let (mut given, mut end) = (0, 0f64);
        // Per worker: when it is free, and the unit it finished last.
        let mut free: Vec<(f64, Option<usize>)> = speeds.iter().map(|_| (0.0, None)).collect();
        while given < weights.len() {
            let at = (0..speeds.len()).min_by(|a, b| free[*a].0.total_cmp(&free[*b].0)).unwrap();
            let (now, last) = free[at];
            let declines = last.is_some_and(|last| {
                let (count, takers) = (weights.len(), speeds.len());
                UnitProgress { last_finished: last, claimed: given, count, instances: takers }
                    .declines_tail(|units| weights[units].iter().sum())
            });
            if declines && may_decline {
                free[at].0 = f64::INFINITY;
                continue;
            }
            let until = now + weights[given] as f64 / speeds[at];
            free[at] = (until, Some(given));
            end = end.max(until);
            given += 1;
        }
        end
    }

    #[test]
    fn slow_worker_declines_tail_units() {
        let (units, speeds) = ([1; 64], [1.0, 1.0, 1.0, 0.08]);
        let ideal = 64.0 / 3.08;
        assert!(end(&units, &speeds, false) > 1.2 * ideal);
        assert!(end(&units, &speeds, true) < 1.1 * ideal);
    }

    #[test]
    fn declining_never_costs_more_than_one_unit() {
        for takers in [2, 4, 8] {
            for sixtieths in 1..60 {
                let mut speeds = alloc::vec![1.0; takers];
                speeds[0] = f64::from(sixtieths) / 60.0;
                for count in 4..200 {
                    let units = alloc::vec![1; count];
                    let (with, without) = (end(&units, &speeds, true), end(&units, &speeds, false));
                    assert!(with < without + 1.0, "{takers}, {sixtieths}/60, {count}: {with}");
                }
            }
        }
    }

    #[test]
    fn worker_with_a_heavy_unit_is_not_slow() {
        let standing = UnitProgress { last_finished: 0, claimed: 102, count: 110, instances: 2 };
        let weigh = |first: u64| {
            move |units: Range<usize>| units.map(|unit| if unit == 0 { first } else { 1 }).sum()
        };
        assert!(!standing.declines_tail(weigh(100)) && standing.declines_tail(weigh(5)));
    }

    #[test]
    fn units_in_progress_do_not_count_as_finished() {
        let standing = UnitProgress { last_finished: 0, claimed: 5, count: 6, instances: 5 };
        assert!(
            !standing.declines_tail(|units| units.map(|unit| if unit == 0 { 1 } else { 40 }).sum())
        );
    }

    #[test]
    fn units_in_progress_may_be_older_than_finished_ones() {
        let weights = [2, 20, 20, 1, 1, 20, 20, 20, 7, 2, 18];
        let standing =
            UnitProgress { last_finished: 0, claimed: 5, count: weights.len(), instances: 4 };
        assert!(!standing.declines_tail(|units| weights[units].iter().sum()));
    }

    #[test]
    fn weightless_units_are_claimed_and_an_empty_remainder_is_declined() {
        let standing = UnitProgress { last_finished: 0, claimed: 50, count: 60, instances: 4 };
        assert!(!standing.declines_tail(|_| 0));
        assert!(UnitProgress { claimed: 60, ..standing }.declines_tail(|_| 0));
    }

    proptest! {
        #[test]
        fn equal_speeds_never_decline(
            weights in proptest::collection::vec(1u64..40, 1..200),
            takers in 1usize..9,
        ) {
            let speeds = alloc::vec![0.5; takers];
            prop_assert_eq!(end(&weights, &speeds, true), end(&weights, &speeds, false));
        }

        #[test]
        fn remaining_workers_suffice_at_any_speeds(
            count in 1usize..200,
            speeds in proptest::collection::vec(0.02f64..1.0, 1..9),
        ) {
            let weights = alloc::vec![1; count];
            let unit = 1.0 / speeds.iter().copied().fold(0.0, f64::max);
            let (with, without) = (end(&weights, &speeds, true), end(&weights, &speeds, false));
            // Each decliner has less than a 2n-th of the total speed, so half of it remains.
            prop_assert!(with <= without * 2.0 + unit, "{with} instead of {without}");
        }
    }
}
