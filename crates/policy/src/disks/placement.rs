//! Placement of the copies of a collection's segments on disks.
//!
//! Every disk holds equally many segments and equally many mirrors. The two placements differ in
//! the disks that take over the load of a slow or failed one:
//! - [`chained`]: its neighbours on a ring, whose load moves on round the ring (chained
//!   declustering, Hsiao and DeWitt, on which River 2.2.3 builds).
//! - [`spread`]: all other disks equally. It loses data more often, because any two disks that die
//!   together share some segment.
//!
//! Copies of a segment are on different workers if the workers' disks allow it.

mod chained;
mod design;
mod plan;
mod ring;

pub use chained::chained;
pub use design::spread;
pub use plan::{DiskPlacement, PlacementError};

#[cfg(test)]
mod tests;
