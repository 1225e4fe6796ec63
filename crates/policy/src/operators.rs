//! Execution of modules: memory, external sort, hash join, aggregation, predicates, filters by
//! keys, work units, stragglers, perturbations.

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
