//! The order of a stream whose blocks lie in several segments.

use std::ops::Range;

use euphrates_flow::{Error, Result};

use crate::collection::{RUN_BLOCKS, SegmentCopies};

/// The segment of each block of a stream. Within a segment, blocks are in the order of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence(Vec<u32>);

impl Sequence {
    /// The sequence of consecutive segments.
    pub fn consecutive(segments: &[SegmentCopies]) -> Sequence {
        let all = segments.iter().enumerate();
        let blocks = all.flat_map(|(at, copies)| copies.toc.blocks.iter().map(move |_| at as u32));
        Sequence(blocks.collect())
    }

    /// The sequence by the block numbers in the tables of contents, without blocks that these leave
    /// out. Fails unless they number one stream.
    pub fn interleaved(segments: &[SegmentCopies]) -> Result<Sequence> {
        const UNASSIGNED: u32 = u32::MAX;
        let blocks = segments.iter().map(|copies| copies.toc.blocks_in_segment()).sum();
        let mut sequence = vec![UNASSIGNED; blocks];
        for (at, copies) in segments.iter().enumerate() {
            let mut last = None;
            for number in copies.toc.blocks.iter().map(|block| block.number) {
                let position =
                    sequence.get_mut(number as usize).filter(|position| **position == UNASSIGNED);
                let position = position.filter(|_| last.is_none_or(|last| last < number));
                *position.ok_or_else(|| Error::corrupt("its blocks have no order"))? = at as u32;
                last = Some(number);
            }
        }
        sequence.retain(|segment| *segment != UNASSIGNED);
        Ok(Sequence(sequence))
    }

    /// The number of runs.
    pub(super) fn runs(&self) -> u64 {
        self.0.len().div_ceil(RUN_BLOCKS) as u64
    }

    /// The blocks of a run, by their position in the stream.
    pub(super) fn run(&self, run: u64) -> Range<usize> {
        let start = run as usize * RUN_BLOCKS;
        start..self.0.len().min(start + RUN_BLOCKS)
    }

    /// The run of the block at this position.
    pub(super) fn run_of(&self, position: usize) -> u64 {
        (position / RUN_BLOCKS) as u64
    }

    /// The segment of the block at this position.
    pub(super) fn segment(&self, position: usize) -> Option<usize> {
        self.0.get(position).map(|&segment| segment as usize)
    }
}
