//! Fault tolerance: failure and deadlock detection, retries, completed units, restarts, draining,
//! growth, network partitions, atomic commit, limits of logs.

pub mod commit;
pub mod deadlock;
pub mod drain;
pub mod elastic;
pub mod failure_detector;
pub mod log_limiter;
pub mod network_partitions;
pub mod recovery;
pub mod restarts;
pub mod unit_ledger;
