//! What a run was like.

use std::collections::BTreeMap;

use serde::Serialize;

/// What a run was like. Times are virtual.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The seed that replays it.
    pub seed: u64,
    /// When the last batch was finished, in milliseconds.
    pub completed_ms: f64,
    /// When it could have been at the earliest, had work been water: the fluid bound.
    pub bound_ms: f64,
    /// Bound by completion; 1 is ideal.
    pub fraction: f64,
    /// How long consumers had nothing to do until the end, in the mean, of their time.
    pub idle: f64,
    /// From when the first consumer began its last piece until all were finished, in milliseconds.
    pub tail_ms: f64,
    /// How long one batch of the slowest component takes at its slowest, in milliseconds; a
    /// component that stands still is not counted.
    pub slowest_batch_ms: f64,
    /// Batches moved.
    pub batches: u64,
    /// Pieces they were given in.
    pub pieces: u64,
    /// Messages but those that carry data, a batch.
    pub messages_per_batch: f64,
    /// The same by kind.
    pub messages: BTreeMap<&'static str, u64>,
    /// The most pieces any consumer held, the one it worked on counted in.
    pub held_pieces_max: u32,
    /// The most bytes any consumer held.
    pub held_bytes_max: u64,
    /// Events simulated.
    pub events: u64,
}
