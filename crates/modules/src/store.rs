//! Rows that an instance holds by the hash of a key: in memory as they came, in memory by parts,
//! and on scratch by parts.
//!
//! Nothing is dealt to parts as long as all fits: a join in memory pays nothing for those that do
//! not fit. Parts go to scratch from the last to the first, so those that stay are the same at all
//! instances, but for how many. What is written at once is a run: part after part, each of them a
//! few blocks that lie together.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::concat_batches;
use arrow::datatypes::{SchemaRef, UInt64Type};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_BYTES_TARGET, Batches, Result, batch_bytes};
use euphrates_io::disk::Disk;
use euphrates_io::scratch::{Scratch, Unwritten};
use euphrates_io::segment::{Segment, SegmentOptions, SegmentWriter};
use euphrates_policy::parts::{BLOCK_BYTES, SLOT_BYTES, stay};

use crate::hashing::{Scattered, part_of, scatter};

/// Which bits of a hash choose its part.
#[derive(Clone, Copy, Debug)]
pub struct Bits {
    /// High bits that have chosen already.
    pub used: u32,
    /// Those that choose now.
    pub bits: u32,
}

impl Bits {
    /// Number of parts.
    pub fn parts(self) -> usize {
        1 << self.bits
    }
}

/// One of so many equal pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Which one, from 0.
    pub number: usize,
    /// How many there are, at least one.
    pub of: usize,
}

impl Slice {
    /// The only one.
    pub const WHOLE: Slice = Slice { number: 0, of: 1 };

    /// What it has of so many.
    fn range(self, count: usize) -> Range<usize> {
        count * self.number / self.of..count * (self.number + 1) / self.of
    }
}

/// Rows that are being taken in.
pub struct Store {
    schema: SchemaRef,
    bits: Bits,
    scratch: Arc<Scratch>,
    /// Not dealt.
    loose: Vec<RecordBatch>,
    /// Not dealt, and small: their bytes, and they.
    open: (usize, Vec<RecordBatch>),
    dealt: Vec<Scattered>,
    runs: Vec<PartRun>,
    /// Parts below this number stay in memory.
    resident: usize,
    bytes: usize,
}

impl Store {
    /// An empty store for batches of this schema, whose first column are hashes.
    pub fn new(schema: SchemaRef, bits: Bits, scratch: Arc<Scratch>) -> Store {
        let (loose, open, dealt, runs) = (vec![], (0, vec![]), vec![], vec![]);
        Store { schema, bits, scratch, loose, open, dealt, runs, resident: bits.parts(), bytes: 0 }
    }

    /// Takes rows in; returns their bytes.
    pub fn push(&mut self, batch: RecordBatch) -> Result<usize> {
        let bytes = held_bytes(&batch);
        self.bytes += bytes;
        if self.is_loose() {
            self.open.0 += bytes;
            self.open.1.push(batch);
            if self.open.0 >= BATCH_BYTES_TARGET {
                self.close()?;
            }
        } else {
            self.dealt.push(deal(&batch, self.bits)?);
        }
        Ok(bytes)
    }

    /// From now on by parts, of which those from this number on are to go to scratch.
    pub fn part(&mut self, resident: usize) -> Result<()> {
        self.close()?;
        self.resident = self.resident.min(resident);
        for batch in std::mem::take(&mut self.loose) {
            self.dealt.push(deal(&batch, self.bits)?);
        }
        Ok(())
    }

    /// Writes parts to scratch so that memory becomes free; returns the bytes written.
    pub fn spill(&mut self) -> Result<usize> {
        self.part(self.resident)?;
        let sizes = sizes(&self.dealt, &[], self.bits);
        self.resident = stay(&sizes, self.resident);
        self.write()
    }

    /// Writes all that does not stay to scratch; returns the bytes written.
    pub fn write(&mut self) -> Result<usize> {
        let parts = self.resident..self.bits.parts();
        if self.dealt.iter().all(|dealt| dealt.range(parts.clone()).num_rows() == 0) {
            return Ok(0);
        }
        let run = PartRun::write(&self.scratch, &self.schema, &self.dealt, parts)?;
        let written = run.bytes();
        self.runs.push(run);
        // What stays is copied, so that what goes is freed.
        let dealt = std::mem::take(&mut self.dealt);
        self.bytes = 0;
        let staying = dealt.iter().map(|dealt| Ok(dealt.range(0..self.resident)));
        for batch in whole(&self.schema, staying).collect::<Result<Vec<_>>>()? {
            self.bytes += held_bytes(&batch);
            self.dealt.push(deal(&batch, self.bits)?);
        }
        Ok(written)
    }

    /// Which bits of the hash choose a part.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// Whether all rows are in memory, as they came.
    pub fn is_loose(&self) -> bool {
        self.resident == self.bits.parts() && self.dealt.is_empty()
    }

    /// Parts below this number are in memory.
    pub fn resident(&self) -> usize {
        self.resident
    }

    /// Batches in memory.
    pub fn batches(&self) -> usize {
        self.loose.len() + self.dealt.len() + 1
    }

    /// Bytes in memory, with what a table of them would have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of each part, in memory and on scratch, with what a table of them would have.
    pub fn sizes(&self) -> Vec<usize> {
        let mut all = sizes(&self.dealt, &self.runs, self.bits);
        for batch in self.loose.iter().chain(&self.open.1) {
            let row_bytes = held_bytes(batch) / batch.num_rows().max(1);
            for hash in batch.column(0).as_primitive::<UInt64Type>().values() {
                all[part_of(*hash, self.bits.used, self.bits.bits)] += row_bytes;
            }
        }
        all
    }

