//! The decisions of a hash join.

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

/// How often rows are dealt to parts by further bits: a part that is still large has one heavy key.
pub const LEVELS_MAX: u32 = 4;

/// Whether it is of no use to deal these parts once more: the largest has nearly all rows.
pub fn is_one_key(largest_bytes: usize, all_bytes: usize) -> bool {
    largest_bytes > all_bytes / 4 * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_table_fit_a_cache_until_there_are_too_many() {
        assert_eq!(table_bits(0), 0);
        assert_eq!(table_bits(1000), 0);
        assert_eq!(table_bits(15_000_000), 9);
        assert_eq!(table_bits(usize::MAX / SLOT_BYTES), TABLE_BITS_MAX);
    }
}
