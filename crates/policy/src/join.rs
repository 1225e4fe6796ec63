//! The decisions of a hash join.

use alloc::vec::Vec;

use crate::parts::SLOT_BYTES;

/// Slots of a part of a table that is built at once: about what a second cache holds.
const PART_BYTES: usize = 1 << 20;
/// More parts would need more streams than the processor keeps apart while rows are dealt to them.
const TABLE_BITS_MAX: u32 = 10;

/// The bits that choose the part of a table with so many rows.
pub fn table_bits(rows: usize) -> u32 {
    let parts = (rows * SLOT_BYTES).div_ceil(PART_BYTES).max(1);
    parts.next_power_of_two().ilog2().min(TABLE_BITS_MAX)
}

/// Whether the left is the side to hold: the one that is smaller, as far as is known.
pub fn holds_left(left_bytes: Option<u64>, right_bytes: Option<u64>) -> bool {
    left_bytes.zip(right_bytes).is_some_and(|(left, right)| left < right)
}

/// Of a side that every process gets whole: about what a link of 100 MB/s carries in a third of a
/// second.
const SENT_BYTES_MAX: usize = 32 << 20;

/// Whether every process gets all rows of the side that is held, with their slots so many bytes:
/// then no row of the other side has to be sent, or to wait.
pub fn sends_to_all(held_bytes: usize, memory_bytes: usize) -> bool {
    held_bytes <= SENT_BYTES_MAX.min(memory_bytes / 8)
}

/// Units there are for each instance at least, if one part is all.
const UNITS_PER_INSTANCE: usize = 4;
/// What a row takes, with its slot, to say from bytes how many rows there are.
const ROW_BYTES: usize = 2 * SLOT_BYTES;

/// What is joined at once: a part, or a slice of one side's rows of it with all of the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The part.
    pub part: usize,
    /// Which slice.
    pub slice: usize,
    /// Of how many.
    pub slices: usize,
    /// Whether it is the held side that is sliced.
    pub of_held: bool,
}

/// Which sides of a part may be sliced: each slice of one must do without knowing what the others
/// of that side have matched.
#[derive(Clone, Copy, Debug)]
pub struct MaySlice {
    /// The side that is held.
    pub held: bool,
    /// The one that goes by.
    pub other: bool,
}

/// The units of parts with so many bytes on each side, the largest first. A part that has a heavy
/// key is more than an instance's share of all work: the larger of its sides is sliced, as far as
/// the smaller one, which each of its units needs, is not most of what has to be done.
pub fn units(
    held_bytes: &[usize],
    other_bytes: &[usize],
    instances: usize,
    may_slice: MaySlice,
) -> Vec<Unit> {
    let works = works(held_bytes, other_bytes);
    let most = instances * UNITS_PER_INSTANCE;
    let share = (works.iter().sum::<f64>() / most as f64).max(1.0);
    let mut units = Vec::new();
    for (part, work) in works.iter().enumerate() {
        let is_held_larger = held_bytes[part] > other_bytes[part];
        let of_held = may_slice.held && (is_held_larger || !may_slice.other);
        let whole_bytes = if of_held { other_bytes[part] } else { held_bytes[part] };
        let wanted = (work / share).min(work / whole_bytes.max(1) as f64) as usize;
        let can = may_slice.held || may_slice.other;
        let slices = if can { wanted.clamp(1, most) } else { 1 };
        let each = work / slices as f64;
        units.extend((0..slices).map(|slice| (each, Unit { part, slice, slices, of_held })));
    }
    units.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    units.into_iter().map(|(_, unit)| unit).collect()
}

/// What there is to do for each part, in bytes: what comes in, and what goes out if all that makes
/// it larger than others is rows of one key.
fn works(held_bytes: &[usize], other_bytes: &[usize]) -> Vec<f64> {
    let usual = |all: &[usize]| 2.0 * all.iter().sum::<usize>() as f64 / all.len().max(1) as f64;
    let (held_usual, other_usual) = (usual(held_bytes), usual(other_bytes));
    let work = |(held, other): (&usize, &usize)| {
        let (held, other) = (*held as f64, *other as f64);
        let pairs = (held - held_usual).max(0.0) * (other - other_usual).max(0.0);
        held + other + pairs / ROW_BYTES as f64
    };
    held_bytes.iter().zip(other_bytes).map(work).collect()
}

/// How often rows are dealt to parts by further bits: a part that is still large has one heavy key.
pub const LEVELS_MAX: u32 = 4;

/// Whether it is of no use to deal these parts once more: the largest has nearly all rows.
pub fn is_one_key(largest_bytes: usize, all_bytes: usize) -> bool {
    largest_bytes > all_bytes / 4 * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const EITHER: MaySlice = MaySlice { held: true, other: true };

    fn slices(held: &[usize], other: &[usize], may_slice: MaySlice, part: usize) -> Vec<Unit> {
        let all = units(held, other, 8, may_slice);
        let mut own: Vec<Unit> = all.into_iter().filter(|unit| unit.part == part).collect();
        own.sort_by_key(|unit| unit.slice);
        own
    }

    #[test]
    fn a_part_with_a_heavy_key_is_sliced_and_others_are_not() {
        let (usual, mut heavy) = ([100_000; 64], [1_000_000; 64]);
        assert_eq!(units(&usual, &heavy, 8, EITHER).len(), 64);
        heavy[7] = 100_000_000;
        let own = slices(&usual, &heavy, EITHER, 7);
        assert!((16..=32).contains(&own.len()) && !own[0].of_held, "{own:?}");
        assert!(own.iter().enumerate().all(|(at, unit)| unit.slice == at));
        assert_eq!(units(&usual, &heavy, 8, EITHER).len(), 63 + own.len());
        // The side that has it is sliced, whichever that is; if it may be.
        assert!(slices(&heavy, &usual, EITHER, 7)[0].of_held);
        let neither = MaySlice { held: false, other: false };
        assert_eq!(slices(&usual, &heavy, neither, 7).len(), 1);
        let held_only = MaySlice { held: true, other: false };
        assert_eq!(slices(&usual, &heavy, held_only, 7).len(), 1, "each would need the heavy side");
    }

    #[test]
    fn a_key_that_is_heavy_on_both_sides_is_known_by_what_comes_out() {
        let (mut held, mut other) = ([10_000; 64], [10_000; 64]);
        (held[3], other[3]) = (1_000_000, 1_000_000);
        for held_may in [true, false] {
            let may_slice = MaySlice { held: held_may, other: !held_may };
            assert!(slices(&held, &other, may_slice, 3).len() > 16);
        }
    }

    #[test]
    fn every_process_gets_what_is_small_beside_its_memory() {
        assert!(sends_to_all(10 << 20, 1 << 30) && !sends_to_all(64 << 20, 1 << 40));
        assert!(!sends_to_all(3 << 20, 16 << 20));
        assert!(sends_to_all(0, 0));
    }

    #[test]
    fn parts_of_a_table_fit_a_cache_until_there_are_too_many() {
        assert_eq!(table_bits(0), 0);
        assert_eq!(table_bits(1000), 0);
        assert_eq!(table_bits(15_000_000), 9);
        assert_eq!(table_bits(usize::MAX / SLOT_BYTES), TABLE_BITS_MAX);
    }
}
