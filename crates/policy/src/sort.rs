//! The decisions of an external sort.
//!
//! Records are sorted in runs (in memory, or on disk when they do not fit), then the key space is
//! cut into ranges of about one size, and each range is merged by whoever is free. Borders come
//! from samples taken at regular steps of runs that are already sorted, so a range is off by at
//! most one step a run, whatever the distribution (regular sampling; NOW-Sort and AlphaSort assume
//! uniform keys instead). A border names a key *and a place*, so even records whose keys are all
//! equal fall into ranges of one size.

use alloc::vec::Vec;

/// Keys sorted at once while records come in: 16 MiB of keys, so that sorting overlaps reading
/// and stays near the cache.
pub const CHUNK_KEYS: usize = 1 << 20;

/// Rows between two samples of a run in memory.
pub const SAMPLE_ROWS: usize = 4096;

/// Bytes of a range merged in memory: a few batches for each consumer, small enough that the first
/// are out soon and the last ones are shared fairly.
pub const RANGE_BYTES: usize = 16 << 20;

/// Fewer columns are copied one by one at no more cost than it takes to make rows of them.
const ROW_COLUMNS_MIN: usize = 3;

/// Whether this many columns besides the keys are better held row by row: the place of each record
/// costs a wait for memory, instead of one for every column.
pub fn rows_pay(columns: usize) -> bool {
    columns >= ROW_COLUMNS_MIN
}

/// Bytes of a block of a run on disk.
pub const BLOCK_BYTES: usize = 128 << 10;

/// Bytes of a range merged from disk. A border cuts a block of every run, and the half that is
/// left over is read again by the neighbour: the range must be large beside the sum of those.
pub fn disk_range_bytes(share_bytes: usize, runs: usize) -> usize {
    let worthwhile = runs * BLOCK_BYTES * 8;
    let affordable = (share_bytes / 5).max(BLOCK_BYTES);
    worthwhile.max(RANGE_BYTES).min(affordable)
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
/// `rows_target`: the positions of the samples that begin a new range.
pub fn cut(rows_of_samples: impl IntoIterator<Item = usize>, rows_target: usize) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut rows = 0;
    for (position, sample) in rows_of_samples.into_iter().enumerate() {
        if rows >= rows_target.max(1) && position > 0 {
            cuts.push(position);
            rows = 0;
        }
        rows += sample;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn ranges_are_near_the_target_and_cover_everything() {
        let samples = vec![4096; 1000];
        let cuts = cut(samples, 160_000);
        assert_eq!(cuts.len(), 24);
        assert!(cuts.windows(2).all(|pair| (pair[1] - pair[0]) * 4096 < 160_000 + 4096));
        assert!(cut([], 10).is_empty());
        assert!(cut([1_000_000], 10).is_empty());
    }

    #[test]
    fn a_range_read_from_disk_is_large_beside_the_blocks_its_borders_cut() {
        for runs in [2, 20, 60] {
            let range = disk_range_bytes(512 << 20, runs);
            assert!(range >= runs * BLOCK_BYTES * 4, "{runs}");
        }
    }
}
