//! Letters between endpoints, and who reads them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::{self, Thread};

use euphrates_policy::distributed::{Now, Peer};

use super::DistributedQueue;

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
    letters: Mutex<VecDeque<E::Letter>>,
    endpoint: Mutex<E>,
    waiter: Mutex<Option<Thread>>,
    /// When the alarm set last goes off; it may go off for nothing.
    alarm_ns: AtomicU64,
}

/// No alarm is set.
const NEVER: u64 = u64::MAX;

impl<E: Endpoint> Station<E> {
    /// With an empty box.
    pub fn new(endpoint: E) -> Station<E> {
        Station {
            letters: Mutex::default(),
            endpoint: Mutex::new(endpoint),
            waiter: Mutex::default(),
            alarm_ns: AtomicU64::new(NEVER),
        }
    }

    /// Puts a letter into the box. Whoever does must have it delivered, holding no endpoint.
    pub fn put(&self, letter: E::Letter) {
        lock(&self.letters).push_back(letter);
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
        let mut endpoint = lock(&self.endpoint);
        self.read(&mut endpoint, queue);
        let done = act(&mut endpoint, queue.shared.now());
        self.leave(&mut endpoint, queue, me, due);
        // Somebody may have found the endpoint occupied, and left a letter.
        due.push(E::address(me));
        done
    }

    /// Has letters read, unless somebody is there who will read them.
    pub fn settle(&self, queue: &DistributedQueue, me: Peer, due: &mut Vec<Address>) {
        while !lock(&self.letters).is_empty() {
            let mut endpoint = match self.endpoint.try_lock() {
                Ok(endpoint) => endpoint,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            self.read(&mut endpoint, queue);
            self.leave(&mut endpoint, queue, me, due);
            if endpoint.may_go_on() {
                self.wake();
            }
        }
    }

    /// The calling thread is to be unparked when there may be something to do, or not any more.
    pub fn wait_here(&self, waits: bool) {
        *lock(&self.waiter) = waits.then(thread::current);
    }

    /// Unparks who waits.
    pub fn wake(&self) {
        if let Some(waiter) = lock(&self.waiter).take() {
            waiter.unpark();
        }
    }

    /// The alarm has gone off.
    pub fn on_alarm(&self) {
        self.alarm_ns.store(NEVER, SeqCst);
    }

    fn read(&self, endpoint: &mut E, queue: &DistributedQueue) {
        loop {
            // Not in the `let` of a loop: the box would stay locked while the letter is read.
            let letter = lock(&self.letters).pop_front();
            let Some(letter) = letter else { return };
            endpoint.read(letter, queue.shared.now());
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
