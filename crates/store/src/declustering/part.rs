//! A segment that is read from several disks: the endpoints of its copies, and the messages to
//! them.

use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_policy::declustering::{InFlight, ToDisk};

use super::disk::{DiskEnd, DiskMessage, ReaderState, Requester, Source, next_reader_id};
use super::faults::Faults;
use super::message::{Content, Message};
use super::{Among, MirrorPolicy};
use crate::collection::Copies;
use crate::segment::{Segment, Toc};

/// A segment with the endpoints of its copies.
pub(super) struct Part {
    segment: usize,
    /// The reader's identifier at the disks.
    reader: u32,
    pub toc: Arc<Toc>,
    pub path: String,
    pub disks: Vec<String>,
    /// The copies that this process can open.
    pub copies: Vec<Option<Arc<Segment>>>,
    /// The disks' endpoints, if this process reads the segment; `None` for a copy that is lost.
    ends: Vec<Option<End>>,
}

/// The endpoint of a disk, in this process or another.
enum End {
    Here(Arc<DiskEnd>),
    /// The number of another process.
    There(usize),
}

impl Part {
    pub fn new(
        copies: &Copies,
        (at, among): (usize, &Among),
        mirrors: MirrorPolicy,
        faults: &mut Faults,
    ) -> Result<(Part, Vec<Option<Source>>)> {
        let (mut ends, mut sources) = (vec![], vec![]);
        // This process need not see the copies of others.
        let is_ours = |disk: &str| among.is_read_here(at) && among.owners.elsewhere(disk).is_none();
        let damages = copies.damages().filter(|damage| is_ours(&damage.disk));
        damages.for_each(|damage| faults.on_copy(damage.clone()));
        for (copy, disk) in copies.copies.iter().zip(&copies.disks) {
            if let Some(process) = among.owners.elsewhere(disk) {
                ends.push(Some(End::There(process)));
                sources.push(None);
                continue;
            }
            let copy = copy.as_ref().filter(|_| is_ours(disk));
            let source = copy.map(Source::new).transpose().unwrap_or_else(|error| {
                let what = error.message().to_string();
                faults.on_copy(copy.expect("it was tried").damage(None, what));
                None
            });
            let end = copy.filter(|_| source.is_some());
            ends.push(
                end.map(|copy| DiskEnd::of(copy.disk(), mirrors).map(End::Here)).transpose()?,
            );
            sources.push(source);
        }
        if !among.is_read_here(at) {
            ends.clear();
        }
        let (toc, path, disks) = (copies.toc.clone(), copies.path(), copies.disks.clone());
        let (reader, copies) = (next_reader_id(), copies.copies.clone());
        Ok((Part { segment: at, reader, toc, path, disks, copies, ends }, sources))
    }

    /// The copies from which no block will come.
    pub fn lost(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ends.len()).filter(|&copy| self.ends[copy].is_none())
    }

    /// Announces the segment's reader to the disks; `requester` makes what receives the answers
    /// of the disk of a copy.
    pub fn join(
        &self,
        sources: Vec<Option<Source>>,
        among: &Among,
        requester: impl Fn(usize) -> Box<dyn Requester>,
    ) {
        for (copy, (end, source)) in self.ends.iter().zip(sources).enumerate() {
            match (end, source) {
                (Some(End::Here(end)), Some(source)) => {
                    let reader_state = ReaderState {
                        requester: requester(copy),
                        is_remote: false,
                        copy,
                        source,
                        in_flight: InFlight::default(),
                    };
                    end.post(DiskMessage::Join { reader: self.reader, reader_state });
                }
                (Some(End::There(process)), _) => {
                    among.tell(*process, (self.segment, copy), Content::Join, vec![]);
                }
                _ => {}
            }
        }
    }

    /// Sends a message to the disk of a copy.
    pub fn say(&self, copy: usize, message: ToDisk, among: &Among) {
        match &self.ends[copy] {
            Some(End::Here(end)) => {
                end.post(DiskMessage::FromReader { reader: self.reader, message })
            }
            Some(End::There(process)) => {
                among.tell(*process, (self.segment, copy), Content::ToDisk(message), vec![]);
            }
            None => {}
        }
    }

    /// Announces to the disks that the reader has finished.
    pub fn leave(&self, among: &Among) {
        for (copy, end) in self.ends.iter().enumerate() {
            match end {
                Some(End::Here(end)) => end.post(DiskMessage::Leave { reader: self.reader }),
                Some(End::There(process)) => {
                    among.tell(*process, (self.segment, copy), Content::Gone, vec![]);
                }
                None => {}
            }
        }
    }

    /// Whether this message is valid from that process to this one.
    pub fn expects(
        &self,
        from: usize,
        Message { copy, content, .. }: &Message,
        among: &Among,
    ) -> bool {
        let Some(disk) = self.disks.get(*copy) else { return false };
        let has = |block: u32| (block as usize) < self.toc.blocks.len();
        let is_for_reader =
            among.is_read_here(self.segment) && among.owners.elsewhere(disk) == Some(from);
        match content {
            Content::Join | Content::Got | Content::Gone | Content::ToDisk(ToDisk::Progress(_)) => {
                among.owners.owns(disk)
            }
            Content::ToDisk(
                ToDisk::Claim { block, .. } | ToDisk::Withdraw { block } | ToDisk::Cancel { block },
            ) => among.owners.owns(disk) && has(*block),
            Content::Read { block } | Content::Refused { block, .. } => {
                is_for_reader && has(*block)
            }
            Content::ToReader(_) | Content::Lost { .. } | Content::GaveUp => is_for_reader,
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
