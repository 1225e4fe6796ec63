//! Letters between endpoints, and who reads them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, Thread};

use euphrates_policy::distributed::{Now, Peer};
use parking_lot::Mutex;

use crate::queue::network::Location;

/// SplitMix64's increment: the policies mix it further.
pub const RANDOM_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where endpoints of one queue stand, and what they have in common.
pub trait Router {
    /// Names an endpoint.
    type Address: Copy;
    /// The time, and a random number.
    fn now(&self) -> Now;
    /// Has an endpoint woken at this time, in nanoseconds of the same clock.
    fn wake_at(&self, at_ns: u64, address: Self::Address);
}

/// What stands at an address: it decides by a policy, and keeps the data.
pub trait Endpoint {
    /// What it is sent.
    type Letter;
    /// Whose endpoint it is.
    type Router: Router;
    /// Takes in what somebody sent.
    fn read(&mut self, letter: Self::Letter, now: Now);
    /// Puts its own letters into the boxes of others, who are due to be delivered to.
    fn post(&mut self, router: &Self::Router, me: Peer, due: &mut Vec<AddressOf<Self>>);
    /// When it must be woken, in nanoseconds of the queue's clock.
    fn wake_at_ns(&self) -> Option<u64> {
        None
    }
    /// Whether its thread, if it waits, has something to do.
    fn may_go_on(&self) -> bool;
    /// Where it stands.
    fn address(me: Peer) -> AddressOf<Self>;
}

/// How the endpoints of its queue are named.
pub type AddressOf<E> = <<E as Endpoint>::Router as Router>::Address;

/// An endpoint, its box, and the thread that waits there.
#[derive(Debug)]
pub struct Mailbox<E: Endpoint> {
    letters: Mutex<Vec<E::Letter>>,
    /// Whether the box has any: asked far more often than there are.
    has_letters: AtomicBool,
    inbox: Mutex<Inbox<E>>,
    waiter: Mutex<Option<Thread>>,
    has_waiter: AtomicBool,
    /// When the alarm set last goes off; it may go off for nothing.
    alarm_ns: AtomicU64,
}

/// Where letters are read: all that are in the box at once, so that it is locked but briefly.
#[derive(Debug)]
struct Inbox<E: Endpoint> {
    endpoint: E,
    letters: Vec<E::Letter>,
}

/// No alarm is set.
const NEVER: u64 = u64::MAX;

impl<E: Endpoint> Mailbox<E> {
    /// With an empty box.
    pub fn new(endpoint: E) -> Mailbox<E> {
        Mailbox {
            letters: Mutex::default(),
            has_letters: AtomicBool::new(false),
            inbox: Mutex::new(Inbox { endpoint, letters: vec![] }),
            waiter: Mutex::default(),
            has_waiter: AtomicBool::new(false),
            alarm_ns: AtomicU64::new(NEVER),
        }
    }

    /// Puts a letter into the box. Whoever does must have it delivered, holding no endpoint.
    pub fn put(&self, letter: E::Letter) {
        let mut letters = self.letters.lock();
        letters.push(letter);
        self.has_letters.store(true, SeqCst);
    }

    /// Acts as this endpoint, which knows all its letters then. Its own are in the boxes of others
    /// when this returns, but not delivered.
    pub fn act<R>(
        &self,
        queue: &E::Router,
        me: Peer,
        due: &mut Vec<AddressOf<E>>,
        act: impl FnOnce(&mut E, Now) -> R,
    ) -> R {
        let mut inbox = self.inbox.lock();
        let now = queue.now();
        self.read(&mut inbox, now);
        let done = act(&mut inbox.endpoint, now);
        self.leave(&mut inbox.endpoint, queue, me, due);
        // Somebody may have found the endpoint occupied, and left a letter.
        due.push(E::address(me));
        done
    }

    /// Has letters read, unless somebody is there who will read them.
    pub fn settle(&self, queue: &E::Router, me: Peer, due: &mut Vec<AddressOf<E>>) {
        while self.has_letters.load(SeqCst) {
            let Some(mut inbox) = self.inbox.try_lock() else { return };
            self.read(&mut inbox, queue.now());
            self.leave(&mut inbox.endpoint, queue, me, due);
        }
    }

    /// The calling thread is to be unparked when there may be something to do, or not any more.
    pub fn wait_here(&self, waits: bool) {
        // Nobody else makes this thread wait.
        if waits || self.has_waiter.load(SeqCst) {
            let mut waiter = self.waiter.lock();
            *waiter = waits.then(thread::current);
            self.has_waiter.store(waits, SeqCst);
        }
    }

    /// Unparks who waits.
    pub fn wake(&self) {
        if self.has_waiter.load(SeqCst) {
            let mut waiter = self.waiter.lock();
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

    fn read(&self, inbox: &mut Inbox<E>, now: Now) {
        if !self.has_letters.load(SeqCst) {
            return;
        }
        let Inbox { endpoint, letters } = inbox;
        {
            let mut all = self.letters.lock();
            std::mem::swap(&mut *all, letters);
            self.has_letters.store(false, SeqCst);
        }
        let mut now = now;
        for letter in letters.drain(..) {
            endpoint.read(letter, now);
            now.random = now.random.wrapping_add(RANDOM_STEP);
        }
    }

    fn leave(&self, endpoint: &mut E, queue: &E::Router, me: Peer, due: &mut Vec<AddressOf<E>>) {
        endpoint.post(queue, me, due);
        // Whoever has read the letters, the endpoint's own thread may wait for what they said.
        if self.has_waiter.load(SeqCst) && endpoint.may_go_on() {
            self.wake();
        }
        // A later time than that of the alarm is found when it has gone off.
        if let Some(wake_at_ns) = endpoint.wake_at_ns()
            && wake_at_ns < self.alarm_ns.load(SeqCst)
        {
            self.alarm_ns.store(wake_at_ns, SeqCst);
            queue.wake_at(wake_at_ns, E::address(me));
        }
    }
}

/// Those of a queue's ends on one side that are in this process.
pub fn peers_here<T>(ends: &[Location<T>]) -> impl Iterator<Item = Peer> + '_ {
    ends.iter()
        .enumerate()
        .filter(|(_, location)| location.here().is_some())
        .map(|(at, _)| at as Peer)
}
