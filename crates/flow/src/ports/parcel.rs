//! The items of a queue: batches with their sizes and runs.

use arrow::record_batch::RecordBatch;

/// The number of a run in its stream: consecutive, from 0.
pub type RunIndex = u64;

/// A batch in a queue, with its size (counted once) and its run, if it has one.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// The records of the batch.
    pub batch: RecordBatch,
    /// Its size against the queue's bound.
    pub bytes: usize,
    /// The run it belongs to, if the stream is ordered.
    pub run: Option<RunIndex>,
}

/// The result of taking from a queue.
#[derive(Debug)]
pub enum Taken {
    /// The next batch of the queue.
    Batch(Parcel),
    /// All batches of this run have been taken. A run may be empty.
    RunEnd(RunIndex),
    /// Nothing is available now. After a wait: the next item is assigned but not computed yet (see
    /// `Consumer::take`).
    Empty,
    /// The queue has ended.
    End,
}
