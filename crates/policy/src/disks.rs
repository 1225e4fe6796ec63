//! Disks and what stands in for them: I/O paths, placement of writes and mirrors, mirrored and
//! striped reading, lent memory, leases and cleaning of volumes.

pub mod block_assignment;
pub mod declustering;
pub mod io_path;
pub mod leases;
pub mod lent_memory;
pub mod log_cleaning;
pub mod placement;
pub mod spill_placement;
pub mod striping;
