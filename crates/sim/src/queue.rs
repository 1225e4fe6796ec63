//! Simulation of a distributed queue between producers with disks and consumers with processors.

pub mod clairvoyant;
mod scenario;
mod tally;
mod world;

pub(crate) use scenario::speed_of;
pub use scenario::{Death, PolicyName, QueueScenario, QueueSide, Share, SlowLink, Slowdown, When};
pub use world::run;
