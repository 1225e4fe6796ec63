//! Speeds of components over time, in segments of constant speed.

use alloc::vec::Vec;
use core::ops::Range;

use crate::change_points::{IntervalWork, SpeedSegment, segments};
use crate::ideal::{IntervalCounters, StageHistory};

/// The busy time of a member must be at least one in this many of the busiest member's for its
/// speed to be known.
const KNOWN_PART_OF_BUSIEST: u64 = 20;
/// It must also be at least one in this many of the whole time.
const KNOWN_PART_OF_WALL: u64 = 100;

/// Speeds that differ by at most this fraction of the highest count as the same state.
const LIKE_MAX: f64 = 0.3;

/// The speed of a component over time, where 1 is the mean of its stage in the same phase.
#[derive(Clone, Debug, Default)]
pub struct SpeedProfile {
    segments: Vec<SpeedSegment>,
    intervals: usize,
}

impl SpeedProfile {
    /// The speeds of the members of a stage. A member with too little evidence gets the best mean
    /// speed of the others.
    pub fn of_stage(
        walls_ns: &[u64],
        stage: &StageHistory,
        phases: &[Range<usize>],
    ) -> Vec<SpeedProfile> {
        let rates: Vec<f64> = phases.iter().map(|phase| rate(stage, phase)).collect();
        let busy = |steps: &[IntervalCounters]| steps.iter().map(|step| step.busy_ns).sum::<u64>();
        let busiest = stage.members.iter().map(|steps| busy(steps)).max().unwrap_or(0);
        let wall: u64 = walls_ns.iter().sum();
        let least = (busiest / KNOWN_PART_OF_BUSIEST).max(wall / KNOWN_PART_OF_WALL);
        let of_member = |steps: &Vec<IntervalCounters>| {
            let all = phases.iter().zip(&rates).flat_map(|(phase, rate)| {
                let expected = move |step: &IntervalCounters| step.busy_ns as f64 * rate;
                let sample = move |step| IntervalWork {
                    work: IntervalCounters::work(step),
                    expected: expected(step),
                };
                steps[phase.clone()].iter().map(sample)
            });
            let samples: Vec<IntervalWork> =
                if busy(steps) < least { Vec::new() } else { all.collect() };
            SpeedProfile { segments: segments(&samples), intervals: walls_ns.len() }
        };
        let mut speeds: Vec<SpeedProfile> = stage.members.iter().map(of_member).collect();
        let best = speeds.iter().filter_map(SpeedProfile::mean).fold(0.0, f64::max);
        let unknown = if best > 0.0 { best } else { 1.0 };
        for speed in speeds.iter_mut().filter(|speed| speed.segments.is_empty()) {
            let intervals = 0..walls_ns.len();
            speed.segments.push(SpeedSegment { intervals, speed: unknown, expected: 0.0 });
        }
        speeds
    }

    /// The mean speed over all segments; `None` without evidence.
    fn mean(&self) -> Option<f64> {
        let expected: f64 = self.segments.iter().map(|one| one.expected).sum();
        let work: f64 = self.segments.iter().map(|one| one.speed * one.expected).sum();
        (expected > 0.0).then(|| work / expected)
    }

    /// The segments of constant speed, in order of time.
    pub fn segments(&self) -> &[SpeedSegment] {
        &self.segments
    }

    /// The speed in an interval, which may lie after the observed ones.
    pub fn at(&self, interval: usize) -> f64 {
        let interval = if interval < self.intervals { interval } else { self.repeated(interval) };
        let found = self.segments.iter().find(|segment| segment.intervals.contains(&interval));
        found.map_or(1.0, |segment| segment.speed)
    }

    /// The observed interval that stands for an interval after the end.
    fn repeated(&self, interval: usize) -> usize {
        // Whole cycles of two alternating speeds, from the first change on.
        let changes = self.segments.len().saturating_sub(1);
        let cycles = changes.saturating_sub(1) / 2;
        let most = self.segments.iter().map(|one| one.speed).fold(0.0, f64::max);
        let mut pairs = self.segments.iter().zip(self.segments.iter().skip(2));
        let is_like = |(a, b): (&SpeedSegment, &SpeedSegment)| {
            (a.speed - b.speed).max(b.speed - a.speed) <= LIKE_MAX * most
        };
        if cycles == 0 || !pairs.all(is_like) {
            return self.intervals.saturating_sub(1);
        }
        let begin = self.segments[1].intervals.start;
        let end = self.segments[1 + 2 * cycles].intervals.start;
        begin + (interval - begin) % (end - begin)
    }
}

/// Work per busy nanosecond of all members of a stage in a phase.
pub(crate) fn rate(stage: &StageHistory, phase: &Range<usize>) -> f64 {
    let steps = || stage.members.iter().flat_map(|steps| &steps[phase.clone()]);
    let busy: u64 = steps().map(|step| step.busy_ns).sum();
    steps().map(IntervalCounters::work).sum::<f64>() / busy.max(1) as f64
}
