//! Disks: I/O paths, placement of writes and mirrors, mirrored reading.

pub mod dealing;
pub mod declustering;
pub mod device;
pub mod placement;
