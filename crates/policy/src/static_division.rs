//! What a flow would have cost with its work divided statically, computed from the speeds that its
//! components showed over time.
//!
//! The run is replayed twice as a fluid, with each component's observed speed at each time: once
//! as it was, where the members of a stage share their work, and once with the work dealt in
//! advance. The difference is what static division would have added to the run; what both have in
//! common (starting, ending, filling queues) cancels out. In a static division the dealer of a
//! stage (its producer, or the plan of a source) gives each member of its group the same share of
//! what it has itself, and its queues are bounded, so the members of a group advance at the pace
//! of the slowest. Members of different groups are independent. Processors are shared by all:
//! where more is asked of them than there is, what members compute takes longer for all by the
//! same factor, and what they wait does not. Members that one dealer serves begin to compute at
//! the same time, when the slowest takes a batch, so they share processors then, however much of
//! the round they wait. After the end of the observed run, a component keeps its last speed; one
//! that was slowed several times repeats what was seen of it since it was first slowed.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::change_points::{Sample, Segment, segments};
use crate::ideal::{Processors, Stage, Step, phases};

/// Busy time of a member, as a part of the busiest member's and of the whole time, below which
/// too little was seen of it to know its speed.
const KNOWN_PART_OF_BUSIEST: u64 = 20;
const KNOWN_PART_OF_WALL: u64 = 100;

/// Speeds that differ by this part of the highest may be those of the same state.
const LIKE_MAX: f64 = 0.3;

/// Less of a stage's work than this part is what rounding leaves.
const LEFT_MIN: f64 = 1e-9;

/// Steps in which the share of a processor is found that uses all processors.
const HALVINGS: usize = 20;

/// A replay that has taken so many times the observed time is given up: a member stands still.
const REPLAY_TIMES_MAX: f64 = 100.0;

/// The speed of a component over time; 1 is the mean of its stage while that did the same work.
#[derive(Clone, Debug, Default)]
pub struct Speed {
    segments: Vec<Segment>,
    intervals: usize,
}

impl Speed {
    /// The speeds of the members of a stage. One of which too little was seen to know its speed has
    /// the best of the others'.
    pub fn of_stage(walls_ns: &[u64], stage: &Stage, phases: &[Range<usize>]) -> Vec<Speed> {
        let rates: Vec<f64> = phases.iter().map(|phase| rate(stage, phase)).collect();
        let busy = |steps: &[Step]| steps.iter().map(|step| step.busy_ns).sum::<u64>();
        let busiest = stage.members.iter().map(|steps| busy(steps)).max().unwrap_or(0);
        let wall: u64 = walls_ns.iter().sum();
        let least = (busiest / KNOWN_PART_OF_BUSIEST).max(wall / KNOWN_PART_OF_WALL);
        let of_member = |steps: &Vec<Step>| {
            let all = phases.iter().zip(&rates).flat_map(|(phase, rate)| {
                let expected = move |step: &Step| step.busy_ns as f64 * rate;
                let sample =
                    move |step| Sample { work: Step::work(step), expected: expected(step) };
                steps[phase.clone()].iter().map(sample)
            });
            let samples: Vec<Sample> = if busy(steps) < least { Vec::new() } else { all.collect() };
            Speed { segments: segments(&samples), intervals: walls_ns.len() }
        };
        let mut speeds: Vec<Speed> = stage.members.iter().map(of_member).collect();
        let best = speeds.iter().filter_map(Speed::mean).fold(0.0, f64::max);
        let unknown = if best > 0.0 { best } else { 1.0 };
        for speed in speeds.iter_mut().filter(|speed| speed.segments.is_empty()) {
            let intervals = 0..walls_ns.len();
            speed.segments.push(Segment { intervals, speed: unknown, expected: 0.0 });
        }
        speeds
    }

    /// The mean over all segments; `None` without evidence.
    fn mean(&self) -> Option<f64> {
        let expected: f64 = self.segments.iter().map(|one| one.expected).sum();
        let work: f64 = self.segments.iter().map(|one| one.speed * one.expected).sum();
        (expected > 0.0).then(|| work / expected)
    }

