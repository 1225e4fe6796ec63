//! Totals of a flow at one moment, for monitoring systems and the event log: counters that only
//! grow within an attempt, and what is held at present.

use std::fmt;

use euphrates_flow::metrics::Counters;
use serde::{Deserialize, Serialize};

use super::format::{count, seconds};
pub use super::sampler::SlowNow;

/// The totals of a flow, or of the part of a flow that a worker runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowTotals {
    /// The name of the flow.
    pub flow: String,
    /// The unique name of the run.
    pub run: String,
    /// The number of the attempt, from 1. Counters start again with each.
    pub attempt: u32,
    /// Seconds since the start of the first attempt.
    pub seconds: f64,
    /// The modules, producers before consumers.
    pub modules: Vec<ModuleTotals>,
    /// The queues, in the order of the checked flow.
    pub queues: Vec<QueueTotals>,
    /// The disks that the flow's processes have used; only a whole flow has them.
    pub disks: Vec<DiskTotals>,
    /// Instances and disks that are slow now; only a whole flow has them.
    pub slow: Vec<SlowNow>,
    /// The memory of the modules in this process.
    pub memory: MemoryTotals,
    /// The names of the workers that are alive.
    pub workers: Vec<String>,
    /// What failed attempts have cost.
    pub restarts: RestartCost,
}

/// The totals of a module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModuleTotals {
    /// Its name in the flow.
    pub id: String,
    /// The number of its instances.
    pub count: usize,
    /// The number of its instances that have ended.
    pub ended: usize,
    /// Whether it reads rows from outside the flow.
    pub is_source: bool,
    /// Seconds in the module's own code, until now.
    pub busy_seconds: f64,
    /// Sums over the instances.
    #[serde(flatten)]
    pub counters: Counters,
}

/// The totals of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueTotals {
    /// The producing module and its output.
    pub from: (String, String),
    /// The consuming module and its input.
    pub to: (String, String),
    /// Rows that consumers have taken.
    pub rows: u64,
    /// Bytes that consumers have taken.
    pub bytes: u64,
    /// Bytes that wait in the queue.
    pub waiting_bytes: u64,
    /// The bound of `waiting_bytes`. Partitions do not count: they stay with their producer.
    pub bound_bytes: u64,
}

/// The reads or the writes of a disk by one process of the flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskTotals {
    /// The worker that uses it; empty for this process.
    pub worker: String,
    /// Its name, or that of its device.
    pub name: String,
    /// Whether it is about writes; otherwise about reads.
    pub is_writing: bool,
    /// Bytes moved, without the page cache.
    pub bytes: u64,
    /// Seconds with requests in progress.
    pub busy_seconds: f64,
}

/// Memory that an arbiter divides between the modules of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTotals {
    /// Bytes that it divides.
    pub granted_bytes: u64,
    /// Bytes that modules hold now.
    pub held_bytes: u64,
}

/// What the failed attempts of a flow have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RestartCost {
    /// Attempts that have failed and were followed by another.
    pub failed_attempts: u32,
    /// Seconds from the starts of failed attempts to the starts of the next ones.
    pub lost_seconds: f64,
    /// Rows that sources had read in failed attempts; they are read again.
    pub rows_again: u64,
}

impl RestartCost {
    /// Whether no attempt has failed.
    pub fn is_none(&self) -> bool {
        self.failed_attempts == 0
    }
}

/// `1 attempt failed: 3.10 s lost, 1,200,000 rows read again`.
impl fmt::Display for RestartCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RestartCost { failed_attempts, lost_seconds, rows_again } = *self;
        let attempts = if failed_attempts == 1 { "attempt" } else { "attempts" };
        let (lost, rows) = (seconds(lost_seconds), count(rows_again));
        write!(f, "{failed_attempts} {attempts} failed: {lost} lost, {rows} rows read again")
    }
}

impl FlowTotals {
    /// Rows that the sources have read, or put out if they do not count what they read.
    pub fn rows_read(&self) -> u64 {
        let sources = self.modules.iter().filter(|module| module.is_source);
        let read = sources.map(|ModuleTotals { counters, .. }| match counters.rows_in {
            0 => counters.rows_out,
            rows => rows,
        });
        read.sum()
    }
}
