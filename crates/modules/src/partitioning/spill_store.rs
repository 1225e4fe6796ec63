//! A store of rows, partitioned by hash, that spills parts to scratch.
//!
//! Rows are not partitioned while they fit the memory, so a join in memory does not pay for
//! partitioning. Parts are spilled from the last to the first, so resident parts agree between
//! instances except for their number. Each spill writes a run: part after part, each a sequence of
//! adjacent blocks.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::concat_batches;
use arrow::datatypes::{SchemaRef, UInt64Type};
use arrow::record_batch::RecordBatch;
use euphrates_device::disk::Disk;
use euphrates_device::scratch::{Scratch, Unwritten};
use euphrates_flow::{BATCH_BYTES_TARGET, Batches, Result, batch_bytes};
use euphrates_policy::hash_partitions::{BLOCK_BYTES, SLOT_BYTES, resident_parts_after_spill};
use euphrates_store::segment::{Segment, SegmentOptions, SegmentWriter};

use crate::partitioning::hashing::part_of;
use crate::partitioning::scatter::{Scattered, scatter};

/// The bits of a hash that select its part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartBits {
    /// High bits that earlier partitioning has used.
    pub(crate) used: u32,
    /// The number of bits used now.
    pub(crate) bits: u32,
}

impl PartBits {
    pub(crate) fn parts(self) -> usize {
        1 << self.bits
    }
}

/// One of `of` slices of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionSlice {
    /// The number of the slice, from 0.
    pub(crate) number: usize,
    /// The number of slices, at least one.
    pub(crate) of: usize,
}

impl PartitionSlice {
    /// The only slice of one.
    pub(crate) const WHOLE: PartitionSlice = PartitionSlice { number: 0, of: 1 };

    /// Its range of `count` items.
    fn range(self, count: usize) -> Range<usize> {
        count * self.number / self.of..count * (self.number + 1) / self.of
    }
}

/// A store that takes rows.
pub(crate) struct SpillStore {
    schema: SchemaRef,
    bits: PartBits,
    scratch: Arc<Scratch>,
    /// Batches that are not partitioned.
    unpartitioned: Vec<RecordBatch>,
    /// Small batches that are not partitioned, with their bytes.
    open: (usize, Vec<RecordBatch>),
    scattered: Vec<Scattered>,
    runs: Vec<PartRun>,
    /// Parts below this number stay in memory.
    resident: usize,
    bytes: usize,
}

impl SpillStore {
    /// An empty store for batches of this schema, whose first column is the hash.
    pub(crate) fn new(schema: SchemaRef, bits: PartBits, scratch: Arc<Scratch>) -> SpillStore {
        let (loose, open, scattered, runs) = (vec![], (0, vec![]), vec![], vec![]);
        SpillStore {
            schema,
            bits,
            scratch,
            unpartitioned: loose,
            open,
            scattered,
            runs,
            resident: bits.parts(),
            bytes: 0,
        }
    }

