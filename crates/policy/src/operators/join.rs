//! Hash join: which side is the build side, how its table is built, how parts with heavy keys are
//! cut.

use alloc::vec::Vec;

use crate::hash_partitions::SLOT_BYTES;

/// Bytes of slots per part of a table, so that a part is built within the second-level cache.
const PART_BYTES: usize = 1 << 20;
/// The most bits of a part number: partitioning into more parts would exceed the write streams that
/// a processor can track.
const TABLE_BITS_MAX: u32 = 10;

/// The bits of a hash that choose the part of a table with `rows` rows.
///
/// ```
/// use euphrates_policy::join::table_bits;
///
/// assert_eq!(table_bits(1000), 0, "one part, within the cache");
/// assert_eq!(table_bits(1_000_000), 5, "32 parts");
/// assert_eq!(table_bits(1_000_000_000), 10, "never more than 1024 parts");
/// ```
pub fn table_bits(rows: usize) -> u32 {
    let parts = (rows * SLOT_BYTES).div_ceil(PART_BYTES).max(1);
    parts.next_power_of_two().ilog2().min(TABLE_BITS_MAX)
}

/// The most addresses of an array that replaces a table with this number of slots: as many bytes as
/// these have, but at most 8 MiB, which one instance fills while the others wait.
///
/// ```
/// use euphrates_policy::join::direct_addresses_max;
///
/// assert_eq!(direct_addresses_max(201), 4096, "of 100 rows: any small range");
/// assert_eq!(direct_addresses_max(20_001), 40_002, "of 10,000 rows: four for each");
/// assert_eq!(direct_addresses_max(20_000_001), 1 << 20);
/// ```
pub fn direct_addresses_max(slots: usize) -> usize {
    (slots * 2).clamp(1 << 12, 1 << 20)
}

/// Whether to hold the left side in the table: only if it is known to be the smaller one.
///
/// ```
/// use euphrates_policy::join::builds_from_left;
///
/// assert!(builds_from_left(Some(10), Some(20)));
/// assert!(!builds_from_left(Some(10), None), "the right side is the default");
/// ```
pub fn builds_from_left(left_bytes: Option<u64>, right_bytes: Option<u64>) -> bool {
    left_bytes.zip(right_bytes).is_some_and(|(left, right)| left < right)
}

/// The largest side that is broadcast: a link of 100 MB/s carries it in a third of a second.
const BROADCAST_BYTES_MAX: usize = 32 << 20;

/// Whether to broadcast the build side, of `build_bytes` with its slots, to every process. Then no
/// row of the probe side is sent or waits.
///
/// ```
/// use euphrates_policy::join::broadcasts_build_side;
///
/// assert!(broadcasts_build_side(32 << 20, 1 << 30));
/// assert!(!broadcasts_build_side(32 << 20, 128 << 20), "more than an eighth of the memory");
/// ```
pub fn broadcasts_build_side(build_bytes: usize, memory_bytes: usize) -> bool {
    build_bytes <= BROADCAST_BYTES_MAX.min(memory_bytes / 8)
}

/// Units per instance into which a single part with all rows is sliced.
const UNITS_PER_INSTANCE: usize = 4;
/// Assumed bytes per row with its slot, to estimate rows from bytes.
const ROW_BYTES: usize = 2 * SLOT_BYTES;

/// A unit of join work: a part, or a slice of one side of a part with all of its other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinUnit {
    /// The number of the part.
    pub part: usize,
    /// The number of the slice, from 0.
    pub slice: usize,
    /// Slices of the part; 1 if it is not sliced.
    pub slices: usize,
    /// Whether the build side is sliced, not the probe side.
    pub is_build_sliced: bool,
}

/// The sides of a part that may be sliced. Slices of one side do not know which rows of the other
/// side have matched elsewhere, so outer joins forbid some.
#[derive(Clone, Copy, Debug)]
pub struct MaySlice {
    /// Whether the build side may be sliced.
    pub build: bool,
    /// Whether the probe side, which is streamed, may be sliced.
    pub probe: bool,
}

/// The units of all parts, given the bytes of each on both sides, the largest first. A part with
/// more than half of an instance's share of the work has a heavy key. Its larger side is sliced
/// until the smaller side, which every slice needs, would dominate the work.
///
/// ```
/// use euphrates_policy::join::{MaySlice, units};
///
/// let may_slice = MaySlice { build: true, probe: true };
/// assert_eq!(units(&[100; 8], &[100; 8], 2, may_slice).len(), 8);
/// let skewed = [100, 100, 100_000, 100];
/// let units = units(&[100; 4], &skewed, 2, may_slice);
/// assert!(units[0].part == 2 && units[0].slices > 1);
/// ```
pub fn units(
    build_bytes: &[usize],
    probe_bytes: &[usize],
    instances: usize,
    may_slice: MaySlice,
) -> Vec<JoinUnit> {
    let works = works(build_bytes, probe_bytes);
    let most = instances * UNITS_PER_INSTANCE;
    let share = (works.iter().sum::<f64>() / most as f64).max(1.0);
    let mut units = Vec::new();
    for (part, work) in works.iter().enumerate() {
        let is_build_larger = build_bytes[part] > probe_bytes[part];
        let is_build_sliced = may_slice.build && (is_build_larger || !may_slice.probe);
        let whole_bytes = if is_build_sliced { probe_bytes[part] } else { build_bytes[part] };
        let wanted = (work / share).min(work / whole_bytes.max(1) as f64) as usize;
        let can = may_slice.build || may_slice.probe;
        let slices = if can { wanted.clamp(1, most) } else { 1 };
        let each = work / slices as f64;
        units.extend(
            (0..slices).map(|slice| (each, JoinUnit { part, slice, slices, is_build_sliced })),
        );
    }
    units.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    units.into_iter().map(|(_, unit)| unit).collect()
}

