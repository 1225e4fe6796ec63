//! Draining: a worker that is about to leave finishes what runs, and begins no more.
//!
//! A worker that dies in the middle of a flow costs the whole flow, since rows that it holds are
//! lost. A draining worker therefore stays until no flow uses it. It is left out of flows that
//! start later. In flows that run, its instances claim no further work units, partitions, runs and
//! batches; those in progress are finished, and fetches of rows that it holds are served.
//!
//! Work that a draining worker does not claim must be claimed by another worker. The instances of a
//! module are therefore held only while an instance of the same module runs on a worker that does
//! not drain. If the last of these ends or drains, all instances of the module claim again. The
//! master of a flow decides this, because it knows the ends of all instances.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

/// The reason why a draining worker leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// No flow uses it any more.
    Unused,
    /// Flows use it, and the time limit is over.
    Deadline,
    /// Flows use it, and it was terminated again.
    Terminated,
}

/// The drain of one worker, as the worker itself sees it. All times are of one clock.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::drain::{Leave, WorkerDrain};
///
/// let second = Duration::from_secs;
/// let mut drain = WorkerDrain::new(second(60));
/// assert_eq!(drain.leave(second(1), false), None, "it does not drain");
/// assert!(drain.on_request(second(2)));
/// assert_eq!(drain.leave(second(3), true), None, "a flow uses it");
/// assert_eq!(drain.leave(second(4), false), Some(Leave::Unused));
/// ```
#[derive(Clone, Debug)]
pub struct WorkerDrain {
    timeout: Duration,
    began: Option<Duration>,
    is_terminated: bool,
}

impl WorkerDrain {
    /// A worker that does not drain yet, and will do so for at most `timeout`.
    pub fn new(timeout: Duration) -> WorkerDrain {
        WorkerDrain { timeout, began: None, is_terminated: false }
    }

    /// The worker is requested to drain; returns whether the drain begins now.
    pub fn on_request(&mut self, now: Duration) -> bool {
        let begins = self.began.is_none();
        self.began.get_or_insert(now);
        begins
    }

    /// The worker is terminated: the first time it drains, the second time it leaves. Returns
    /// whether the drain begins now.
    pub fn on_terminate(&mut self, now: Duration) -> bool {
        let begins = self.on_request(now);
        self.is_terminated |= !begins;
        begins
    }

    /// Whether it drains.
    pub fn is_draining(&self) -> bool {
        self.began.is_some()
    }

    /// Whether it leaves now, and why; `is_used` if a flow has a part there.
    pub fn leave(&self, now: Duration, is_used: bool) -> Option<Leave> {
        let began = self.began?;
        if !is_used {
            return Some(Leave::Unused);
        }
        if self.is_terminated {
            return Some(Leave::Terminated);
        }
        (now.saturating_sub(began) >= self.timeout).then_some(Leave::Deadline)
    }
}

/// The draining workers of one flow, as its master sees them.
///
/// ```
/// use euphrates_policy::drain::FlowDrain;
///
/// // One module with instances on the workers 0 and 1.
/// let mut drain = FlowDrain::new(&[vec![0, 1]], 2);
/// assert!(drain.on_draining(1));
/// assert_eq!(drain.held(1), [0]);
/// assert!(drain.on_ended(0, 0), "worker 0 claims nothing any more");
/// assert_eq!(drain.held(1), []);
/// ```
#[derive(Clone, Debug)]
pub struct FlowDrain {
    /// By module and instance: its worker, until it has ended.
    running_at: Vec<Vec<Option<usize>>>,
    workers: usize,
    draining: BTreeSet<usize>,
}

impl FlowDrain {
    /// For a flow whose instances are on these workers, by module. Workers from `workers` on are
    /// other processes, which are not relied on.
    pub fn new(worker_of_instance: &[Vec<usize>], workers: usize) -> FlowDrain {
        let running = |of: &Vec<usize>| of.iter().map(|worker| Some(*worker)).collect();
        let running_at = worker_of_instance.iter().map(running).collect();
        FlowDrain { running_at, workers, draining: BTreeSet::new() }
    }

