//! Work on its way through the stages of a flow, as a fluid: how far every stage comes in a moment,
//! where some wait for input and others for room.
//!
//! Between two stages are bounded queues. If work is shared there is one, from which all members of
//! the consuming stage take; what a slow member does not take, others do. If it is divided in
//! advance, every member of the producing stage is a dealer with a queue of its own, and gives each
//! member of its group the same, so these advance at the pace of the slowest. A queue that is full
//! stops its dealer, and with it all to whom that one's own dealer gives: a slow member takes work
//! from others that have nothing to do with it, one stage before and beside it. When it is fast
//! again, or another becomes slow, that work is missing; so stages cannot be looked at one by one.
//!
//! Where it is not known how one stage feeds another (a join, partitions, a disk), they advance at
//! the same pace, measured in parts of their work.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::ideal::{Feed, Stage, Step};
use crate::speed::{Speed, rate};

/// Less of a stage's work than this part is what rounding leaves.
const LEFT_MIN: f64 = 1e-7;

/// Steps in which the share of a processor is found that uses all processors.
const HALVINGS: usize = 20;

/// A queue holds what its consumers take in so many steps, at least: else steps would be what
/// slows them.
const ROOM_STEPS: f64 = 2.0;

/// The stages of one phase, and where their work is.
pub(crate) struct Pipeline<'a> {
    stations: Vec<Station<'a>>,
    /// Nanoseconds computed in all, and in the stages.
    computed: f64,
    state: State,
}

/// A stage in one phase.
struct Station<'a> {
    /// Work per nanosecond at speed 1, and nanoseconds computed for each unit of it.
    rate: f64,
    computes: f64,
    speeds: &'a [Speed],
    work: f64,
    /// Members that take from the same queues. A queue's group is its number modulo the groups.
    groups: Vec<Vec<usize>>,
    /// Whether members of a group advance at the pace of the slowest.
    lockstep: bool,
    /// The station that fills its queues, and those whose queues it fills.
    feed: Option<usize>,
    consumers: Vec<usize>,
    /// What a queue holds, in units of its consumer's work.
    room: f64,
}

/// Of each station: what waits in its queues, and what is done.
#[derive(Clone, Debug, Default)]
struct State {
    waiting: Vec<Vec<f64>>,
    done: Vec<f64>,
}

/// A step: the observed interval that it is like, and how long it lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub interval: usize,
    pub lasts_ns: f64,
    /// Processors that are there.
    pub processors: f64,
}

/// What members have of a step: a share of a processor, and a part of the time.
#[derive(Clone, Copy)]
struct Had {
    share: f64,
    part: f64,
}

/// What a step comes to.
struct Outcome {
    state: State,
    /// Nanoseconds computed.
    used: f64,
    /// The part of the time that was needed by who needed most.
    took: f64,
}

impl<'a> Pipeline<'a> {
    /// The stages in a phase in which so many nanoseconds were computed. `step_ns` is how long a
    /// step is at most.
    pub fn of(
        stages: &[Stage],
        speeds: &'a [Vec<Speed>],
        (phase, computed): (&Range<usize>, f64),
        divided: bool,
        step_ns: f64,
    ) -> Pipeline<'a> {
        let mut at = vec![None; stages.len()];
        let mut made = Pipeline { stations: vec![], computed, state: State::default() };
        for (number, (stage, speeds)) in stages.iter().zip(speeds).enumerate() {
            let Some(mut station) = Station::of(stage, speeds, phase, divided) else { continue };
            let fed_by = |feed: &Feed| at[feed.from].map(|from: usize| (from, feed.bytes_max));
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

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        (0..self.stations.len()).all(|at| self.is_through(at, &self.state))
    }

    /// Whether there is nothing that could be done.
    pub fn is_empty(&self) -> bool {
        self.stations.is_empty()
    }

