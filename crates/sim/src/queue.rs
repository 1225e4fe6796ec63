//! Producers that read from disks, consumers with CPUs, and a distributed queue between them.

pub mod clairvoyant;
mod scenario;
mod tally;
mod world;

pub(crate) use scenario::speed_of;
pub use scenario::{Death, Link, Perturbation, PolicyName, QueueScenario, Share, Side, When};
pub use world::run;
