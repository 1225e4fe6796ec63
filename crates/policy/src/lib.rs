//! Scheduling, placement and recovery policies as pure state machines: no clock, files or threads.
//!
//! Each policy is a plain struct or function. Callers report events through `on_*`, which may
//! return a decision; `admit`, `assign`, `next`, `may_*` and the like return decisions on request.
//! Time (in nanoseconds) and randomness are arguments, and `check` asserts invariants. Folders
//! group the modules, but all are exported flat: `faults/recovery.rs` is `policy::recovery`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod caching;
mod diagnosis;
mod disks;
mod faults;
mod operators;
mod queues;

pub use diagnosis::{
    bottleneck, change_points, episodes, ideal, speed, static_division, straggler_detector,
};
pub use disks::{
    block_assignment, declustering, io_path, leases, lent_memory, log_cleaning, placement,
    spill_placement, striping,
};
pub use faults::{
    commit, deadlock, drain, elastic, failure_detector, log_limiter, network_partitions, recovery,
    restarts, unit_ledger,
};
pub use operators::{
    aggregate, hash_partitions, join, key_bits, key_filter, memory, memory_arbiter, predicate,
    sampling, slowdown, sort, straggler_throttle, tail_scheduling,
};
pub use queues::{active_messages, distributed, extents, queue, runs, window};
