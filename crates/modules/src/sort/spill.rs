//! Spills runs: merges the records of an instance, and writes them to scratch as a segment.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use euphrates_device::disk::Disk;
use euphrates_device::scratch::{Scratch, Unwritten};
use euphrates_flow::{Result, Setup};
use euphrates_policy::sort::{RANGE_BYTES_MAX, RangeSizes, block_bytes};
use euphrates_store::segment::{SegmentOptions, SegmentWriter};
use parking_lot::Mutex;

use super::disk_run::{DiskRun, RunBlock};
use super::keys::key_encoder::KeyEncoder;
use super::keys::owned_keys::KeyInterner;
use super::memory_runs::MemoryRuns;
use super::ranges::SortedRuns;
use super::splitters::SplitPolicy;

/// The blocks of a run while it is written.
struct RunBlocks<'a> {
    encoder: &'a KeyEncoder,
    /// The ranges being written, which hold the row encodings.
    ranges: &'a SortedRuns,
    interner: &'a Mutex<KeyInterner>,
    blocks: Vec<RunBlock>,
    rows: usize,
    last: Option<u128>,
}

/// Merges the held records into one run on scratch.
pub(crate) fn spill(
    scratch: &Scratch,
    encoder: &Arc<KeyEncoder>,
    schema: &SchemaRef,
    held: MemoryRuns,
    interner: &Mutex<KeyInterner>,
    setup: &Setup,
) -> Result<DiskRun> {
    let bytes = held.bytes();
    let row_bytes = held.bytes().div_ceil(held.len().max(1)).max(1);
    let mut ranges = SortedRuns::uncut(encoder.clone(), schema.clone(), vec![held], vec![]);
    ranges.cut(RangeSizes::even(RANGE_BYTES_MAX / 4), SplitPolicy::Anywhere, interner);
    let batch_rows = block_bytes(setup.memory.share_bytes()) / row_bytes;
    let write = |disk: &Disk, path: &Path| {
        write_run((disk, path), (encoder, schema, interner), &ranges, batch_rows, setup)
    };
    scratch.write("run", bytes, write)
}

fn write_run(
    (disk, path): (&Disk, &Path),
    (encoder, schema, interner): (&KeyEncoder, &SchemaRef, &Mutex<KeyInterner>),
    ranges: &SortedRuns,
    batch_rows: usize,
    setup: &Setup,
) -> Result<DiskRun, Unwritten> {
    let options = SegmentOptions { compression: None, scratch: true };
    let writer = SegmentWriter::create(disk, path, schema, options);
    let mut writer = writer.map_err(Unwritten::Disk)?;
    let mut blocks = RunBlocks { encoder, ranges, interner, blocks: vec![], rows: 0, last: None };
    for range in 0..ranges.count() {
        setup.cancel.check()?;
        let merged = ranges.merge(range)?.with_batch_rows(batch_rows);
        let mut done = 0;
        for batch in merged.batches() {
            let batch = batch?;
            writer.append(&batch).map_err(Unwritten::Disk)?;
            let end = done + batch.num_rows();
            blocks.push(merged.keys().get(done), merged.keys().get(end - 1), batch.num_rows());
            done = end;
        }
    }
    let segment = writer.finish().map_err(Unwritten::Disk)?;
    Ok(DiskRun::new(segment, blocks.blocks))
}

impl RunBlocks<'_> {
    /// Adds a block with this many records, at least one: with these keys, the first and the last.
    fn push(&mut self, first: u128, last: u128, rows: usize) {
        let start = self.rows;
        self.rows += rows;
        let key = self.ranges.whole(first);
        let before = self.last.map(|last| self.ranges.whole(last));
        let bits = self.encoder.bits(first);
        let mut interner = self.interner.lock();
        let mut kept = interner.intern(bits, key, before);
        drop(interner);
        let is_separate = kept.is_whole || before.is_none_or(|before| kept.is_behind(before));
        if let Some(block) = self.blocks.last().filter(|block| kept < block.first) {
            // A prefix shorter than the one before it: the first keys stay sorted, for binary
            // search.
            kept = block.first.clone();
            kept.is_whole = false;
        }
        self.blocks.push(RunBlock { first: kept, separates: is_separate, start, rows });
        self.last = Some(last);
    }
}
