//! Delivers messages to an endpoint, and wakes the thread that waits there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, Thread};

use euphrates_policy::distributed::{Now, Peer};
use parking_lot::Mutex;

use super::protocol::{DueEndpoints, Endpoint, Router};

/// SplitMix64's increment: the policies mix it further.
pub const RANDOM_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// An endpoint, its unread messages, and the thread that waits there.
#[derive(Debug)]
pub struct Mailbox<E: Endpoint> {
    messages: Mutex<Vec<(Peer, E::Message)>>,
    /// Whether `messages` has any: read far more often than there are some.
    has_messages: AtomicBool,
    inbox: Mutex<Inbox<E>>,
    waiter: Mutex<Option<Thread>>,
    has_waiter: AtomicBool,
    /// When the alarm set last goes off; the endpoint may need it no longer.
    alarm_ns: AtomicU64,
}

/// The endpoint, and the messages being read: swapped out of the mailbox at once, so that its lock
/// is held only briefly.
#[derive(Debug)]
struct Inbox<E: Endpoint> {
    endpoint: E,
    messages: Vec<(Peer, E::Message)>,
}

/// The value of `alarm_ns` while no alarm is set.
const NEVER: u64 = u64::MAX;

impl<E: Endpoint> Mailbox<E> {
    /// A mailbox without messages.
    pub fn new(endpoint: E) -> Mailbox<E> {
        Mailbox {
            messages: Mutex::default(),
            has_messages: AtomicBool::new(false),
            inbox: Mutex::new(Inbox { endpoint, messages: vec![] }),
            waiter: Mutex::default(),
            has_waiter: AtomicBool::new(false),
            alarm_ns: AtomicU64::new(NEVER),
        }
    }

    /// Stores a message. The caller must have it delivered by `process_messages`, holding no
    /// endpoint.
    pub fn put(&self, from: Peer, message: E::Message) {
        let mut messages = self.messages.lock();
        messages.push((from, message));
        self.has_messages.store(true, SeqCst);
    }

    /// Acts as this endpoint, which has read all its messages before. The messages it sends are
    /// stored in other mailboxes when this returns, but not delivered.
    pub fn act<R>(
        &self,
        router: &impl Router<E::Protocol>,
        me: Peer,
        due: &mut DueEndpoints,
        act: impl FnOnce(&mut E, Now) -> R,
    ) -> R {
        let mut inbox = self.inbox.lock();
        let now = router.now();
        self.read(&mut inbox, now);
        let done = act(&mut inbox.endpoint, now);
        self.leave(&mut inbox.endpoint, router, me, due);
        // Another thread may have found the endpoint occupied, and left a message.
        due.push(E::address(me));
        done
    }

    /// Makes the endpoint read its messages. If another thread holds the endpoint, that thread
    /// reads them.
    pub fn process_messages(
        &self,
        router: &impl Router<E::Protocol>,
        me: Peer,
        due: &mut DueEndpoints,
    ) {
        while self.has_messages.load(SeqCst) {
            let Some(mut inbox) = self.inbox.try_lock() else { return };
            self.read(&mut inbox, router.now());
            self.leave(&mut inbox.endpoint, router, me, due);
        }
    }

    /// Registers the calling thread to be unparked when the endpoint has work, or withdraws it.
    pub fn wait_here(&self, waits: bool) {
        // Only the thread itself registers, so the flag is not set behind its back.
        if waits || self.has_waiter.load(SeqCst) {
            let mut waiter = self.waiter.lock();
            *waiter = waits.then(thread::current);
            self.has_waiter.store(waits, SeqCst);
        }
    }

    fn wake(&self) {
        if self.has_waiter.load(SeqCst) {
            let mut waiter = self.waiter.lock();
            self.has_waiter.store(false, SeqCst);
            if let Some(waiter) = waiter.take() {
                waiter.unpark();
            }
        }
    }

    /// The timer has expired: the next one must be set again.
    pub fn clear_alarm(&self) {
        self.alarm_ns.store(NEVER, SeqCst);
    }

    fn read(&self, inbox: &mut Inbox<E>, now: Now) {
        if !self.has_messages.load(SeqCst) {
            return;
        }
        let Inbox { endpoint, messages } = inbox;
        {
            let mut all = self.messages.lock();
            std::mem::swap(&mut *all, messages);
            self.has_messages.store(false, SeqCst);
        }
        let mut now = now;
        for (from, message) in messages.drain(..) {
            endpoint.receive(from, message, now);
            now.random = now.random.wrapping_add(RANDOM_STEP);
        }
    }

    fn leave(
        &self,
        endpoint: &mut E,
        router: &impl Router<E::Protocol>,
        me: Peer,
        due: &mut DueEndpoints,
    ) {
        endpoint.flush(router, me, due);
        // Any thread may have read the messages that the endpoint's own thread waits for.
        if self.has_waiter.load(SeqCst) && endpoint.has_work() {
            self.wake();
        }
        // A later time needs no alarm now: it is set when the current alarm goes off.
        if let Some(wake_at_ns) = endpoint.wake_at_ns()
            && wake_at_ns < self.alarm_ns.load(SeqCst)
        {
            self.alarm_ns.store(wake_at_ns, SeqCst);
            router.wake_at(wake_at_ns, E::address(me));
        }
    }
}