    /// A worker drains; returns whether that is new.
    pub fn on_draining(&mut self, worker: usize) -> bool {
        self.draining.insert(worker)
    }

    /// An instance of a module has ended; returns whether that may change what is held.
    pub fn on_ended(&mut self, module: usize, instance: usize) -> bool {
        let running = self.running_at.get_mut(module).and_then(|of| of.get_mut(instance));
        running.and_then(Option::take).is_some() && !self.draining.is_empty()
    }

    /// The draining workers.
    pub fn draining(&self) -> impl Iterator<Item = usize> + '_ {
        self.draining.iter().copied()
    }

    /// The modules whose instances on a worker claim no work: it drains, and another worker has an
    /// instance of the module that runs and may claim.
    pub fn held(&self, worker: usize) -> Vec<usize> {
        if !self.draining.contains(&worker) {
            return Vec::new();
        }
        let may_claim = |at: &usize| *at < self.workers && !self.draining.contains(at);
        let is_held = |of: &Vec<Option<usize>>| {
            of.contains(&Some(worker)) && of.iter().flatten().any(may_claim)
        };
        let modules = self.running_at.iter().enumerate();
        modules.filter(|(_, of)| is_held(of)).map(|(module, _)| module).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec;
    use proptest::prelude::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn worker_leaves_when_unused_at_its_deadline_or_terminated_twice() {
        let mut drain = WorkerDrain::new(seconds(60));
        assert!(!drain.is_draining() && drain.leave(seconds(9000), false).is_none());
        assert!(drain.on_terminate(seconds(100)) && drain.is_draining());
        assert_eq!(drain.leave(seconds(159), true), None);
        assert_eq!(drain.leave(seconds(160), true), Some(Leave::Deadline));
        assert_eq!(drain.leave(seconds(101), false), Some(Leave::Unused));
        assert!(!drain.on_request(seconds(130)), "it drains already");
        assert_eq!(drain.leave(seconds(160), true), Some(Leave::Deadline), "of the first request");
        assert!(!drain.on_terminate(seconds(131)));
        assert_eq!(drain.leave(seconds(131), true), Some(Leave::Terminated));
        assert_eq!(drain.leave(seconds(131), false), Some(Leave::Unused));
    }

    #[test]
    fn termination_after_a_request_ends_the_worker() {
        let mut drain = WorkerDrain::new(seconds(60));
        assert!(drain.on_request(seconds(0)) && !drain.on_terminate(seconds(1)));
        assert_eq!(drain.leave(seconds(1), true), Some(Leave::Terminated));
    }

    #[test]
    fn module_on_one_worker_is_not_held() {
        let mut drain = FlowDrain::new(&[vec![0, 0], vec![0, 1], vec![1]], 2);
        drain.on_draining(0);
        assert_eq!(drain.held(0), [1]);
        assert_eq!(drain.held(1), []);
    }

    #[test]
    fn all_claim_if_all_drain() {
        let mut drain = FlowDrain::new(&[vec![0, 1, 2]], 3);
        (0..2).for_each(|worker| assert!(drain.on_draining(worker)));
        assert_eq!((drain.held(0), drain.held(1)), (vec![0], vec![0]));
        assert!(drain.on_draining(2) && !drain.on_draining(2));
        (0..3).for_each(|worker| assert_eq!(drain.held(worker), []));
    }

    #[test]
    fn instances_of_the_master_are_not_relied_on() {
        let mut drain = FlowDrain::new(&[vec![0, 1]], 1);
        drain.on_draining(0);
        assert_eq!(drain.held(0), []);
    }

    /// One step of a flow in which workers claim units of one module.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// An instance claims a unit, or ends if none is left.
        Claim(usize),
        /// An instance declines the remaining units, and ends.
        Decline(usize),
        Drain(usize),
        /// A worker receives the oldest message of the master.
        Deliver(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..8_usize).prop_map(Step::Claim),
            1 => (0..8_usize).prop_map(Step::Decline),
            1 => (0..4_usize).prop_map(Step::Drain),
            3 => (0..4_usize).prop_map(Step::Deliver),
        ]
    }

    /// A flow of one module, with messages in flight from the master to the workers.
    struct World {
        drain: FlowDrain,
        at: Vec<usize>,
        ended: Vec<bool>,
        messages: Vec<VecDeque<bool>>,
        is_held: Vec<bool>,
        left: usize,
    }

    impl World {
        fn send(&mut self) {
            for worker in self.drain.draining() {
                self.messages[worker].push_back(!self.drain.held(worker).is_empty());
            }
        }

        fn end(&mut self, instance: usize) {
            self.ended[instance] = true;
            if self.drain.on_ended(0, instance) {
                self.send();
            }
        }

        fn claim(&mut self, instance: usize) {
            if self.ended[instance] {
                return;
            }
            if self.left == 0 {
                return self.end(instance);
            }
            if !self.is_held[self.at[instance]] {
                self.left -= 1;
            }
        }

        fn run(&mut self, step: Step) {
            let instances = self.at.len();
            match step {
                Step::Claim(instance) => self.claim(instance % instances),
                // The last instance that runs never declines: it has no peers.
                Step::Decline(instance) => {
                    let instance = instance % instances;
                    let others = self.ended.iter().filter(|ended| !**ended).count();
                    if !self.ended[instance] && others > 1 {
                        self.end(instance);
                    }
                }
                Step::Drain(worker) => {
                    if self.drain.on_draining(worker) {
                        self.send();
                    }
                }
                Step::Deliver(worker) => {
                    if let Some(is_held) = self.messages[worker].pop_front() {
                        self.is_held[worker] = is_held;
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn units_are_never_stranded(
            at in prop::collection::vec(0..4_usize, 1..8),
            units in 0..30_usize,
            steps in prop::collection::vec(step(), 0..100),
        ) {
            let mut world = World {
                drain: FlowDrain::new(core::slice::from_ref(&at), 4),
                ended: vec![false; at.len()],
                messages: vec![VecDeque::new(); 4],
                is_held: vec![false; 4],
                left: units,
                at,
            };
            for step in steps {
                world.run(step);
            }
            // All messages arrive, and every instance polls on.
            for _ in 0..1000 {
                (0..4).for_each(|worker| world.run(Step::Deliver(worker)));
                (0..world.at.len()).for_each(|instance| world.run(Step::Claim(instance)));
            }
            prop_assert_eq!(world.left, 0);
            prop_assert!(world.ended.iter().all(|ended| *ended));
        }

        #[test]
        fn worker_is_held_exactly_while_another_may_claim(
            modules in prop::collection::vec(prop::collection::vec(0..4_usize, 1..6), 1..4),
            drains in prop::collection::vec(0..4_usize, 0..4),
            ends in prop::collection::vec((0..4_usize, 0..6_usize), 0..12),
        ) {
            let mut drain = FlowDrain::new(&modules, 4);
            let mut running = modules.clone();
            for worker in &drains {
                drain.on_draining(*worker);
            }
            for (module, instance) in &ends {
                drain.on_ended(*module, *instance);
            }
            for (module, of) in running.iter_mut().enumerate() {
                let mut number = 0;
                of.retain(|_| {
                    number += 1;
                    !ends.contains(&(module, number - 1))
                });
            }
            for worker in 0..4 {
                let held = drain.held(worker);
                for (module, of) in running.iter().enumerate() {
                    let another = of.iter().any(|at| *at != worker && !drains.contains(at));
                    let wanted = drains.contains(&worker) && of.contains(&worker) && another;
                    prop_assert_eq!(held.contains(&module), wanted);
                }
            }
        }
    }
}