/// The estimated work of each part, in bytes: its input, and its output if everything beyond twice
/// the mean is rows of one key.
fn works(build_bytes: &[usize], probe_bytes: &[usize]) -> Vec<f64> {
    let usual = |all: &[usize]| 2.0 * all.iter().sum::<usize>() as f64 / all.len().max(1) as f64;
    let (build_usual, probe_usual) = (usual(build_bytes), usual(probe_bytes));
    let work = |(build, probe): (&usize, &usize)| {
        let (build, probe) = (*build as f64, *probe as f64);
        let pairs = (build - build_usual).max(0.0) * (probe - probe_usual).max(0.0);
        build + probe + pairs / ROW_BYTES as f64
    };
    build_bytes.iter().zip(probe_bytes).map(work).collect()
}

/// Recursive partitionings by further bits, at most: a part that is still large has one heavy key.
pub const LEVELS_MAX: u32 = 4;

/// The largest build side whose rows are held as columns, in bytes: about a second-level cache.
/// There, taking each column by itself costs less than copying whole rows and taking them apart;
/// beyond, a row in one place costs one cache miss.
pub const COLUMN_TABLE_BYTES_MAX: usize = 1 << 20;

/// The most bytes of a dictionary that each batch of a join's output shares with the hash table. As
/// much as the codes of a batch's rows have, so that a batch does not seem larger than its rows.
pub const OUTPUT_DICTIONARY_BYTES_MAX: usize = 64 << 10;

/// Whether partitioning again is useless, because the largest part has nearly all bytes.
///
/// ```
/// use euphrates_policy::join::is_one_key;
///
/// assert!(is_one_key(80, 100));
/// assert!(!is_one_key(75, 100), "a quarter went to other parts");
/// ```
pub fn is_one_key(largest_bytes: usize, all_bytes: usize) -> bool {
    largest_bytes > all_bytes / 4 * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const EITHER: MaySlice = MaySlice { build: true, probe: true };

    fn slices(build: &[usize], probe: &[usize], may_slice: MaySlice, part: usize) -> Vec<JoinUnit> {
        let all = units(build, probe, 8, may_slice);
        let mut own: Vec<JoinUnit> = all.into_iter().filter(|unit| unit.part == part).collect();
        own.sort_by_key(|unit| unit.slice);
        own
    }

    #[test]
    fn only_a_part_with_a_heavy_key_is_sliced() {
        let (usual, mut heavy) = ([100_000; 64], [1_000_000; 64]);
        assert_eq!(units(&usual, &heavy, 8, EITHER).len(), 64);
        heavy[7] = 100_000_000;
        let own = slices(&usual, &heavy, EITHER, 7);
        assert!((16..=32).contains(&own.len()) && !own[0].is_build_sliced, "{own:?}");
        assert!(own.iter().enumerate().all(|(at, unit)| unit.slice == at));
        assert_eq!(units(&usual, &heavy, 8, EITHER).len(), 63 + own.len());
        // The side with the heavy key is sliced, if it may be.
        assert!(slices(&heavy, &usual, EITHER, 7)[0].is_build_sliced);
        let neither = MaySlice { build: false, probe: false };
        assert_eq!(slices(&usual, &heavy, neither, 7).len(), 1);
        let build_only = MaySlice { build: true, probe: false };
        assert_eq!(
            slices(&usual, &heavy, build_only, 7).len(),
            1,
            "each would need the heavy side"
        );
    }

    #[test]
    fn key_that_is_heavy_on_both_sides_is_sliced_by_output() {
        let (mut build, mut probe) = ([10_000; 64], [10_000; 64]);
        (build[3], probe[3]) = (1_000_000, 1_000_000);
        for build_may in [true, false] {
            let may_slice = MaySlice { build: build_may, probe: !build_may };
            assert!(slices(&build, &probe, may_slice, 3).len() > 16);
        }
    }

    #[test]
    fn small_side_is_broadcast() {
        assert!(
            broadcasts_build_side(10 << 20, 1 << 30) && !broadcasts_build_side(64 << 20, 1 << 40)
        );
        assert!(!broadcasts_build_side(3 << 20, 16 << 20));
        assert!(broadcasts_build_side(0, 0));
    }

    #[test]
    fn table_parts_fit_the_cache_up_to_a_bound() {
        assert_eq!(table_bits(0), 0);
        assert_eq!(table_bits(1000), 0);
        assert_eq!(table_bits(15_000_000), 9);
        assert_eq!(table_bits(usize::MAX / SLOT_BYTES), TABLE_BITS_MAX);
    }
}
