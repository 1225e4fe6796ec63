//! A fluid model of work that moves through the stages of a flow, with starvation and backpressure.
//!
//! Bounded queues connect two stages. With shared work there is one queue, and any free member
//! takes the next work. With static partitioning, every member of the producing stage is a dealer
//! with its own queue, which assigns equal work to each member of its group, so the group advances
//! at the pace of the slowest. A full queue blocks its dealer. Then the dealer's own input queue
//! fills and blocks the dealer before it, which starves the other members of that group: a slow
//! member delays unrelated ones (head-of-line blocking). The lost time is not recovered later, so
//! stages cannot be modelled one by one.
//!
//! Stages whose input stages are not known (a join, partitions, a disk) advance at the same pace,
//! measured as fractions of their work.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::ideal::{IntervalCounters, StageFeed, StageHistory};
use crate::speed::{SpeedProfile, rate};

/// The fraction of a stage's work below which the rest is a rounding error.
const LEFT_MIN: f64 = 1e-7;

/// Bisection steps to find the processor share that uses all processors.
const HALVINGS: usize = 20;

/// A queue holds at least the work of this many steps of its consumers, so that the step size does
/// not limit throughput.
const ROOM_STEPS: f64 = 2.0;

/// The stages of one phase, and the state of their queues.
pub(crate) struct Pipeline<'a> {
    stations: Vec<Station<'a>>,
    /// Processor time of the whole phase, in nanoseconds.
    computed: f64,
    state: StationStates,
}

/// A stage in one phase.
struct Station<'a> {
    /// Work per nanosecond at speed 1.
    rate: f64,
    /// Processor time per unit of work, in nanoseconds.
    computes: f64,
    speeds: &'a [SpeedProfile],
    work: f64,
    /// Members that share queues; a queue's group is its number modulo the groups.
    groups: Vec<Vec<usize>>,
    /// Whether members of a group advance at the pace of the slowest.
    lockstep: bool,
    /// The station that fills its queues.
    feed: Option<usize>,
    /// The stations whose queues it fills.
    consumers: Vec<usize>,
    /// The capacity of a queue, in units of its consumer's work.
    room: f64,
}

/// The state of all stations.
#[derive(Clone, Debug, Default)]
struct StationStates {
    /// Queued work, by station and queue.
    waiting: Vec<Vec<f64>>,
    /// Finished work, by station.
    done: Vec<f64>,
}

/// A step of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelStep {
    /// The observed interval whose speeds apply.
    pub interval: usize,
    pub lasts_ns: f64,
    /// Processors available to the flow during the step.
    pub processors: f64,
}

/// The resources of each member in a step.
#[derive(Clone, Copy)]
struct ProcessorShare {
    /// The share of a processor while it computes.
    share: f64,
    /// The fraction of the step in which it runs.
    part: f64,
}

/// The result of a step.
struct StepResult {
    state: StationStates,
    /// Processor time used, in nanoseconds.
    used: f64,
    /// The fraction of the step that the busiest group needed.
    took: f64,
}

