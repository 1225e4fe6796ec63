//! Run generation: an instance of a `partition` keeps its input in sorted chunks, or spills it as a
//! sorted run when its share of memory is full.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{
    MemoryAccount, MemoryReservation, Parcel, Ports, Result, Setup, Taken, batch_bytes, split_batch,
};
use euphrates_policy::sort::{disk_range_bytes, may_stay, must_spill};

use super::disk_run::DiskRun;
use super::first_rows_filter::FirstRowsFilter;
use super::keys::key_layout::KeyColumn;
use super::memory_runs::MemoryRuns;
use super::range_store::RangeStore;
use super::spill;
use super::top_n::TopN;
use crate::batches::long_rows::lock_if_long;

/// Name of the column that makes a sort stable.
const POSITION: &str = "__position";

/// Generates the sorted runs of one instance.
pub(crate) struct RunGenerator {
    store: Arc<RangeStore>,
    held: MemoryRuns,
    disk: Vec<DiskRun>,
    memory: MemoryAccount,
    /// The records and keys in memory.
    reservation: MemoryReservation,
    batches_max: usize,
    /// The rows that come first, if only these are kept.
    first: Option<TopN>,
}

impl RunGenerator {
    /// A generator that keeps all rows, or at least the `first` that come first, and tightens the
    /// filter by these.
    pub(crate) fn new(
        store: Arc<RangeStore>,
        setup: &Setup,
        first: Option<usize>,
        filter: Option<Arc<FirstRowsFilter>>,
    ) -> RunGenerator {
        let batches_max = store.encoder.batches_max() / (setup.instances + 1);
        let held = MemoryRuns::new(store.encoder.clone());
        let of_first = |rows| TopN::new(rows, store.encoder.clone(), store.layout.clone(), filter);
        let (first, disk, memory) = (first.map(of_first), vec![], setup.memory.clone());
        let reservation = memory.reservation();
        RunGenerator { store, held, disk, memory, reservation, batches_max, first }
    }

    /// Takes all of input 0, and adds its runs to the store.
    pub(crate) fn run(mut self, ports: &mut Ports) -> Result<()> {
        while let Some(batch) = ports.get(0)? {
            self.take_in(batch, ports)?;
        }
        self.close(ports)
    }

    /// Like `run`, and adds to each record its position in the stream.
    pub(crate) fn run_in_order(mut self, ports: &mut Ports) -> Result<()> {
        let (mut current, mut row) = (None, 0u64);
        loop {
            match ports.get_in_runs(0)? {
                Taken::Batch(Parcel { batch, run, .. }) => {
                    let run = run.expect("a stable sort is fed in runs");
                    if current.replace(run) != Some(run) {
                        row = 0;
                    }
                    let positions = (row..).map(|row| (run << 40) | row);
                    row += batch.num_rows() as u64;
                    let batch = add_position(self.store.layout.input(), batch, positions)?;
                    self.take_in(batch, ports)?;
                }
                Taken::RunEnd(_) | Taken::Empty => {}
                Taken::End => return self.close(ports),
            }
        }
    }

    fn take_in(&mut self, batch: RecordBatch, ports: &Ports) -> Result<()> {
        ports.metrics().put(batch.num_rows(), batch_bytes(&batch));
        for part in split_batch(batch) {
            let share_bytes = self.memory.share_bytes();
            let _turn = lock_if_long(&part, share_bytes);
            let part = match &self.first {
                Some(first) => first.candidates(part)?,
                None => part,
            };
            if part.num_rows() == 0 {
                continue;
            }
            let part = self.store.layout.pack(part)?;
            self.store.settle_keys(&part, ports.setup())?;
            self.held.push(part)?;
            if let Some(first) = &mut self.first {
                first.prune(&mut self.held)?;
            }
            self.reservation.resize(self.held.bytes());
            let full = must_spill(self.held.bytes(), share_bytes);
            if full || self.held.batches.len() >= self.batches_max {
                self.spill(ports)?;
            }
        }
        Ok(())
    }

    fn close(mut self, ports: &Ports) -> Result<()> {
        self.held.close();
        let share_bytes = self.memory.share_bytes();
        let range_bytes = disk_range_bytes(share_bytes, self.disk.len() * 2);
        let may_stay = may_stay(self.held.bytes(), share_bytes, range_bytes);
        if !(self.disk.is_empty() || may_stay || self.held.is_empty()) {
            self.spill(ports)?;
        }
        // Ranges that are merged from disk need memory as well.
        let merged_bytes = if self.disk.is_empty() { 0 } else { 3 * range_bytes };
        self.reservation.resize(self.held.bytes() + merged_bytes);
        self.store.add_and_cut(self.held, self.disk, self.reservation, ports)
    }

    fn spill(&mut self, ports: &Ports) -> Result<()> {
        let RangeStore { scratch, encoder, layout, interner, .. } = &*self.store;
        let held = self.held.take();
        let run = spill::spill(scratch, encoder, layout.held(), held, interner, ports.setup())?;
        ports.metrics().spilled(run.bytes());
        self.disk.push(run);
        self.reservation.resize(0);
        Ok(())
    }
}

/// The schema of records with their position, which is the last key.
pub(crate) fn with_position(input: &SchemaRef, columns: &mut Vec<KeyColumn>) -> SchemaRef {
    let position = Arc::new(Field::new(POSITION, DataType::UInt64, false));
    let fields = input.fields().iter().cloned().chain([position]);
    columns.push(KeyColumn { column: input.fields().len(), descending: false, nulls_first: false });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn add_position(
    schema: &SchemaRef,
    batch: RecordBatch,
    positions: impl Iterator<Item = u64>,
) -> Result<RecordBatch> {
    let positions = UInt64Array::from_iter_values(positions.take(batch.num_rows()));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(positions) as ArrayRef);
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
