//! Operators: memory, external sort, hash join, aggregation, work units, perturbations.

pub mod aggregate;
pub mod join;
pub mod memory;
pub mod parts;
pub mod sampling;
pub mod sort;
pub mod straggler_throttle;
pub mod throttle;
pub mod units;
