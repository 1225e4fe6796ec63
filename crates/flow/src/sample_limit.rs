//! How many bytes of a text are sampled, at most, to infer its columns.
//!
//! Samples are taken while a flow is checked, before it runs and knows its limits, so the bound is
//! one of the process: that of the flow that started last.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bounds of the bound: a sample may always take a quarter of a megabyte.
const BYTES_LEAST: usize = 256 << 10;
const BYTES_MOST: usize = 64 << 20;

static SAMPLE_BYTES_MAX: AtomicUsize = AtomicUsize::new(BYTES_MOST);

/// Bounds the samples of this process, within 256 KiB and 64 MiB.
pub fn limit_samples(bytes_max: usize) {
    SAMPLE_BYTES_MAX.store(bytes_max.clamp(BYTES_LEAST, BYTES_MOST), Relaxed);
}

/// The longest sample, in bytes.
pub fn sample_bytes_max() -> usize {
    SAMPLE_BYTES_MAX.load(Relaxed)
}
