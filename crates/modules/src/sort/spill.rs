//! Runs on disk: what an instance holds, merged and written to scratch as a segment.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, Setup};
use euphrates_io::disk::Disk;
use euphrates_io::scratch::{Scratch, Unwritten};
use euphrates_io::segment::{Segment, SegmentOptions, SegmentWriter};
use euphrates_policy::sort::{BLOCK_BYTES, RANGE_BYTES, RangeSizes};

use super::keys::KeyEncoder;
use super::owned::{KeyKeeper, OwnedKey};
use super::ranges::{Cutting, Ranges};
use super::runs::MemoryRuns;

/// A sorted run on disk, with the first key of every block.
pub struct DiskRun {
    segment: Arc<Segment>,
    blocks: Vec<RunBlock>,
}

/// The blocks of a run that is being written.
struct RunBlocks<'a> {
    encoder: &'a KeyEncoder,
    /// What is written, which has the whole keys.
    ranges: &'a Ranges,
    keeper: &'a Mutex<KeyKeeper>,
    blocks: Vec<RunBlock>,
    rows: usize,
    /// The last key.
    last: Option<u128>,
}

/// A block of a run on disk.
pub struct RunBlock {
    /// Its first key, or what separates that from the keys before it.
    pub first: OwnedKey,
    /// Whether it does separate them.
    pub is_separate: bool,
    /// The position of its first record in the run.
    pub start: usize,
    /// Number of records.
    pub rows: usize,
}

impl DiskRun {
    /// Merges what is held into one run on scratch.
    pub fn write(
        scratch: &Scratch,
        encoder: &Arc<KeyEncoder>,
        schema: &SchemaRef,
        held: MemoryRuns,
        keeper: &Mutex<KeyKeeper>,
        setup: &Setup,
    ) -> Result<DiskRun> {
        let row_bytes = held.bytes().div_ceil(held.len().max(1)).max(1);
        let mut ranges = Ranges::uncut(encoder.clone(), schema.clone(), vec![held], vec![]);
        ranges.cut(RangeSizes::even(RANGE_BYTES / 4), Cutting::Anywhere, keeper);
        let batch_rows = BLOCK_BYTES / row_bytes;
        let write = |path: &Path| {
            DiskRun::write_to(path, (encoder, schema, keeper), &ranges, batch_rows, setup)
        };
        scratch.write("run", write)
    }

    fn write_to(
        path: &Path,
        (encoder, schema, keeper): (&KeyEncoder, &SchemaRef, &Mutex<KeyKeeper>),
        ranges: &Ranges,
        batch_rows: usize,
        setup: &Setup,
    ) -> Result<DiskRun, Unwritten> {
        let options = SegmentOptions { compression: None, scratch: true };
        let disk = Disk::of(path).map_err(Unwritten::Disk)?;
        let writer = SegmentWriter::create(&disk, path, schema, options);
        let mut writer = writer.map_err(Unwritten::Disk)?;
        let mut blocks = RunBlocks { encoder, ranges, keeper, blocks: vec![], rows: 0, last: None };
        for range in 0..ranges.count() {
            setup.cancel.check()?;
            let merged = ranges.merge(range)?.with_batch_rows(batch_rows);
            let mut keys = merged.keys();
            for batch in merged.batches() {
                let batch = batch?;
                writer.append(&batch).map_err(Unwritten::Disk)?;
                let own;
                (own, keys) = keys.split_at(batch.num_rows());
                blocks.push(own);
            }
        }
        let segment = writer.finish().map_err(Unwritten::Disk)?;
        Ok(DiskRun { segment: Arc::new(segment), blocks: blocks.blocks })
    }

    /// The blocks, in order.
    pub fn blocks(&self) -> &[RunBlock] {
        &self.blocks
    }

    /// Number of records.
    pub fn rows(&self) -> usize {
        self.blocks.last().map_or(0, |last| last.start + last.rows)
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> usize {
        self.segment.bytes() as usize
    }

    /// Reads blocks: for each, the position of its first record, and its records.
    pub fn read(
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

impl RunBlocks<'_> {
    /// A block of the records of these keys, of which there is one at least.
    fn push(&mut self, keys: &[u128]) {
        let (start, rows) = (self.rows, keys.len());
        self.rows += rows;
        let key = self.ranges.whole(keys[0]);
        let before = self.last.map(|last| self.ranges.whole(last));
        let bits = self.encoder.bits(keys[0]);
        let mut keeper = self.keeper.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut kept = keeper.keep(bits, key, before);
        drop(keeper);
        let is_separate = kept.is_whole || before.is_none_or(|before| kept.is_behind(before));
        if let Some(block) = self.blocks.last().filter(|block| kept < block.first) {
            // Not as long as the one before it: in order, they can be searched.
            kept = block.first.clone();
            kept.is_whole = false;
        }
        self.blocks.push(RunBlock { first: kept, is_separate, start, rows });
        self.last = keys.last().copied();
    }
}
