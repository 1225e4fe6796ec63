//! The decisions of modules that deal rows to parts by a hash: how many there are, and which go to
//! scratch.

/// Bytes of a table's slots for each row: half of them are used, of sixteen bytes each.
pub const SLOT_BYTES: usize = 32;

/// Bytes of a block of a part on scratch.
pub const BLOCK_BYTES: usize = 256 << 10;

/// Parts for each instance: enough that the last to end are few beside those that were shared.
const PARTS_PER_INSTANCE: usize = 8;
/// Fewer parts would be too large where little memory meets many rows.
const PART_BITS_MIN: u32 = 6;
const PART_BITS_MAX: u32 = 10;

/// The bits that choose the part of a row, where so many instances share the parts.
pub fn part_bits(instances: usize) -> u32 {
    let parts = (instances * PARTS_PER_INSTANCE).next_power_of_two();
    parts.ilog2().clamp(PART_BITS_MIN, PART_BITS_MAX)
}

/// Whether a process must write rows to scratch before it takes more: besides what is held there
/// are rows on their way to scratch, and what goes out.
pub fn must_spill(held_bytes: usize, memory_bytes: usize) -> bool {
    held_bytes > memory_bytes / 8 * 5
}

/// Whether an instance that holds so much of what a process holds is one of those that write: who
/// has little writes little, and often.
pub fn is_my_turn(own_bytes: usize, held_bytes: usize, instances: usize) -> bool {
    own_bytes * instances * 2 >= held_bytes
}

/// Whether an instance must write rows that wait for their part.
pub fn must_write(held_bytes: usize, share_bytes: usize) -> bool {
    held_bytes > share_bytes / 8
}

/// Whether an instance can hold a part as a table.
pub fn part_fits(part_bytes: usize, share_bytes: usize) -> bool {
    part_bytes <= share_bytes / 2
}

/// How many of the parts that are in memory stay there, given the bytes of all parts there. Those
/// that have gone already go first, if that frees much; else half of all goes, the last parts
/// first.
pub fn stay(part_bytes: &[usize], resident: usize) -> usize {
    let held: usize = part_bytes.iter().sum();
    let mut freed: usize = part_bytes[resident..].iter().sum();
    let mut resident = resident;
    if freed * 4 >= held {
        return resident;
    }
    while resident > 0 && freed * 2 < held {
        resident -= 1;
        freed += part_bytes[resident];
    }
    resident
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_held_goes_and_the_first_parts_stay() {
        assert_eq!(stay(&[10; 8], 8), 4);
        assert_eq!(stay(&[100, 1, 1, 1], 4), 0);
        // What has gone already is enough.
        assert_eq!(stay(&[10, 10, 10, 10], 3), 3);
        assert_eq!(stay(&[], 0), 0);
    }

    #[test]
    fn there_are_parts_for_all_instances() {
        assert_eq!((part_bits(1), part_bits(64), part_bits(4000)), (6, 9, 10));
    }
}
