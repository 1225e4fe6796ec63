//! The decisions of an external sort.
//!
//! Records are sorted in runs (in memory, or on disk when they do not fit), then the key space is
//! cut into ranges of about one size, and each range is merged by whoever is free. Borders come
//! from samples of runs that are already sorted ([`crate::sampling`]; NOW-Sort and AlphaSort assume
//! uniform keys instead). A border names a key *and a place*, so even records whose keys are all
//! equal fall into ranges of one size.

use alloc::vec::Vec;

/// Keys sorted at once while records come in, at most: 16 MiB of keys, so that sorting stays near
/// the cache.
const CHUNK_KEYS: usize = 1 << 20;
/// And at least, but for the last.
const CHUNK_KEYS_MIN: usize = 1 << 16;
/// What is not sorted yet when the input ends is this part of it at most, since all wait for it.
const CHUNK_PART: usize = 32;

/// How many keys are sorted at once, when so many are there.
pub fn chunk_keys(keys: usize) -> usize {
    (keys / CHUNK_PART).clamp(CHUNK_KEYS_MIN, CHUNK_KEYS)
}

/// Bytes of a range at most: a few batches, so that the copying is in cache and a run of output is
/// worth its beginning and end.
pub const RANGE_BYTES: usize = 16 << 20;

/// And at least, but for the last.
pub const RANGE_BYTES_MIN: usize = 2 << 20;

/// The next range is this part of what is left for each consumer: it may take so many times as long
/// at a slow one, and all still end together.
const RANGES_LEFT: usize = 8;

/// Fewer columns are copied one by one at no more cost than it takes to make rows of them.
const ROW_COLUMNS_MIN: usize = 3;

/// Whether this many columns besides the keys are better held row by row: the place of each record
/// costs a wait for memory, instead of one for every column.
pub fn rows_pay(columns: usize) -> bool {
    columns >= ROW_COLUMNS_MIN
}

/// Bytes of a block of a run on disk.
pub const BLOCK_BYTES: usize = 128 << 10;

/// How large ranges are. They become smaller towards the end, as what is left does (factoring:
/// Hummel, Schonberg and Flynn, 1992): whoever is slow holds up nobody with its last, and there are
/// not many. The first are small as well, and each consumer's next is as large as all it has had:
/// every process has a part in every range, so nobody begins before a slow one has given all their
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeSizes {
    most_bytes: usize,
    least_bytes: usize,
    consumers: usize,
}

impl RangeSizes {
    /// Of ranges that so many consumers take, from memory and so many runs on disk. An instance may
    /// hold `share_bytes`.
    pub fn new(consumers: usize, share_bytes: usize, disk_runs: usize) -> RangeSizes {
        let (most_bytes, least_bytes) = match disk_runs {
            0 => (RANGE_BYTES, RANGE_BYTES_MIN),
            runs => (disk_range_bytes(share_bytes, runs), runs * BLOCK_BYTES * 4),
        };
        let least_bytes = least_bytes.clamp(RANGE_BYTES_MIN.min(most_bytes), most_bytes);
        RangeSizes { most_bytes, least_bytes, consumers: consumers.max(1) }
    }

    /// All of one size.
    pub fn even(bytes: usize) -> RangeSizes {
        RangeSizes { most_bytes: bytes, least_bytes: bytes, consumers: 1 }
    }

    /// Records of the next range, when so many have been taken and so many are left.
    fn rows(&self, rows_taken: usize, rows_left: usize, row_bytes: usize) -> usize {
        let fair = (rows_taken / self.consumers).min(rows_left / self.consumers / RANGES_LEFT);
        fair.clamp(self.least_bytes / row_bytes, self.most_bytes / row_bytes).max(1)
    }
}

/// Bytes of a range merged from disk at most. A border cuts a block of every run, and the half that
/// is left over is read again by the neighbour: the range must be large beside the sum of those.
pub fn disk_range_bytes(share_bytes: usize, runs: usize) -> usize {
    let worthwhile = runs * BLOCK_BYTES * 8;
    let affordable = (share_bytes / 5).max(BLOCK_BYTES);
    worthwhile.max(RANGE_BYTES).min(affordable)
}

