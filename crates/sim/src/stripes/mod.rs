//! Simulation of striped files with parity, with the policies of `euphrates_policy::striping`.
//!
//! [`run`] reads whole files, [`read_singly`] random blocks, [`write()`] writes, and [`transfer`]
//! compares the orders of requests between clients and servers. In [`run`], disks, links and
//! consumers are those of mirrored reading. It panics if a stripe is delivered twice, out of order
//! in a stream, or never.

mod bound;
mod cases;
mod orders;
mod run;
mod single_reads;
#[cfg(test)]
mod tests;
mod writes;

use euphrates_policy::declustering::ServiceOrder;
use euphrates_policy::striping::reader::{StripeBlocks, StripeSettings, TooFewBlocks};

pub use bound::read_at;
pub use cases::random_reading;
pub use orders::{ServiceTime, Transfers, transfer};
pub use run::run;
pub use single_reads::{RandomReads, read_singly};
pub use writes::{StripedWriting, write};

use crate::disks::SimulatedDisk;

/// Disks, the files striped over them, and the policies that read them.
#[derive(Clone, Debug)]
pub struct StripedReading {
    /// The disks, by number.
    pub disks: Vec<SimulatedDisk>,
    /// The files, each with one reader.
    pub files: Vec<StripedFile>,
    /// The settings of all readers.
    pub settings: StripeSettings,
    /// The order in which disks serve readers.
    pub order: ServiceOrder,
    /// Whether readers know beforehand how fast disks read a block of a mebibyte.
    pub knows_paces: bool,
    /// Requests in flight per disk, at most.
    pub depth_max: usize,
    /// One-way latency between two ends.
    pub latency_ns: u64,
    /// Random latency on top, at most.
    pub latency_spread_ns: u64,
    /// Time from a disk's death until its readers are informed.
    pub notice_ns: u64,
}

/// A file and its stripes.
#[derive(Clone, Debug)]
pub struct StripedFile {
    /// The stripes, in order.
    pub stripes: Vec<StripeBlocks>,
    /// Unreadable blocks: the disk and the stripe.
    pub bad: Vec<(usize, u32)>,
}

/// The measures of a run.
#[derive(Clone, Debug, Default)]
pub struct StripedReport {
    /// When each reader had all of its stripes, or failed.
    pub ends_ns: Vec<u64>,
    /// Failed readers, each with the stripe that has too few blocks left.
    pub failed: Vec<(usize, TooFewBlocks)>,
    /// Stripes delivered to all readers.
    pub stripes: u64,
    /// Blocks that were read in place of late ones.
    pub again: u64,
    /// Blocks that were read and not used.
    pub wasted: u64,
    /// Messages between readers and disks, without data.
    pub messages: u64,
    /// Blocks that each disk has read.
    pub read: Vec<u64>,
}

impl StripedReport {
    /// When the last reader ended.
    pub fn end_ns(&self) -> u64 {
        self.ends_ns.iter().copied().max().unwrap_or(0)
    }
}

impl StripedReading {
    /// The earliest time at which all stripes can have been read; `None` if never.
    pub fn bound_ns(&self) -> Option<u64> {
        read_at(&self.disks, self.files.iter().flat_map(|file| &file.stripes))
    }

    /// The bound divided by the time of a run, from 0 to 1.
    pub fn fraction(&self, report: &StripedReport) -> f64 {
        self.bound_ns().map_or(0.0, |bound_ns| bound_ns as f64 / report.end_ns() as f64)
    }
}