impl<'a> Pipeline<'a> {
    /// Builds the model of a phase with `computed` nanoseconds of processor time. `step_ns` is the
    /// longest step.
    pub fn of(
        stages: &[StageHistory],
        speeds: &'a [Vec<SpeedProfile>],
        (phase, computed): (&Range<usize>, f64),
        divided: bool,
        step_ns: f64,
    ) -> Pipeline<'a> {
        let mut at = vec![None; stages.len()];
        let mut made = Pipeline { stations: vec![], computed, state: StationStates::default() };
        for (number, (stage, speeds)) in stages.iter().zip(speeds).enumerate() {
            let Some(mut station) = Station::of(stage, speeds, phase, divided) else { continue };
            let fed_by = |feed: &StageFeed| at[feed.from].map(|from: usize| (from, feed.bytes_max));
            let feed = stage.feed.as_ref().and_then(fed_by);
            let producers = feed.map_or(0, |(from, _)| made.stations[from].speeds.len());
            let taken_in: u64 = steps(stage, phase).map(|step| step.work_in).sum();
            let waiting = match feed {
                Some((from, bytes_max)) if taken_in > 0 => {
                    let queues = if divided { producers } else { 1 };
                    let bytes = bytes_max * (producers / queues) as f64;
                    let members = station.groups.iter().map(Vec::len).max().unwrap_or(1);
                    let least = ROOM_STEPS * station.rate * members as f64 * step_ns;
                    station.room = (bytes / taken_in as f64 * station.work).max(least);
                    station.feed = Some(from);
                    let own = made.stations.len();
                    made.stations[from].consumers.push(own);
                    vec![0.0; queues]
                }
                _ if divided && !stage.dealers.is_empty() => {
                    stage.groups().iter().map(|(_, part)| part * station.work).collect()
                }
                _ => vec![station.work],
            };
            at[number] = Some(made.stations.len());
            made.stations.push(station);
            made.state.waiting.push(waiting);
            made.state.done.push(0.0);
        }
        made
    }

    /// Whether all stations have finished their work.
    pub fn is_done(&self) -> bool {
        (0..self.stations.len()).all(|at| self.is_finished(at, &self.state))
    }

    /// Whether there are no stations.
    pub fn is_empty(&self) -> bool {
        self.stations.is_empty()
    }

    /// Advances the model by a step; returns how much of it was needed, in nanoseconds.
    pub fn advance(&mut self, moment: ModelStep) -> f64 {
        let there = moment.processors * moment.lasts_ns;
        let fits = |had: ProcessorShare| self.outcome(moment, had).used <= there;
        let mut had = ProcessorShare { share: 1.0, part: 1.0 };
        if !fits(had) {
            had.share = largest(|share| fits(ProcessorShare { share, ..had }));
            // An instance whose processor time is unknown waits for a processor all the same.
            if !fits(had) {
                had.part = largest(|part| fits(ProcessorShare { part, ..had }));
            }
        }
        let outcome = self.outcome(moment, had);
        self.state = outcome.state;
        if !self.is_done() {
            return moment.lasts_ns;
        }
        let computes = if there > 0.0 { outcome.used / there } else { 0.0 };
        outcome.took.max(computes).min(1.0) * moment.lasts_ns
    }

    fn outcome(&self, moment: ModelStep, had: ProcessorShare) -> StepResult {
        let mut state = self.state.clone();
        let gate = self.gate(&state, moment, had);
        let (mut used, mut most, mut took) = (0.0, 0.0_f64, 0.0_f64);
        for (at, station) in self.stations.iter().enumerate() {
            let can = self.rates(at, &state, moment, had);
            let mut does = self.able(at, &state, &can);
            if station.feed.is_none() {
                station.limit(&mut does, gate * station.work);
            }
            for (group, members) in station.groups.iter().enumerate() {
                let sum = |all: &[f64]| members.iter().map(|one| all[*one]).sum::<f64>();
                let (can, does) = (sum(&can), sum(&does));
                took = took.max(if can > 0.0 { had.part * does / can } else { 0.0 });
                take(&mut state.waiting[at], (group, station.groups.len()), does);
            }
            let part = does.iter().sum::<f64>() / station.work;
            state.done[at] += part * station.work;
            (used, most) = (used + part * station.work * station.computes, most.max(part));
            self.give(at, &does, &mut state);
        }
        let in_stages: f64 = self.stations.iter().map(|one| one.work * one.computes).sum();
        // Processor time outside the stages is used in proportion to progress.
        let used = match in_stages > 0.0 {
            true => used * (self.computed / in_stages).max(1.0),
            false => most * self.computed,
        };
        StepResult { state, used, took }
    }

    /// The fraction of their work that all stations with unknown feeds can do in a step.
    fn gate(&self, state: &StationStates, moment: ModelStep, had: ProcessorShare) -> f64 {
        let is_head =
            |at: &usize| self.stations[*at].feed.is_none() && !self.is_finished(*at, state);
        let part = |at: usize| {
            let able = self.able(at, state, &self.rates(at, state, moment, had));
            able.iter().sum::<f64>() / self.stations[at].work
        };
        (0..self.stations.len()).filter(is_head).map(part).fold(f64::INFINITY, f64::min)
    }

    /// The work of each member in a step with unlimited input and room.
    fn rates(
        &self,
        at: usize,
        state: &StationStates,
        moment: ModelStep,
        had: ProcessorShare,
    ) -> Vec<f64> {
        let station = &self.stations[at];
        let share = had.share.min(self.share_at_once(at, state, moment.processors));
        let rate = |speed: &SpeedProfile| {
            let alone = station.rate * speed.at(moment.interval);
            // Computing takes longer with a smaller share; waiting does not.
            alone / (1.0 + alone * station.computes * (1.0 / share - 1.0))
        };
        let mut rates: Vec<f64> = station.speeds.iter().map(rate).collect();
        rates.iter_mut().for_each(|rate| *rate *= moment.lasts_ns * had.part);
        for members in station.groups.iter().filter(|_| station.lockstep) {
            let least = members.iter().map(|one| rates[*one]).fold(f64::INFINITY, f64::min);
            members.iter().for_each(|one| rates[*one] = least);
        }
        rates
    }

    /// The work of each member in a step, limited by input and room.
    fn able(&self, at: usize, state: &StationStates, can: &[f64]) -> Vec<f64> {
        let station = &self.stations[at];
        let mut able = can.to_vec();
        for consumer in &station.consumers {
            let ratio = station.work / self.stations[*consumer].work;
            let queues = &state.waiting[*consumer];
            let room = |queue: &f64| (self.stations[*consumer].room - queue).max(0.0) * ratio;
            match queues.len() == able.len() {
                true => able.iter_mut().zip(queues).for_each(|(able, queue)| {
                    *able = able.min(room(queue));
                }),
                false => station.limit(&mut able, queues.iter().map(room).sum()),
            }
        }
        for (group, members) in station.groups.iter().enumerate() {
            if station.lockstep {
                let least = members.iter().map(|one| able[*one]).fold(f64::INFINITY, f64::min);
                members.iter().for_each(|one| able[*one] = least);
            }
            let queues = state.waiting[at].iter().skip(group).step_by(station.groups.len());
            let (waiting, sum) = (queues.sum::<f64>(), members.iter().map(|one| able[*one]));
            let part = (waiting / sum.sum::<f64>().max(f64::MIN_POSITIVE)).min(1.0);
            members.iter().for_each(|one| able[*one] *= part);
        }
        able
    }

    /// Adds finished work to the queues of the consumers.
    fn give(&self, at: usize, does: &[f64], state: &mut StationStates) {
        for consumer in &self.stations[at].consumers {
            let ratio = self.stations[*consumer].work / self.stations[at].work;
            let queues = &mut state.waiting[*consumer];
            let count = queues.len();
            does.iter()
                .enumerate()
                .for_each(|(member, does)| queues[member % count] += does * ratio);
        }
    }

    /// The processor share of each member while all members of a group compute at once. A dealer
    /// serves its group in rounds, one batch per member; all begin when the slowest has taken its
    /// batch, even if they wait for the rest of the round. If no processor is left
    /// for the dealer, it takes one from some member, and the rest of the group waits for that
    /// member, since a round is too short for taking turns.
    fn share_at_once(&self, at: usize, state: &StationStates, processors: f64) -> f64 {
        let station = &self.stations[at];
        let comes = station.feed.is_some_and(|from| !self.is_finished(from, state));
        let is_active = |(group, _): &(usize, &Vec<usize>)| {
            let mut queues = state.waiting[at].iter().skip(*group).step_by(station.groups.len());
            comes || queues.any(|waiting| *waiting > LEFT_MIN * station.work)
        };
        let active = station.groups.iter().enumerate().filter(is_active);
        let (members, most) = active.fold((0, 0), |(sum, most), (_, members)| {
            (sum + members.len(), most.max(members.len()))
        });
        if !station.lockstep || most < 2 {
            return 1.0;
        }
        let computing = members as f64 * (station.computes * station.rate).min(1.0);
        let dealers = station.groups.len() as f64;
        let is_free = ((processors - computing) / dealers).clamp(0.0, 1.0);
        let deals = self.dealing(at) * (1.0 - is_free);
        1.0 / ((computing / processors).max(1.0) + deals)
    }

    /// The fraction of time in which a dealer of a stage computes while the stage is fully busy.
    fn dealing(&self, at: usize) -> f64 {
        let station = &self.stations[at];
        let Some(feed) = station.feed.map(|from| &self.stations[from]) else { return 0.0 };
        let lasts = station.work / (station.rate * station.speeds.len() as f64);
        let each = feed.work * feed.computes / station.groups.len() as f64;
        (each / lasts).min(1.0)
    }

    fn is_finished(&self, at: usize, state: &StationStates) -> bool {
        state.done[at] >= (1.0 - LEFT_MIN) * self.stations[at].work
    }
}

