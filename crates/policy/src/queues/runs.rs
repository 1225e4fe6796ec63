//! Scheduling of runs between processes: which consumer gets the next run of a stream.
//!
//! Runs are numbered without gaps and assigned in that order, since a sink that writes them in
//! order must not wait for a run without an owner. A run is assigned once it has begun and a
//! consumer is idle, so a slow consumer gets fewer (River 2.3.2, with the run as the unit).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::distributed::Peer;

/// How the producers of a queue broke its rules: runs are numbered without gaps, begun once and
/// ended.
///
/// ```
/// use euphrates_policy::runs::{Broken, RunScheduler};
///
/// let mut scheduler = RunScheduler::new(1);
/// scheduler.on_begun(1, 0);
/// assert_eq!(scheduler.broken(), None, "run 0 may still begin");
/// scheduler.on_ended();
/// assert_eq!(scheduler.broken(), Some(Broken::Gap(1)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// This run was begun, but a run before it never was.
    Gap(u64),
    /// This run was begun twice.
    Twice(u64),
    /// This run's producer ended within it.
    Cut(u64),
}

/// The scheduler of a queue's runs.
///
/// ```
/// use euphrates_policy::runs::{RunAssignment, RunScheduler};
///
/// let mut scheduler = RunScheduler::new(1);
/// scheduler.on_begun(0, 0);
/// scheduler.on_idle(3);
/// assert_eq!(scheduler.assign(|_, _| true), [RunAssignment { run: 0, from: 0, to: 3 }]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunScheduler {
    next: u64,
    /// The producers of begun runs that have not been assigned, by run.
    begun: BTreeMap<u64, Peer>,
    idle: VecDeque<Peer>,
    /// Runs whose producer is blocked or has ended them.
    full: BTreeSet<u64>,
    producing: u32,
    /// A run that was begun a second time.
    twice: Option<u64>,
}

/// The assignment of a run to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunAssignment {
    /// The number of the run, from 0.
    pub run: u64,
    /// The producer of the run.
    pub from: Peer,
    /// The consumer that owns the run from now on.
    pub to: Peer,
}

impl RunScheduler {
    /// The scheduler of a queue with `producers`.
    pub fn new(producers: u32) -> RunScheduler {
        RunScheduler { producing: producers, ..RunScheduler::default() }
    }

    /// A producer begins a run.
    pub fn on_begun(&mut self, run: u64, producer: Peer) {
        let is_first = run >= self.next && self.begun.insert(run, producer).is_none();
        if !is_first {
            self.twice.get_or_insert(run);
        }
    }

    /// A consumer is idle.
    pub fn on_idle(&mut self, consumer: Peer) {
        debug_assert!(!self.idle.contains(&consumer), "a consumer is idle once");
        self.idle.push_back(consumer);
    }

    /// A producer will begin no more runs.
    pub fn on_ended(&mut self) {
        self.producing -= 1;
    }

    /// A consumer has left.
    pub fn on_gone(&mut self, consumer: Peer) {
        self.idle.retain(|idle| *idle != consumer);
    }

    /// The producer of a run that has not been assigned is blocked on it, or has ended it.
    pub fn on_blocked_or_ended(&mut self, run: u64) {
        if self.begun.contains_key(&run) {
            self.full.insert(run);
        }
    }

    /// Assigns all runs that can be assigned now. A run goes to an idle neighbour of its producer,
    /// which saves the network; once the producer is blocked, it goes to any idle consumer.
    ///
    /// ```
    /// use euphrates_policy::runs::RunScheduler;
    ///
    /// let mut scheduler = RunScheduler::new(1);
    /// scheduler.on_begun(0, 0);
    /// scheduler.on_idle(3);
    /// assert!(scheduler.assign(|_, _| false).is_empty(), "no neighbour of the producer is idle");
    /// scheduler.on_blocked_or_ended(0);
    /// assert_eq!(scheduler.assign(|_, _| false)[0].to, 3, "the producer is blocked");
    /// ```
    pub fn assign(&mut self, is_neighbour: impl Fn(Peer, Peer) -> bool) -> Vec<RunAssignment> {
        let mut assigned = Vec::new();
        while let Some(&from) = self.begun.get(&self.next) {
            let near = self.idle.iter().position(|idle| is_neighbour(from, *idle));
            let any = self.full.contains(&self.next).then_some(0);
            let Some(to) = near.or(any).and_then(|at| self.idle.remove(at)) else { break };
            assigned.push(RunAssignment { run: self.next, from, to });
            self.begun.remove(&self.next);
            self.full.remove(&self.next);
            self.next += 1;
        }
        assigned
    }

