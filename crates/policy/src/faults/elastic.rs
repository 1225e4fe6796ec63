//! Elastic flows: whether a flow goes on with workers that have joined while it runs.
//!
//! Only a flow that works by units can (see [`unit_ledger`](super::unit_ledger)). Its master stops
//! the claims of units; instances finish what they have claimed; and the next attempt, with all
//! workers, computes the units that are left. That costs the start of an attempt, and time in which
//! some instances wait for the last unit of others. It is worth it if the additional cores are
//! expected to save several times that cost.

use core::time::Duration;

/// By how much the time that is saved must exceed the cost.
const SAVED_PER_COST_MIN: u32 = 2;

/// How far an attempt has come, and what has joined since its start.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::elastic::AttemptProgress;
///
/// let progress = AttemptProgress {
///     since_start: Duration::from_secs(10),
///     start_cost: Duration::from_millis(200),
///     units: 1000,
///     claimed: 104,
///     instances: 4,
///     cores: 4,
///     joined_cores: 4,
/// };
/// assert!(progress.gains_by_another_attempt(), "it saves 45 of 90 seconds");
/// let near_the_end = AttemptProgress { claimed: 995, ..progress };
/// assert!(!near_the_end.gains_by_another_attempt());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptProgress {
    /// The time since the attempt's instances were started.
    pub since_start: Duration,
    /// The time that the start of the attempt took.
    pub start_cost: Duration,
    /// Units of the attempt.
    pub units: u64,
    /// Those that instances have claimed.
    pub claimed: u64,
    /// Instances that claim units.
    pub instances: u64,
    /// Cores of the workers that take part.
    pub cores: u64,
    /// Cores of the workers that would take part in another attempt only.
    pub joined_cores: u64,
}

impl AttemptProgress {
    /// Whether another attempt with all workers is expected to end earlier, by a multiple of its
    /// cost. False until a unit has been completed, since nothing is known before.
    pub fn gains_by_another_attempt(&self) -> bool {
        let completed = self.claimed.saturating_sub(self.instances);
        if completed == 0 || self.joined_cores == 0 {
            return false;
        }
        let per_unit = self.since_start.as_secs_f64() / completed as f64;
        let left = self.units.saturating_sub(self.claimed) as f64 * per_unit;
        let share_saved = self.joined_cores as f64 / (self.cores + self.joined_cores) as f64;
        // The instances wait for the slowest of them, for one unit at most.
        let cost = self.start_cost.as_secs_f64() + per_unit * self.instances as f64;
        left * share_saved > cost * f64::from(SAVED_PER_COST_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const START_COST: f64 = 0.5;

    /// Runs units of one second on workers of one core each, which join at these times. Returns
    /// when the flow ends, and the number of attempts; `is_elastic` if it grows.
    fn run(units: u64, joins: &[f64], is_elastic: bool) -> (f64, u32) {
        let (mut now, mut left, mut attempts) = (0.0, units, 0);
        let mut cores = 1;
        while left > 0 {
            attempts += 1;
            now += START_COST;
            let began: f64 = now;
            let claims = units_claimed(cores, left);
            let mut claimed = claims;
            // All instances finish a unit each second.
            loop {
                now += 1.0;
                let there = 1 + joins.iter().filter(|join| **join <= now).count() as u64;
                let progress = AttemptProgress {
                    since_start: Duration::from_secs_f64(now - began),
                    start_cost: Duration::from_secs_f64(START_COST),
                    units: left,
                    claimed,
                    instances: cores,
                    cores,
                    joined_cores: there - cores,
                };
                if is_elastic && progress.gains_by_another_attempt() {
                    (left, cores) = (left - claimed, there);
                    now += 1.0;
                    break;
                }
                if claimed == left {
                    left = 0;
                    break;
                }
                claimed += units_claimed(cores, left - claimed);
            }
        }
        (now, attempts)
    }

    fn units_claimed(cores: u64, left: u64) -> u64 {
        cores.min(left)
    }

    /// When the units would be done if every worker took part at once from its join on.
    fn ideal(units: u64, joins: &[f64]) -> f64 {
        let (mut now, mut done) = (0.0, 0.0);
        let mut joins: Vec<f64> = joins.to_vec();
        joins.sort_by(f64::total_cmp);
        for (at, join) in joins.iter().enumerate() {
            let cores = 1.0 + at as f64;
            let more = (join - now) * cores;
            if done + more >= units as f64 {
                return now + (units as f64 - done) / cores;
            }
            (now, done) = (*join, done + more);
        }
        now + (units as f64 - done) / (1.0 + joins.len() as f64)
    }

    #[test]
    fn worker_that_joins_at_half_time_shortens_the_rest() {
        let (alone, _) = run(200, &[], true);
        let (joined, attempts) = run(200, &[100.0], true);
        assert_eq!(attempts, 2);
        assert!(joined < 1.1 * ideal(200, &[100.0]) && joined < 0.8 * alone, "{joined}");
    }

    #[test]
    fn nothing_is_gained_without_joined_cores_or_completed_units() {
        let progress = AttemptProgress {
            since_start: Duration::from_secs(60),
            start_cost: Duration::ZERO,
            units: 1_000_000,
            claimed: 4,
            instances: 4,
            cores: 4,
            joined_cores: 100,
        };
        assert!(!progress.gains_by_another_attempt());
        assert!(AttemptProgress { claimed: 5, ..progress }.gains_by_another_attempt());
        let alone = AttemptProgress { claimed: 5, joined_cores: 0, ..progress };
        assert!(!alone.gains_by_another_attempt());
    }

    proptest! {
        #[test]
        fn growing_never_lengthens_a_flow_beyond_its_cost(
            units in 1..2_000_u64,
            joins in prop::collection::vec(0.0..1_500.0_f64, 0..12),
        ) {
            let (grown, attempts) = run(units, &joins, true);
            let (fixed, _) = run(units, &joins, false);
            prop_assert!(grown <= fixed + 1e-6, "{grown} instead of {fixed}");
            prop_assert!(attempts as usize <= 1 + joins.len());
        }

        #[test]
        fn growing_flow_is_near_the_ideal_if_it_is_long(
            joins in prop::collection::vec(0.0..500.0_f64, 1..6),
        ) {
            let (grown, _) = run(4_000, &joins, true);
            prop_assert!(grown <= 1.1 * ideal(4_000, &joins), "{grown}");
        }
    }
}
