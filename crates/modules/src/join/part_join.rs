//! Joins the parts of a partitioned join one by one, from memory or scratch, of all processes
//! (hybrid hash join; DeWitt et al., 1984).
//!
//! A part whose build side fits the memory becomes a hash table. A larger one is partitioned again,
//! by hash bits that have not been used. If that does not help, because all its rows have one key,
//! its build side is read in pieces that fit, and the probe side is read once for each.

use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_device::scratch::Scratch;
use euphrates_flow::{Batches, Cancel, Result};
use euphrates_policy::hash_partitions::{must_partition_again, must_write, part_fits};
use euphrates_policy::join::{LEVELS_MAX, is_one_key};

use super::hash_table::{HashTable, TablePart};
use super::plan::{JoinPlan, JoinSide};
use super::probe::{Prober, emitted_rows, of_table};
use super::side_layout::SideLayout;
use crate::batches::sink::BatchSink;
use crate::expression::Budget;
use crate::partitioning::spill_store::{PartBits, SpillStore, StoredParts, coalesced, held_bytes};

/// A join whose inputs have been checked.
pub(crate) struct PreparedJoin {
    pub(crate) plan: JoinPlan,
    /// Row layout of the build side.
    pub(crate) build_layout: Arc<SideLayout>,
    /// Row layout of the probe side, for rows that wait.
    pub(crate) probe_layout: Arc<SideLayout>,
    /// Tables of up to this number of bytes are held as columns.
    pub(crate) columns_bytes_max: usize,
}

impl PreparedJoin {
    /// The row layout of a side.
    pub(crate) fn rows(&self, side: JoinSide) -> &Arc<SideLayout> {
        if side == self.plan.build { &self.build_layout } else { &self.probe_layout }
    }

    /// The schema of batches sent between processes: rows of either side, with the columns of both
    /// that are not part of the row format.
    pub(crate) fn wire(&self) -> SchemaRef {
        let others =
            [&self.build_layout, &self.probe_layout].map(|rows| rows.held().fields()[2..].to_vec());
        let others = others.into_iter().flatten().map(|field| field.as_ref().clone());
        let others = others.map(|field| Arc::new(field.with_nullable(true)));
        let rows = self.build_layout.held().fields()[..2].iter().cloned();
        Arc::new(Schema::new(rows.chain(others).collect::<Vec<_>>()))
    }

    /// Rows of a side in the schema for sending.
    pub(crate) fn to_wire(&self, side: JoinSide, held: RecordBatch) -> Result<RecordBatch> {
        let wire = self.wire();
        let (first, last) = self.on_wire(side);
        let column = |(at, field): (usize, &FieldRef)| match at {
            0 | 1 => held.column(at).clone(),
            at if at >= first && at < last => held.column(at - first + 2).clone(),
            _ => new_null_array(field.data_type(), held.num_rows()),
        };
        let columns = wire.fields().iter().enumerate().map(column).collect();
        Ok(RecordBatch::try_new(wire.clone(), columns)?)
    }

    /// Rows of a side from a received batch.
    pub(crate) fn of_wire(&self, side: JoinSide, sent: &RecordBatch) -> Result<RecordBatch> {
        let (first, last) = self.on_wire(side);
        let columns = sent.columns()[..2].iter().chain(&sent.columns()[first..last]);
        Ok(RecordBatch::try_new(self.rows(side).held().clone(), columns.cloned().collect())?)
    }

    /// The range of a side's columns in the schema for sending.
    fn on_wire(&self, side: JoinSide) -> (usize, usize) {
        let (build, probe) =
            (self.build_layout.held().fields().len(), self.probe_layout.held().fields().len());
        if side == self.plan.build { (2, build) } else { (build, build + probe - 2) }
    }

    /// Whether matches of build rows are tracked.
    pub(crate) fn tracks(&self) -> bool {
        self.plan.emits(self.plan.build).is_some()
    }

    /// A table of these batches, whose parts have been built.
    pub(crate) fn table_of(
        &self,
        batches: Vec<RecordBatch>,
        parts: Vec<TablePart>,
    ) -> Result<HashTable> {
        let options = (self.tracks(), self.columns_bytes_max);
        HashTable::new(self.build_layout.clone(), batches, parts, options)
    }
}

/// Both sides of a part; each can be read several times.
pub(crate) struct PartInputs<'a> {
    /// Reads the build side.
    pub(crate) build: &'a dyn Fn() -> Result<Batches>,
    /// Reads the probe side.
    pub(crate) probe: &'a dyn Fn() -> Result<Batches>,
    /// Bytes of the build side, including its table.
    pub(crate) build_bytes: usize,
}