    /// Whether no run will be assigned any more, because producers have ended or broken the rules.
    pub fn is_over(&self) -> bool {
        self.twice.is_some() || (self.producing == 0 && !self.begun.contains_key(&self.next))
    }

    /// The rule that producers have broken, once `is_over`.
    pub fn broken(&self) -> Option<Broken> {
        let gap = || self.begun.keys().next().copied().filter(|_| self.is_over());
        self.twice.map(Broken::Twice).or_else(|| gap().map(Broken::Gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::dice::Dice;

    #[test]
    fn every_run_is_assigned_once_in_order_to_an_idle_consumer() {
        for seed in 0..2000 {
            let mut dice = Dice(seed);
            let (producers, consumers) = (1 + dice.below(5), 1 + dice.below(5));
            let mut scheduler = RunScheduler::new(producers);
            let runs = u64::from(dice.below(40));
            let mut begun: Vec<u64> = (0..runs).collect();
            let (mut busy, mut waiting): (Vec<Peer>, Vec<u64>) = Default::default();
            let (mut given, mut left) = (Vec::new(), producers);
            (0..consumers).for_each(|consumer| scheduler.on_idle(consumer));
            let mut steps = 0;
            while !scheduler.is_over() || !busy.is_empty() {
                steps += 1;
                assert!(steps < 10_000, "seed {seed} does not end");
                match dice.below(4) {
                    0 if !begun.is_empty() => {
                        let at = dice.below(begun.len() as u32) as usize;
                        let run = begun.remove(at);
                        scheduler.on_begun(run, dice.below(producers));
                        waiting.push(run);
                    }
                    1 if !busy.is_empty() => {
                        let at = dice.below(busy.len() as u32) as usize;
                        scheduler.on_idle(busy.remove(at));
                    }
                    2 if begun.is_empty() && left > 0 => {
                        left -= 1;
                        scheduler.on_ended();
                    }
                    3 if !waiting.is_empty() => {
                        let at = dice.below(waiting.len() as u32) as usize;
                        scheduler.on_blocked_or_ended(waiting.remove(at));
                    }
                    _ => {}
                }
                for assigned in scheduler.assign(|from, to| from == to) {
                    assert!(!busy.contains(&assigned.to), "seed {seed}");
                    busy.push(assigned.to);
                    given.push(assigned.run);
                }
            }
            assert!(given.into_iter().eq(0..runs), "seed {seed}");
            assert_eq!(scheduler.broken(), None);
        }
    }

    #[test]
    fn run_stays_near_unless_its_producer_is_blocked() {
        let mut scheduler = RunScheduler::new(2);
        let near = |from: Peer, to: Peer| from == to;
        scheduler.on_idle(1);
        scheduler.on_begun(0, 0);
        assert!(scheduler.assign(near).is_empty(), "its neighbour may soon be idle");
        scheduler.on_blocked_or_ended(0);
        assert_eq!(scheduler.assign(near), [RunAssignment { run: 0, from: 0, to: 1 }]);
        scheduler.on_idle(1);
        scheduler.on_idle(0);
        scheduler.on_begun(1, 0);
        assert_eq!(scheduler.assign(near), [RunAssignment { run: 1, from: 0, to: 0 }]);
    }

    #[test]
    fn gap_strands_later_runs() {
        let mut scheduler = RunScheduler::new(1);
        scheduler.on_idle(0);
        scheduler.on_begun(1, 0);
        assert!(scheduler.assign(|_, _| true).is_empty());
        assert_eq!(scheduler.broken(), None);
        scheduler.on_ended();
        assert_eq!(scheduler.broken(), Some(Broken::Gap(1)));
    }

    #[test]
    fn run_begun_twice_ends_the_queue() {
        for is_assigned in [false, true] {
            let mut scheduler = RunScheduler::new(2);
            scheduler.on_begun(0, 0);
            if is_assigned {
                scheduler.on_idle(0);
                assert_eq!(scheduler.assign(|_, _| true).len(), 1);
            }
            assert!(!scheduler.is_over());
            scheduler.on_begun(0, 1);
            assert!(scheduler.is_over());
            assert_eq!(scheduler.broken(), Some(Broken::Twice(0)));
        }
    }
}
