//! What a flow would have cost with its work divided statically, computed from the speeds that its
//! components showed over time.
//!
//! The run is replayed twice through a [`Pipeline`](crate::pipeline), with each component's
//! observed speed at each time: once as it was, where the members of a stage share their work, and
//! once with the work dealt in advance. The difference is what static division would have added to
//! the run; what both have in common (starting, ending, filling queues) cancels out. In a static
//! division the dealer of a stage (its producer, or the plan of a source) gives each member of its
//! group the same share of what it has itself, and its queues are bounded, so the members of a
//! group advance at the pace of the slowest, and the stage before them waits with them.
//! Processors are shared by all: where more is asked of them than there is, what members compute
//! takes longer for all by the same factor, and what they wait does not. Members that one dealer
//! serves begin to compute at the same time, when the slowest takes a batch, so they share
//! processors then, however much of the round they wait. After the end of the observed run, a
//! component keeps its last speed; one that was slowed several times repeats what was seen of it
//! since it was first slowed.

use alloc::vec::Vec;
use core::ops::Range;

use crate::ideal::{Processors, Stage, phases};
use crate::pipeline::{Moment, Pipeline};
use crate::speed::Speed;

/// A replay that has taken so many times the observed time is given up: a member stands still.
const REPLAY_TIMES_MAX: f64 = 100.0;

/// Steps of a replay in an observed interval.
const STEPS: usize = 4;

/// Less of a phase than this part is what rounding leaves.
const LEFT_MIN: f64 = 1e-9;

/// Seconds that a static division adds to the run; `None` if it would not end.
pub fn added_seconds(walls_ns: &[u64], stages: &[Stage], processors: &Processors) -> Option<f64> {
    let replay = Replay::of(walls_ns, stages, processors);
    let (shared, divided) = (replay.seconds(false)?, replay.seconds(true)?);
    Some((divided - shared).max(0.0))
}

struct Replay<'a> {
    walls_ns: &'a [u64],
    stages: &'a [Stage],
    speeds: Vec<Vec<Speed>>,
    processors: &'a Processors,
    phases: Vec<Range<usize>>,
}

impl<'a> Replay<'a> {
    fn of(walls_ns: &'a [u64], stages: &'a [Stage], processors: &'a Processors) -> Replay<'a> {
        let phases = phases(walls_ns.len(), stages);
        let speeds = stages.iter().map(|stage| Speed::of_stage(walls_ns, stage, &phases));
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
                clock.advance(pipeline.advance(Moment { interval, lasts_ns, processors }));
            }
        }
        Some(clock.now / 1e9)
    }

    /// A phase in which nobody was seen at work, but something was computed.
    fn compute(&self, clock: &mut Clock, computed: f64, end: f64) {
        let mut left = computed;
        while left > LEFT_MIN * computed && clock.now < end {
            let there = self.available(clock.interval);
            let lasts = clock.left().min(left / there);
            left -= there * lasts;
            clock.advance(lasts);
        }
    }

    /// Processors that are there for the flow in an interval; after the observed ones, the mean.
    fn available(&self, interval: usize) -> f64 {
        let Processors { available, used_ns } = self.processors;
        let mean = || available.iter().sum::<f64>() / available.len().max(1) as f64;
        let there = available.get(interval).copied().unwrap_or_else(mean);
        // What was used was there.
        let used = used_ns.get(interval).zip(self.walls_ns.get(interval));
        there.max(used.map_or(0.0, |(used, wall)| *used as f64 / (*wall).max(1) as f64))
    }
}

