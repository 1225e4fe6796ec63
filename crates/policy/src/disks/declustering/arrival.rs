//! Baseline disk order: claims are served in order of arrival.

use super::served::ReaderAtDisk;

/// First come, first served, over all readers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival;

impl Arrival {
    /// Chooses the reader with the oldest claim.
    pub(super) fn choose<'a>(
        &self,
        readers: impl Iterator<Item = (&'a u32, &'a mut ReaderAtDisk)>,
    ) -> Option<u32> {
        let waiting = readers.filter_map(|(&id, served)| Some((served.next()?.arrival, id)));
        waiting.min().map(|(_, id)| id)
    }
}
