//! The cleaner: live bytes of segments that are mostly empty are written again, so that the
//! segments can be removed.

use std::collections::{BTreeMap, BTreeSet};

use euphrates_flow::{Error, Result};
use euphrates_policy::log_cleaning::{SegmentUse, choose};

use super::core::{Core, VolumeState};
use crate::tree::{FilePiece, InodeContent, LogRecord};

/// Bytes that one record moves, at most.
const MOVED_BYTES_MAX: u64 = 256 << 10;
/// Passes of one call, at most: each may leave segments for the next.
const PASSES_MAX: usize = 16;

/// A contiguous range of a file in segments that are to be removed.
struct MovedRange {
    number: u64,
    pieces: Vec<FilePiece>,
}

impl Core {
    /// Rewrites segments until none is worth it.
    pub fn clean(&self) -> Result<()> {
        for _ in 0..PASSES_MAX {
            let log_segment = self.root.lock().log_segment;
            let ranges = {
                let state = self.state();
                let uses = self.uses(&state, log_segment);
                let victims = choose(&uses).into_iter().collect();
                ranges_in(&state, &victims)
            };
            if ranges.is_empty() {
                return Ok(());
            }
            let mut moved = 0;
            for range in &ranges {
                moved += usize::from(self.move_range(range)?);
            }
            self.checkpoint(true)?;
            if moved == 0 {
                break;
            }
        }
        Ok(())
    }

    /// How full the segments are that are not written any more.
    fn uses(&self, state: &VolumeState, log_segment: u64) -> Vec<SegmentUse> {
        let (mut live, mut degraded) = (BTreeMap::<u64, u64>::new(), BTreeSet::new());
        let files = self.disks.list();
        for (chunk, bytes) in state.tree.live() {
            // The chunk that is being filled has no place.
            let Some(place) = state.places.get(chunk) else { continue };
            *live.entry(place.segment).or_default() += bytes;
            let is_good =
                |disk: u32| self.writer.as_ref().is_some_and(|end| end.log.is_good(disk as usize));
            let is_there = |(disk, _): &(u32, u64)| {
                is_good(*disk)
                    && files.get(&place.segment).is_some_and(|disks| disks.contains(disk))
            };
            if !place.blocks.iter().all(is_there) {
                degraded.insert(place.segment);
            }
        }
        let sealed = state.segments.iter().filter(|(number, _)| **number < log_segment);
        sealed
            .map(|(number, bytes)| SegmentUse {
                number: *number,
                bytes: *bytes,
                live: live.get(number).copied().unwrap_or(0),
                is_degraded: degraded.contains(number),
            })
            .collect()
    }

    /// Writes a range again, unless it has changed meanwhile. Returns whether it did.
    fn move_range(&self, range: &MovedRange) -> Result<bool> {
        let offset = range.pieces[0].offset;
        let bytes: u64 = range.pieces.iter().map(|piece| piece.bytes).sum();
        let pieces = |state: &VolumeState| state.tree.pieces(range.number, offset, bytes);
        let is_same = |state: &VolumeState| pieces(state).is_ok_and(|found| found == range.pieces);
        let sources = {
            let state = self.state();
            match is_same(&state) {
                true => state.sources(&range.pieces),
                false => return Ok(false),
            }
        };
        let mut data = vec![0; bytes as usize];
        if self.fill(&sources, &mut data).is_err() {
            // Programs get this error when they read it; the segment stays.
            return Ok(false);
        }
        let mut state = self.state();
        if !is_same(&state) {
            return Ok(false);
        }
        let record = LogRecord::Move { number: range.number, offset, data: &data };
        let moved = self.apply(&mut state, &record);
        moved.map_err(|_| Error::resource("the log cannot be written"))?;
        Ok(true)
    }
}

/// The ranges of files that are in some segments, contiguous ones together.
fn ranges_in(state: &VolumeState, victims: &BTreeSet<u64>) -> Vec<MovedRange> {
    let mut ranges: Vec<MovedRange> = vec![];
    if victims.is_empty() {
        return ranges;
    }
    for (number, inode) in state.tree.inodes() {
        let InodeContent::File { extents, .. } = &inode.content else { continue };
        let mut end = None;
        for (offset, extent) in extents.iter() {
            let place = state.places.get(&extent.place.chunk);
            if !place.is_some_and(|place| victims.contains(&place.segment)) {
                continue;
            }
            let bytes = u64::from(extent.bytes);
            let piece = FilePiece { offset, bytes, place: Some(extent.place) };
            let last = ranges.last_mut().filter(|last| {
                let held: u64 = last.pieces.iter().map(|piece| piece.bytes).sum();
                end == Some(offset) && held + bytes <= MOVED_BYTES_MAX
            });
            match last {
                Some(last) => last.pieces.push(piece),
                None => ranges.push(MovedRange { number, pieces: vec![piece] }),
            }
            end = Some(offset + bytes);
        }
    }
    ranges
}
