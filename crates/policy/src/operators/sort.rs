//! External sort: sizes of sorted chunks, runs and merge ranges, and splitters between ranges.
//!
//! Records are sorted into runs (in memory, or spilled to scratch). Then splitters divide the key
//! space into ranges, and any free instance merges the next one. Splitters come from samples of
//! sorted runs ([`crate::sampling`]; NOW-Sort and AlphaSort assume uniform keys instead). A
//! splitter is a key *and a position*, so even records with equal keys fall into ranges of one
//! size. A range may exceed its size in a sort that must keep equal keys together, and where the
//! kept prefixes of long keys do not tell them apart.

use alloc::vec::Vec;

/// Keys of a sorted chunk, at most: 16 MiB, so that sorting stays near the cache.
const CHUNK_KEYS: usize = 1 << 20;
/// Keys of a sorted chunk, at least, except for the last.
const CHUNK_KEYS_MIN: usize = 1 << 16;
/// The fraction (one in this many) of the keys that may be unsorted at the end of the input, when
/// everything waits for them.
const CHUNK_PART: usize = 32;

/// Keys to collect before a chunk is sorted, when `keys` have been received.
///
/// ```
/// use euphrates_policy::sort::chunk_keys;
///
/// assert_eq!([chunk_keys(0), chunk_keys(10_000_000)], [65_536, 312_500]);
/// ```
pub fn chunk_keys(keys: usize) -> usize {
    (keys / CHUNK_PART).clamp(CHUNK_KEYS_MIN, CHUNK_KEYS)
}

/// The largest range merged from memory, in bytes: a few batches, so that copying stays in the
/// cache, and the overhead per run of output is small.
pub const RANGE_BYTES_MAX: usize = 16 << 20;

/// The smallest range, in bytes, except for the last.
pub(crate) const RANGE_BYTES_MIN: usize = 2 << 20;

/// The next range is one in this many of the rows left per consumer. A consumer may be that many
/// times slower than the others, and all still end together.
const RANGES_LEFT: usize = 8;

/// The fewest columns for which row format pays; fewer are copied one by one at no more cost.
const ROW_COLUMNS_MIN: usize = 3;

/// Whether records with `columns` besides the keys are held in row format: copying a record then
/// has one cache miss instead of one per column.
///
/// ```
/// use euphrates_policy::sort::rows_pay;
///
/// assert_eq!([2, 3].map(rows_pay), [false, true]);
/// ```
pub fn rows_pay(columns: usize) -> bool {
    columns >= ROW_COLUMNS_MIN
}

/// The size of a block of a run on disk, in bytes, at most and at least.
const BLOCK_BYTES_MAX: usize = 128 << 10;
const BLOCK_BYTES_MIN: usize = 16 << 10;

/// The size of a block of a run on disk, in bytes, where an instance may hold `share_bytes`. Every
/// range reads a part of a block of each run, and the next range the rest of that block again. So
/// blocks are small where memory allows small ranges only.
///
/// ```
/// use euphrates_policy::sort::block_bytes;
///
/// assert_eq!(block_bytes(1 << 30), 128 << 10);
/// assert_eq!(block_bytes(10 << 20), 32 << 10, "a sixty-fourth of a range of 2 MiB");
/// ```
pub fn block_bytes(share_bytes: usize) -> usize {
    (share_bytes / RANGE_MEMORY / RANGE_BLOCKS).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX)
}

/// A range that is merged from disk may have one in this many bytes of a share.
const RANGE_MEMORY: usize = 5;
/// The fewest blocks of a range where memory is short, unless blocks would be too small.
const RANGE_BLOCKS: usize = 64;

/// Sizes of ranges. They shrink towards the end with the remaining rows (factoring: Hummel,
/// Schonberg and Flynn, 1992), so that the last range of a slow consumer is short, and there are
/// few ranges. The first ranges are small too, and each consumer's next is as large as all it has
/// had: every process has a part of every range, so all consumers wait for a slow process's parts
/// of their first ranges.
///
/// ```
/// use euphrates_policy::sort::{RangeSizes, cut};
///
/// let splitters = cut(&[1000; 10], RangeSizes::even(300_000), 100);
/// assert_eq!(splitters, [3, 6, 9], "ranges of 3000 rows of 100 bytes");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeSizes {
    most_bytes: usize,
    least_bytes: usize,
    consumers: usize,
}

