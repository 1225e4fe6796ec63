//! The maximum bytes of a text that are sampled to infer its columns.
//!
//! A flow is sampled while it is checked, before its memory budget is known. The limit is therefore
//! global to the process: the flow that started last has set it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The range of the limit: a sample may always take 256 KiB, and never more than 64 MiB.
const BYTES_LEAST: usize = 256 << 10;
const BYTES_MOST: usize = 64 << 20;

static SAMPLE_BYTES_MAX: AtomicUsize = AtomicUsize::new(BYTES_MOST);

/// Bounds the samples of this process, within 256 KiB and 64 MiB.
///
/// ```
/// use euphrates_flow::sample_limit::{limit_samples, sample_bytes_max};
///
/// limit_samples(1 << 20);
/// assert_eq!(sample_bytes_max(), 1 << 20);
/// limit_samples(0);
/// assert_eq!(sample_bytes_max(), 256 << 10, "the smallest");
/// ```
pub fn limit_samples(bytes_max: usize) {
    SAMPLE_BYTES_MAX.store(bytes_max.clamp(BYTES_LEAST, BYTES_MOST), Relaxed);
}

/// The longest sample, in bytes.
pub fn sample_bytes_max() -> usize {
    SAMPLE_BYTES_MAX.load(Relaxed)
}
