//! Fault tolerance: failure and deadlock detection, retries, partitions, atomic commit.

pub mod commit;
pub mod deadlock;
pub mod failure_detector;
pub mod log_limiter;
pub mod network_partitions;
pub mod recovery;
pub mod restarts;