    /// All rows, as they came: of a store that has dealt none.
    pub fn take_loose(&mut self) -> Result<Vec<RecordBatch>> {
        self.close()?;
        Ok(std::mem::take(&mut self.loose))
    }

    /// All rows in memory: when those that do not stay have been written.
    pub fn take_resident(&mut self) -> Vec<RecordBatch> {
        self.bytes = 0;
        std::mem::take(&mut self.dealt).into_iter().map(|dealt| dealt.batch().clone()).collect()
    }

    /// What it has, by parts.
    pub fn finish(mut self) -> Result<Pieces> {
        self.part(self.resident)?;
        Ok(Pieces { schema: self.schema, dealt: self.dealt, runs: self.runs })
    }

    fn close(&mut self) -> Result<()> {
        let (_, open) = std::mem::take(&mut self.open);
        if !open.is_empty() {
            self.loose.push(concat_batches(&self.schema, &open)?);
        }
        Ok(())
    }
}

/// Rows that have been taken in, by parts.
pub struct Pieces {
    schema: SchemaRef,
    dealt: Vec<Scattered>,
    runs: Vec<PartRun>,
}

impl Pieces {
    /// The rows of a part.
    pub fn read(&self, part: usize) -> Batches {
        self.read_all(part..part + 1)
    }

    /// The rows of these parts.
    pub fn read_all(&self, parts: Range<usize>) -> Batches {
        self.read_slice(parts, Slice::WHOLE)
    }

    /// Those of the rows of these parts that are in a slice. Each row is in one; what is on scratch
    /// is sliced by blocks, so that each is read once.
    pub fn read_slice(&self, parts: Range<usize>, slice: Slice) -> Batches {
        let held = self.dealt.iter().map(|dealt| {
            let rows = dealt.range(parts.clone());
            let range = slice.range(rows.num_rows());
            Ok(rows.slice(range.start, range.len()))
        });
        let held = whole(&self.schema, held.collect::<Vec<_>>().into_iter());
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

    /// Bytes of a part, with what a table of it would have.
    pub fn bytes(&self, part: usize) -> usize {
        let held = self.dealt.iter().map(|dealt| held_bytes(&dealt.part(part)));
        held.chain(self.runs.iter().map(|run| run.sizes[part])).sum()
    }
}

/// Parts on scratch.
struct PartRun {
    segment: Arc<Segment>,
    blocks: Vec<Range<usize>>,
    sizes: Vec<usize>,
}

impl PartRun {
    fn write(
        scratch: &Scratch,
        schema: &SchemaRef,
        dealt: &[Scattered],
        parts: Range<usize>,
    ) -> Result<PartRun> {
        scratch.write("part", |path| PartRun::write_to(path, schema, dealt, parts.clone()))
    }

    fn write_to(
        path: &Path,
        schema: &SchemaRef,
        dealt: &[Scattered],
        parts: Range<usize>,
    ) -> Result<PartRun, Unwritten> {
        let options = SegmentOptions { compression: None, scratch: true };
        let disk = Disk::of(path).map_err(Unwritten::Disk)?;
        let writer = SegmentWriter::create(&disk, path, schema, options);
        let mut writer = writer.map_err(Unwritten::Disk)?;
        let (mut blocks, mut sizes) = (vec![0..0; parts.start], vec![0; parts.start]);
        let mut written = 0;
        for part in parts {
            let (first, mut bytes) = (written, 0);
            let rows = dealt.iter().map(|dealt| Ok(dealt.part(part)));
            for batch in joined(schema, rows, BLOCK_BYTES) {
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

    /// Reading begins with the first batch that is asked for.
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

/// Bytes of rows that are held, and of the slots a table has for them.
pub fn held_bytes(batch: &RecordBatch) -> usize {
    batch_bytes(batch) + SLOT_BYTES * batch.num_rows()
}

/// Small batches as fewer of about the size batches have.
pub fn whole<I: Iterator<Item = Result<RecordBatch>>>(
    schema: &SchemaRef,
    batches: I,
) -> impl Iterator<Item = Result<RecordBatch>> + use<I> {
    joined(schema, batches, BATCH_BYTES_TARGET)
}

fn joined<I: Iterator<Item = Result<RecordBatch>>>(
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

fn deal(batch: &RecordBatch, bits: Bits) -> Result<Scattered> {
    let hashes = batch.column(0).as_primitive::<UInt64Type>().values();
    scatter(batch, hashes, bits.used, bits.bits)
}

fn sizes(dealt: &[Scattered], runs: &[PartRun], bits: Bits) -> Vec<usize> {
    let mut all = vec![0; bits.parts()];
    for dealt in dealt {
        let row_bytes = held_bytes(dealt.batch()) / dealt.batch().num_rows().max(1);
        all.iter_mut().enumerate().for_each(|(part, sum)| *sum += dealt.rows(part) * row_bytes);
    }
    for run in runs {
        all.iter_mut().zip(&run.sizes).for_each(|(sum, bytes)| *sum += bytes);
    }
    all
}

/// How much was written to scratch, for people; nothing if nothing was.
pub fn through_scratch(bytes: usize) -> Option<String> {
    (bytes > 0).then(|| format!("{:.1} MB went through scratch", bytes as f64 / 1e6))
}

/// Asks for the cache line of a value.
#[inline(always)]
pub fn prefetch<T>(values: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching has no effect but on caches, wherever the address points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, at);
}