impl<'a> Station<'a> {
    fn of(
        stage: &StageHistory,
        speeds: &'a [SpeedProfile],
        phase: &Range<usize>,
        divided: bool,
    ) -> Option<Station<'a>> {
        let mut sum = IntervalCounters::default();
        steps(stage, phase).for_each(|step| sum.add(step));
        let (work, rate) = (sum.work(), rate(stage, phase));
        // A stage without measured busy time does not limit anything.
        if work <= 0.0 || !rate.is_finite() || rate <= 0.0 || sum.busy_ns == 0 {
            return None;
        }
        let lockstep = divided && !stage.dealers.is_empty();
        let groups = match lockstep {
            true => stage.groups().into_iter().map(|(members, _)| members).collect(),
            false => vec![(0..stage.members.len()).collect()],
        };
        let computes = sum.cpu_ns as f64 / work;
        let (consumers, room) = (vec![], f64::INFINITY);
        Some(Station {
            rate,
            computes,
            speeds,
            work,
            groups,
            lockstep,
            feed: None,
            consumers,
            room,
        })
    }

    /// Limits the total work of all members to `most`. Groups share it equally, and what a group
    /// cannot use goes to the others, as threads share processors.
    fn limit(&self, does: &mut [f64], most: f64) {
        let sum = |members: &Vec<usize>| members.iter().map(|one| does[*one]).sum::<f64>();
        let mut can: Vec<(usize, f64)> = self.groups.iter().map(sum).enumerate().collect();
        can.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (groups, mut left) = (can.len(), most);
        for (at, (group, can)) in can.into_iter().enumerate() {
            let own = can.min(left / (groups - at) as f64);
            left -= own;
            let part = if can > 0.0 { own / can } else { 0.0 };
            self.groups[group].iter().for_each(|one| does[*one] *= part);
        }
    }
}

/// The largest fraction that fits, found by bisection.
fn largest(fits: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if fits(middle) { low = middle } else { high = middle }
    }
    if low > 0.0 { low } else { high }
}

/// Takes work from the queues of a group, equally from each as long as it has any.
fn take(queues: &mut [f64], (group, groups): (usize, usize), mut amount: f64) {
    let mut own: Vec<usize> = (group..queues.len()).step_by(groups).collect();
    own.sort_by(|a, b| queues[*a].total_cmp(&queues[*b]));
    for (at, queue) in own.iter().enumerate() {
        let taken = queues[*queue].min(amount / (own.len() - at) as f64);
        queues[*queue] -= taken;
        amount -= taken;
    }
}

fn steps<'a>(
    stage: &'a StageHistory,
    phase: &Range<usize>,
) -> impl Iterator<Item = &'a IntervalCounters> {
    stage.members.iter().flat_map(move |steps| &steps[phase.clone()])
}
