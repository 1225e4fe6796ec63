//! Baseline disk order: the reader with most bytes left first.

use core::cmp::Reverse;

use super::served::ReaderAtDisk;

/// Laggard first, without accounting for blocks that other disks have begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Laggard;

impl Laggard {
    /// Chooses the reader with most bytes left; among equals, the one with the oldest claim.
    pub(super) fn choose<'a>(
        &self,
        readers: impl Iterator<Item = (&'a u32, &'a mut ReaderAtDisk)>,
    ) -> Option<u32> {
        let waiting = readers.filter_map(|(&id, served)| {
            Some((served.progress().left_bytes, Reverse(served.next()?.arrival), id))
        });
        waiting.max().map(|(_, _, id)| id)
    }
}
