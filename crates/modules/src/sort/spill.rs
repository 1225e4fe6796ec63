//! Runs on disk: what an instance holds, merged and written to scratch as a segment.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, Setup};
use euphrates_io::disk::Disk;
use euphrates_io::scratch::{Scratch, Unwritten};
use euphrates_io::segment::{Segment, SegmentOptions, SegmentWriter};
use euphrates_policy::sort::{BLOCK_BYTES, RANGE_BYTES, RangeSizes};

use super::keys::{KeyEncoder, OwnedKey};
use super::ranges::{Cutting, Ranges, first_key};
use super::runs::MemoryRuns;

/// A sorted run on disk, with the first key of every block.
pub struct DiskRun {
    segment: Arc<Segment>,
    blocks: Vec<RunBlock>,
}

/// A block of a run on disk.
pub struct RunBlock {
    /// Its first key.
    pub first: OwnedKey,
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
        setup: &Setup,
    ) -> Result<DiskRun> {
        let row_bytes = held.bytes().div_ceil(held.len().max(1)).max(1);
        let mut ranges = Ranges::uncut(encoder.clone(), schema.clone(), vec![held], vec![]);
        ranges.cut(RangeSizes::even(RANGE_BYTES / 4), Cutting::Anywhere);
        let batch_rows = BLOCK_BYTES / row_bytes;
        let write =
            |path: &Path| DiskRun::write_to(path, (encoder, schema), &ranges, batch_rows, setup);
        scratch.write("run", write)
    }

    fn write_to(
        path: &Path,
        (encoder, schema): (&KeyEncoder, &SchemaRef),
        ranges: &Ranges,
        batch_rows: usize,
        setup: &Setup,
    ) -> Result<DiskRun, Unwritten> {
        let options = SegmentOptions { compression: None, scratch: true };
        let disk = Disk::of(path).map_err(Unwritten::Disk)?;
        let writer = SegmentWriter::create(&disk, path, schema, options);
        let mut writer = writer.map_err(Unwritten::Disk)?;
        let (mut blocks, mut start) = (vec![], 0);
        for range in 0..ranges.count() {
            setup.cancel.check()?;
            let merged = ranges.merge(range)?.with_batch_rows(batch_rows);
            for batch in merged.batches() {
                let batch = batch?;
                let (first, rows) = (first_key(encoder, &batch)?, batch.num_rows());
                writer.append(&batch).map_err(Unwritten::Disk)?;
                blocks.push(RunBlock { first, start, rows });
                start += rows;
            }
        }
        let segment = writer.finish().map_err(Unwritten::Disk)?;
        Ok(DiskRun { segment: Arc::new(segment), blocks })
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
