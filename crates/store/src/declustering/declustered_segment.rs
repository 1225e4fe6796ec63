//! A segment that is read from several disks: sends messages to the endpoints of its copies, local
//! or remote.

use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_policy::declustering::{BlocksInFlight, ToDisk};

use super::disk::{DiskEndpoint, DiskMessage, OpenCopy, ReaderState, Requester, next_reader_id};
use super::faults::Faults;
use super::message::{CopyContent, CopyMessage};
use super::{MirrorPolicy, ReaderAssignment};
use crate::collection::SegmentCopies;
use crate::segment::{Segment, Toc};

/// A segment with the endpoints of its copies.
pub(super) struct DeclusteredSegment {
    segment: usize,
    /// The reader's identifier at the disks.
    reader: u32,
    pub toc: Arc<Toc>,
    pub path: String,
    pub disks: Vec<String>,
    /// The copies that this process can open.
    pub copies: Vec<Option<Arc<Segment>>>,
    /// The disks' endpoints, if this process reads the segment; `None` for a copy that is lost.
    ends: Vec<Option<CopyEndpoint>>,
}

/// The endpoint of a disk, in this process or another.
enum CopyEndpoint {
    Here(Arc<DiskEndpoint>),
    /// The number of another process.
    There(usize),
}

impl DeclusteredSegment {
    pub fn new(
        copies: &SegmentCopies,
        (at, among): (usize, &ReaderAssignment),
        mirrors: MirrorPolicy,
        faults: &mut Faults,
    ) -> Result<(DeclusteredSegment, Vec<Option<OpenCopy>>)> {
        let (mut ends, mut sources) = (vec![], vec![]);
        // This process need not see the copies of others.
        let is_ours = |disk: &str| among.is_read_here(at) && among.owners.elsewhere(disk).is_none();
        let damages = copies.damages().filter(|damage| is_ours(&damage.disk));
        damages.for_each(|damage| faults.on_copy(damage.clone()));
        for (copy, disk) in copies.copies.iter().zip(&copies.disks) {
            if let Some(process) = among.owners.elsewhere(disk) {
                ends.push(Some(CopyEndpoint::There(process)));
                sources.push(None);
                continue;
            }
            let copy = copy.as_ref().filter(|_| is_ours(disk));
            let source = copy.map(OpenCopy::new).transpose().unwrap_or_else(|error| {
                let what = error.message().to_string();
                faults.on_copy(copy.expect("it was tried").damage(None, what));
                None
            });
            let end = copy.filter(|_| source.is_some());
            ends.push(
                end.map(|copy| DiskEndpoint::of(copy.disk(), mirrors).map(CopyEndpoint::Here))
                    .transpose()?,
            );
            sources.push(source);
        }
        if !among.is_read_here(at) {
            ends.clear();
        }
        let (toc, path, disks) = (copies.toc.clone(), copies.path(), copies.disks.clone());
        let (reader, copies) = (next_reader_id(), copies.copies.clone());
        Ok((DeclusteredSegment { segment: at, reader, toc, path, disks, copies, ends }, sources))
    }

    /// The copies from which no block will come.
    pub fn lost(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ends.len()).filter(|&copy| self.ends[copy].is_none())
    }

    /// Announces the segment's reader to the disks; `requester` makes what receives the answers
    /// of the disk of a copy.
    pub fn join(
        &self,
        sources: Vec<Option<OpenCopy>>,
        among: &ReaderAssignment,
        requester: impl Fn(usize) -> Box<dyn Requester>,
    ) {
        for (copy, (end, source)) in self.ends.iter().zip(sources).enumerate() {
            match (end, source) {
                (Some(CopyEndpoint::Here(end)), Some(source)) => {
                    let reader_state = ReaderState {
                        requester: requester(copy),
                        is_remote: false,
                        copy,
                        source: Box::new(source),
                        in_flight: BlocksInFlight::default(),
                    };
                    end.post(DiskMessage::Join { reader: self.reader, reader_state });
                }
                (Some(CopyEndpoint::There(process)), _) => {
                    among.send(*process, (self.segment, copy), CopyContent::Join, vec![]);
                }
                _ => {}
            }
        }
    }

    /// Sends a message to the disk of a copy.
    pub fn say(&self, copy: usize, message: ToDisk, among: &ReaderAssignment) {
        match &self.ends[copy] {
            Some(CopyEndpoint::Here(end)) => {
                end.post(DiskMessage::FromReader { reader: self.reader, message })
            }
            Some(CopyEndpoint::There(process)) => {
                among.send(*process, (self.segment, copy), CopyContent::ToDisk(message), vec![]);
            }
            None => {}
        }
    }

    /// Announces to the disks that the reader has finished.
    pub fn leave(&self, among: &ReaderAssignment) {
        for (copy, end) in self.ends.iter().enumerate() {
            match end {
                Some(CopyEndpoint::Here(end)) => {
                    end.post(DiskMessage::Leave { reader: self.reader })
                }
                Some(CopyEndpoint::There(process)) => {
                    among.send(*process, (self.segment, copy), CopyContent::Gone, vec![]);
                }
                None => {}
            }
        }
    }

    /// Whether this message is valid from that process to this one.
    pub fn expects(
        &self,
        from: usize,
        CopyMessage { copy, content, .. }: &CopyMessage,
        among: &ReaderAssignment,
    ) -> bool {
        let Some(disk) = self.disks.get(*copy) else { return false };
        let has = |block: u32| (block as usize) < self.toc.blocks.len();
        let is_for_reader =
            among.is_read_here(self.segment) && among.owners.elsewhere(disk) == Some(from);
        match content {
            CopyContent::Join
            | CopyContent::Got
            | CopyContent::Gone
            | CopyContent::ToDisk(ToDisk::Progress(_)) => among.owners.owns(disk),
            CopyContent::ToDisk(
                ToDisk::Claim { block, .. } | ToDisk::Withdraw { block } | ToDisk::Cancel { block },
            ) => among.owners.owns(disk) && has(*block),
            CopyContent::Read { block } | CopyContent::Refused { block, .. } => {
                is_for_reader && has(*block)
            }
            CopyContent::ToReader(_) | CopyContent::Lost { .. } | CopyContent::GaveUp => {
                is_for_reader
            }
        }
    }

    /// Fails unless the bytes are the block that was written.
    pub fn check(&self, block: u32, bytes: &Buffer) -> Result<()> {
        let block = &self.toc.blocks[block as usize];
        match bytes.len() as u64 == block.bytes {
            true => block.check(bytes),
            false => Err(Error::corrupt("a block of another length")),
        }
    }
}
