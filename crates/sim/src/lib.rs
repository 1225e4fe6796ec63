//! A cluster in one heap: virtual time, seeded, the same policies as in the engine.
//!
//! Time is whole nanoseconds and work whole bytes, so a run is the same on every machine, and a
//! seed that fails replays.
#![forbid(unsafe_code)]

pub mod disks;
pub mod events;
pub mod fluid;
pub mod queue;
pub mod random;
pub mod report;
pub mod scenario;
pub mod shrink;
pub mod speed;

pub use report::Report;
pub use scenario::{Scenario, attempt, run};
pub use shrink::shrink;
