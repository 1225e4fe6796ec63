//! The cost of static partitioning: the time that assigning work in advance would have added.
//!
//! The run is replayed twice through a fluid model (`pipeline`) with each component's observed
//! speed at each time: once with shared work, as it was, and once with work partitioned statically.
//! The difference is the cost; overheads that both replays contain (start, end, filling of queues)
//! cancel out.
//!
//! With static partitioning the dealer of a stage (its producer, or the plan of a source) assigns
//! an equal share to each member of its group, through bounded queues. The group therefore advances
//! at the pace of its slowest member, and backpressure slows the stage before it. All stages share
//! the processors: if demand exceeds them, computing takes longer for all by the same factor, and
//! waiting does not. A dealer serves its group in rounds, one batch per member. All members begin
//! to compute when the slowest has taken its batch, so they compete for processors at that moment,
//! even if they wait for the rest of the round. After the end of the observed run, a component
//! keeps its last speed, or repeats its cycle if it was slowed several times.

use alloc::vec::Vec;
use core::ops::Range;

use super::pipeline::{ModelStep, Pipeline};
use crate::ideal::{ProcessorUse, StageHistory, phases};
use crate::speed::SpeedProfile;

/// A replay that takes this many times the observed time is aborted: a member has speed 0.
const REPLAY_TIMES_MAX: f64 = 100.0;

/// Steps of a replay per observed interval.
const STEPS: usize = 4;

/// The fraction of a phase below which the rest is a rounding error.
const LEFT_MIN: f64 = 1e-9;

/// The seconds that a static division would have added to a run; `None` if it would not have ended.
///
/// ```
/// use euphrates_policy::ideal::{ProcessorUse, StageHistory, IntervalCounters};
/// use euphrates_policy::static_division::added_seconds;
///
/// let (tenth, intervals) = (100_000_000, 100);
/// let one = |work_in| IntervalCounters { work_in, busy_ns: tenth, ..IntervalCounters::default() };
/// let member = |work_in| vec![one(work_in); intervals];
/// // One of two members has half the speed.
/// let members = vec![member(1000), member(500)];
/// let dealers = StageHistory::equal_dealers(1);
/// let stage = StageHistory { members, flows: true, dealers, feed: None };
/// let idle = ProcessorUse { used_ns: vec![0; intervals], available: vec![2.0; intervals] };
/// let added = added_seconds(&vec![tenth; intervals], &[stage], &idle).unwrap();
/// assert!((added - 5.0).abs() < 0.1, "15 s at the pace of the slow member instead of 10 s");
/// ```
pub fn added_seconds(
    walls_ns: &[u64],
    stages: &[StageHistory],
    processors: &ProcessorUse,
) -> Option<f64> {
    let replay = Replay::of(walls_ns, stages, processors);
    let (shared, divided) = (replay.seconds(false)?, replay.seconds(true)?);
    Some((divided - shared).max(0.0))
}

struct Replay<'a> {
    walls_ns: &'a [u64],
    stages: &'a [StageHistory],
    speeds: Vec<Vec<SpeedProfile>>,
    processors: &'a ProcessorUse,
    phases: Vec<Range<usize>>,
}