/// Where a replay is: after the observed intervals come others, as long as the last ones.
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
    use crate::ideal::{Feed, Step};
    use alloc::vec;

    const SECOND: u64 = 1_000_000_000;
    const TENTH: u64 = SECOND / 10;

    /// Members that are always busy, at these speeds in each tenth of a second.
    fn busy(speeds: &[Vec<f64>], dealers: usize) -> Stage {
        let step = |speed: &f64| Step {
            work_in: (speed * 1000.0) as u64,
            work_out: 0,
            busy_ns: TENTH,
            cpu_ns: 0,
        };
        let members = speeds.iter().map(|speeds| speeds.iter().map(step).collect());
        let dealers = Stage::equal_dealers(dealers);
        Stage { members: members.collect(), flows: true, dealers, feed: None }
    }

    fn idle(intervals: usize) -> Processors {
        Processors { used_ns: vec![0; intervals], available: vec![2.0; intervals] }
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
    fn equal_members_lose_nothing() {
        assert_eq!(added(&[vec![1.0; 100], vec![1.0; 100], vec![1.0; 100]], 1), 0.0);
    }

    #[test]
    fn a_member_that_slows_in_mid_run_keeps_its_last_speed() {
        let slow = [vec![1.0; 40], vec![0.25; 60]].concat();
        // 40 seconds' work of 3.25 members: a share is 8.75 seconds' work, 4 of it before the
        // change.
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
    fn members_that_are_slow_in_turn_hold_up_a_common_dealer_each_time() {
        let one = [vec![0.2; 50], vec![1.0; 50]].concat();
        let two = [vec![1.0; 50], vec![0.2; 50]].concat();
        // All advance at a fifth all the time; apart, each still loses what it lost.
        close(added(&[one.clone(), two.clone()], 1), 30.0 - 10.0);
        close(added(&[one, two], 2), 0.0);
    }

    #[test]
    fn a_member_with_two_of_three_dealers_has_two_thirds_of_the_work() {
        let mut stage = busy(&[vec![1.0; 100], vec![1.0; 100]], 3);
        assert_eq!(stage.static_parts(), [2.0 / 3.0, 1.0 / 3.0]);
        let walls = vec![TENTH; 100];
        close(
            added_seconds(&walls, &[stage.clone()], &idle(100)).unwrap(),
            20.0 * 2.0 / 3.0 - 10.0,
        );
        // Unless that dealer has less to give.
        stage.dealers = vec![0.25, 0.5, 0.25];
        close(added_seconds(&walls, &[stage], &idle(100)).unwrap(), 0.0);
    }

    #[test]
    fn a_pulse_is_repeated_after_the_end() {
        let pulses = (0..120).map(|at| if at % 40 < 10 { 0.1 } else { 1.0 }).collect();
        // A share is 10.65 seconds' work, of which 9.3 are done after 12 s; then comes another
        // pulse.
        close(added(&[vec![1.0; 120], pulses], 1), 1.0 + 1.25);
    }

    #[test]
    fn processors_that_are_all_busy_hide_a_slow_member() {
        // Eight members on two processors, one of which needs a ninth of a processor at most.
        let mut speeds = vec![vec![1.0; 100]; 8];
        speeds[3] = vec![0.3; 100];
        let mut stage = busy(&speeds, 1);
        // Each is busy, with a processor, for a quarter of its time.
        stage.members.iter_mut().flatten().for_each(|step| {
            step.busy_ns /= 4;
            step.work_in /= 4;
        });
        let processors = Processors { used_ns: vec![2 * TENTH; 100], available: vec![2.0; 100] };
        let added = added_seconds(&vec![TENTH; 100], &[stage], &processors).unwrap();
        close(added, 0.0);
    }

    #[test]
    fn a_dealer_takes_a_processor_from_one_of_its_members_and_the_other_waits() {
        let computing = |at: u64, work: u64| {
            let (work_in, busy_ns) = (work, TENTH * at / 10);
            vec![Step { work_in, work_out: 0, busy_ns, cpu_ns: busy_ns }; 100]
        };
        let source = Stage { members: vec![computing(2, 1800)], flows: true, ..Stage::default() };
        let consumers = Stage {
            members: vec![computing(9, 900), computing(9, 900)],
            flows: true,
            dealers: vec![1.0],
            feed: Some(Feed { from: 0, bytes_max: 1000.0 }),
        };
        let walls = vec![TENTH; 100];
        let of = |there: f64| {
            let (used_ns, available) = (vec![2 * TENTH; 100], vec![there; 100]);
            let stages = [source.clone(), consumers.clone()];
            added_seconds(&walls, &stages, &Processors { used_ns, available }).unwrap()
        };
        // Each consumer computes 9 s, and 2 s are taken from one of them; shared, from each one.
        close(of(2.0), 1.0);
        close(of(3.0), 0.0);
    }

    #[test]
    fn a_member_of_which_little_was_seen_is_not_slow() {
        let mut stage = busy(&[vec![1.0; 100], vec![0.0; 100]], 1);
        stage.members[1].iter_mut().for_each(|step| step.busy_ns = 0);
        stage.members[1][99] = Step { work_in: 1, work_out: 0, busy_ns: SECOND / 4, cpu_ns: 0 };
        let added = added_seconds(&vec![TENTH; 100], &[stage], &idle(100));
        assert_eq!(added, Some(0.0));
    }
}
