//! The types of live statistics, for the studio: every instance, every queue, and the bottleneck.
//! `live.rs` computes them.

use serde::Serialize;

use super::sampler::SlowNow;

/// A snapshot of a running flow, with current rates.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LiveStats {
    /// Seconds since the start.
    pub seconds: f64,
    /// The modules, producers before consumers.
    pub modules: Vec<LiveModule>,
    /// The queues, in the order of the checked flow.
    pub queues: Vec<LiveQueue>,
    /// Instances and disks that are slow now.
    pub slow: Vec<SlowNow>,
    /// What limits the flow's speed, if known.
    pub bottleneck: Option<LiveBottleneck>,
}

/// A snapshot of a module.
#[derive(Clone, Debug, Serialize)]
pub struct LiveModule {
    /// Its name in the flow.
    pub id: String,
    /// The number of its instances.
    pub count: usize,
    /// The state of most of its instances.
    pub state: &'static str,
    /// Share of recent time spent in its own code.
    pub busy: f64,
    /// Share of recent time spent waiting for input.
    pub starved: f64,
    /// Share of recent time spent waiting for room in its output.
    pub blocked: f64,
    /// Rows received so far.
    pub rows_in: u64,
    /// Bytes received so far.
    pub bytes_in: u64,
    /// Rows sent so far.
    pub rows_out: u64,
    /// Bytes sent so far.
    pub bytes_out: u64,
    /// Current rows per second: in or out, whichever is more.
    pub rows_per_second: f64,
    /// Current bytes per second: in or out, whichever is more.
    pub bytes_per_second: f64,
    /// Its instances, by number.
    pub instances: Vec<LiveInstance>,
}

/// A snapshot of an instance.
#[derive(Clone, Debug, Serialize)]
pub struct LiveInstance {
    /// Its name: module and number.
    pub name: String,
    /// The name of its worker.
    pub worker: String,
    /// Share of recent time spent in its own code.
    pub busy: f64,
    /// Share of recent time spent waiting for input.
    pub starved: f64,
    /// Share of recent time spent waiting for room in its output.
    pub blocked: f64,
    /// Current bytes per second: in or out, whichever is more.
    pub bytes_per_second: f64,
    /// If it is slow: by which factor; `None` inside if it makes no progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<Option<f64>>,
}

/// A snapshot of a queue.
#[derive(Clone, Debug, Serialize)]
pub struct LiveQueue {
    /// The producing module and its output.
    pub from: (String, String),
    /// The consuming module and its input.
    pub to: (String, String),
    /// Current rows per second.
    pub rows_per_second: f64,
    /// Current bytes per second.
    pub bytes_per_second: f64,
    /// Bytes that wait in the queue.
    pub waiting_bytes: i64,
    /// The bound of `waiting_bytes`. Partitions do not count: they stay with their producer.
    pub bound_bytes: usize,
}

/// What limits a flow's speed.
#[derive(Clone, Debug, Serialize)]
pub struct LiveBottleneck {
    /// The module, the instance or the disk.
    pub name: String,
    /// `module`, `instance` or `disk`.
    pub kind: &'static str,
    /// The module, if it is one or part of one.
    pub module: Option<String>,
    /// The reason, for people.
    pub why: String,
}
