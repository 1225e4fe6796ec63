//! The external merge sort of `partition` and `sort`: keys, run generation, splitters, ranges, and
//! copying of rows.

pub mod benchmark;
pub(crate) mod disk_run;
pub(crate) mod distribution_sort;
pub(crate) mod first_rows_filter;
pub(crate) mod gather;
pub(crate) mod gathered_samples;
pub(crate) mod in_memory;
pub(crate) mod key_sorting;
pub(crate) mod keys;
pub(crate) mod memory_runs;
mod packed_keys;
pub(crate) mod range_store;
pub(crate) mod ranges;
pub(crate) mod record_layout;
pub(crate) mod row_format;
pub(crate) mod run_generation;
pub(crate) mod spill;
pub(crate) mod splitters;
mod top_n;
#[cfg(target_arch = "x86_64")]
mod vector_sort;
