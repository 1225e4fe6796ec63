//! The division of a shared reading among processes: each takes the blocks of some segments, and
//! reads from the disks it owns for all processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::Exchange;

use super::message::{CopyContent, CopyMessage};
use crate::collection::SegmentCopies;
use euphrates_device::disk::Owners;

/// The processes that share the reading of a collection, and the segments of each.
#[derive(Clone, Debug)]
pub struct ReaderAssignment {
    pub(super) owners: Owners,
    /// By segment: the process whose readers take its blocks.
    readers: Vec<usize>,
}

impl ReaderAssignment {
    /// A division with this process alone.
    pub fn alone(segments: usize) -> ReaderAssignment {
        let owners = Owners::default();
        ReaderAssignment { readers: vec![owners.me(); segments], owners }
    }

    /// The division among the processes that run instances of a module. A segment's readers are at
    /// the first of its copies that one of these processes owns; segments without an owner are
    /// assigned round-robin.
    pub fn new(
        exchange: Arc<dyn Exchange>,
        segments: &[SegmentCopies],
        workers: &BTreeMap<String, String>,
    ) -> ReaderAssignment {
        let owners = Owners::new(exchange, workers);
        let readers = segments.iter().enumerate().map(|(at, copies)| {
            let near = copies.disks.iter().find_map(|disk| owners.owner(disk));
            near.unwrap_or_else(|| owners.in_turn(at))
        });
        ReaderAssignment { readers: readers.collect(), owners }
    }

    /// Sends a process a message about a copy of a segment.
    pub(super) fn send(
        &self,
        process: usize,
        (segment, copy): (usize, usize),
        content: CopyContent,
        body: Vec<Buffer>,
    ) {
        let message = CopyMessage { segment, copy, content }.write();
        self.owners.exchange().send(process, &message, body);
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
