//! Caching of remote data: admission, eviction, and the worker that holds a block.

pub mod cooperative;
pub mod extents_kept;
pub mod peer_timeouts;
pub mod pressure;
pub mod rendezvous;
