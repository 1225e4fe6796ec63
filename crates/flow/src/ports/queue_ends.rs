//! The interfaces of the two ends of a queue for ports; the engine implements them.

use crate::error::{Error, Result};
use crate::ports::parcel::{Parcel, RunIndex, Taken};
use crate::ports::partitioned::Partition;

/// The consumer's end of a queue.
pub trait Consumer: Send {
    /// The next item; waits for one if `wait`. `Empty` after a wait means that the item is assigned
    /// but not computed yet: the caller then calls `take(false)`, which computes it.
    fn take(&mut self, wait: bool) -> Result<Taken>;
    /// Whether `take` would not wait. With `register`, the calling thread is unparked when this may
    /// have changed; without it, it is unregistered.
    fn ready(&mut self, register: bool) -> bool;
    /// Waits until one of these inputs is ready and returns it. Only remote queue ends implement
    /// this, because they cannot be polled one by one; all others return `None`.
    fn select(&mut self, inputs: &[usize]) -> Result<Option<usize>> {
        let _ = inputs;
        Ok(None)
    }
    /// Whether the queue assigns whole partitions.
    fn is_keyed(&self) -> bool {
        false
    }
    /// The next partition, if the queue is keyed.
    fn next_partition(&mut self) -> Result<Option<Partition>> {
        Err(Error::usage("the queue is not keyed").remedy("place a `partition` before this module"))
    }
}

/// The producer's end of a queue.
pub trait Producer: Send {
    /// Puts a batch, waiting for room if `wait`. Returns the batch if there was no room.
    fn put(&mut self, parcel: Parcel, wait: bool) -> Result<Option<Parcel>>;
    /// Whether the queue would accept this batch now.
    fn has_room(&mut self, parcel: &Parcel) -> bool;
    /// Begins a run, whose batches come from this producer alone.
    fn begin_run(&mut self, run: RunIndex) -> Result<()>;
    /// Ends a run: no more of its batches follow.
    fn end_run(&mut self, run: RunIndex) -> Result<()>;
}
