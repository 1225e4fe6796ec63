//! A baseline: a disk serves claims in the order in which they came.

use super::disk::Served;

/// First come, first served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival;

impl Arrival {
    /// The reader whose claim came first.
    pub(super) fn choose<'a>(
        &self,
        readers: impl Iterator<Item = (&'a u32, &'a mut Served)>,
    ) -> Option<u32> {
        let waiting = readers.filter_map(|(&id, served)| Some((served.next()?.arrival, id)));
        waiting.min().map(|(_, id)| id)
    }
}