impl RangeSizes {
    /// Sizes for `consumers` that merge runs in memory and `disk_runs` on disk, where an instance
    /// may hold `share_bytes`.
    pub fn new(consumers: usize, share_bytes: usize, disk_runs: usize) -> RangeSizes {
        let (most_bytes, least_bytes) = match disk_runs {
            0 => (RANGE_BYTES_MAX, RANGE_BYTES_MIN),
            runs => (disk_range_bytes(share_bytes, runs), runs * block_bytes(share_bytes) * 4),
        };
        let least_bytes = least_bytes.clamp(RANGE_BYTES_MIN.min(most_bytes), most_bytes);
        RangeSizes { most_bytes, least_bytes, consumers: consumers.max(1) }
    }

    /// Ranges of one size.
    ///
    /// ```
    /// use euphrates_policy::sort::{RangeSizes, cut};
    ///
    /// assert_eq!(cut(&[1; 5], RangeSizes::even(20), 10), [2, 4], "the last range is the rest");
    /// ```
    pub fn even(bytes: usize) -> RangeSizes {
        RangeSizes { most_bytes: bytes, least_bytes: bytes, consumers: 1 }
    }

    /// Rows of the next range.
    fn rows(&self, rows_taken: usize, rows_left: usize, row_bytes: usize) -> usize {
        let fair = (rows_taken / self.consumers).min(rows_left / self.consumers / RANGES_LEFT);
        fair.clamp(self.least_bytes / row_bytes, self.most_bytes / row_bytes).max(1)
    }
}

/// The largest range merged from disk, in bytes. A splitter cuts a block of every run, and the next
/// range reads the rest of the block again, so a range must be large beside the sum of those
/// blocks.
///
/// ```
/// use euphrates_policy::sort::{RANGE_BYTES_MAX, disk_range_bytes};
///
/// assert_eq!(disk_range_bytes(1 << 30, 4), RANGE_BYTES_MAX);
/// assert_eq!(disk_range_bytes(1 << 30, 64), 64 << 20, "a MiB per run");
/// assert_eq!(disk_range_bytes(50 << 20, 64), 10 << 20, "a fifth of the share");
/// ```
pub fn disk_range_bytes(share_bytes: usize, runs: usize) -> usize {
    let worthwhile = runs * block_bytes(share_bytes) * 8;
    let affordable = (share_bytes / RANGE_MEMORY).max(BLOCK_BYTES_MAX);
    worthwhile.max(RANGE_BYTES_MAX).min(affordable)
}

/// The memory of a range that exceeds its size because its keys are equal: half of the budget,
/// which `instances` share.
///
/// ```
/// use euphrates_policy::sort::{RANGE_BYTES_MAX, range_bytes_max};
///
/// assert_eq!(range_bytes_max(1 << 30, 4), 128 << 20);
/// assert_eq!(range_bytes_max(1 << 20, 4), 2 * RANGE_BYTES_MAX, "the least");
/// ```
pub fn range_bytes_max(budget: usize, instances: usize) -> usize {
    (budget / 2 / instances.max(1)).max(2 * RANGE_BYTES_MAX)
}

/// The memory for long keys that all instances of a process keep to distinguish equal prefixes.
/// Keys that cannot be distinguished form one range, so there is room for some even where shares
/// are small.
///
/// ```
/// use euphrates_policy::sort::kept_keys_bytes_max;
///
/// let budget = 1 << 30;
/// assert_eq!(kept_keys_bytes_max(budget, budget), 128 << 20);
/// assert_eq!(kept_keys_bytes_max(4 << 20, budget), 64 << 20, "small shares");
/// ```
pub fn kept_keys_bytes_max(share_bytes: usize, budget: usize) -> usize {
    (share_bytes / 8).max(budget / 16)
}

/// Whether an instance must write a run to disk before it accepts more: only `spare_bytes` of its
/// share are left.
///
/// ```
/// use euphrates_policy::sort::must_spill;
///
/// assert!(!must_spill(700, 800), "an eighth of the share is kept free");
/// assert!(must_spill(701, 800));
/// ```
pub fn must_spill(held_bytes: usize, share_bytes: usize) -> bool {
    held_bytes + spare_bytes(share_bytes) > share_bytes
}

/// The memory that an instance keeps free for batches while it writes a run.
fn spare_bytes(share_bytes: usize) -> usize {
    (share_bytes / 8).min(RANGE_BYTES_MAX * 3)
}

