//! Piecewise-constant speeds of disks, processors and links.
//!
//! Speeds are in bytes per second. Work over a time is exact, in bytes times 10^9, so that no
//! rounding errors add up over a run.

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// A speed that is constant between steps and after the last.
///
/// ```
/// use euphrates_sim::speed::{SECOND_NS, SpeedChange, SpeedCurve};
///
/// let slower = SpeedChange { from_ns: SECOND_NS, bytes_per_second: 10 };
/// let speed = SpeedCurve::changing(100, &[slower]);
/// assert_eq!([speed.at(0), speed.at(SECOND_NS)], [100, 10]);
/// assert_eq!(speed.done_at(0, 120), Some(3 * SECOND_NS), "100 bytes, then 20 at 10 per second");
/// assert_eq!(SpeedCurve::constant(0).done_at(0, 1), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeedCurve {
    first: u64,
    steps: Vec<SpeedChange>,
}

/// A change of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedChange {
    /// Nanoseconds since the start.
    pub from_ns: u64,
    /// Bytes per second; 0 stands still.
    pub bytes_per_second: u64,
}

impl SpeedCurve {
    /// A speed that never changes.
    pub fn constant(bytes_per_second: u64) -> SpeedCurve {
        SpeedCurve { first: bytes_per_second, steps: Vec::new() }
    }

    /// An initial speed and its changes in any order; of changes at the same time, the last one
    /// holds.
    pub fn changing(bytes_per_second: u64, changes: &[SpeedChange]) -> SpeedCurve {
        let mut steps = changes.to_vec();
        steps.sort_by_key(|step| step.from_ns);
        SpeedCurve { first: bytes_per_second, steps }
    }

    /// The speed at a time.
    pub fn at(&self, now_ns: u64) -> u64 {
        let begun = self.steps.partition_point(|step| step.from_ns <= now_ns);
        if begun == 0 { self.first } else { self.steps[begun - 1].bytes_per_second }
    }

    /// The speed at the start, before all changes.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The changes, in order of time.
    pub fn changes(&self) -> &[SpeedChange] {
        &self.steps
    }

    /// The lowest speed of all times.
    pub fn slowest(&self) -> u64 {
        self.steps.iter().map(|step| step.bytes_per_second).fold(self.first, u64::min)
    }

    /// When `bytes` of work that begins at `start_ns` is done, in nanoseconds; `None` if never.
    pub fn done_at(&self, start_ns: u64, bytes: u64) -> Option<u64> {
        self.done_at_exact(start_ns, u128::from(bytes) * u128::from(SECOND_NS))
    }

    /// Like `done_at`, with the work in bytes times 10^9.
    pub fn done_at_exact(&self, start_ns: u64, mut work: u128) -> Option<u64> {
        let mut now_ns = start_ns;
        let mut begun = self.steps.partition_point(|step| step.from_ns <= start_ns);
        let mut speed =
            if begun == 0 { self.first } else { self.steps[begun - 1].bytes_per_second };
        while let Some(step) = self.steps.get(begun) {
            let done = u128::from(speed) * u128::from(step.from_ns - now_ns);
            if done >= work {
                break;
            }
            work -= done;
            (now_ns, speed) = (step.from_ns, step.bytes_per_second);
            begun += 1;
        }
        if work == 0 {
            return Some(now_ns);
        }
        let takes = work.div_ceil(u128::from(speed.max(1)));
        if speed == 0 { None } else { u64::try_from(u128::from(now_ns) + takes).ok() }
    }

    /// The work that can be done between two times, in bytes times 10^9.
    ///
    /// ```
    /// use euphrates_sim::speed::{SECOND_NS, SpeedCurve};
    ///
    /// let work = SpeedCurve::constant(100).work_between(0, 2 * SECOND_NS);
    /// assert_eq!(work, 200 * u128::from(SECOND_NS), "200 bytes in two seconds");
    /// ```
    pub fn work_between(&self, from_ns: u64, to_ns: u64) -> u128 {
        let mut work = 0;
        let (mut now_ns, mut speed) = (from_ns, self.at(from_ns));
        let begun = self.steps.partition_point(|step| step.from_ns <= from_ns);
        for step in self.steps[begun..].iter().take_while(|step| step.from_ns < to_ns) {
            work += u128::from(speed) * u128::from(step.from_ns - now_ns);
            (now_ns, speed) = (step.from_ns, step.bytes_per_second);
        }
        work + u128::from(speed) * u128::from(to_ns.saturating_sub(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn done_at_accounts_for_changes_and_standstill() {
        let slow_later = [SpeedChange { from_ns: SECOND_NS, bytes_per_second: 10 }];
        let speed = SpeedCurve::changing(100, &slow_later);
        assert_eq!(speed.done_at(0, 50), Some(SECOND_NS / 2));
        assert_eq!(speed.done_at(0, 110), Some(2 * SECOND_NS));
        assert_eq!(speed.done_at(5 * SECOND_NS, 10), Some(6 * SECOND_NS));
        assert_eq!(SpeedCurve::constant(0).done_at(3, 1), None);
        assert_eq!(SpeedCurve::constant(0).done_at(3, 0), Some(3));
        assert_eq!((speed.at(0), speed.at(SECOND_NS), speed.slowest()), (100, 10, 10));
    }

    #[test]
    fn done_at_is_the_earliest_time_with_enough_work() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let steps: Vec<SpeedChange> = (0..random.below(5))
                .map(|_| SpeedChange {
                    from_ns: random.below(1000),
                    bytes_per_second: random.below(9),
                })
                .collect();
            let speed = SpeedCurve::changing(1 + random.below(9), &steps);
            let (start_ns, work) = (random.below(1000), u128::from(random.below(5000)));
            match speed.done_at_exact(start_ns, work) {
                Some(end) => {
                    assert!(speed.work_between(start_ns, end) >= work, "seed {seed}");
                    let short = end > start_ns && speed.work_between(start_ns, end - 1) >= work;
                    assert!(!short, "seed {seed}");
                }
                None => assert_eq!(speed.at(u64::MAX), 0, "seed {seed}"),
            }
        }
    }
}