    /// Lets time pass; returns how much of it was needed, in nanoseconds.
    pub fn advance(&mut self, moment: Moment) -> f64 {
        let there = moment.processors * moment.lasts_ns;
        let fits = |had: Had| self.outcome(moment, had).used <= there;
        let mut had = Had { share: 1.0, part: 1.0 };
        if !fits(had) {
            had.share = largest(|share| fits(Had { share, ..had }));
            // An instance whose computing was not counted waits for a processor all the same.
            if !fits(had) {
                had.part = largest(|part| fits(Had { part, ..had }));
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

    fn outcome(&self, moment: Moment, had: Had) -> Outcome {
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
        // What others compute for the flow, they compute as it advances.
        let used = match in_stages > 0.0 {
            true => used * (self.computed / in_stages).max(1.0),
            false => most * self.computed,
        };
        Outcome { state, used, took }
    }

    /// The part of their work that all stations can do of which it is not known who feeds them.
    fn gate(&self, state: &State, moment: Moment, had: Had) -> f64 {
        let is_head =
            |at: &usize| self.stations[*at].feed.is_none() && !self.is_through(*at, state);
        let part = |at: usize| {
            let able = self.able(at, state, &self.rates(at, state, moment, had));
            able.iter().sum::<f64>() / self.stations[at].work
        };
        (0..self.stations.len()).filter(is_head).map(part).fold(f64::INFINITY, f64::min)
    }

    /// What each member could do if it had enough input and room.
    fn rates(&self, at: usize, state: &State, moment: Moment, had: Had) -> Vec<f64> {
        let station = &self.stations[at];
        let share = had.share.min(self.share_at_once(at, state, moment.processors));
        let rate = |speed: &Speed| {
            let alone = station.rate * speed.at(moment.interval);
            // What it computes takes longer; for how long it stands still does not change.
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

    /// What each member does of what it could, with the input and the room there is.
    fn able(&self, at: usize, state: &State, can: &[f64]) -> Vec<f64> {
        let station = &self.stations[at];
        let mut able = can.to_vec();
        for consumer in &station.consumers {
            let unit = station.work / self.stations[*consumer].work;
            let queues = &state.waiting[*consumer];
            let room = |queue: &f64| (self.stations[*consumer].room - queue).max(0.0) * unit;
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

    /// What members have done is there for those whom they feed.
    fn give(&self, at: usize, does: &[f64], state: &mut State) {
        for consumer in &self.stations[at].consumers {
            let unit = self.stations[*consumer].work / self.stations[at].work;
            let queues = &mut state.waiting[*consumer];
            let count = queues.len();
            does.iter()
                .enumerate()
                .for_each(|(member, does)| queues[member % count] += does * unit);
        }
    }

    /// The share of a processor that each member has while those of a dealer compute at once: they
    /// begin when the slowest takes a batch, however much of the round they wait. If no processor
    /// is left for the dealer itself, it takes one from some member, and all others of the group
    /// wait for that one: a round is too short for them to take turns.
    fn share_at_once(&self, at: usize, state: &State, processors: f64) -> f64 {
        let station = &self.stations[at];
        let comes = station.feed.is_some_and(|from| !self.is_through(from, state));
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

    /// The part of its time in which a dealer of a stage computes while that does all it can.
    fn dealing(&self, at: usize) -> f64 {
        let station = &self.stations[at];
        let Some(feed) = station.feed.map(|from| &self.stations[from]) else { return 0.0 };
        let lasts = station.work / (station.rate * station.speeds.len() as f64);
        let each = feed.work * feed.computes / station.groups.len() as f64;
        (each / lasts).min(1.0)
    }

    fn is_through(&self, at: usize, state: &State) -> bool {
        state.done[at] >= (1.0 - LEFT_MIN) * self.stations[at].work
    }
}

impl<'a> Station<'a> {
    fn of(
        stage: &Stage,
        speeds: &'a [Speed],
        phase: &Range<usize>,
        divided: bool,
    ) -> Option<Station<'a>> {
        let mut sum = Step::default();
        steps(stage, phase).for_each(|step| sum.add(step));
        let (work, rate) = (sum.work(), rate(stage, phase));
        // A stage that was never seen busy does not hold anything up.
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

    /// Lets members do so much together: each does what it can, and groups that can do more than
    /// others share the rest equally, as threads share processors.
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

/// The largest share of a whole that fits, or next to none.
fn largest(fits: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if fits(middle) { low = middle } else { high = middle }
    }
    if low > 0.0 { low } else { high }
}

/// Takes from the queues of a group, from each the same as long as it has something.
fn take(queues: &mut [f64], (group, groups): (usize, usize), mut amount: f64) {
    let mut own: Vec<usize> = (group..queues.len()).step_by(groups).collect();
    own.sort_by(|a, b| queues[*a].total_cmp(&queues[*b]));
    for (at, queue) in own.iter().enumerate() {
        let taken = queues[*queue].min(amount / (own.len() - at) as f64);
        queues[*queue] -= taken;
        amount -= taken;
    }
}

fn steps<'a>(stage: &'a Stage, phase: &Range<usize>) -> impl Iterator<Item = &'a Step> {
    stage.members.iter().flat_map(move |steps| &steps[phase.clone()])
}
