//! Caching of data from origins outside: what memory keeps, what it gives up, and where a block is.

pub mod cooperative;
pub mod extents_kept;
pub mod pressure;
pub mod rendezvous;
