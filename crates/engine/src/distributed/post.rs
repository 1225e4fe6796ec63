//! Letters between endpoints, and who reads them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::{self, Thread};

use euphrates_policy::distributed::{Now, Peer};

use super::{DistributedQueue, RANDOM_STEP};

/// An endpoint of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// That of a producer.
    Producer(Peer),
    /// That of a consumer.
    Consumer(Peer),
}

/// What stands at an address: it decides by a policy, and keeps the data.
pub trait Endpoint {
    /// What it is sent.
    type Letter;
    /// Takes in what somebody sent.
    fn read(&mut self, letter: Self::Letter, now: Now);
    /// Puts its own letters into the boxes of others, who are due to be delivered to.
    fn post(&mut self, queue: &DistributedQueue, me: Peer, due: &mut Vec<Address>);
    /// When it must be woken, in nanoseconds of the queue's clock.
    fn wake_at_ns(&self) -> Option<u64>;
    /// Whether its thread, if it waits, has something to do.
    fn may_go_on(&self) -> bool;
    /// Where it stands.
    fn address(me: Peer) -> Address;
}

/// An endpoint, its box, and the thread that waits there.
#[derive(Debug)]
pub struct Station<E: Endpoint> {
    letters: Mutex<Vec<E::Letter>>,
    /// Whether the box has any: asked far more often than there are.
    has_letters: AtomicBool,
    desk: Mutex<Desk<E>>,
    waiter: Mutex<Option<Thread>>,
    has_waiter: AtomicBool,
    /// When the alarm set last goes off; it may go off for nothing.
    alarm_ns: AtomicU64,
}

/// Where letters are read: all that are in the box at once, so that it is locked but briefly.
#[derive(Debug)]
struct Desk<E: Endpoint> {
    endpoint: E,
    letters: Vec<E::Letter>,
}

/// No alarm is set.
const NEVER: u64 = u64::MAX;

impl<E: Endpoint> Station<E> {
    /// With an empty box.
    pub fn new(endpoint: E) -> Station<E> {
        Station {
            letters: Mutex::default(),
            has_letters: AtomicBool::new(false),
            desk: Mutex::new(Desk { endpoint, letters: vec![] }),
            waiter: Mutex::default(),
            has_waiter: AtomicBool::new(false),
            alarm_ns: AtomicU64::new(NEVER),
        }
    }

    /// Puts a letter into the box. Whoever does must have it delivered, holding no endpoint.
    pub fn put(&self, letter: E::Letter) {
        let mut letters = lock(&self.letters);
        letters.push(letter);
        self.has_letters.store(true, SeqCst);
    }

    /// Acts as this endpoint, which knows all its letters then. Its own are in the boxes of others
    /// when this returns, but not delivered.
    pub fn act<R>(
        &self,
        queue: &DistributedQueue,
        me: Peer,
        due: &mut Vec<Address>,
        act: impl FnOnce(&mut E, Now) -> R,
    ) -> R {
        let mut desk = lock(&self.desk);
        let now = queue.shared.now();
        self.read(&mut desk, now);
        let done = act(&mut desk.endpoint, now);
        self.leave(&mut desk.endpoint, queue, me, due);
        // Somebody may have found the endpoint occupied, and left a letter.
        due.push(E::address(me));
        done
    }

    /// Has letters read, unless somebody is there who will read them.
    pub fn settle(&self, queue: &DistributedQueue, me: Peer, due: &mut Vec<Address>) {
        while self.has_letters.load(SeqCst) {
            let mut desk = match self.desk.try_lock() {
                Ok(desk) => desk,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            self.read(&mut desk, queue.shared.now());
            self.leave(&mut desk.endpoint, queue, me, due);
            if desk.endpoint.may_go_on() {
                self.wake();
            }
        }
    }

    /// The calling thread is to be unparked when there may be something to do, or not any more.
    pub fn wait_here(&self, waits: bool) {
        // Nobody else makes this thread wait.
        if waits || self.has_waiter.load(SeqCst) {
            let mut waiter = lock(&self.waiter);
            *waiter = waits.then(thread::current);
            self.has_waiter.store(waits, SeqCst);
        }
    }

    /// Unparks who waits.
    pub fn wake(&self) {
        if self.has_waiter.load(SeqCst) {
            let mut waiter = lock(&self.waiter);
            self.has_waiter.store(false, SeqCst);
            if let Some(waiter) = waiter.take() {
                waiter.unpark();
            }
        }
    }

    /// The alarm has gone off.
    pub fn on_alarm(&self) {
        self.alarm_ns.store(NEVER, SeqCst);
    }

    fn read(&self, desk: &mut Desk<E>, now: Now) {
        if !self.has_letters.load(SeqCst) {
            return;
        }
        let Desk { endpoint, letters } = desk;
        {
            let mut all = lock(&self.letters);
            std::mem::swap(&mut *all, letters);
            self.has_letters.store(false, SeqCst);
        }
        let mut now = now;
        for letter in letters.drain(..) {
            endpoint.read(letter, now);
            now.random = now.random.wrapping_add(RANDOM_STEP);
        }
    }

    fn leave(&self, endpoint: &mut E, queue: &DistributedQueue, me: Peer, due: &mut Vec<Address>) {
        endpoint.post(queue, me, due);
        // A later time than that of the alarm is found when it has gone off.
        if let Some(wake_at_ns) = endpoint.wake_at_ns()
            && wake_at_ns < self.alarm_ns.load(SeqCst)
        {
            self.alarm_ns.store(wake_at_ns, SeqCst);
            queue.clock.set(wake_at_ns, E::address(me));
        }
    }
}

/// A policy that failed an assertion must not hide behind a poisoned lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
