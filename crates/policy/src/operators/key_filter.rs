//! Runtime filters: whether a join sends the keys of its build side to the scan of its probe side,
//! and whether the scan gains by testing them (semi-join reduction: Bloom, 1970; Ives and Taylor,
//! ICDE 2008).

/// Bytes of a block of the filter: half a cache line.
pub const BLOCK_BYTES: usize = 32;
/// At least this many bits of the filter for each key: 1.4 % of the other keys pass it, and fewer
/// where the power of two leaves more.
const KEY_BITS: usize = 10;
/// A filter of a few keys has this many bytes, which stay in the first-level cache.
const BYTES_MIN: usize = 8 << 10;
/// The largest filter: a larger one is in no cache, where asking it costs what probing costs.
const BYTES_MAX: usize = 8 << 20;
/// The part of the process's memory, as a divisor, that a filter may take.
const MEMORY_DIVISOR: usize = 32;

/// The number of blocks of a filter of `keys` keys, a power of two; `None` if none is made, in a
/// process whose join may hold `memory_bytes`.
///
/// ```
/// use euphrates_policy::key_filter::blocks;
///
/// assert_eq!(blocks(100, 1 << 30), Some(256), "8 KiB");
/// assert_eq!(blocks(1_000_000, 1 << 30), Some(65536), "2 MiB");
/// assert_eq!(blocks(1_000_000, 1 << 25), None, "more than its part of the memory");
/// assert_eq!(blocks(10_000_000, 1 << 30), None, "more than 8 MiB");
/// ```
pub fn blocks(keys: usize, memory_bytes: usize) -> Option<usize> {
    let bytes = keys.saturating_mul(KEY_BITS) / 8;
    let bytes_max = BYTES_MAX.min(memory_bytes / MEMORY_DIVISOR);
    let bytes = bytes.max(BYTES_MIN).checked_next_power_of_two()?;
    (bytes <= bytes_max).then_some(bytes / BLOCK_BYTES)
}

/// A bit for each integer of a range may take this many times the bytes of hashes: it has no false
/// keys, and rows in the order of their keys ask neighbouring bits.
const BITMAP_FACTOR: usize = 4;
/// The largest bitmap.
const BITMAP_BYTES_MAX: usize = 32 << 20;

/// Whether a filter of `keys` keys, integers of which the greatest lies `span` above the least, has
/// a bit for each integer between, in a process whose join may hold `memory_bytes`.
///
/// ```
/// use euphrates_policy::key_filter::has_bitmap;
///
/// assert!(has_bitmap(1_000_000, 6_000_000, 1 << 30), "750 KB instead of 2 MiB");
/// assert!(has_bitmap(100, 200_000, 1 << 30), "within four times the least filter");
/// assert!(!has_bitmap(100, 1 << 40, 1 << 30));
/// assert!(has_bitmap(15_000_000, 60_000_000, 8 << 30), "hashes would take more than 8 MiB");
/// ```
pub fn has_bitmap(keys: usize, span: u64, memory_bytes: usize) -> bool {
    let bytes = span / 8 + 1;
    let hashed = (keys.saturating_mul(KEY_BITS) / 8).max(BYTES_MIN);
    let bytes_max = BITMAP_BYTES_MAX.min(memory_bytes / MEMORY_DIVISOR);
    bytes <= hashed.saturating_mul(BITMAP_FACTOR).min(bytes_max) as u64
}

/// The part of the process's memory, as a divisor, that the hashes of a single key may take.
const GATHERED_DIVISOR: usize = 32;
/// The most hashes of a single key that a process sends to the others.
pub const SENT_HASHES_MAX: usize = 64 << 10;

/// Whether a join by several keys gathers the hashes of one of them, for a source that has no
/// column for the others: `rows` of the build side, in a process that may hold `memory_bytes`.
///
/// ```
/// use euphrates_policy::key_filter::gathers_hashes;
///
/// assert!(gathers_hashes(1_000_000, 1 << 30));
/// assert!(!gathers_hashes(10_000_000, 1 << 30));
/// ```
pub fn gathers_hashes(rows: usize, memory_bytes: usize) -> bool {
    rows.saturating_mul(size_of::<u64>()) <= memory_bytes / GATHERED_DIVISOR
}

/// Rows after which the trial of a filter ends.
const TRIAL_ROWS: u64 = 16 << 10;
/// The inverse of the largest part of rows with a key of the filter for which asking it pays: above
/// it, the rows that are left out save less of decoding and probing than asking costs.
const PART_INVERSE: u64 = 2;

/// Whether a scan goes on asking a filter that had the keys of `matching` of `rows` rows.
///
/// ```
/// use euphrates_policy::key_filter::pays;
///
/// assert!(pays(1000, 1000), "too few to tell");
/// assert!(pays(100_000, 3000));
/// assert!(!pays(100_000, 60_000), "most rows are asked about for nothing");
/// ```
pub fn pays(rows: u64, matching: u64) -> bool {
    assert!(matching <= rows, "{matching} of {rows} rows match");
    rows < TRIAL_ROWS || matching.saturating_mul(PART_INVERSE) <= rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn filter_has_enough_bits_and_stays_within_its_bounds(
            keys in 0_usize..1 << 28, memory_bytes in 0_usize..1 << 36,
        ) {
            if let Some(blocks) = blocks(keys, memory_bytes) {
                let bytes = blocks * BLOCK_BYTES;
                prop_assert!(blocks.is_power_of_two());
                prop_assert!(bytes * 8 >= keys * KEY_BITS && bytes >= BYTES_MIN);
                prop_assert!(bytes <= BYTES_MAX && bytes <= memory_bytes / MEMORY_DIVISOR);
            }
        }

        #[test]
        fn more_matching_rows_never_make_a_filter_pay(
            rows in 0_u64..1 << 40, one in 0_u64..1 << 40, other in 0_u64..1 << 40,
        ) {
            let (few, many) = (one.min(other).min(rows), one.max(other).min(rows));
            prop_assert!(pays(rows, few) || !pays(rows, many));
        }
    }
}
