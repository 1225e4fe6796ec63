//! The disk order of striped reading: readers are served in proportion to the bytes that they have
//! planned at the disk, so that all finish there at the same time.
//!
//! From the time between two of its blocks a reader can then compute when the disk will have
//! finished the work of all readers, and every reader moves its plan away from disks that would
//! finish late. Readers thereby leave bandwidth to those that cannot move, without messages between
//! them.

use super::served::ReaderAtDisk;

/// Serves readers in proportion to their unbegun bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proportional;

/// A block, in the units of a reader's memory.
const BLOCK: i64 = 1 << 16;
/// The turns that a reader can save up, in blocks.
const SAVED_BLOCKS_MAX: i64 = 3;

impl Proportional {
    /// Gives each waiting reader its share of a block, and chooses the one that has most.
    pub(super) fn choose<'a>(
        &self,
        readers: impl Iterator<Item = (&'a u32, &'a mut ReaderAtDisk)>,
    ) -> Option<u32> {
        let mut waiting: alloc::vec::Vec<_> =
            readers.filter(|(_, served)| served.next().is_some()).collect();
        let sum: u128 = waiting.iter().map(|(_, served)| open_bytes(served)).sum();
        for (_, served) in &mut waiting {
            let share = open_bytes(served) * BLOCK as u128 / sum.max(1);
            served.memory = (served.memory + share as i64).min(SAVED_BLOCKS_MAX * BLOCK);
        }
        let best = waiting.iter_mut().max_by_key(|(id, served)| (served.memory, !**id))?;
        best.1.memory -= BLOCK;
        Some(*best.0)
    }
}

fn open_bytes(served: &ReaderAtDisk) -> u128 {
    u128::from(served.open_bytes().max(1))
}
