//! Admission and scheduling of a queue in one process: which batches may enter, which run is next.
//!
//! A queue assigns either single batches to any free consumer, or whole runs, strictly in the order
//! of their numbers (the pull-based queue of River 2.3.2). Capacities are in bytes. Two rules
//! prevent deadlock between runs:
//! - A run is assigned only after all runs before it, so the lowest unfinished run has an owner or
//!   is the next to get one.
//! - A batch of an assigned run, or of the next run to be assigned, is admitted even if the queue
//!   is full, unless another batch of that run is queued. The bound is exceeded by at most one
//!   batch per consumer, and one of the next run.
//!
//! The owner of a run may close its input before the run ends. Queued batches of the run are then
//! discarded, and later ones are admitted and discarded.

use alloc::collections::BTreeMap;

use crate::runs::Broken;

/// The state of one queue, in numbers.
///
/// ```
/// use euphrates_policy::queue::QueuePolicy;
///
/// let mut queue = QueuePolicy::new(100);
/// queue.on_begin(0).unwrap();
/// assert!(queue.admit(80, Some(0)));
/// queue.on_put(80, Some(0));
/// assert!(!queue.admit(30, Some(0)), "the queue is full");
/// assert_eq!(queue.assign_run(), Some(0));
/// queue.on_take(80, Some(0));
/// queue.on_end(0);
/// assert!(queue.is_finished(0));
/// ```
#[derive(Clone, Debug)]
pub struct QueuePolicy {
    bytes_max: usize,
    bytes: usize,
    loose_bytes: usize,
    runs: BTreeMap<u64, Run>,
    next_run: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    bytes: usize,
    batches: usize,
    ended: bool,
    owned: bool,
    /// Whether its owner has left.
    is_abandoned: bool,
}

impl QueuePolicy {
    /// An empty queue that holds at most `bytes_max`, or one batch if that is larger.
    pub fn new(bytes_max: usize) -> QueuePolicy {
        QueuePolicy { bytes_max, bytes: 0, loose_bytes: 0, runs: BTreeMap::new(), next_run: 0 }
    }

    /// Whether a batch of `bytes`, in a run or in none, may be put now.
    ///
    /// ```
    /// use euphrates_policy::queue::QueuePolicy;
    ///
    /// let mut queue = QueuePolicy::new(100);
    /// assert!(queue.admit(500, None), "one batch, however large");
    /// queue.on_put(500, None);
    /// assert!(!queue.admit(1, None));
    /// queue.on_begin(0).unwrap();
    /// assert!(queue.admit(1, Some(0)), "run 0 is the next to be assigned");
    /// ```
    pub fn admit(&self, bytes: usize, run: Option<u64>) -> bool {
        let room = self.bytes == 0 || self.bytes + bytes <= self.bytes_max;
        room || run.is_some_and(|number| self.is_awaited(number))
    }

    fn is_awaited(&self, number: u64) -> bool {
        let wanted = number <= self.next_run;
        wanted && self.runs.get(&number).is_none_or(|run| run.batches == 0)
    }

    /// A batch has been put; it must have been admitted.
    pub fn on_put(&mut self, bytes: usize, run: Option<u64>) {
        self.bytes += bytes;
        match run {
            None => self.loose_bytes += bytes,
            Some(number) => {
                let run = self.runs.get_mut(&number).expect("a batch of a run that has not begun");
                assert!(!run.ended, "a batch of run {number} after its end");
                run.bytes += bytes;
                run.batches += 1;
            }
        }
        self.check();
    }

    /// A batch has been taken by the owner of its run.
    pub fn on_take(&mut self, bytes: usize, run: Option<u64>) {
        self.bytes -= bytes;
        match run {
            None => self.loose_bytes -= bytes,
            Some(number) => {
                let run = self.runs.get_mut(&number).expect("a batch of a run that is not here");
                assert!(run.owned, "a batch of run {number} taken by no owner");
                run.bytes -= bytes;
                run.batches -= 1;
            }
        }
        self.check();
    }

    /// A producer begins a run.
    ///
    /// # Errors
    /// If the run has been begun before.
    ///
    /// ```
    /// use euphrates_policy::queue::QueuePolicy;
    /// use euphrates_policy::runs::Broken;
    ///
    /// let mut queue = QueuePolicy::new(100);
    /// assert_eq!(queue.on_begin(1), Ok(()));
    /// assert_eq!(queue.on_begin(1), Err(Broken::Twice(1)));
    /// assert_eq!(queue.broken(), Some(Broken::Gap(1)), "if run 0 never begins");
    /// ```
    pub fn on_begin(&mut self, number: u64) -> Result<(), Broken> {
        if number < self.next_run || self.runs.contains_key(&number) {
            return Err(Broken::Twice(number));
        }
        self.runs.insert(number, Run::default());
        Ok(())
    }

    /// A producer ends a run.
    pub fn on_end(&mut self, number: u64) {
        let run = self.runs.get_mut(&number).expect("the end of a run that has not begun");
        run.ended = true;
        if run.is_abandoned {
            self.runs.remove(&number);
        }
    }

    /// Whether the owner of a run has left, so that its batches are discarded.
    pub fn is_abandoned(&self, number: u64) -> bool {
        self.runs.get(&number).is_some_and(|run| run.is_abandoned)
    }

