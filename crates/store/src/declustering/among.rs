//! The processes that read a collection together: each has the readers of some segments, and each
//! reads from the disks it owns, for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::Exchange;

use super::message::{Message, Word};
use crate::collection::Copies;
use euphrates_device::disk::Owners;

/// Who reads what.
#[derive(Clone, Debug)]
pub struct Among {
    pub(super) owners: Owners,
    /// By segment: the process whose readers take its blocks.
    readers: Vec<usize>,
}

impl Among {
    /// One process does all.
    pub fn alone(segments: usize) -> Among {
        let owners = Owners::default();
        Among { readers: vec![owners.me(); segments], owners }
    }

    /// Those that have instances of a module. Readers are beside the first copy of their segment
    /// that has an owner among them; segments without one are dealt in turn.
    pub fn new(
        exchange: Arc<dyn Exchange>,
        segments: &[Copies],
        workers: &BTreeMap<String, String>,
    ) -> Among {
        let owners = Owners::new(exchange, workers);
        let readers = segments.iter().enumerate().map(|(at, copies)| {
            let near = copies.disks.iter().find_map(|disk| owners.owner(disk));
            near.unwrap_or_else(|| owners.in_turn(at))
        });
        Among { readers: readers.collect(), owners }
    }

    /// Tells a process something of a copy of a segment.
    pub(super) fn tell(
        &self,
        process: usize,
        (segment, copy): (usize, usize),
        word: Word,
        body: Vec<Buffer>,
    ) {
        let message = Message { segment, copy, word }.write();
        self.owners.exchange().tell(process, &message, body);
    }

    /// Whether the readers of a segment are in this process.
    pub fn is_read_here(&self, segment: usize) -> bool {
        self.reader(segment) == self.owners.me()
    }

    /// The process that has the readers of a segment.
    pub(super) fn reader(&self, segment: usize) -> usize {
        self.readers[segment]
    }
}
