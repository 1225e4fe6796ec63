//! The measures of a simulated run.

use std::collections::BTreeMap;

use serde::Serialize;

/// The measures of one run. All times are virtual.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueReport {
    /// The seed that replays the run.
    pub seed: u64,
    /// When the last batch was finished, in milliseconds.
    pub completed_ms: f64,
    /// The fluid bound on that time, in milliseconds: work is divisible and flows to idle capacity.
    pub bound_ms: f64,
    /// Bound by completion; 1 is ideal.
    pub fraction: f64,
    /// The mean fraction of the run in which consumers were idle.
    pub idle: f64,
    /// From when the first consumer began its last piece until all were finished, in milliseconds.
    pub tail_ms: f64,
    /// The time of one batch at the slowest component at its slowest, in milliseconds, without
    /// components that stand still.
    pub slowest_batch_ms: f64,
    /// Batches consumed, by all consumers.
    pub batches: u64,
    /// Pieces in which the batches were given.
    pub pieces: u64,
    /// Messages without data per batch.
    pub messages_per_batch: f64,
    /// All messages, by kind.
    pub messages: BTreeMap<&'static str, u64>,
    /// The most pieces that any consumer held, including the one in service.
    pub held_pieces_max: u32,
    /// The most bytes that any consumer held.
    pub held_bytes_max: u64,
    /// Events simulated: the cost of the run.
    pub events: u64,
}
