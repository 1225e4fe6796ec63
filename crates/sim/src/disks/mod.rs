//! Simulation of mirrored reading, with the endpoints of `euphrates_policy::declustering`.
//!
//! A disk serves its queue of requests in order, one at a time, at its current speed. A request
//! takes a fixed time before it reaches the queue, so one request in flight does not keep the disk
//! busy, and a seek unless it follows the request before. Messages and data take the link's latency
//! and arrive in order between two ends. Consumers take blocks at once.

pub mod bound;
mod run;
mod scenario;
#[cfg(test)]
mod tests;

use euphrates_policy::declustering::ServiceOrder;
use euphrates_policy::declustering::reader::{NoCopy, ReaderSettings};

pub use run::run;
pub use scenario::{DiskDeath, MirrorsScenario, ReadPolicy, SlowDisks, run_scenario};

use crate::speed::SpeedCurve;
use bound::Demand;

/// Disks, the segments on them, and the policies that read them.
#[derive(Clone, Debug)]
pub struct MirroredReading {
    /// The disks, by number.
    pub disks: Vec<SimulatedDisk>,
    /// The segments, each with one reader.
    pub segments: Vec<SimulatedSegment>,
    /// The settings of all readers.
    pub settings: ReaderSettings,
    /// The order in which disks serve readers.
    pub order: ServiceOrder,
    /// Requests in flight per disk, at most.
    pub depth_max: usize,
    /// One-way latency between two ends.
    pub latency_ns: u64,
    /// Random latency on top, at most.
    pub latency_spread_ns: u64,
    /// Time from a disk's death until its readers are informed.
    pub notice_ns: u64,
}

/// A simulated disk, with its speed and its faults.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    /// Its speed over time.
    pub speed: SpeedCurve,
    /// The time of a seek: of a request that does not follow the one before.
    pub seek_ns: u64,
    /// The time of a request before it reaches the disk's queue.
    pub overhead_ns: u64,
    /// When it dies and loses all requests in flight.
    pub dies_ns: Option<u64>,
}

/// A segment and its copies.
#[derive(Clone, Debug)]
pub struct SimulatedSegment {
    /// The disks it is on, the primary first.
    pub copies: Vec<usize>,
    /// Bytes of each block.
    pub sizes: Vec<u64>,
    /// When its reader starts.
    pub from_ns: u64,
    /// Unreadable blocks: the index of the copy in `copies`, and the block.
    pub bad: Vec<(usize, u32)>,
}

/// The measures of a run.
#[derive(Clone, Debug, Default)]
pub struct SimulatedDiskReport {
    /// When each reader had all of its blocks, or failed.
    pub ends_ns: Vec<u64>,
    /// Failed readers, each with the block that has no copy left.
    pub failed: Vec<(usize, NoCopy)>,
    /// Blocks delivered to all readers.
    pub blocks: u64,
    /// Blocks requested from a second copy while a first one read them.
    pub again: u64,
    /// Blocks that were read and not used.
    pub wasted: u64,
    /// Messages between readers and disks, without data.
    pub messages: u64,
    /// Requests that did not follow the one before.
    pub seeks: u64,
    /// The most bytes that one reader held.
    pub held_bytes: u64,
    /// Events simulated: the cost of the run.
    pub events: u64,
}

impl SimulatedDiskReport {
    /// When the last reader ended.
    pub fn end_ns(&self) -> u64 {
        self.ends_ns.iter().copied().max().unwrap_or(0)
    }
}

impl MirroredReading {
    /// The earliest time at which everything can have been read; `None` if never.
    pub fn bound_ns(&self) -> Option<u64> {
        let speeds: Vec<SpeedCurve> = self.disks.iter().map(SimulatedDisk::speed_alive).collect();
        let bytes = |segment: &SimulatedSegment| segment.sizes.iter().sum();
        let demands = self.segments.iter().map(|segment| {
            let bytes = bytes(segment);
            Demand { copies: &segment.copies, bytes, from_ns: segment.from_ns }
        });
        bound::read_at(&speeds.iter().collect::<Vec<_>>(), &demands.collect::<Vec<_>>())
    }

    /// The bound divided by the time of a run, from 0 to 1.
    pub fn fraction(&self, report: &SimulatedDiskReport) -> f64 {
        self.bound_ns().map_or(0.0, |bound_ns| bound_ns as f64 / report.end_ns() as f64)
    }
}

impl SimulatedDisk {
    /// A disk of constant speed without seeks and overhead.
    pub fn constant(bytes_per_second: u64) -> SimulatedDisk {
        let speed = SpeedCurve::constant(bytes_per_second);
        SimulatedDisk { speed, seek_ns: 0, overhead_ns: 0, dies_ns: None }
    }

    /// The speed, which is 0 after the disk's death.
    pub(crate) fn speed_alive(&self) -> SpeedCurve {
        let Some(dies_ns) = self.dies_ns else { return self.speed.clone() };
        let before = self.speed.changes().iter().filter(|step| step.from_ns < dies_ns);
        let dead = crate::speed::SpeedChange { from_ns: dies_ns, bytes_per_second: 0 };
        let steps: Vec<_> = before.copied().chain([dead]).collect();
        SpeedCurve::changing(self.speed.first(), &steps)
    }
}