    /// Adds rows; returns their bytes.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<usize> {
        let bytes = held_bytes(&batch);
        self.bytes += bytes;
        if self.is_unpartitioned() {
            self.open.0 += bytes;
            self.open.1.push(batch);
            if self.open.0 >= BATCH_BYTES_TARGET {
                self.close()?;
            }
        } else {
            self.scattered.push(scatter_by_hash(&batch, self.bits)?);
        }
        Ok(bytes)
    }

    /// Partitions the rows held; only parts below `resident` stay in memory at the next `write`.
    /// Later rows are partitioned too, unless the store is empty and all parts stay.
    pub(crate) fn partition(&mut self, resident: usize) -> Result<()> {
        self.close()?;
        self.resident = self.resident.min(resident);
        for batch in std::mem::take(&mut self.unpartitioned) {
            self.scattered.push(scatter_by_hash(&batch, self.bits)?);
        }
        Ok(())
    }

    /// Chooses parts to spill, to free memory, and writes them; returns the bytes written.
    pub(crate) fn spill(&mut self) -> Result<usize> {
        self.partition(self.resident)?;
        let sizes = sizes(&self.scattered, &[], self.bits);
        self.resident = resident_parts_after_spill(&sizes, self.resident);
        self.write()
    }

    /// Writes all parts that are not resident; returns the bytes written.
    pub(crate) fn write(&mut self) -> Result<usize> {
        let parts = self.resident..self.bits.parts();
        if self.scattered.iter().all(|scattered| scattered.range(parts.clone()).num_rows() == 0) {
            return Ok(0);
        }
        let run = PartRun::write(&self.scratch, &self.schema, &self.scattered, parts)?;
        let written = run.bytes();
        self.runs.push(run);
        // Resident rows are copied, so that the memory of the others is freed: batch by batch.
        let (scattered, resident) = (std::mem::take(&mut self.scattered), self.resident);
        self.bytes = 0;
        let staying = scattered.into_iter().map(|scattered| Ok(scattered.range(0..resident)));
        for batch in coalesced(&self.schema, staying) {
            let batch = batch?;
            self.bytes += held_bytes(&batch);
            self.scattered.push(scatter_by_hash(&batch, self.bits)?);
        }
        Ok(written)
    }

    pub(crate) fn bits(&self) -> PartBits {
        self.bits
    }

    /// Whether all rows are in memory and not partitioned.
    pub(crate) fn is_unpartitioned(&self) -> bool {
        self.resident == self.bits.parts() && self.scattered.is_empty()
    }

    pub(crate) fn resident(&self) -> usize {
        self.resident
    }

    /// The maximum number of batches in memory, when small ones have been coalesced.
    pub(crate) fn batches(&self) -> usize {
        self.unpartitioned.len() + self.scattered.len() + 1
    }

    /// Bytes in memory, including the slots of a hash table.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of each part, in memory and on scratch, including the slots of a hash table.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        let mut all = sizes(&self.scattered, &self.runs, self.bits);
        for batch in self.unpartitioned.iter().chain(&self.open.1) {
            let row_bytes = held_bytes(batch) / batch.num_rows().max(1);
            for hash in batch.column(0).as_primitive::<UInt64Type>().values() {
                all[part_of(*hash, self.bits.used, self.bits.bits)] += row_bytes;
            }
        }
        all
    }

    /// Takes all rows of a store that has not been partitioned.
    pub(crate) fn take_unpartitioned(&mut self) -> Result<Vec<RecordBatch>> {
        self.close()?;
        Ok(std::mem::take(&mut self.unpartitioned))
    }

    /// Takes the rows in memory, after the other parts have been written.
    pub(crate) fn take_resident(&mut self) -> Vec<RecordBatch> {
        self.bytes = 0;
        std::mem::take(&mut self.scattered)
            .into_iter()
            .map(|scattered| scattered.batch().clone())
            .collect()
    }

    /// Ends the intake; the rows are read by part.
    pub(crate) fn finish(mut self) -> Result<StoredParts> {
        self.partition(self.resident)?;
        Ok(StoredParts { schema: self.schema, scattered: self.scattered, runs: self.runs })
    }

    fn close(&mut self) -> Result<()> {
        let (_, open) = std::mem::take(&mut self.open);
        if !open.is_empty() {
            self.unpartitioned.push(concat_batches(&self.schema, &open)?);
        }
        Ok(())
    }
}

/// Stored rows, read by part.
pub(crate) struct StoredParts {
    schema: SchemaRef,
    scattered: Vec<Scattered>,
    runs: Vec<PartRun>,
}

impl StoredParts {
    pub(crate) fn read(&self, part: usize) -> Batches {
        self.read_all(part..part + 1)
    }

    /// The rows of a range of parts.
    pub(crate) fn read_all(&self, parts: Range<usize>) -> Batches {
        self.read_slice(parts, PartitionSlice::WHOLE)
    }

    /// A slice of the rows of these parts. Each row is in one slice; spilled rows are sliced by
    /// blocks, so that each block is read once.
    pub(crate) fn read_slice(&self, parts: Range<usize>, slice: PartitionSlice) -> Batches {
        let held = self.scattered.iter().map(|scattered| {
            let rows = scattered.range(parts.clone());
            let range = slice.range(rows.num_rows());
            Ok(rows.slice(range.start, range.len()))
        });
        let held = coalesced(&self.schema, held.collect::<Vec<_>>().into_iter());
        let pieces = self.runs.iter().flat_map(|run| parts.clone().map(move |part| (run, part)));
        let pieces: Vec<_> = pieces.map(|(run, part)| (run, run.blocks[part].clone())).collect();
        let wanted = slice.range(pieces.iter().map(|(_, blocks)| blocks.len()).sum());
        let mut before = 0;
        let runs = pieces.into_iter().map(|(run, blocks)| {
            let own = |number: usize| number.clamp(before, before + blocks.len()) - before;
            let own = blocks.start + own(wanted.start)..blocks.start + own(wanted.end);
            before += blocks.len();
            run.read(own)
        });
        Box::new(held.chain(runs.collect::<Vec<_>>().into_iter().flatten()))
    }

    /// Bytes of a part, including the slots of a hash table.
    pub(crate) fn bytes(&self, part: usize) -> usize {
        let held = self.scattered.iter().map(|scattered| held_bytes(&scattered.part(part)));
        held.chain(self.runs.iter().map(|run| run.sizes[part])).sum()
    }
}

