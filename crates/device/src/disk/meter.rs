//! Counters of the bytes that a disk reads and writes, and of its busy time.

use std::time::{Duration, Instant};

use euphrates_flow::sync::Mutex;
use serde::{Deserialize, Serialize};

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Fills the buffer, or as much of it as the file has from the offset on.
    Read,
    /// Writes all of the buffer.
    Write,
}

/// The transfers of a disk in one direction since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskTransfers {
    /// Bytes of completed requests.
    pub bytes: u64,
    /// Time in which at least one request was in flight.
    pub busy: Duration,
}

impl DiskTransfers {
    /// The difference to an earlier reading.
    ///
    /// ```
    /// use euphrates_device::disk::DiskTransfers;
    /// use std::time::Duration;
    ///
    /// let [before, now] = [(100, 1), (150, 3)]
    ///     .map(|(bytes, seconds)| DiskTransfers { bytes, busy: Duration::from_secs(seconds) });
    /// let period = now.since(before);
    /// assert_eq!((period.bytes, period.busy), (50, Duration::from_secs(2)));
    /// ```
    pub fn since(self, before: DiskTransfers) -> DiskTransfers {
        DiskTransfers {
            bytes: self.bytes.saturating_sub(before.bytes),
            busy: self.busy.saturating_sub(before.busy),
        }
    }
}

/// Counts the requests of one disk.
#[derive(Debug, Default)]
pub(super) struct DiskMeter {
    /// One lane for reads and one for writes.
    lanes: [Mutex<MeterLane>; 2],
}

#[derive(Debug, Default)]
struct MeterLane {
    moved: DiskTransfers,
    requests: usize,
    /// The beginning of the oldest request in flight.
    since: Option<Instant>,
}

impl DiskMeter {
    pub(super) fn begin(&self, op: Op) {
        let mut lane = self.lanes[op as usize].lock();
        lane.requests += 1;
        lane.since.get_or_insert_with(Instant::now);
    }

    pub(super) fn end(&self, op: Op, bytes: u64) {
        let mut lane = self.lanes[op as usize].lock();
        lane.requests -= 1;
        lane.moved.bytes += bytes;
        let now = Instant::now();
        let busy = lane.since.map_or(Duration::ZERO, |since| now - since);
        lane.moved.busy += busy;
        lane.since = (lane.requests > 0).then_some(now);
    }

    pub(super) fn read(&self) -> [DiskTransfers; 2] {
        [0, 1].map(|lane| {
            let lane = self.lanes[lane].lock();
            let busy = lane.since.map_or(Duration::ZERO, |since| since.elapsed());
            DiskTransfers { busy: lane.moved.busy + busy, ..lane.moved }
        })
    }
}