    /// The owner of a run leaves; the queued batches of the run are discarded.
    ///
    /// ```
    /// use euphrates_policy::queue::QueuePolicy;
    ///
    /// let mut queue = QueuePolicy::new(100);
    /// queue.on_begin(0).unwrap();
    /// queue.on_put(80, Some(0));
    /// assert_eq!(queue.assign_run(), Some(0));
    /// queue.on_abandoned(0);
    /// assert!(queue.is_abandoned(0) && queue.bytes() == 0, "its batches are discarded");
    /// ```
    pub fn on_abandoned(&mut self, number: u64) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        self.bytes -= run.bytes;
        *run = Run { bytes: 0, batches: 0, is_abandoned: true, ..*run };
        if run.ended {
            self.runs.remove(&number);
        }
        self.check();
    }

    /// The next run, for a consumer without one, which owns it until `on_finished`.
    pub fn assign_run(&mut self) -> Option<u64> {
        let run = self.runs.get_mut(&self.next_run)?;
        run.owned = true;
        self.next_run += 1;
        Some(self.next_run - 1)
    }

    /// Whether `assign_run` would give a run.
    pub fn can_assign_run(&self) -> bool {
        self.runs.contains_key(&self.next_run)
    }

    /// Whether all batches of an owned run have been taken and no more will come.
    pub fn is_finished(&self, number: u64) -> bool {
        self.runs.get(&number).is_some_and(|run| run.ended && run.batches == 0)
    }

    /// The owner of a run has seen its end.
    pub fn on_finished(&mut self, number: u64) {
        let run = self.runs.remove(&number).expect("a run finishes once");
        assert!(run.owned && run.ended && run.batches == 0, "run {number} is not finished");
    }

    /// Bytes of all queued batches.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bound on queued bytes.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The gap that keeps a begun run from being assigned, if no more runs will begin.
    pub fn broken(&self) -> Option<Broken> {
        self.runs.keys().copied().find(|&number| number > self.next_run).map(Broken::Gap)
    }

    fn check(&self) {
        debug_assert_eq!(
            self.bytes,
            self.loose_bytes + self.runs.values().map(|run| run.bytes).sum::<usize>(),
            "bytes of the runs and of the queue differ"
        );
        debug_assert!(
            self.runs.iter().all(|(&number, run)| run.owned == (number < self.next_run)),
            "runs are assigned in order"
        );
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_schedule_ends_in_order_within_the_bound() {
        for seed in 0..2000u64 {
            let mut random = Lcg(seed);
            let outcome = play(&mut random);
            assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
        }
    }

    struct Lcg(u64);
    impl Lcg {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((self.0 >> 33) as usize) % n
        }
    }

    #[derive(Clone, Copy)]
    struct Producer {
        run: Option<u64>,
        left: usize,
    }

    fn play(random: &mut Lcg) -> Result<(), &'static str> {
        let runs = 1 + random.below(12) as u64;
        let bytes_max = 1 + random.below(50);
        let mut producers = std::vec![Producer { run: None, left: 0 }; 1 + random.below(4)];
        let mut consumers: Vec<Option<u64>> = std::vec![None; 1 + random.below(4)];
        let mut lanes: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let (mut policy, mut next, mut assigned) = (QueuePolicy::new(bytes_max), 0, 0);
        let may_leave = random.below(2) == 0;
        for _ in 0..100_000 {
            let actors = producers.len() + consumers.len();
            let actor = random.below(actors);
            if actor < producers.len() {
                produce(&mut producers[actor], &mut policy, &mut lanes, &mut next, runs, random);
            } else if may_leave && consumers.len() > 1 && random.below(20) == 0 {
                if let Some(run) = consumers.remove(actor - producers.len()) {
                    policy.on_abandoned(run);
                    lanes.remove(&run);
                }
            } else {
                let consumer = &mut consumers[actor - producers.len()];
                consume(consumer, &mut policy, &mut lanes, &mut assigned)?;
            }
            let owners = 1 + consumers.len();
            if policy.bytes() > bytes_max.max(20) + owners * 20 {
                return Err("bound exceeded");
            }
            let done = next == runs && producers.iter().all(|p| p.run.is_none());
            if done && assigned == runs && consumers.iter().all(Option::is_none) {
                return Ok(());
            }
        }
        Err("no end")
    }

    fn produce(
        producer: &mut Producer,
        policy: &mut QueuePolicy,
        lanes: &mut BTreeMap<u64, Vec<usize>>,
        next: &mut u64,
        runs: u64,
        random: &mut Lcg,
    ) {
        match producer.run {
            None if *next < runs => {
                *producer = Producer { run: Some(*next), left: random.below(5) };
                policy.on_begin(*next).unwrap();
                *next += 1;
            }
            None => {}
            Some(run) if producer.left == 0 => {
                policy.on_end(run);
                producer.run = None;
            }
            Some(run) => {
                let bytes = 1 + random.below(20);
                if policy.is_abandoned(run) {
                    assert!(policy.admit(bytes, Some(run)), "no consumer would make room for it");
                    producer.left -= 1;
                } else if policy.admit(bytes, Some(run)) {
                    policy.on_put(bytes, Some(run));
                    lanes.entry(run).or_default().push(bytes);
                    producer.left -= 1;
                }
            }
        }
    }

    fn consume(
        consumer: &mut Option<u64>,
        policy: &mut QueuePolicy,
        lanes: &mut BTreeMap<u64, Vec<usize>>,
        assigned: &mut u64,
    ) -> Result<(), &'static str> {
        let Some(run) = *consumer else {
            *consumer = policy.assign_run();
            if let Some(run) = *consumer {
                if run != *assigned {
                    return Err("assigned out of order");
                }
                *assigned += 1;
            }
            return Ok(());
        };
        match lanes.get_mut(&run).filter(|lane| !lane.is_empty()) {
            Some(lane) => policy.on_take(lane.remove(0), Some(run)),
            None if policy.is_finished(run) => {
                policy.on_finished(run);
                *consumer = None;
            }
            None => {}
        }
        Ok(())
    }
}