/// A spilled run of parts.
struct PartRun {
    segment: Arc<Segment>,
    blocks: Vec<Range<usize>>,
    sizes: Vec<usize>,
}

impl PartRun {
    fn write(
        scratch: &Scratch,
        schema: &SchemaRef,
        scattered: &[Scattered],
        parts: Range<usize>,
    ) -> Result<PartRun> {
        let spilled = || scattered.iter().map(|scattered| scattered.range(parts.clone()));
        let bytes = spilled().map(|rows| batch_bytes(&rows)).sum();
        let write = |disk: &Disk, path: &Path| {
            PartRun::write_to((disk, path), schema, scattered, parts.clone())
        };
        scratch.write("part", bytes, write)
    }

    fn write_to(
        (disk, path): (&Disk, &Path),
        schema: &SchemaRef,
        scattered: &[Scattered],
        parts: Range<usize>,
    ) -> Result<PartRun, Unwritten> {
        let options = SegmentOptions { compression: None, scratch: true };
        let writer = SegmentWriter::create(disk, path, schema, options);
        let mut writer = writer.map_err(Unwritten::Disk)?;
        let (mut blocks, mut sizes) = (vec![0..0; parts.start], vec![0; parts.start]);
        let mut written = 0;
        for part in parts {
            let (first, mut bytes) = (written, 0);
            let rows = scattered.iter().map(|scattered| Ok(scattered.part(part)));
            for batch in concatenated(schema, rows, BLOCK_BYTES) {
                let batch = batch?;
                bytes += held_bytes(&batch);
                writer.append(&batch).map_err(Unwritten::Disk)?;
                written += 1;
            }
            blocks.push(first..written);
            sizes.push(bytes);
        }
        let segment = writer.finish().map_err(Unwritten::Disk)?;
        Ok(PartRun { segment: Arc::new(segment), blocks, sizes })
    }

    fn bytes(&self) -> usize {
        self.segment.bytes() as usize
    }

    /// Opens the segment when the first batch is requested.
    fn read(
        &self,
        blocks: Range<usize>,
    ) -> impl Iterator<Item = Result<RecordBatch>> + Send + use<> {
        let segment = self.segment.clone();
        let readers = (!blocks.is_empty()).then_some(blocks).into_iter();
        readers.flat_map(move |blocks| {
            let mut reader = segment.read(blocks);
            std::iter::from_fn(move || {
                let block = reader.next_block().transpose()?;
                Some(block.map(|block| block.batch))
            })
        })
    }
}

/// Bytes of held rows, and of their slots in a hash table.
pub(crate) fn held_bytes(batch: &RecordBatch) -> usize {
    batch_bytes(batch) + SLOT_BYTES * batch.num_rows()
}

/// Coalesces small batches to the target size.
pub(crate) fn coalesced<I: Iterator<Item = Result<RecordBatch>>>(
    schema: &SchemaRef,
    batches: I,
) -> impl Iterator<Item = Result<RecordBatch>> + use<I> {
    concatenated(schema, batches, BATCH_BYTES_TARGET)
}

fn concatenated<I: Iterator<Item = Result<RecordBatch>>>(
    schema: &SchemaRef,
    mut batches: I,
    bytes_target: usize,
) -> impl Iterator<Item = Result<RecordBatch>> + use<I> {
    let schema = schema.clone();
    std::iter::from_fn(move || {
        let (mut some, mut bytes) = (vec![], 0);
        while bytes < bytes_target {
            match batches.next() {
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => {
                    bytes += batch_bytes(&batch);
                    some.push(batch);
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        (!some.is_empty()).then(|| Ok(concat_batches(&schema, &some)?))
    })
}

fn scatter_by_hash(batch: &RecordBatch, bits: PartBits) -> Result<Scattered> {
    let hashes = batch.column(0).as_primitive::<UInt64Type>().values();
    scatter(batch, hashes, bits.used, bits.bits)
}

fn sizes(scattered: &[Scattered], runs: &[PartRun], bits: PartBits) -> Vec<usize> {
    let mut all = vec![0; bits.parts()];
    for scattered in scattered {
        let row_bytes = held_bytes(scattered.batch()) / scattered.batch().num_rows().max(1);
        all.iter_mut().enumerate().for_each(|(part, sum)| *sum += scattered.rows(part) * row_bytes);
    }
    for run in runs {
        all.iter_mut().zip(&run.sizes).for_each(|(sum, bytes)| *sum += bytes);
    }
    all
}

/// A remark on the bytes spilled; `None` if there are none.
pub(crate) fn spill_remark(bytes: usize) -> Option<String> {
    (bytes > 0).then(|| format!("{:.1} MB went through scratch", bytes as f64 / 1e6))
}