impl<'a> Replay<'a> {
    fn of(
        walls_ns: &'a [u64],
        stages: &'a [StageHistory],
        processors: &'a ProcessorUse,
    ) -> Replay<'a> {
        let phases = phases(walls_ns.len(), stages);
        let speeds = stages.iter().map(|stage| SpeedProfile::of_stage(walls_ns, stage, &phases));
        Replay { walls_ns, stages, speeds: speeds.collect(), processors, phases }
    }

    fn seconds(&self, divided: bool) -> Option<f64> {
        let observed: f64 = self.walls_ns.iter().map(|wall| *wall as f64).sum();
        let longest = self.walls_ns.iter().copied().max().unwrap_or(0) as f64;
        let step_ns = longest / STEPS as f64;
        let mut clock = Clock { walls_ns: self.walls_ns, interval: 0, into: 0.0, now: 0.0 };
        for phase in &self.phases {
            let computed: u64 = self.processors.used_ns[phase.clone()].iter().sum();
            let seen = (phase, computed as f64);
            let mut pipeline = Pipeline::of(self.stages, &self.speeds, seen, divided, step_ns);
            if pipeline.is_empty() {
                self.compute(&mut clock, computed as f64, REPLAY_TIMES_MAX * observed);
            }
            while !pipeline.is_done() {
                if clock.now > REPLAY_TIMES_MAX * observed {
                    return None;
                }
                let interval = clock.interval;
                let (lasts_ns, processors) = (clock.left().min(step_ns), self.available(interval));
                clock.advance(pipeline.advance(ModelStep { interval, lasts_ns, processors }));
            }
        }
        Some(clock.now / 1e9)
    }

    /// Replays a phase without busy stages, in which only processor time was used.
    fn compute(&self, clock: &mut Clock, computed: f64, end: f64) {
        let mut left = computed;
        while left > LEFT_MIN * computed && clock.now < end {
            let there = self.available(clock.interval);
            let lasts = clock.left().min(left / there);
            left -= there * lasts;
            clock.advance(lasts);
        }
    }

    /// Processors available to the flow in an interval; after the observed ones, their mean.
    fn available(&self, interval: usize) -> f64 {
        let ProcessorUse { available, used_ns } = self.processors;
        let mean = || available.iter().sum::<f64>() / available.len().max(1) as f64;
        let there = available.get(interval).copied().unwrap_or_else(mean);
        // Used processors were available.
        let used = used_ns.get(interval).zip(self.walls_ns.get(interval));
        there.max(used.map_or(0.0, |(used, wall)| *used as f64 / (*wall).max(1) as f64))
    }
}

/// The time of a replay. Intervals after the observed ones have their mean length.
struct Clock<'a> {
    walls_ns: &'a [u64],
    interval: usize,
    into: f64,
    now: f64,
}

