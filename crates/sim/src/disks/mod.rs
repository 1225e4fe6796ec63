//! Mirrored collections read from disks of different and changing speeds, by the endpoints of
//! `euphrates_policy::declustering` as they are.
//!
//! A disk serves its queue of requests in order, at its speed, one at a time; a request costs a
//! fixed time before it reaches the queue, so one request in flight does not fill the disk, and a
//! seek if it does not follow the one before. Messages and data take the link's latency, in order
//! between two ends. Consumers take what they are given at once.

pub mod bound;
mod run;
mod scenario;
#[cfg(test)]
mod tests;

use euphrates_policy::declustering::Order;
use euphrates_policy::declustering::reader::{NoCopy, Settings};

pub use run::run;
pub use scenario::{DiskDeath, MirrorsScenario, SlowDisks, Way, run_scenario};

use crate::speed::Speed;
use bound::Demand;

/// Disks, what is on them, and who reads it how.
#[derive(Clone, Debug)]
pub struct Mirrors {
    /// The disks.
    pub disks: Vec<Device>,
    /// The segments; each has a reader.
    pub segments: Vec<Segment>,
    /// How a reader claims.
    pub settings: Settings,
    /// Whom a disk serves.
    pub order: Order,
    /// Requests in flight at a disk at most.
    pub depth_max: usize,
    /// From one end to another.
    pub latency_ns: u64,
    /// Up to so much more, at random.
    pub latency_spread_ns: u64,
    /// From a disk's death until its readers know.
    pub notice_ns: u64,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its speed.
    pub speed: Speed,
    /// What a request costs that does not follow the one before.
    pub seek_ns: u64,
    /// What a request costs before it is in the disk's queue.
    pub overhead_ns: u64,
    /// When it dies, with all that is in flight.
    pub dies_ns: Option<u64>,
}

/// A segment and its copies.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The disks it is on, the primary first.
    pub copies: Vec<usize>,
    /// Bytes of each block.
    pub sizes: Vec<u64>,
    /// When its reader starts.
    pub from_ns: u64,
    /// Blocks that cannot be read at a copy: the copy's place in `copies`, and the block.
    pub bad: Vec<(usize, u32)>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// When each reader had all, or failed.
    pub ends_ns: Vec<u64>,
    /// Which readers failed, and for want of which block.
    pub failed: Vec<(usize, NoCopy)>,
    /// Blocks delivered.
    pub blocks: u64,
    /// Blocks asked of a second copy while a first read them.
    pub again: u64,
    /// Blocks read whose answer nobody used.
    pub wasted: u64,
    /// Messages between readers and disks, data apart.
    pub messages: u64,
    /// Requests that did not follow the one before.
    pub seeks: u64,
    /// What one reader held at most.
    pub held_bytes: u64,
    /// Events simulated.
    pub events: u64,
}

impl Report {
    /// When the last reader had all.
    pub fn end_ns(&self) -> u64 {
        self.ends_ns.iter().copied().max().unwrap_or(0)
    }
}

impl Mirrors {
    /// When all can have been read at the earliest; nothing if never.
    pub fn bound_ns(&self) -> Option<u64> {
        let speeds: Vec<Speed> = self.disks.iter().map(Device::speed_alive).collect();
        let bytes = |segment: &Segment| segment.sizes.iter().sum();
        let demands = self.segments.iter().map(|segment| {
            let bytes = bytes(segment);
            Demand { copies: &segment.copies, bytes, from_ns: segment.from_ns }
        });
        bound::read_at(&speeds.iter().collect::<Vec<_>>(), &demands.collect::<Vec<_>>())
    }

    /// The bound as a part of the time it took, from 0 to 1.
    pub fn fraction(&self, report: &Report) -> f64 {
        self.bound_ns().map_or(0.0, |bound_ns| bound_ns as f64 / report.end_ns() as f64)
    }
}

impl Device {
    /// A disk of constant speed that costs nothing besides.
    pub fn constant(bytes_per_second: u64) -> Device {
        let speed = Speed::constant(bytes_per_second);
        Device { speed, seek_ns: 0, overhead_ns: 0, dies_ns: None }
    }

    /// Its speed, 0 after its death.
    fn speed_alive(&self) -> Speed {
        let Some(dies_ns) = self.dies_ns else { return self.speed.clone() };
        let before = self.speed.changes().iter().filter(|step| step.from_ns < dies_ns);
        let dead = crate::speed::Step { from_ns: dies_ns, bytes_per_second: 0 };
        let steps: Vec<_> = before.copied().chain([dead]).collect();
        Speed::changing(self.speed.first(), &steps)
    }
}
