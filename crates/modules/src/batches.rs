//! Streams of batches: arrays as bytes, byte strings, bits of integers, coalescing, runs, common
//! schemas, long rows.

pub(crate) mod array_values;
pub(crate) mod byte_strings;
pub(crate) mod coalescer;
pub(crate) mod integer_bits;
pub(crate) mod long_rows;
pub(crate) mod run_preserving;
pub(crate) mod schema_compatibility;
pub(crate) mod sink;
