//! Cuts sorted runs into ranges, and merges a range.
//!
//! A range is merged by sorting the keys of its slices again (`distribution_sort`): a few slices,
//! or very many keys, are merged by the standard library's stable sort, which detects sorted runs;
//! other keys are distributed to buckets. The same code serves one pass and two: a slice of a run
//! comes from memory, or from a few blocks on disk.

use std::cmp::Ordering;
use std::iter;
use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow::row::Rows;
use euphrates_flow::{Error, Result, batch_bytes, batch_rows};
use euphrates_policy::sampling::Sampling;
use euphrates_policy::sort::RangeSizes;
use parking_lot::Mutex;

use super::disk_run::{DiskRun, RunBlock};
use super::gather::Sources;
use super::key_sorting::Presorted;
use super::keys::key_encoder::KeyEncoder;
use super::keys::owned_keys::KeyInterner;
use super::memory_runs::MemoryRuns;
use super::packed_keys::PackedKeys;
use super::splitters::{SplitPolicy, Splitter, SplitterCandidate, choose_splitters};

/// The least bytes that a record counts as, so that a range of keys alone has fewer keys than
/// `distribution_sort` spreads.
const ROW_BYTES_MIN: usize = 24;

/// All runs of a sort in one process, cut into ranges.
pub(crate) struct SortedRuns {
    encoder: Arc<KeyEncoder>,
    schema: SchemaRef,
    /// The records of all runs in memory; row ids plus a slice's `offset` index them.
    batches: Vec<RecordBatch>,
    rows: Vec<Option<Rows>>,
    memory: Vec<CutRun>,
    disk: Vec<DiskRun>,
    /// Prepared once, if all runs are in memory.
    sources: Option<Arc<Sources>>,
    splitters: Vec<Splitter>,
    row_bytes: usize,
    /// Maximum bytes read for a range, beyond those held.
    range_bytes_max: usize,
    /// The number of the first run among those of all processes.
    first_run: usize,
}

/// A sorted run in memory, and the position of each splitter in it.
struct CutRun {
    keys: PackedKeys,
    /// Added to the batch numbers in its keys.
    offset: usize,
    cuts: Vec<usize>,
}

/// A merged range: its keys in order, with rows that are not copied yet.
pub(crate) struct Merged {
    sources: Arc<Sources>,
    keys: PackedKeys,
    rows_per_batch: usize,
}

impl SortedRuns {
    /// Runs before they are cut; `schema` is that of their records.
    pub(crate) fn uncut(
        encoder: Arc<KeyEncoder>,
        schema: SchemaRef,
        stores: Vec<MemoryRuns>,
        disk: Vec<DiskRun>,
    ) -> SortedRuns {
        let bytes: usize = stores.iter().map(MemoryRuns::bytes).sum::<usize>()
            + disk.iter().map(DiskRun::bytes).sum::<usize>();
        let rows_all: usize = stores.iter().map(MemoryRuns::len).sum::<usize>()
            + disk.iter().map(DiskRun::rows).sum::<usize>();
        let row_bytes = bytes.div_ceil(rows_all.max(1)).max(ROW_BYTES_MIN);
        let (mut batches, mut rows, mut memory) = (vec![], vec![], vec![]);
        for mut store in stores {
            let offset = batches.len();
            let chunks = std::mem::take(&mut store.chunks).into_iter();
            memory.extend(chunks.map(|keys| CutRun { keys, offset, cuts: vec![] }));
            batches.append(&mut store.batches);
            rows.append(&mut store.rows);
        }
        let is_exact = rows.iter().all(Option::is_none);
        let sources = disk
            .is_empty()
            .then(|| Sources::new(&encoder, schema.clone(), batches.iter(), is_exact))
            .map(Arc::new);
        SortedRuns {
            encoder,
            schema,
            batches,
            rows,
            memory,
            disk,
            sources,
            splitters: vec![],
            row_bytes,
            range_bytes_max: usize::MAX,
            first_run: 0,
        }
    }

