//! Streams of batches: coalescing, runs, common schemas, and long rows.

pub(crate) mod coalescer;
pub(crate) mod long_rows;
pub(crate) mod run_preserving;
pub(crate) mod schema_compatibility;
pub(crate) mod sink;
