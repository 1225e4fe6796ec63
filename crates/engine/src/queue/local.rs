//! The queue between instances of one process, shared by all its ends, with the policy
//! `policy::queue`.
//!
//! A thread waits by parking. It registers under the lock, so a wake-up between its last check and
//! its parking is not lost; a woken thread checks again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::{self, Thread};

use euphrates_flow::check::QueueUnit;
use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{Cancel, Error, Parcel, Result, RunIndex, Taken};
use euphrates_policy::queue::QueuePolicy;
use euphrates_policy::runs::Broken;
use parking_lot::Mutex;

use super::run_error::{outside_of_runs, run_error};

#[cfg(test)]
mod tests;

/// A queue whose ends are made one by one.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_engine::queue::local::LocalQueue;
/// use euphrates_flow::check::QueueUnit;
/// use euphrates_flow::ports::{Consumer, Producer};
/// use euphrates_flow::{Cancel, Parcel, Taken};
///
/// let queue = LocalQueue::new(QueueUnit::Batch, 1 << 20, 1, 1, Arc::new(Cancel::default()));
/// let (mut producer, mut consumer) = (queue.producer(), queue.consumer());
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// producer.put(Parcel { batch, bytes: 16, run: None }, true)?;
/// assert_eq!(queue.fill(), (16, 1 << 20), "waiting bytes, and their bound");
/// drop(producer);
/// assert!(matches!(consumer.take(true)?, Taken::Batch(parcel) if parcel.bytes == 16));
/// assert!(matches!(consumer.take(true)?, Taken::End), "its producers are gone");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LocalQueue {
    state: Mutex<State>,
    unit: QueueUnit,
    cancel: Arc<Cancel>,
}

struct State {
    policy: QueuePolicy,
    loose: VecDeque<Parcel>,
    runs: BTreeMap<RunIndex, VecDeque<Parcel>>,
    producers: usize,
    consumers: usize,
    takers: Waiters,
    putters: Waiters,
}

impl LocalQueue {
    /// A queue for this many producers and consumers. All ends must be made, and dropped when done:
    /// the queue ends when all producers have been dropped, and is closed when all consumers have
    /// been.
    pub fn new(
        unit: QueueUnit,
        bytes_max: usize,
        producers: usize,
        consumers: usize,
        cancel: Arc<Cancel>,
    ) -> Arc<LocalQueue> {
        let state = State {
            policy: QueuePolicy::new(bytes_max),
            loose: VecDeque::new(),
            runs: BTreeMap::new(),
            producers,
            consumers,
            takers: Waiters::default(),
            putters: Waiters::default(),
        };
        Arc::new(LocalQueue { state: Mutex::new(state), unit, cancel })
    }

    /// The end of one of the producers.
    pub fn producer(self: &Arc<Self>) -> LocalProducer {
        LocalProducer { queue: self.clone() }
    }

    /// The end of one of the consumers.
    pub fn consumer(self: &Arc<Self>) -> LocalConsumer {
        LocalConsumer { queue: self.clone(), owned: None }
    }

    /// The waiting bytes, and their bound.
    pub fn fill(&self) -> (i64, usize) {
        let state = self.state.lock();
        (state.policy.bytes() as i64, state.policy.bytes_max())
    }

    /// Waits until woken, or the flow is cancelled. The caller has registered itself.
    fn park(&self) -> Result<()> {
        self.cancel.check()?;
        thread::park();
        self.cancel.check()
    }
}

/// The end of a producer, as ports hold it.
pub struct LocalProducer {
    queue: Arc<LocalQueue>,
}

impl LocalProducer {
    fn try_put(&self, mut parcel: Parcel, register: bool) -> Result<Option<Parcel>> {
        let run = if self.queue.unit == QueueUnit::Run { parcel.run } else { None };
        if run.is_none() && self.queue.unit == QueueUnit::Run {
            // No consumer would ever be assigned it.
            return Err(outside_of_runs());
        }
        parcel.run = run;
        let mut state = self.queue.state.lock();
        if state.consumers == 0 {
            return Err(Error::closed());
        }
        if !state.policy.admit(parcel.bytes, run) {
            if register {
                state.putters.register();
            }
            return Ok(Some(parcel));
        }
        state.putters.forget();
        if run.is_some_and(|run| state.policy.is_abandoned(run)) {
            return Ok(None);
        }
        state.policy.on_put(parcel.bytes, run);
        match run {
            None => state.loose.push_back(parcel),
            Some(run) => state.runs.get_mut(&run).expect("begun").push_back(parcel),
        }
        state.wake_takers(self.queue.unit);
        Ok(None)
    }
}

impl Producer for LocalProducer {
    fn put(&mut self, mut parcel: Parcel, wait: bool) -> Result<Option<Parcel>> {
        loop {
            match self.try_put(parcel, wait)? {
                Some(refused) if wait => parcel = refused,
                outcome => return Ok(outcome),
            }
            self.queue.park()?;
        }
    }

    fn has_room(&mut self, parcel: &Parcel) -> bool {
        let run = if self.queue.unit == QueueUnit::Run { parcel.run } else { None };
        let state = self.queue.state.lock();
        // With no consumer left, `put` fails at once.
        state.consumers == 0 || state.policy.admit(parcel.bytes, run)
    }

    fn begin_run(&mut self, run: RunIndex) -> Result<()> {
        if self.queue.unit == QueueUnit::Run {
            let mut state = self.queue.state.lock();
            if state.consumers == 0 {
                return Err(Error::closed());
            }
            state.policy.on_begin(run).map_err(run_error)?;
            state.runs.insert(run, VecDeque::new());
            state.wake_takers(QueueUnit::Run);
            state.putters.wake_all();
        }
        Ok(())
    }

