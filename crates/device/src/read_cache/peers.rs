//! The caches of a flow's other workers: a range is cached by the worker that is its home.

use std::fmt::Debug;
use std::ops::Range;

use bytes::Bytes;
use euphrates_flow::Result;
use serde::{Deserialize, Serialize};

/// A range of a version of an object, as all workers name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRange {
    /// The address of the object.
    pub address: String,
    /// Identifies its content under this address for ever.
    pub content: String,
    /// The first byte, and the one behind the last.
    pub bytes: Range<u64>,
}

/// What the home of a range has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeAnswer {
    /// All of it.
    Cached(Bytes),
    /// Not all of it. `is_wanted` says whether it would be cached there.
    Missing {
        /// Whether the reader should send what it reads from the origin.
        is_wanted: bool,
    },
}

/// The other workers that read the same objects.
pub trait PeerCaches: Debug + Send + Sync {
    /// The worker that caches the range that begins at this offset of an object; `None` if this is
    /// the process itself, or if the range has no home.
    fn home(&self, address: &str, offset: u64) -> Option<usize>;

    /// Asks the home for a range. It is `Missing` if the home does not answer in time, too. Fails
    /// if the flow is cancelled.
    fn request(&self, home: usize, range: &ObjectRange) -> Result<HomeAnswer>;

    /// Sends a range to its home, which wants it. Never waits.
    fn offer(&self, home: usize, range: &ObjectRange, bytes: Bytes);
}