    /// Limits the bytes read for a range; exceeding them is an error.
    pub(crate) fn within(self, range_bytes_max: usize) -> SortedRuns {
        SortedRuns { range_bytes_max, ..self }
    }

    /// Cuts the runs into ranges of about these sizes.
    pub(crate) fn cut(
        &mut self,
        sizes: RangeSizes,
        split_policy: SplitPolicy,
        interner: &Mutex<KeyInterner>,
    ) {
        let samples = self.samples(Sampling::alone(self.row_bytes), interner);
        let splitters = choose_splitters(samples, sizes, self.row_bytes, split_policy);
        self.cut_at(splitters, 0);
    }

    /// Cuts the runs at these splitters. The runs are numbered from `first_run` among all
    /// processes.
    pub(crate) fn cut_at(&mut self, splitters: Vec<Splitter>, first_run: usize) {
        (self.splitters, self.first_run) = (splitters, first_run);
        for run in 0..self.memory.len() {
            self.memory[run].cuts = self.cuts_of(run);
        }
    }

    /// The full row encoding of a record's key; empty if it is exact.
    pub(crate) fn whole(&self, packed: u128) -> &[u8] {
        self.encoder.whole(packed, |batch| self.rows[batch].as_ref())
    }

    /// Mean bytes of a record.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The number of runs, records and bytes.
    pub(crate) fn size(&self) -> (usize, usize, usize) {
        let memory = self.memory.iter().map(|slice| slice.keys.len()).sum::<usize>();
        let rows = memory + self.disk.iter().map(DiskRun::rows).sum::<usize>();
        (self.memory.len() + self.disk.len(), rows, rows * self.row_bytes)
    }

    /// The number of ranges, at least one.
    pub(crate) fn count(&self) -> usize {
        self.splitters.len() + 1
    }

    /// Samples of all runs. For a run on disk only the first keys of blocks are known; each stands
    /// for the samples nearest to it.
    pub(crate) fn samples(
        &self,
        sampling: Sampling,
        interner: &Mutex<KeyInterner>,
    ) -> Vec<SplitterCandidate> {
        let mut interner = interner.lock();
        let mut samples: Vec<SplitterCandidate> = Vec::new();
        for (run, slice) in self.memory.iter().enumerate() {
            let rows = |batch: usize| self.rows[batch + slice.offset].as_ref();
            let whole = |position: usize| self.encoder.whole(slice.keys.get(position), rows);
            samples.extend(sampling.positions(run, slice.keys.len()).map(|position| {
                let bits = self.encoder.bits(slice.keys.get(position));
                let before = position.checked_sub(1).map(whole);
                let key = interner.intern(bits, whole(position), before);
                (Splitter::before(key, (run, position)), sampling.step())
            }));
        }
        for (index, disk) in self.disk.iter().enumerate() {
            let run = self.memory.len() + index;
            let mut positions = sampling.positions(run, disk.rows()).peekable();
            for RunBlock { first, start, rows, .. } in disk.blocks() {
                let near = iter::from_fn(|| {
                    positions.next_if(|position| *position < start + rows.div_ceil(2))
                });
                let stands_for = near.count() * sampling.step();
                if stands_for > 0 {
                    samples.push((Splitter::before(first.clone(), (run, *start)), stands_for));
                }
            }
        }
        samples
    }

    fn cuts_of(&self, run: usize) -> Vec<usize> {
        let slice = &self.memory[run];
        let rows = |batch: usize| self.rows[batch + slice.offset].as_ref();
        let position = |splitter: &Splitter| {
            if splitter.run == self.first_run + run && splitter.position > 0 {
                return splitter.position;
            }
            slice.keys.partition_point(|packed| {
                let order = self.encoder.compare_owned(packed, &splitter.key, rows);
                falls_before(order, (self.first_run + run, 0), splitter)
            })
        };
        self.splitters.iter().map(position).collect()
    }

    /// Merges a range. Ranges are ordered: all rows of one come before those of the next.
    pub(crate) fn merge(&self, range: usize) -> Result<Merged> {
        self.merge_with(range, iter::empty())
    }

