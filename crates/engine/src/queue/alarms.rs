//! Timers of endpoints: wakes an endpoint at the time that it has requested.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::protocol::EndpointAddress;

/// Wakes an endpoint; returns false if the queue has been dropped.
type Ring = Arc<dyn Fn(EndpointAddress) -> bool + Send + Sync>;

/// The alarms of one queue. Its thread starts with the first.
pub struct Alarms {
    ring: Ring,
    began: Instant,
    schedule: Arc<AlarmSchedule>,
}

#[derive(Default)]
struct AlarmSchedule {
    pending: Mutex<PendingAlarm>,
    changed: Condvar,
}

#[derive(Default)]
struct PendingAlarm {
    alarms: BTreeSet<(u64, EndpointAddress)>,
    is_running: bool,
    is_over: bool,
}

impl Alarms {
    /// Without alarms; time is counted from `began`.
    pub fn new(
        began: Instant,
        ring: impl Fn(EndpointAddress) -> bool + Send + Sync + 'static,
    ) -> Alarms {
        Alarms { ring: Arc::new(ring), began, schedule: Arc::default() }
    }

    /// Rings an endpoint at this time.
    pub fn set(&self, at_ns: u64, address: EndpointAddress) {
        let mut pending = self.schedule.pending.lock();
        let is_first = pending.alarms.first().is_none_or(|(first, _)| at_ns < *first);
        pending.alarms.insert((at_ns, address));
        if !pending.is_running {
            let (ring, began) = (self.ring.clone(), self.began);
            let schedule = self.schedule.clone();
            let thread = thread::Builder::new().name("alarms".into());
            // Without a thread, alarms go off late: with the next message.
            pending.is_running = thread.spawn(move || schedule.run(&ring, began)).is_ok();
        } else if is_first {
            self.schedule.changed.notify_one();
        }
    }
}

impl Drop for Alarms {
    fn drop(&mut self) {
        // Not joined: the thread of the alarms may be the last that held the queue.
        self.schedule.pending.lock().is_over = true;
        self.schedule.changed.notify_one();
    }
}

impl AlarmSchedule {
    fn run(&self, ring: &Ring, began: Instant) {
        while let Some(address) = self.next(began) {
            if !ring(address) {
                return;
            }
        }
    }

    /// Waits for the next alarm; `None` when there will be no more.
    fn next(&self, began: Instant) -> Option<EndpointAddress> {
        let mut pending = self.pending.lock();
        loop {
            if pending.is_over {
                return None;
            }
            let now_ns = began.elapsed().as_nanos() as u64;
            let left = match pending.alarms.first() {
                Some((at_ns, _)) if *at_ns <= now_ns => {
                    return pending.alarms.pop_first().map(|(_, address)| address);
                }
                Some((at_ns, _)) => Duration::from_nanos(at_ns - now_ns),
                None => Duration::MAX,
            };
            self.changed.wait_for(&mut pending, left);
        }
    }
}
