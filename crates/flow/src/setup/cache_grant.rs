//! The permission of a flow to keep remote data in the memory of its processes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the option `cache` grants a flow in one process.
///
/// ```
/// use euphrates_flow::CacheGrant;
///
/// let (first, second) = (CacheGrant::new(1 << 30), CacheGrant::new(1 << 30));
/// assert!(second.flow > first.flow, "each flow is an epoch of its own");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheGrant {
    /// The bytes that the process may keep, of this flow and of others.
    pub bytes_max: u64,
    /// The number of the flow in this process; later flows have greater ones.
    pub flow: u64,
}

impl CacheGrant {
    /// A grant for a flow that is about to be checked here.
    pub fn new(bytes_max: u64) -> CacheGrant {
        static FLOWS: AtomicU64 = AtomicU64::new(1);
        CacheGrant { bytes_max, flow: FLOWS.fetch_add(1, Relaxed) }
    }
}
