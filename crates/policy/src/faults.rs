//! Fault tolerance: failure and deadlock detection, retries, partitions, atomic commit.

pub mod commit;
pub mod failure_detector;
pub mod quota;
pub mod reach;
pub mod recovery;
pub mod restarts;
pub mod stall;
