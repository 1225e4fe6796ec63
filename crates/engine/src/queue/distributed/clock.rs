//! Wakes endpoints whose threads are elsewhere.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::Address;
use super::DistributedQueue;

/// The alarms of one queue. Its thread starts with the first.
pub struct Clock {
    queue: Weak<DistributedQueue>,
    began: Instant,
    alarms: Arc<Alarms>,
}

#[derive(Default)]
struct Alarms {
    set: Mutex<Set>,
    changed: Condvar,
}

#[derive(Default)]
struct Set {
    alarms: BTreeSet<(u64, Address)>,
    is_running: bool,
    is_over: bool,
}

impl Clock {
    /// Without alarms; time is counted from `began`.
    pub fn new(queue: Weak<DistributedQueue>, began: Instant) -> Clock {
        Clock { queue, began, alarms: Arc::default() }
    }

    /// Has an endpoint woken at this time.
    pub fn set(&self, at_ns: u64, address: Address) {
        let mut set = self.alarms.set.lock();
        let is_first = set.alarms.first().is_none_or(|(first, _)| at_ns < *first);
        set.alarms.insert((at_ns, address));
        if !set.is_running {
            let (queue, began, alarms) = (self.queue.clone(), self.began, self.alarms.clone());
            let thread = thread::Builder::new().name("alarms".into());
            // Without a thread, alarms go off late: with the next letter.
            set.is_running = thread.spawn(move || alarms.run(&queue, began)).is_ok();
        } else if is_first {
            self.alarms.changed.notify_one();
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // Not joined: it may be the clock's own thread that held the queue last.
        self.alarms.set.lock().is_over = true;
        self.alarms.changed.notify_one();
    }
}

impl Alarms {
    fn run(&self, queue: &Weak<DistributedQueue>, began: Instant) {
        while let Some(address) = self.next(began) {
            let Some(queue) = queue.upgrade() else { return };
            queue.ring(address);
        }
    }

    /// Waits for the next alarm; `None` when there will be no more.
    fn next(&self, began: Instant) -> Option<Address> {
        let mut set = self.set.lock();
        loop {
            if set.is_over {
                return None;
            }
            let now_ns = began.elapsed().as_nanos() as u64;
            let left = match set.alarms.first() {
                Some((at_ns, _)) if *at_ns <= now_ns => {
                    return set.alarms.pop_first().map(|(_, address)| address);
                }
                Some((at_ns, _)) => Duration::from_nanos(at_ns - now_ns),
                None => Duration::MAX,
            };
            self.changed.wait_for(&mut set, left);
        }
    }
}
