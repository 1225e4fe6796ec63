//! Counts what a disk reads and writes, and how long it is busy with either.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Fills the buffer, or as much of it as the file has from the offset on.
    Read,
    /// Writes all of the buffer.
    Write,
}

/// What a disk has read or written since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Bytes of requests that are done.
    pub bytes: u64,
    /// Time in which it had something to do.
    pub busy: Duration,
}

impl Moved {
    /// What came since then.
    pub fn since(self, before: Moved) -> Moved {
        Moved {
            bytes: self.bytes.saturating_sub(before.bytes),
            busy: self.busy.saturating_sub(before.busy),
        }
    }
}

/// Counts the requests of one disk.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Of reading, and of writing.
    lanes: [Mutex<Lane>; 2],
}

#[derive(Debug, Default)]
struct Lane {
    moved: Moved,
    requests: usize,
    /// When the first of those began that are under way.
    since: Option<Instant>,
}

impl Meter {
    pub(super) fn begin(&self, op: Op) {
        let mut lane = lock(&self.lanes[op as usize]);
        lane.requests += 1;
        lane.since.get_or_insert_with(Instant::now);
    }

    pub(super) fn end(&self, op: Op, bytes: u64) {
        let mut lane = lock(&self.lanes[op as usize]);
        lane.requests -= 1;
        lane.moved.bytes += bytes;
        let now = Instant::now();
        let busy = lane.since.map_or(Duration::ZERO, |since| now - since);
        lane.moved.busy += busy;
        lane.since = (lane.requests > 0).then_some(now);
    }

    pub(super) fn read(&self) -> [Moved; 2] {
        [0, 1].map(|lane| {
            let lane = lock(&self.lanes[lane]);
            let busy = lane.since.map_or(Duration::ZERO, |since| since.elapsed());
            Moved { busy: lane.moved.busy + busy, ..lane.moved }
        })
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
