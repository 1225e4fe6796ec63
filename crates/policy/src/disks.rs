//! Disks: I/O paths, placement of writes and mirrors, mirrored and striped reading.

pub mod block_assignment;
pub mod declustering;
pub mod io_path;
pub mod placement;
pub mod spill_placement;
pub mod striping;