/// The context of joining a part.
pub(crate) struct PartJoin<'a> {
    pub(crate) ready: &'a PreparedJoin,
    /// Scratch space for parts that are partitioned again.
    pub(crate) scratch: &'a Arc<Scratch>,
    /// The bytes that may be held in memory.
    pub(crate) share_bytes: usize,
    /// Cancellation of the flow.
    pub(crate) cancel: &'a Cancel,
    /// Called with the bytes spilled.
    pub(crate) spilled: &'a dyn Fn(usize),
}

impl PartJoin<'_> {
    /// Joins a part, whose rows agree in all hash bits up to those of `bits`.
    pub(crate) fn join(
        &self,
        part: &PartInputs,
        level: u32,
        bits: PartBits,
        put: &mut BatchSink,
    ) -> Result<()> {
        if !must_partition_again(part.build_bytes, self.share_bytes) || level >= LEVELS_MAX {
            return self.in_pieces(part, put);
        }
        let next = PartBits { used: bits.used + bits.bits, bits: bits.bits };
        let build = self.partition(&self.ready.build_layout, part.build, next)?;
        let probe = self.partition(&self.ready.probe_layout, part.probe, next)?;
        let sizes: Vec<usize> = (0..next.parts()).map(|part| build.bytes(part)).collect();
        let all = sizes.iter().sum();
        for (number, bytes) in sizes.into_iter().enumerate() {
            let level = if is_one_key(bytes, all) { LEVELS_MAX } else { level + 1 };
            let part = PartInputs {
                build: &|| Ok(build.read(number)),
                probe: &|| Ok(probe.read(number)),
                build_bytes: bytes,
            };
            self.join(&part, level, next, put)?;
        }
        Ok(())
    }

    fn partition(
        &self,
        rows: &Arc<SideLayout>,
        batches: &dyn Fn() -> Result<Batches>,
        bits: PartBits,
    ) -> Result<StoredParts> {
        let mut store = SpillStore::new(rows.held().clone(), bits, self.scratch.clone());
        store.partition(0)?;
        for batch in batches()? {
            self.cancel.check()?;
            store.push(batch?)?;
            if must_write(store.bytes(), self.share_bytes) {
                (self.spilled)(store.write()?);
            }
        }
        store.finish()
    }

    /// Joins a part by tables of as many build rows as fit, usually all.
    fn in_pieces(&self, part: &PartInputs, put: &mut BatchSink) -> Result<()> {
        let plan = &self.ready.plan;
        let schema = self.ready.build_layout.held();
        let mut batches = coalesced(schema, (part.build)()?).peekable();
        // For each probe row, whether it has matched in the pieces so far.
        let mut matched: Option<Vec<bool>> = None;
        loop {
            let (mut piece, mut bytes) = (vec![], 0);
            while let Some(batch) = batches.next_if(|next| {
                next.as_ref().is_err()
                    || piece_grows(bytes, next.as_ref().map_or(0, held_bytes), self.share_bytes)
            }) {
                let batch = batch?;
                bytes += held_bytes(&batch);
                piece.push(batch);
            }
            let options = (self.ready.tracks(), self.ready.columns_bytes_max);
            let table = HashTable::of(self.ready.build_layout.clone(), piece, options)?;
            let is_last = batches.peek().is_none();
            self.pass(part, &table, &mut matched, is_last, put)?;
            for batch in 0..table.batches() {
                of_table(plan, &table, batch, put)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Probes the table of a piece with the whole probe side.
    fn pass(
        &self,
        part: &PartInputs,
        table: &HashTable,
        matched: &mut Option<Vec<bool>>,
        is_last: bool,
        put: &mut BatchSink,
    ) -> Result<()> {
        let plan = &self.ready.plan;
        let mut prober = Prober::new(plan, table, Budget::within(self.share_bytes));
        let (mut at, is_first) = (0, matched.is_none());
        for batch in (part.probe)()? {
            self.cancel.check()?;
            let rows = self.ready.probe_layout.unpack(&batch?)?;
            let Some(mut now) = prober.pairs(&rows, put)? else { continue };
            let count = now.len();
            if !is_first && let Some(before) = matched {
                now.iter_mut().zip(&before[at..at + count]).for_each(|(now, was)| *now |= was);
            }
            if is_last {
                if let Some(out) = emitted_rows(plan, plan.build.other(), &rows.columns, &now)? {
                    put(out)?;
                }
            } else if is_first {
                matched.get_or_insert_default().extend(now);
            } else if let Some(before) = matched {
                before[at..at + count].copy_from_slice(&now);
            }
            at += count;
        }
        Ok(())
    }
}

/// Whether a piece may grow by another batch. It has at least one.
fn piece_grows(bytes: usize, more: usize, share_bytes: usize) -> bool {
    bytes == 0 || part_fits(bytes + more, share_bytes)
}