impl Clock<'_> {
    fn wall(&self) -> f64 {
        let mean = || self.walls_ns.iter().sum::<u64>() / self.walls_ns.len().max(1) as u64;
        self.walls_ns.get(self.interval).copied().unwrap_or_else(mean).max(1) as f64
    }

    fn left(&self) -> f64 {
        self.wall() - self.into
    }

    fn advance(&mut self, lasts: f64) {
        self.now += lasts;
        self.into += lasts;
        if self.into >= self.wall() - 1e-6 {
            self.interval += 1;
            self.into = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal::{IntervalCounters, StageFeed};
    use alloc::vec;

    const SECOND: u64 = 1_000_000_000;
    const TENTH: u64 = SECOND / 10;

    /// A stage whose members are always busy, with a speed for each tenth of a second.
    fn busy(speeds: &[Vec<f64>], dealers: usize) -> StageHistory {
        let step = |speed: &f64| IntervalCounters {
            work_in: (speed * 1000.0) as u64,
            work_out: 0,
            busy_ns: TENTH,
            cpu_ns: 0,
        };
        let members = speeds.iter().map(|speeds| speeds.iter().map(step).collect());
        let dealers = StageHistory::equal_dealers(dealers);
        StageHistory { members: members.collect(), flows: true, dealers, feed: None }
    }

    fn idle(intervals: usize) -> ProcessorUse {
        ProcessorUse { used_ns: vec![0; intervals], available: vec![2.0; intervals] }
    }

    fn added(speeds: &[Vec<f64>], dealers: usize) -> f64 {
        let intervals = speeds[0].len();
        let walls = vec![TENTH; intervals];
        added_seconds(&walls, &[busy(speeds, dealers)], &idle(intervals)).unwrap()
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 0.02 * b.max(1.0), "{a} instead of {b}");
    }

    #[test]
    fn equal_members_cost_nothing() {
        assert_eq!(added(&[vec![1.0; 100], vec![1.0; 100], vec![1.0; 100]], 1), 0.0);
    }

    #[test]
    fn member_slowed_in_mid_run_keeps_its_last_speed() {
        let slow = [vec![1.0; 40], vec![0.25; 60]].concat();
        // A share is the mean of the members' work, of which 4 seconds' are done before the change.
        let share = (3.0 * 10.0 + 4.0 + 1.5) / 4.0;
        let divided = 4.0 + (share - 4.0) / 0.25;
        let fast = vec![1.0; 100];
        for dealers in [1, 4] {
            close(
                added(&[fast.clone(), slow.clone(), fast.clone(), fast.clone()], dealers),
                divided - 10.0,
            );
        }
    }

    #[test]
    fn alternately_slow_members_block_a_common_dealer() {
        let one = [vec![0.2; 50], vec![1.0; 50]].concat();
        let two = [vec![1.0; 50], vec![0.2; 50]].concat();
        // With one dealer, both advance at a fifth all the time; with two, neither loses.
        close(added(&[one.clone(), two.clone()], 1), 30.0 - 10.0);
        close(added(&[one, two], 2), 0.0);
    }

    #[test]
    fn member_with_two_of_three_dealers_has_two_thirds_of_the_work() {
        let mut stage = busy(&[vec![1.0; 100], vec![1.0; 100]], 3);
        assert_eq!(stage.static_parts(), [2.0 / 3.0, 1.0 / 3.0]);
        let walls = vec![TENTH; 100];
        close(
            added_seconds(&walls, &[stage.clone()], &idle(100)).unwrap(),
            20.0 * 2.0 / 3.0 - 10.0,
        );
        // Unless its dealers have less to give.
        stage.dealers = vec![0.25, 0.5, 0.25];
        close(added_seconds(&walls, &[stage], &idle(100)).unwrap(), 0.0);
    }

    #[test]
    fn periodic_slowdown_is_repeated_after_the_end() {
        let pulses = (0..120).map(|at| if at % 40 < 10 { 0.1 } else { 1.0 }).collect();
        // A share is 10.65 seconds' work, of which 9.3 are done after 12 s; then another pulse
        // follows.
        close(added(&[vec![1.0; 120], pulses], 1), 1.0 + 1.25);
    }

    #[test]
    fn saturated_processors_hide_a_slow_member() {
        // Eight members share two processors; the slow one needs a ninth of a processor at most.
        let mut speeds = vec![vec![1.0; 100]; 8];
        speeds[3] = vec![0.3; 100];
        let mut stage = busy(&speeds, 1);
        // Each member has a processor for a quarter of its time.
        stage.members.iter_mut().flatten().for_each(|step| {
            step.busy_ns /= 4;
            step.work_in /= 4;
        });
        let processors = ProcessorUse { used_ns: vec![2 * TENTH; 100], available: vec![2.0; 100] };
        let added = added_seconds(&vec![TENTH; 100], &[stage], &processors).unwrap();
        close(added, 0.0);
    }

    #[test]
    fn dealer_that_takes_a_processor_from_a_member_delays_the_group() {
        let computing = |at: u64, work: u64| {
            let (work_in, busy_ns) = (work, TENTH * at / 10);
            vec![IntervalCounters { work_in, work_out: 0, busy_ns, cpu_ns: busy_ns }; 100]
        };
        let source = StageHistory {
            members: vec![computing(2, 1800)],
            flows: true,
            ..StageHistory::default()
        };
        let consumers = StageHistory {
            members: vec![computing(9, 900), computing(9, 900)],
            flows: true,
            dealers: vec![1.0],
            feed: Some(StageFeed { from: 0, bytes_max: 1000.0 }),
        };
        let walls = vec![TENTH; 100];
        let of = |there: f64| {
            let (used_ns, available) = (vec![2 * TENTH; 100], vec![there; 100]);
            let stages = [source.clone(), consumers.clone()];
            added_seconds(&walls, &stages, &ProcessorUse { used_ns, available }).unwrap()
        };
        // Each consumer computes for 9 s. The dealer takes 2 s from one of them; with shared work,
        // 1 s from each.
        close(of(2.0), 1.0);
        close(of(3.0), 0.0);
    }

    #[test]
    fn member_with_little_evidence_is_not_slow() {
        let mut stage = busy(&[vec![1.0; 100], vec![0.0; 100]], 1);
        stage.members[1].iter_mut().for_each(|step| step.busy_ns = 0);
        stage.members[1][99] =
            IntervalCounters { work_in: 1, work_out: 0, busy_ns: SECOND / 4, cpu_ns: 0 };
        let added = added_seconds(&vec![TENTH; 100], &[stage], &idle(100));
        assert_eq!(added, Some(0.0));
    }
}
