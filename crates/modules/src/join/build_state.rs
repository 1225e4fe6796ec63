//! The size of the build side when all of it has been taken, gathered from all instances, so that
//! all choose the same strategy.

use crate::partitioning::spill_store::SpillStore;

/// What all instances hold of the build side.
pub(crate) struct BuildState {
    /// Whether all of it is in memory and not partitioned.
    pub(crate) fit: bool,
    /// Parts below this number are in memory at all instances.
    pub(crate) resident: usize,
    /// Batches in memory.
    pub(crate) batches: usize,
    /// Bytes in memory, with the slots of their hash table.
    pub(crate) bytes: usize,
    /// The limit of the process with the least memory.
    pub(crate) memory_bytes: usize,
}

impl BuildState {
    /// The state of one instance, as it is gathered.
    pub(crate) fn encode(held: &SpillStore, memory_bytes: usize) -> [usize; 5] {
        [
            held.is_unpartitioned().into(),
            held.resident(),
            held.batches(),
            held.bytes(),
            memory_bytes,
        ]
    }

    /// The state of all instances, each encoded.
    pub(crate) fn of_all(all: &[Vec<usize>]) -> BuildState {
        BuildState {
            fit: all.iter().all(|one| one[0] == 1),
            resident: all.iter().map(|one| one[1]).min().unwrap_or(0),
            batches: all.iter().map(|one| one[2]).sum(),
            bytes: all.iter().map(|one| one[3]).sum(),
            memory_bytes: all.iter().map(|one| one[4]).min().unwrap_or(0),
        }
    }
}

/// The sum over all instances, for each part.
pub(crate) fn sums(sizes: &[Vec<usize>], parts: usize) -> Vec<usize> {
    (0..parts).map(|part| sizes.iter().map(|one| one[part]).sum()).collect()
}
