//! The history of all components in a bounded number of intervals: when these are used up, pairs
//! are merged, and later intervals last twice as long.

use euphrates_policy::ideal::{IntervalCounters, ProcessorUse};

/// The most steps of all components together, unless `INTERVALS_MIN` needs more.
const STEPS_MAX: usize = 1 << 17;
/// The most intervals, for flows of few components.
const INTERVALS_MAX: usize = 1024;
/// The fewest intervals, for flows of many components.
const INTERVALS_MIN: usize = 64;

/// The work of all components over time.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The lengths of the intervals.
    pub walls_ns: Vec<u64>,
    /// Use and availability of processors, by interval.
    pub processors: ProcessorUse,
    /// By component and interval: its work.
    pub steps: Vec<Vec<IntervalCounters>>,
    /// Samples in a full interval, and in the last one.
    samples: usize,
    samples_last: usize,
}

/// The work between two samples.
#[derive(Debug, Default)]
pub(crate) struct HistorySample {
    pub wall_ns: u64,
    pub used_ns: u64,
    pub available: f64,
    /// Of all components; there may be more than in the sample before.
    pub steps: Vec<IntervalCounters>,
}

impl History {
    /// Adds a sample to the last interval.
    pub fn push(&mut self, sample: &HistorySample) {
        self.samples = self.samples.max(1);
        if self.walls_ns.is_empty() || self.samples_last == self.samples {
            let members = sample.steps.len().max(1);
            if self.walls_ns.len() >= (STEPS_MAX / members).clamp(INTERVALS_MIN, INTERVALS_MAX) {
                self.halve();
            }
            self.begin();
        }
        self.steps.resize_with(sample.steps.len(), Vec::new);
        let at = self.walls_ns.len() - 1;
        let part = self.walls_ns[at] as f64 / (self.walls_ns[at] + sample.wall_ns).max(1) as f64;
        let available = &mut self.processors.available[at];
        *available = *available * part + sample.available * (1.0 - part);
        self.walls_ns[at] += sample.wall_ns;
        self.processors.used_ns[at] += sample.used_ns;
        for (steps, step) in self.steps.iter_mut().zip(&sample.steps) {
            steps.resize(at + 1, IntervalCounters::default());
            steps[at].add(step);
        }
        self.samples_last += 1;
    }

    fn begin(&mut self) {
        self.walls_ns.push(0);
        self.processors.used_ns.push(0);
        self.processors.available.push(0.0);
        self.steps.iter_mut().for_each(|steps| steps.push(IntervalCounters::default()));
        self.samples_last = 0;
    }

    /// Merges pairs of intervals.
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
            *steps = steps.chunks(2).map(sum).collect();
        }
        self.samples *= 2;
    }

    /// The interval that contains this time of the flow; the last one for later times.
    pub fn interval_at(&self, time_ns: u64) -> usize {
        let mut end = 0;
        let within = self.walls_ns.iter().position(|wall| {
            end += wall;
            time_ns < end
        });
        within.unwrap_or(self.walls_ns.len().saturating_sub(1))
    }

    /// The begin of an interval, in nanoseconds from the start of the flow.
    pub fn begin_of(&self, interval: usize) -> u64 {
        self.walls_ns[..interval.min(self.walls_ns.len())].iter().sum()
    }

    /// The work of a component between two times of the flow, in nanoseconds.
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

/// The counters of several intervals together.
pub(super) fn sum(steps: &[IntervalCounters]) -> IntervalCounters {
    let mut sum = IntervalCounters::default();
    steps.iter().for_each(|step| sum.add(step));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_history_is_coarser_and_loses_no_work() {
        let mut history = History::default();
        let samples = 50_000;
        for sample in 0..samples {
            let step = IntervalCounters { work_in: 10, work_out: 1, busy_ns: 5, cpu_ns: 3 };
            // The second component is detected late.
            let steps = vec![step; if sample < 100 { 1 } else { 2 }];
            history.push(&HistorySample { wall_ns: 100, used_ns: 50, available: 2.0, steps });
            assert!(history.walls_ns.len() <= INTERVALS_MAX);
            assert!(history.steps.iter().all(|steps| steps.len() == history.walls_ns.len()));
        }
        assert_eq!(history.walls_ns.iter().sum::<u64>(), 100 * samples);
        assert_eq!(history.processors.used_ns.iter().sum::<u64>(), 50 * samples);
        assert!(history.processors.available.iter().all(|there| (there - 2.0).abs() < 1e-9));
        assert_eq!(history.work(0, 0, u64::MAX), 11.0 * samples as f64);
        assert_eq!(history.work(1, 0, u64::MAX), 11.0 * (samples - 100) as f64);
        let half = history.work(0, 0, 50 * samples);
        assert!((half / (5.5 * samples as f64) - 1.0).abs() < 0.01, "{half}");
    }
}
