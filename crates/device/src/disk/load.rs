//! Bytes and blocks in flight to each of several disks: facts for
//! `euphrates_policy::block_assignment`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::sync::{Condvar, Mutex};
use euphrates_policy::block_assignment::{Backlog, OpenSegment, assign};

/// The blocks in flight to the disks of one collection.
///
/// ```
/// use euphrates_device::disk::Loads;
/// use euphrates_policy::block_assignment::OpenSegment;
/// use std::time::Duration;
///
/// let loads = Loads::new(2);
/// let on = |disk| OpenSegment { disks: vec![disk], assigned_bytes: 0 };
/// let segments = [on(0), on(1)];
/// let first = loads.choose(Duration::ZERO, &segments, 1 << 20).expect("idle disks");
/// let second = loads.choose(Duration::ZERO, &segments, 1 << 20).expect("an idle disk");
/// assert_eq!((first.0, second.0), (0, 1), "the first block is in flight");
/// ```
#[derive(Debug)]
pub struct Loads {
    state: Mutex<LoadState>,
    less: Condvar,
}

#[derive(Debug)]
struct LoadState {
    backlogs: Vec<Backlog>,
    /// For each disk the end of its last block, or the beginning of the oldest one in flight.
    since: Vec<Instant>,
}

/// The load of one disk, by its number in `Loads`.
#[derive(Clone, Debug)]
pub struct Load {
    loads: Arc<Loads>,
    disk: usize,
}

impl Loads {
    /// Loads of this many idle disks.
    pub fn new(disks: usize) -> Arc<Loads> {
        let (backlogs, since) = (vec![Backlog::default(); disks], vec![Instant::now(); disks]);
        Arc::new(Loads { state: Mutex::new(LoadState { backlogs, since }), less: Condvar::new() })
    }

    /// The load of the disk of this number.
    pub fn of(self: &Arc<Self>, disk: usize) -> Load {
        Load { loads: self.clone(), disk }
    }

    /// Chooses the segment for the next block of `bytes` bytes, as soon as one has a disk with
    /// room; `None` if `patience` runs out. The block counts as in flight from now on, because
    /// other writers choose before this one has sent it.
    pub fn choose(
        self: &Arc<Self>,
        patience: Duration,
        segments: &[OpenSegment],
        bytes: u64,
    ) -> Option<(usize, LoadReservation)> {
        let mut state = self.state.lock();
        let mut chosen = assign(segments, &state.backlogs);
        if chosen.is_none() {
            self.less.wait_for(&mut state, patience);
            chosen = assign(segments, &state.backlogs);
        }
        let at = chosen?;
        let disks = segments[at].disks.clone();
        disks.iter().for_each(|&disk| state.begin(disk, bytes));
        Some((at, LoadReservation { loads: self.clone(), disks, bytes }))
    }
}

impl LoadState {
    fn begin(&mut self, disk: usize, bytes: u64) {
        let backlog = &mut self.backlogs[disk];
        if backlog.blocks == 0 {
            self.since[disk] = Instant::now();
        }
        backlog.blocks += 1;
        backlog.bytes += bytes;
    }

    fn end(&mut self, disk: usize, bytes: u64) {
        let backlog = &mut self.backlogs[disk];
        backlog.blocks -= 1;
        backlog.bytes -= bytes;
    }
}

/// Counts a block as in flight to all disks of its segment until it is dropped.
#[derive(Debug)]
pub struct LoadReservation {
    loads: Arc<Loads>,
    disks: Vec<usize>,
    bytes: u64,
}

impl Drop for LoadReservation {
    fn drop(&mut self) {
        let mut state = self.loads.state.lock();
        self.disks.iter().for_each(|&disk| state.end(disk, self.bytes));
        self.loads.less.notify_all();
    }
}

impl Load {
    /// Counts a block of `bytes` bytes as in flight until the result is dropped. The unit is the
    /// block, however many requests it takes, because the policy measures a disk's speed in blocks.
    pub fn begin(&self, bytes: u64) -> BlockInFlight {
        self.loads.state.lock().begin(self.disk, bytes);
        BlockInFlight { load: self.clone(), bytes }
    }
}

/// A block that is in flight to a disk until this is dropped.
#[derive(Debug)]
pub struct BlockInFlight {
    load: Load,
    bytes: u64,
}

impl Drop for BlockInFlight {
    fn drop(&mut self) {
        let Load { loads, disk } = &self.load;
        let mut state = loads.state.lock();
        let now = Instant::now();
        let took = now.duration_since(std::mem::replace(&mut state.since[*disk], now));
        let interval = &mut state.backlogs[*disk].interval_ns;
        *interval = *interval / 2 + took.as_nanos() as u64 / 2;
        state.end(*disk, self.bytes);
        loads.less.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_counts_as_in_flight_from_the_choice_of_its_disk() {
        let loads = Loads::new(2);
        let segment = |disk| OpenSegment { disks: vec![disk], assigned_bytes: disk as u64 };
        let (segments, patience) = ([segment(0), segment(1)], Duration::ZERO);
        let (first, reserved) = loads.choose(patience, &segments, 10).unwrap();
        let (second, _other) = loads.choose(patience, &segments, 10).unwrap();
        assert_eq!((first, second), (0, 1));
        let in_flight = loads.of(0).begin(10);
        drop(reserved);
        let (third, _also) = loads.choose(patience, &segments, 10).unwrap();
        assert_eq!(third, 0, "both have as much waiting");
        drop(in_flight);
        let blocks: Vec<u32> = loads.state.lock().backlogs.iter().map(|one| one.blocks).collect();
        assert_eq!(blocks, [1, 1]);
    }
}
