//! Load factors of hash tables with linear probing.
//!
//! A second comparison of a look-up costs a mispredicted branch, about 15 cycles: more than all
//! else if the table is in the first-level cache. There at most an eighth of the slots is used, so
//! that few look-ups need one; in larger tables, where a miss of the cache costs more, a half.

/// Bytes of slots that stay in the first-level cache, beside the rows that are looked up.
const FIRST_CACHE_BYTES: usize = 32 << 10;

/// Slots of `slot_bytes` each per entry, in a table of about this number of slots.
fn slots_per_entry(slots: usize, slot_bytes: usize) -> usize {
    if slots * slot_bytes < FIRST_CACHE_BYTES { 8 } else { 2 }
}

/// Whether a table with this number of slots grows before it has more entries.
#[inline]
pub(crate) fn is_crowded(entries: usize, slots: usize, slot_bytes: usize) -> bool {
    entries * slots_per_entry(slots, slot_bytes) > slots
}

/// The slots of a table that does not grow; at least one stays empty.
pub(crate) fn slots_of(entries: usize, slot_bytes: usize) -> usize {
    entries * slots_per_entry(entries * 8, slot_bytes) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tables_are_an_eighth_full_and_large_ones_half() {
        assert!(!is_crowded(8, 64, 16) && is_crowded(9, 64, 16));
        assert!(!is_crowded(1024, 2048, 16) && is_crowded(1025, 2048, 16));
        assert_eq!([slots_of(0, 16), slots_of(255, 16), slots_of(256, 16)], [1, 2041, 513]);
    }
}