    /// The segments of constant speed.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The speed in an interval, which may lie after the observed ones.
    pub fn at(&self, interval: usize) -> f64 {
        let interval = if interval < self.intervals { interval } else { self.repeated(interval) };
        let found = self.segments.iter().find(|segment| segment.intervals.contains(&interval));
        found.map_or(1.0, |segment| segment.speed)
    }

    /// The observed interval that an interval after the end is like.
    fn repeated(&self, interval: usize) -> usize {
        // Whole cycles of one speed and another, from the first change on.
        let changes = self.segments.len().saturating_sub(1);
        let cycles = changes.saturating_sub(1) / 2;
        let most = self.segments.iter().map(|one| one.speed).fold(0.0, f64::max);
        let mut pairs = self.segments.iter().zip(self.segments.iter().skip(2));
        let is_like = |(a, b): (&Segment, &Segment)| {
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

/// Work per busy nanosecond of the members of a stage together, in a phase.
fn rate(stage: &Stage, phase: &Range<usize>) -> f64 {
    let steps = || stage.members.iter().flat_map(|steps| &steps[phase.clone()]);
    let busy: u64 = steps().map(|step| step.busy_ns).sum();
    steps().map(Step::work).sum::<f64>() / busy.max(1) as f64
}

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

/// A stage in one phase: what is left to do, by group.
struct Load<'a> {
    /// Work per nanosecond at speed 1, and nanoseconds computed for each unit of it.
    rate: f64,
    computes: f64,
    speeds: &'a [Speed],
    work: f64,
    /// Of each group: its members, and the work that is left to them.
    groups: Vec<(Vec<usize>, f64)>,
    lockstep: bool,
}

impl<'a> Replay<'a> {
    fn of(walls_ns: &'a [u64], stages: &'a [Stage], processors: &'a Processors) -> Replay<'a> {
        let phases = phases(walls_ns.len(), stages);
        let speeds = stages.iter().map(|stage| Speed::of_stage(walls_ns, stage, &phases));
        Replay { walls_ns, stages, speeds: speeds.collect(), processors, phases }
    }

    fn seconds(&self, divided: bool) -> Option<f64> {
        let observed: f64 = self.walls_ns.iter().map(|wall| *wall as f64).sum();
        let mut clock = Clock { walls_ns: self.walls_ns, interval: 0, into: 0.0, now: 0.0 };
        for phase in &self.phases {
            let mut loads: Vec<Load> = self
                .stages
                .iter()
                .zip(&self.speeds)
                .filter_map(|(stage, speeds)| Load::of(stage, speeds, phase, divided))
                .collect();
            let computed: u64 = self.processors.used_ns[phase.clone()].iter().sum();
            let mut left = 1.0;
            while left > LEFT_MIN && !(loads.is_empty() && computed == 0) {
                if clock.now > REPLAY_TIMES_MAX * observed {
                    return None;
                }
                let there = self.available(clock.interval);
                let (pace, share) = self.pace(&loads, computed as f64, clock.interval, there);
                let lasts = clock.left().min(if pace > 0.0 { left / pace } else { f64::INFINITY });
                for load in &mut loads {
                    let share = share.min(load.share_at_once(there));
                    load.advance(pace * lasts, (clock.interval, share), lasts);
                }
                clock.advance(lasts);
                left = match loads.iter().map(Load::left).reduce(f64::max) {
                    Some(most) => most,
                    None => left - pace * lasts,
                };
            }
        }
        Some(clock.now / 1e9)
    }

    /// The part of the phase that is done per nanosecond, where stages of a pipeline wait for the
    /// slowest; and the share of a processor that each computing member then has.
    fn pace(&self, loads: &[Load], computed: f64, interval: usize, there: f64) -> (f64, f64) {
        let at_share = |share: f64| {
            let at = |load: &Load| (interval, share.min(load.share_at_once(there)));
            loads.iter().map(|load| load.pace(at(load))).fold(f64::INFINITY, f64::min)
        };
        let most = if computed > 0.0 { there / computed } else { f64::INFINITY };
        if at_share(1.0) <= most {
            return (at_share(1.0), 1.0);
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if at_share(middle) > most { high = middle } else { low = middle }
        }
        (most, high)
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

impl<'a> Load<'a> {
    fn of(
        stage: &Stage,
        speeds: &'a [Speed],
        phase: &Range<usize>,
        divided: bool,
    ) -> Option<Load<'a>> {
        let members = stage.members.len();
        let steps = stage.members.iter().flat_map(|steps| &steps[phase.clone()]);
        let mut sum = Step::default();
        steps.for_each(|step| sum.add(step));
        let (work, rate) = (sum.work(), rate(stage, phase));
        // A stage that was never seen busy does not hold anything up.
        if work <= 0.0 || !rate.is_finite() || rate <= 0.0 || sum.busy_ns == 0 {
            return None;
        }
        let lockstep = divided && !stage.dealers.is_empty();
        let mut groups = vec![((0..members).collect(), 1.0)];
        if lockstep {
            groups = stage.groups();
        }
        groups.iter_mut().for_each(|(_, part)| *part *= work);
        let computes = sum.cpu_ns as f64 / work;
        Some(Load { rate, computes, speeds, work, groups, lockstep })
    }

    /// Work per nanosecond of a group, whose members have a share of a processor each.
    fn rate_of(&self, members: &[usize], (interval, share): (usize, f64)) -> f64 {
        let rate = |member: &usize| {
            let alone = self.rate * self.speeds[*member].at(interval);
            // What it computes takes longer; for how long it stands still does not change.
            alone / (1.0 + alone * self.computes * (1.0 / share - 1.0))
        };
        let rates = members.iter().map(rate);
        match self.lockstep {
            true => rates.fold(f64::INFINITY, f64::min) * members.len() as f64,
            false => rates.sum(),
        }
    }

    /// The share of a processor that each member has while those of a dealer compute at once.
    fn share_at_once(&self, processors: f64) -> f64 {
        let is_left = |(_, left): &&(Vec<usize>, f64)| *left > LEFT_MIN * self.work;
        let active = self.groups.iter().filter(is_left);
        let (members, most) = active.fold((0, 0), |(sum, most), (members, _)| {
            (sum + members.len(), most.max(members.len()))
        });
        if !self.lockstep || most < 2 {
            return 1.0;
        }
        let computing = members as f64 * (self.computes * self.rate).min(1.0);
        if computing > processors { processors / computing } else { 1.0 }
    }

    /// The part of the work that is left.
    fn left(&self) -> f64 {
        self.groups.iter().map(|(_, left)| left).sum::<f64>() / self.work
    }

    /// The part of the work that it can do per nanosecond.
    fn pace(&self, at: (usize, f64)) -> f64 {
        let is_left = |left: f64| left > LEFT_MIN * self.work;
        if !self.groups.iter().any(|(_, left)| is_left(*left)) {
            return f64::INFINITY;
        }
        let busy = self.groups.iter().filter(|(_, left)| is_left(*left));
        busy.map(|(members, _)| self.rate_of(members, at)).sum::<f64>() / self.work
    }

    /// Divides a part of the work among the groups: each does what it can, and those that can do
    /// more than the others share the rest equally, as threads share processors.
    fn advance(&mut self, part: f64, at: (usize, f64), lasts_ns: f64) {
        let mut done = part * self.work;
        let able =
            |(members, left): &(Vec<usize>, f64)| left.min(self.rate_of(members, at) * lasts_ns);
        let mut can: Vec<(usize, f64)> = self.groups.iter().map(able).enumerate().collect();
        can.sort_by(|a, b| a.1.total_cmp(&b.1));
        let groups = can.len();
        for (at, (group, can)) in can.into_iter().enumerate() {
            let part = can.min(done / (groups - at) as f64);
            self.groups[group].1 -= part;
            done -= part;
        }
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
        Stage { members: members.collect(), flows: true, dealers: Stage::equal_dealers(dealers) }
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
    fn a_member_of_which_little_was_seen_is_not_slow() {
        let mut stage = busy(&[vec![1.0; 100], vec![0.0; 100]], 1);
        stage.members[1].iter_mut().for_each(|step| step.busy_ns = 0);
        stage.members[1][99] = Step { work_in: 1, work_out: 0, busy_ns: SECOND / 4, cpu_ns: 0 };
        let added = added_seconds(&vec![TENTH; 100], &[stage], &idle(100));
        assert_eq!(added, Some(0.0));
    }
}