/// What a range may take in memory when it is larger than it should be, because its keys cannot be
/// told apart: half of the budget, which so many instances share.
pub fn range_bytes_max(budget: usize, instances: usize) -> usize {
    (budget / 2 / instances.max(1)).max(2 * RANGE_BYTES)
}

/// Bytes of long keys that the instances of a process keep together, of which none needs to keep
/// more than what it shares with others: a few, however large the share is. Keys that could not be
/// told apart would be in one range, so there is room for some where shares are small.
pub fn kept_keys_bytes_max(share_bytes: usize, budget: usize) -> usize {
    (share_bytes / 8).max(budget / 16)
}

/// Whether an instance must write what it holds to disk before it takes more: it needs room for a
/// range of output besides.
pub fn must_spill(held_bytes: usize, share_bytes: usize) -> bool {
    held_bytes + spare_bytes(share_bytes) > share_bytes
}

/// What an instance keeps free for the batches it makes while it writes a run.
fn spare_bytes(share_bytes: usize) -> usize {
    (share_bytes / 8).min(RANGE_BYTES * 3)
}

/// Whether what an instance still holds at the end of its input may stay in memory while ranges
/// are merged from disk.
pub fn may_stay(held_bytes: usize, share_bytes: usize, range_bytes: usize) -> bool {
    held_bytes + 3 * range_bytes <= share_bytes
}

/// Where to cut samples, given in key order with the rows each stands for, into ranges of about
/// these sizes: the positions of the samples that begin a new range.
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

    /// Rows of the ranges that samples of `step` rows are cut into.
    fn ranges(rows: usize, step: usize, sizes: RangeSizes, row_bytes: usize) -> Vec<usize> {
        let samples = vec![step; rows / step];
        let mut ends = cut(&samples, sizes, row_bytes);
        ends.push(samples.len());
        let starts = [0].into_iter().chain(ends.clone());
        starts.zip(&ends).map(|(start, end)| (end - start) * step).collect()
    }

    #[test]
    fn little_is_left_to_sort_when_the_input_ends_and_the_chunks_are_few() {
        for keys in [400_000, 1_000_000, 10_000_000, 100_000_000] {
            let (mut chunks, mut open) = (vec![], 0);
            for come in (0..=keys).step_by(10_000) {
                if open >= chunk_keys(come) {
                    assert!(open <= (come / CHUNK_PART).max(CHUNK_KEYS_MIN) + 10_000);
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
    fn ranges_are_near_the_target_and_cover_everything() {
        let ranges = ranges(4_096_000, 4096, RangeSizes::even(16_000_000), 100);
        assert_eq!((ranges.len(), ranges.iter().sum()), (25, 4_096_000));
        assert!(ranges.iter().all(|rows| *rows < 160_000 + 4096), "{ranges:?}");
        assert!(cut(&[], RangeSizes::even(10), 1).is_empty());
        assert!(cut(&[1_000_000], RangeSizes::even(10), 1).is_empty());
    }

    #[test]
    fn ranges_grow_with_what_is_taken_and_become_smaller_as_what_is_left_does() {
        for (consumers, gigabytes) in [(1, 1), (2, 1), (8, 1), (16, 10), (300, 100)] {
            let rows = gigabytes * 10_000_000;
            let ranges = ranges(rows, 100, RangeSizes::new(consumers, 1 << 30, 0), 100);
            let mut left = rows;
            for range in &ranges {
                let fair = (left / RANGES_LEFT).min(rows - left) / consumers;
                assert!(*range <= fair.max(RANGE_BYTES_MIN / 100) + 100);
                assert!(*range <= RANGE_BYTES / 100 + 100);
                left -= range;
            }
            assert_eq!(left, 0);
            let enough = rows * 100 / RANGE_BYTES + 40 * consumers + 1;
            assert!(ranges.len() <= enough, "{} for {consumers}", ranges.len());
        }
    }

    #[test]
    fn a_range_read_from_disk_is_large_beside_the_blocks_its_borders_cut() {
        for runs in [2, 20, 60] {
            let range = disk_range_bytes(512 << 20, runs);
            assert!(range >= runs * BLOCK_BYTES * 4, "{runs}");
        }
    }
}
