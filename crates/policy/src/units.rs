//! Who leaves the last units of work to others.
//!
//! Of units that whoever is free takes, a slow one takes few. But the last that it takes is what
//! all others wait for at the end: they may have done all that is left before it would be through
//! with one more (what guided self-scheduling is for; Polychronopoulos and Kuck, 1987). Units
//! cannot be cut as finely as that needs, so it leaves them.

use alloc::vec::Vec;
use core::ops::Range;

/// Who is so many times slower than all on average is slow; below, it is chance.
const SLOW_TIMES: u128 = 2;

/// What one who takes units knows when it is done with one.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The unit it is done with.
    pub own: usize,
    /// So many have been given, from the first on.
    pub given: usize,
    /// So many there are.
    pub count: usize,
    /// Who takes units: so many.
    pub takers: usize,
}

impl Standing {
    /// Whether it leaves all that is left to the others: it is slow, and they are through with that
    /// before it would be through with the next. `weigh` tells what units weigh together; only the
    /// proportions count.
    pub fn leaves(&self, weigh: impl Fn(Range<usize>) -> u64) -> bool {
        let Standing { own, given, count, takers } = *self;
        if given >= count {
            return true;
        }
        // Each of the others is at one of those that were given since, or at an older one: at the
        // heaviest, for all that is known.
        let mut since: Vec<u64> = (own + 1..given).map(|unit| weigh(unit..unit + 1)).collect();
        since.sort_unstable();
        let done = since.len().saturating_sub(takers - 1);
        let others = since[..done].iter().copied().map(u128::from).sum::<u128>();
        let [own, next, left] =
            [own..own + 1, given..given + 1, given..count].map(|units| u128::from(weigh(units)));
        let is_slow = others > own * takers as u128 * SLOW_TIMES;
        // What the others have done while it did its own is how fast they are.
        is_slow && left * own < next * others
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// When the last of the takers is through, each with its speed.
    fn end(weights: &[u64], speeds: &[f64], may_leave: bool) -> f64 {
        let (mut given, mut end) = (0, 0f64);
        // When each is free, and what it has done last.
        let mut free: Vec<(f64, Option<usize>)> = speeds.iter().map(|_| (0.0, None)).collect();
        while given < weights.len() {
            let at = (0..speeds.len()).min_by(|a, b| free[*a].0.total_cmp(&free[*b].0)).unwrap();
            let (now, last) = free[at];
            let leaves = last.is_some_and(|last| {
                let (count, takers) = (weights.len(), speeds.len());
                Standing { own: last, given, count, takers }
                    .leaves(|units| weights[units].iter().sum())
            });
            if leaves && may_leave {
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
    fn a_slow_one_holds_nobody_up_at_the_end() {
        let (units, speeds) = ([1; 64], [1.0, 1.0, 1.0, 0.08]);
        let ideal = 64.0 / 3.08;
        assert!(end(&units, &speeds, false) > 1.2 * ideal);
        assert!(end(&units, &speeds, true) < 1.1 * ideal);
    }

    #[test]
    fn one_that_leaves_never_costs_the_others_a_unit() {
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
    fn who_had_a_large_unit_is_not_slow() {
        let standing = Standing { own: 0, given: 102, count: 110, takers: 2 };
        let weigh = |first: u64| {
            move |units: Range<usize>| units.map(|unit| if unit == 0 { first } else { 1 }).sum()
        };
        assert!(!standing.leaves(weigh(100)) && standing.leaves(weigh(5)));
    }

    #[test]
    fn what_others_are_at_is_not_done() {
        let standing = Standing { own: 0, given: 5, count: 6, takers: 5 };
        assert!(!standing.leaves(|units| units.map(|unit| if unit == 0 { 1 } else { 40 }).sum()));
    }

    #[test]
    fn what_others_are_at_may_have_been_given_before_what_is_done() {
        let weights = [2, 20, 20, 1, 1, 20, 20, 20, 7, 2, 18];
        let standing = Standing { own: 0, given: 5, count: weights.len(), takers: 4 };
        assert!(!standing.leaves(|units| weights[units].iter().sum()));
    }

    #[test]
    fn units_without_weight_are_taken_and_none_left_are_left() {
        let standing = Standing { own: 0, given: 50, count: 60, takers: 4 };
        assert!(!standing.leaves(|_| 0));
        assert!(Standing { given: 60, ..standing }.leaves(|_| 0));
    }

    proptest! {
        #[test]
        fn equals_leave_nothing(
            weights in proptest::collection::vec(1u64..40, 1..200),
            takers in 1usize..9,
        ) {
            let speeds = alloc::vec![0.5; takers];
            prop_assert_eq!(end(&weights, &speeds, true), end(&weights, &speeds, false));
        }

        #[test]
        fn those_who_stay_are_enough_whatever_the_speeds(
            count in 1usize..200,
            speeds in proptest::collection::vec(0.02f64..1.0, 1..9),
        ) {
            let weights = alloc::vec![1; count];
            let unit = 1.0 / speeds.iter().copied().fold(0.0, f64::max);
            let (with, without) = (end(&weights, &speeds, true), end(&weights, &speeds, false));
            // Each that leaves has less than a 2n-th of the speed, so the others have half of it.
            prop_assert!(with <= without * 2.0 + unit, "{with} instead of {without}");
        }
    }
}
