//! Hash partitioning of rows: the number of parts, and which parts are spilled to scratch.

/// Bytes of slots per row of a hash table: slots of sixteen bytes, half of them used.
pub const SLOT_BYTES: usize = 32;

/// The size of a block on scratch, in bytes.
pub const BLOCK_BYTES: usize = 256 << 10;

/// Parts per instance: enough that the imbalance at the end is a small fraction of the work.
const PARTS_PER_INSTANCE: usize = 8;
/// The fewest bits of a part number: fewer parts would be too large for little memory.
const PART_BITS_MIN: u32 = 6;
/// The most bits of a part number: more parts would be too small to write efficiently.
const PART_BITS_MAX: u32 = 10;

/// The bits of a hash that choose the part of a row, for parts shared by `instances`.
///
/// ```
/// assert_eq!(euphrates_policy::hash_partitions::part_bits(16), 7, "eight parts per instance");
/// ```
pub fn part_bits(instances: usize) -> u32 {
    let parts = (instances * PARTS_PER_INSTANCE).next_power_of_two();
    parts.ilog2().clamp(PART_BITS_MIN, PART_BITS_MAX)
}

/// Whether a process must spill rows before it accepts more. The rest of its memory is for rows in
/// flight to scratch and for output.
///
/// ```
/// use euphrates_policy::hash_partitions::must_spill;
///
/// assert_eq!([5000, 5001].map(|held_bytes| must_spill(held_bytes, 8000)), [false, true]);
/// ```
pub fn must_spill(held_bytes: usize, memory_bytes: usize) -> bool {
    held_bytes > memory_bytes / 8 * 5
}

/// Whether an instance takes part in spilling: it holds at least half of the mean. One with little
/// would write small blocks, and often.
///
/// ```
/// use euphrates_policy::hash_partitions::must_help_spill;
///
/// let held_bytes = 1000;
/// assert!(must_help_spill(125, held_bytes, 4), "half of the mean of 250");
/// assert!(!must_help_spill(124, held_bytes, 4));
/// ```
pub fn must_help_spill(own_bytes: usize, held_bytes: usize, instances: usize) -> bool {
    own_bytes * instances * 2 >= held_bytes
}

/// Whether an instance must write the rows that it has buffered for spilled parts.
///
/// ```
/// use euphrates_policy::hash_partitions::must_write;
///
/// assert_eq!([100, 101].map(|held_bytes| must_write(held_bytes, 800)), [false, true]);
/// ```
pub fn must_write(held_bytes: usize, share_bytes: usize) -> bool {
    held_bytes > share_bytes / 8
}

/// Whether a part fits an instance's share as a hash table.
///
/// ```
/// use euphrates_policy::hash_partitions::part_fits;
///
/// assert_eq!([400, 401].map(|part_bytes| part_fits(part_bytes, 800)), [true, false]);
/// ```
pub fn part_fits(part_bytes: usize, share_bytes: usize) -> bool {
    part_bytes <= share_bytes / 2
}

/// Whether a part of the build side is partitioned again before it is joined. A part that exceeds
/// its memory less is joined in pieces: for each piece the probe side of the part is read once
/// more, while partitioning writes and reads both sides.
///
/// ```
/// use euphrates_policy::hash_partitions::must_partition_again;
///
/// assert_eq!([1202, 1203].map(|part_bytes| must_partition_again(part_bytes, 800)), [false, true]);
/// ```
pub fn must_partition_again(part_bytes: usize, share_bytes: usize) -> bool {
    !part_fits(part_bytes / PIECES_MAX, share_bytes)
}

/// The most pieces of a part, about.
const PIECES_MAX: usize = 3;

/// How many of the `resident` first parts stay in memory, given the bytes that all parts hold
/// there. If the rows buffered for parts that are spilled already are a quarter of all bytes,
/// writing them suffices; otherwise parts are spilled from the last on, until half of all bytes
/// goes.
///
/// ```
/// assert_eq!(euphrates_policy::hash_partitions::resident_parts_after_spill(&[10; 8], 8), 4);
/// ```
pub fn resident_parts_after_spill(part_bytes: &[usize], resident: usize) -> usize {
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
    fn half_of_the_bytes_spill_from_the_last_part_on() {
        assert_eq!(resident_parts_after_spill(&[10; 8], 8), 4);
        assert_eq!(resident_parts_after_spill(&[100, 1, 1, 1], 4), 0);
        // The bytes of spilled parts are enough.
        assert_eq!(resident_parts_after_spill(&[10, 10, 10, 10], 3), 3);
        assert_eq!(resident_parts_after_spill(&[], 0), 0);
    }

    #[test]
    fn part_bits_grow_with_instances_within_bounds() {
        assert_eq!((part_bits(1), part_bits(64), part_bits(4000)), (6, 9, 10));
    }
}