/// Whether the last run of an instance may stay in memory while ranges are merged from disk.
///
/// ```
/// use euphrates_policy::sort::may_stay;
///
/// assert_eq!([40, 41].map(|held_bytes| may_stay(held_bytes, 100, 20)), [true, false]);
/// ```
pub fn may_stay(held_bytes: usize, share_bytes: usize, range_bytes: usize) -> bool {
    held_bytes + 3 * range_bytes <= share_bytes
}

/// Chooses splitters from samples, which are in key order and given by the rows that each stands
/// for. Returns the indexes of the samples that begin a new range.
///
/// ```
/// use euphrates_policy::sort::{RangeSizes, cut};
///
/// assert_eq!(cut(&[10, 10, 500, 10], RangeSizes::even(1000), 10), [3], "100 rows or more each");
/// assert_eq!(cut(&[], RangeSizes::even(1000), 10), [0; 0]);
/// ```
pub fn cut(rows_of_samples: &[usize], sizes: RangeSizes, row_bytes: usize) -> Vec<usize> {
    let mut left: usize = rows_of_samples.iter().sum();
    let (mut cuts, mut rows, mut taken) = (Vec::new(), 0, 0);
    for (position, sample) in rows_of_samples.iter().enumerate() {
        if position > 0 && rows >= sizes.rows(taken, left, row_bytes) {
            cuts.push(position);
            (taken, left, rows) = (taken + rows, left - rows, 0);
        }
        rows += sample;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// The rows of each range, if every sample stands for `step` rows.
    fn ranges(rows: usize, step: usize, sizes: RangeSizes, row_bytes: usize) -> Vec<usize> {
        let samples = vec![step; rows / step];
        let mut ends = cut(&samples, sizes, row_bytes);
        ends.push(samples.len());
        let starts = [0].into_iter().chain(ends.clone());
        starts.zip(&ends).map(|(start, end)| (end - start) * step).collect()
    }

    #[test]
    fn few_keys_are_unsorted_at_the_end_and_chunks_are_few() {
        for keys in [400_000, 1_000_000, 10_000_000, 100_000_000] {
            let (mut chunks, mut open) = (vec![], 0);
            for received in (0..=keys).step_by(10_000) {
                if open >= chunk_keys(received) {
                    assert!(open <= (received / CHUNK_PART).max(CHUNK_KEYS_MIN) + 10_000);
                    chunks.push(open);
                    open = 0;
                }
                open += 10_000;
            }
            chunks.push(open);
            assert!(chunks.len() <= keys / CHUNK_KEYS + 150, "{} of {keys}", chunks.len());
        }
    }

    #[test]
    fn ranges_are_near_the_target_size_and_cover_all_rows() {
        let ranges = ranges(4_096_000, 4096, RangeSizes::even(16_000_000), 100);
        assert_eq!((ranges.len(), ranges.iter().sum()), (25, 4_096_000));
        assert!(ranges.iter().all(|rows| *rows < 160_000 + 4096), "{ranges:?}");
        assert!(cut(&[], RangeSizes::even(10), 1).is_empty());
        assert!(cut(&[1_000_000], RangeSizes::even(10), 1).is_empty());
    }

    #[test]
    fn ranges_grow_at_the_start_and_shrink_at_the_end() {
        for (consumers, gigabytes) in [(1, 1), (2, 1), (8, 1), (16, 10), (300, 100)] {
            let rows = gigabytes * 10_000_000;
            let ranges = ranges(rows, 100, RangeSizes::new(consumers, 1 << 30, 0), 100);
            let mut left = rows;
            for range in &ranges {
                let fair = (left / RANGES_LEFT).min(rows - left) / consumers;
                assert!(*range <= fair.max(RANGE_BYTES_MIN / 100) + 100);
                assert!(*range <= RANGE_BYTES_MAX / 100 + 100);
                left -= range;
            }
            assert_eq!(left, 0);
            let enough = rows * 100 / RANGE_BYTES_MAX + 40 * consumers + 1;
            assert!(ranges.len() <= enough, "{} for {consumers}", ranges.len());
        }
    }

    #[test]
    fn disk_range_is_large_beside_the_blocks_that_splitters_cut() {
        for runs in [2, 20, 60] {
            let range = disk_range_bytes(512 << 20, runs);
            assert!(range >= runs * BLOCK_BYTES_MAX * 4, "{runs}");
        }
        // With little memory a range has fewer blocks of each run, and yet one.
        for runs in [2, 15, 60] {
            let range = disk_range_bytes(16 << 20, runs);
            let fewest = if runs <= 15 { 4 } else { 1 };
            assert!(range >= runs * block_bytes(16 << 20) * fewest, "{runs}");
        }
    }
}