    /// Like `merge`, with sorted batches of the range from other processes.
    pub(crate) fn merge_with(
        &self,
        range: usize,
        others: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<Merged> {
        let mut keys = PackedKeys::new(&self.encoder, &self.schema);
        for slice in &self.memory {
            let start = range.checked_sub(1).map_or(0, |before| slice.cuts[before]);
            let end = slice.cuts.get(range).copied().unwrap_or(slice.keys.len());
            keys.extend_from(&slice.keys, start..end, &self.encoder, slice.offset);
        }
        let mut read = RangeBlocks { batches: vec![], rows: vec![], bytes: 0 };
        self.read_range(range, &mut keys, &mut read)?;
        let (mut rows_come, mut bytes_come, mut buffer) = (0, 0, vec![]);
        for batch in others {
            let batch = batch?;
            (rows_come, bytes_come) =
                (rows_come + batch.num_rows(), bytes_come + batch_bytes(&batch));
            let number = self.batches.len() + read.batches.len();
            let encoded = self.encoder.encode_into(&batch, number, std::mem::take(&mut buffer))?;
            keys.extend(&encoded.packed);
            buffer = encoded.packed;
            read.push(batch, encoded.rows, self.range_bytes_max)?;
        }
        let known = self.rows.len();
        let rows = |batch: usize| match batch.checked_sub(known) {
            None => self.rows[batch].as_ref(),
            Some(of_disk) => read.rows[of_disk].as_ref(),
        };
        keys.sort(&self.encoder, rows, Presorted::Runs);
        let sources = match &self.sources {
            Some(sources) if read.batches.is_empty() => sources.clone(),
            _ => {
                let all = self.batches.iter().chain(&read.batches);
                let is_exact = self.rows.iter().chain(&read.rows).all(Option::is_none);
                Arc::new(Sources::new(&self.encoder, self.schema.clone(), all, is_exact))
            }
        };
        // This process may have no records to estimate it from.
        let row_bytes = self.row_bytes.max(bytes_come / rows_come.max(1));
        Ok(Merged { sources, keys, rows_per_batch: batch_rows(row_bytes) })
    }

    /// Reads the part of a range that is on disk: keys, and their batches.
    fn read_range(
        &self,
        range: usize,
        keys: &mut PackedKeys,
        read: &mut RangeBlocks,
    ) -> Result<()> {
        let low = range.checked_sub(1).and_then(|before| self.splitters.get(before));
        let high = self.splitters.get(range);
        let mut buffer = vec![];
        for (index, disk) in self.disk.iter().enumerate() {
            let run = self.first_run + self.memory.len() + index;
            let begin_before = |splitter: &Splitter| {
                disk.blocks().partition_point(|block| {
                    let order = block.first.cmp(&splitter.key);
                    falls_before(order, (run, block.start), splitter)
                })
            };
            let first = low.map_or(0, |low| first_behind(disk.blocks(), begin_before(low), low));
            let end = high.map_or(disk.blocks().len(), begin_before);
            for block in disk.read(first..end.max(first)) {
                let (start, batch) = block?;
                let number = self.batches.len() + read.batches.len();
                let encoded =
                    self.encoder.encode_into(&batch, number, std::mem::take(&mut buffer))?;
                let rows = |_| encoded.rows.as_ref();
                let position = |splitter: &Splitter| {
                    encoded.packed.partition_point(|packed| {
                        let position = start + (packed & 0xffff) as usize;
                        let order = self.encoder.compare_owned(*packed, &splitter.key, rows);
                        falls_before(order, (run, position), splitter)
                    })
                };
                let from = low.map_or(0, position);
                let to = high.map_or(encoded.packed.len(), position).max(from);
                if from == to {
                    buffer = encoded.packed;
                    continue;
                }
                let is_most = (to - from) * 2 > batch.num_rows();
                let (batch, encoded, own) = match is_most {
                    true => (batch, encoded, from..to),
                    // Copied: otherwise a few rows of each run would hold whole blocks in memory,
                    // at every consumer.
                    false => {
                        let rows = UInt32Array::from_iter_values(from as u32..to as u32);
                        let part = take_record_batch(&batch, &rows)?;
                        let encoded = self.encoder.encode_into(&part, number, encoded.packed)?;
                        (part, encoded, 0..to - from)
                    }
                };
                keys.extend(&encoded.packed[own]);
                buffer = encoded.packed;
                read.push(batch, encoded.rows, self.range_bytes_max)?;
            }
        }
        Ok(())
    }
}

/// Blocks read for one range.
struct RangeBlocks {
    batches: Vec<RecordBatch>,
    rows: Vec<Option<Rows>>,
    bytes: usize,
}

impl RangeBlocks {
    /// Adds a batch; fails if the range exceeds `bytes_max`. It can, since keys with equal kept
    /// prefixes are never split.
    fn push(&mut self, batch: RecordBatch, rows: Option<Rows>, bytes_max: usize) -> Result<()> {
        self.bytes += batch_bytes(&batch) + rows.as_ref().map_or(0, Rows::size);
        self.batches.push(batch);
        self.rows.push(rows);
        if self.bytes <= bytes_max {
            return Ok(());
        }
        let rows: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        let message = format!(
            "{rows} records whose keys could not be told apart by what is kept of them take {:.1} \
             MiB with their keys, more than the {:.1} MiB for which there is memory",
            self.bytes as f64 / (1 << 20) as f64,
            bytes_max as f64 / (1 << 20) as f64
        );
        Err(Error::resource(message).remedy("give the flow more memory (`memory=`)"))
    }
}

/// The first block that may have records behind a splitter, of a run in which `begin_before` blocks
/// begin before it.
fn first_behind(blocks: &[RunBlock], begin_before: usize, splitter: &Splitter) -> usize {
    let Some(mut last) = begin_before.checked_sub(1) else { return 0 };
    // Blocks of one long record are numerous, and their first key tells on which side they fall.
    let RunBlock { first, rows, .. } = &blocks[last];
    if *rows == 1 && (first.is_whole || first.precedes(&splitter.key)) {
        return begin_before;
    }
    while last > 0 && !blocks[last].separates {
        last -= 1;
    }
    last
}

/// Whether a record is before a splitter, given the `order` of their keys and the record's run and
/// position.
fn falls_before(order: Ordering, position: (usize, usize), splitter: &Splitter) -> bool {
    order.then(position.cmp(&(splitter.run, splitter.position))) == Ordering::Less
}

impl Merged {
    /// Keeps only the first `rows` rows.
    pub(crate) fn first(mut self, rows: usize) -> Merged {
        self.keys.truncate(rows);
        self
    }

    /// The keys of its rows, in order.
    pub(crate) fn keys(&self) -> &PackedKeys {
        &self.keys
    }

    /// Gathers the rows, batch by batch.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        let mut done = 0;
        iter::from_fn(move || self.gather_behind(&mut done))
    }

    /// Gathers the rows, batch by batch, and owns the range.
    pub(crate) fn into_batches(self) -> impl Iterator<Item = Result<RecordBatch>> + Send {
        let mut done = 0;
        iter::from_fn(move || self.gather_behind(&mut done))
    }

    /// The next batch of the rows behind `done`, and counts its rows as done; all, if it fails.
    fn gather_behind(&self, done: &mut usize) -> Option<Result<RecordBatch>> {
        let end = self.keys.len().min(*done + self.rows_per_batch);
        let next = self.keys.slice(*done..end);
        let batch = (!next.is_empty()).then(|| self.sources.gather(&next))?;
        *done = batch.as_ref().map_or(self.keys.len(), |batch| *done + batch.num_rows());
        Some(batch)
    }

    /// Sets the number of rows in a batch.
    pub(crate) fn with_batch_rows(mut self, rows: usize) -> Self {
        self.rows_per_batch = rows.max(1);
        self
    }
}