    fn end_run(&mut self, run: RunIndex) -> Result<()> {
        if self.queue.unit == QueueUnit::Run {
            let mut state = self.queue.state.lock();
            state.policy.on_end(run);
            state.wake_takers(QueueUnit::Run);
        }
        Ok(())
    }
}

impl Drop for LocalProducer {
    fn drop(&mut self) {
        // A consumer must not take the stream of a cancelled flow for complete or cut.
        if self.queue.cancel.is_cancelled() {
            return;
        }
        let mut state = self.queue.state.lock();
        state.producers -= 1;
        if state.producers == 0 {
            state.takers.wake_all();
        }
    }
}

/// The end of a consumer, as ports hold it.
pub struct LocalConsumer {
    queue: Arc<LocalQueue>,
    owned: Option<RunIndex>,
}

impl LocalConsumer {
    fn try_take(&mut self, register: bool) -> Result<Taken> {
        let mut state = self.queue.state.lock();
        let taken = match self.queue.unit {
            QueueUnit::Batch => state.take_loose(),
            QueueUnit::Run => state.take_of_run(&mut self.owned)?,
        };
        match taken {
            Taken::Empty if register => state.takers.register(),
            // A stale registration would catch a wake-up meant for an idle consumer.
            _ => state.takers.forget(),
        }
        Ok(taken)
    }
}

impl Consumer for LocalConsumer {
    fn take(&mut self, wait: bool) -> Result<Taken> {
        loop {
            match self.try_take(wait)? {
                Taken::Empty if wait => self.queue.park()?,
                taken => return Ok(taken),
            }
        }
    }

    fn ready(&mut self, register: bool) -> bool {
        let mut state = self.queue.state.lock();
        let something = match (self.queue.unit, self.owned) {
            (QueueUnit::Batch, _) => !state.loose.is_empty(),
            (QueueUnit::Run, None) => state.policy.can_assign_run(),
            (QueueUnit::Run, Some(run)) => {
                !state.runs[&run].is_empty() || state.policy.is_finished(run)
            }
        };
        let ready = something || state.producers == 0;
        if register && !ready {
            state.takers.register();
        } else if !register {
            state.takers.forget();
            // This consumer may have caught a wake-up while it polls other queues: pass it on.
            if something {
                state.takers.wake_one();
            }
        }
        ready
    }
}

impl Drop for LocalConsumer {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        if let Some(run) = self.owned {
            // Its producer must not wait for room that only the consumer could make.
            state.policy.on_abandoned(run);
            state.runs.remove(&run);
            state.putters.wake_all();
        }
        state.consumers -= 1;
        if state.consumers == 0 {
            state.loose.clear();
            state.runs.values_mut().for_each(VecDeque::clear);
            state.putters.wake_all();
        } else {
            state.takers.wake_one();
        }
    }
}

impl State {
    fn take_loose(&mut self) -> Taken {
        match self.loose.pop_front() {
            Some(parcel) => {
                self.policy.on_take(parcel.bytes, None);
                self.putters.wake_first();
                if !self.loose.is_empty() {
                    self.takers.wake_one();
                }
                Taken::Batch(parcel)
            }
            None if self.producers == 0 => Taken::End,
            None => Taken::Empty,
        }
    }

    fn take_of_run(&mut self, owned: &mut Option<RunIndex>) -> Result<Taken> {
        if owned.is_none() {
            *owned = self.policy.assign_run();
            // The next run may now be put into a full queue.
            self.putters.wake_all();
        }
        let Some(run) = *owned else {
            if self.producers > 0 {
                return Ok(Taken::Empty);
            }
            return match self.policy.broken() {
                None => Ok(Taken::End),
                Some(why) => Err(run_error(why)),
            };
        };
        if let Some(parcel) = self.runs.get_mut(&run).and_then(VecDeque::pop_front) {
            self.policy.on_take(parcel.bytes, Some(run));
            self.putters.wake_all();
            return Ok(Taken::Batch(parcel));
        }
        if self.policy.is_finished(run) {
            self.policy.on_finished(run);
            self.runs.remove(&run);
            *owned = None;
            return Ok(Taken::RunEnd(run));
        }
        if self.producers == 0 {
            return Err(run_error(Broken::Cut(run)));
        }
        Ok(Taken::Empty)
    }

    /// Any consumer may take a batch without run; only the owner may take a batch of a run, so it
    /// must be among those woken.
    fn wake_takers(&mut self, unit: QueueUnit) {
        match unit {
            QueueUnit::Batch => self.takers.wake_one(),
            QueueUnit::Run => self.takers.wake_all(),
        }
    }
}

/// Threads parked at one side of a queue.
#[derive(Default)]
struct Waiters(Vec<Thread>);

impl Waiters {
    fn register(&mut self) {
        let me = thread::current();
        if self.0.iter().all(|waiter| waiter.id() != me.id()) {
            self.0.push(me);
        }
    }

    fn forget(&mut self) {
        let me = thread::current().id();
        self.0.retain(|waiter| waiter.id() != me);
    }

    /// Wakes the latest, whose data is still in its processor's cache.
    fn wake_one(&mut self) {
        if let Some(waiter) = self.0.pop() {
            waiter.unpark();
        }
    }

    /// Wakes the one that has waited longest: a producer that puts again at once would otherwise be
    /// woken again.
    fn wake_first(&mut self) {
        if !self.0.is_empty() {
            self.0.remove(0).unpark();
        }
    }

    fn wake_all(&mut self) {
        self.0.drain(..).for_each(|waiter| waiter.unpark());
    }
}
