//! What every component did over time, in a bounded number of intervals: when they are all used,
//! pairs become one, and each lasts twice as long from then on.

use euphrates_policy::ideal::{Processors, Step};

/// Steps that are kept of all components together, and intervals at most and at least.
const STEPS_MAX: usize = 1 << 17;
const INTERVALS_MAX: usize = 1024;
const INTERVALS_MIN: usize = 64;

/// The history of a flow.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Lengths of the intervals.
    pub walls_ns: Vec<u64>,
    /// The processors in each.
    pub processors: Processors,
    /// Per component, its steps.
    pub steps: Vec<Vec<Step>>,
    /// Looks that make an interval, and those the last one has.
    looks: usize,
    looks_last: usize,
}

/// What was seen between two looks.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub wall_ns: u64,
    pub used_ns: u64,
    pub available: f64,
    /// Of all components; there may be more than there were at the look before.
    pub steps: Vec<Step>,
}

impl History {
    /// One look more.
    pub fn push(&mut self, look: &Look) {
        self.looks = self.looks.max(1);
        if self.walls_ns.is_empty() || self.looks_last == self.looks {
            let members = look.steps.len().max(1);
            if self.walls_ns.len() >= (STEPS_MAX / members).clamp(INTERVALS_MIN, INTERVALS_MAX) {
                self.halve();
            }
            self.begin();
        }
        self.steps.resize_with(look.steps.len(), Vec::new);
        let at = self.walls_ns.len() - 1;
        let part = self.walls_ns[at] as f64 / (self.walls_ns[at] + look.wall_ns).max(1) as f64;
        let available = &mut self.processors.available[at];
        *available = *available * part + look.available * (1.0 - part);
        self.walls_ns[at] += look.wall_ns;
        self.processors.used_ns[at] += look.used_ns;
        for (steps, step) in self.steps.iter_mut().zip(&look.steps) {
            steps.resize(at + 1, Step::default());
            steps[at].add(step);
        }
        self.looks_last += 1;
    }

    fn begin(&mut self) {
        self.walls_ns.push(0);
        self.processors.used_ns.push(0);
        self.processors.available.push(0.0);
        self.steps.iter_mut().for_each(|steps| steps.push(Step::default()));
        self.looks_last = 0;
    }

    /// Two intervals become one.
    fn halve(&mut self) {
        let walls = &self.walls_ns;
        let available = self.processors.available.chunks(2).zip(walls.chunks(2));
        let mean = |(available, walls): (&[f64], &[u64])| {
            let sum: f64 = available.iter().zip(walls).map(|(a, wall)| a * *wall as f64).sum();
            sum / walls.iter().sum::<u64>().max(1) as f64
        };
        self.processors.available = available.map(mean).collect();
        let sums = |all: &[u64]| all.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.processors.used_ns = sums(&self.processors.used_ns);
        self.walls_ns = sums(&self.walls_ns);
        for steps in &mut self.steps {
            let pairs = steps.chunks(2).map(|pair| {
                let mut sum = Step::default();
                pair.iter().for_each(|step| sum.add(step));
                sum
            });
            *steps = pairs.collect();
        }
        self.looks *= 2;
    }

    /// The interval in which this time of the flow lies; the last one, for later times.
    pub fn interval_at(&self, time_ns: u64) -> usize {
        let mut end = 0;
        let within = self.walls_ns.iter().position(|wall| {
            end += wall;
            time_ns < end
        });
        within.unwrap_or(self.walls_ns.len().saturating_sub(1))
    }

    /// When an interval begins, in nanoseconds from the start of the flow.
    pub fn begin_of(&self, interval: usize) -> u64 {
        self.walls_ns[..interval.min(self.walls_ns.len())].iter().sum()
    }

    /// Work of these components between two times of the flow, in nanoseconds.
    pub fn work(&self, component: usize, from_ns: u64, to_ns: u64) -> f64 {
        let mut at = 0;
        let inside = self.walls_ns.iter().zip(&self.steps[component]).map(|(wall, step)| {
            let (begin, end) = (at.max(from_ns), (at + wall).min(to_ns));
            at += wall;
            step.work() * end.saturating_sub(begin) as f64 / (*wall).max(1) as f64
        });
        inside.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_history_is_kept_coarser_and_nothing_is_lost() {
        let mut history = History::default();
        let looks = 50_000;
        for look in 0..looks {
            let step = Step { work_in: 10, work_out: 1, busy_ns: 5, cpu_ns: 3 };
            // The second component is found late.
            let steps = vec![step; if look < 100 { 1 } else { 2 }];
            history.push(&Look { wall_ns: 100, used_ns: 50, available: 2.0, steps });
            assert!(history.walls_ns.len() <= INTERVALS_MAX);
            assert!(history.steps.iter().all(|steps| steps.len() == history.walls_ns.len()));
        }
        assert_eq!(history.walls_ns.iter().sum::<u64>(), 100 * looks);
        assert_eq!(history.processors.used_ns.iter().sum::<u64>(), 50 * looks);
        assert!(history.processors.available.iter().all(|there| (there - 2.0).abs() < 1e-9));
        assert_eq!(history.work(0, 0, u64::MAX), 11.0 * looks as f64);
        assert_eq!(history.work(1, 0, u64::MAX), 11.0 * (looks - 100) as f64);
        let half = history.work(0, 0, 50 * looks);
        assert!((half / (5.5 * looks as f64) - 1.0).abs() < 0.01, "{half}");
    }
}
