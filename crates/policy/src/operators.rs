//! Policies of operators: memory, external sort, hash join, aggregation, predicate pushdown,
//! runtime filters, work units, straggler mitigation, perturbation.

pub mod aggregate;
pub mod hash_partitions;
pub mod join;
pub mod key_bits;
pub mod key_filter;
pub mod memory;
pub mod memory_arbiter;
pub mod predicate;
pub mod sampling;
pub mod slowdown;
pub mod sort;
pub mod straggler_throttle;
pub mod tail_scheduling;
