//! A deterministic discrete-event simulator of clusters, which runs the policies of the engine.
//!
//! Virtual time is in whole nanoseconds and work in whole bytes, so a run is the same on every
//! machine, and a failing seed replays.
#![forbid(unsafe_code)]

pub mod caches;
pub mod disks;
pub mod events;
pub mod fluid;
pub mod queue;
pub mod random;
pub mod report;
pub mod scenario;
pub mod shrink;
pub mod speed;
pub mod stripes;

pub use report::QueueReport;
pub use scenario::{Scenario, attempt, run};
pub use shrink::shrink;
