//! A sorted run on disk: a segment, and the first key of each of its blocks.

use std::ops::Range;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_store::segment::Segment;

use super::keys::owned_keys::OwnedKey;

/// A sorted run on disk, with the first key of every block.
pub(crate) struct DiskRun {
    segment: Arc<Segment>,
    blocks: Vec<RunBlock>,
}

/// A block of a run on disk.
pub(crate) struct RunBlock {
    /// Its first key, or a prefix of it.
    pub(crate) first: OwnedKey,
    /// Whether `first` separates it from the keys before it.
    pub(crate) separates: bool,
    /// The position of its first record in the run.
    pub(crate) start: usize,
    pub(crate) rows: usize,
}

impl DiskRun {
    /// A written run, with its blocks in order.
    pub(crate) fn new(segment: Segment, blocks: Vec<RunBlock>) -> DiskRun {
        DiskRun { segment: Arc::new(segment), blocks }
    }

    pub(crate) fn blocks(&self) -> &[RunBlock] {
        &self.blocks
    }

    pub(crate) fn rows(&self) -> usize {
        self.blocks.last().map_or(0, |last| last.start + last.rows)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.segment.bytes() as usize
    }

    /// Reads blocks: for each, the position of its first record, and its records.
    pub(crate) fn read(
        &self,
        blocks: Range<usize>,
    ) -> impl Iterator<Item = Result<(usize, RecordBatch)>> + '_ {
        let starts = self.blocks[blocks.clone()].iter().map(|block| block.start);
        let mut reader = self.segment.read(blocks);
        starts.map_while(move |start| {
            let block = reader.next_block().transpose()?;
            Some(block.map(|block| (start, block.batch)))
        })
    }
}
