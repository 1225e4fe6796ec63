//! A baseline: a disk serves the reader of whose segment most has not arrived.

use core::cmp::Reverse;

use super::disk::Served;

/// The laggard first, whatever has been begun for it elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Laggard;

impl Laggard {
    /// The reader with most left; of equals the one whose claim came first.
    pub(super) fn choose<'a>(
        &self,
        readers: impl Iterator<Item = (&'a u32, &'a mut Served)>,
    ) -> Option<u32> {
        let waiting = readers.filter_map(|(&id, served)| {
            Some((served.told().left_bytes, Reverse(served.next()?.arrival), id))
        });
        waiting.max().map(|(_, _, id)| id)
    }
}
