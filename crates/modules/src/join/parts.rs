//! Parts that did not fit the memory, joined one by one (hybrid hash join; DeWitt et al., 1984).
//!
//! A part whose rows fit becomes a table. A larger one is dealt once more, by bits of the hash that
//! have not been used. If that is of no use, for all its rows have one key, its rows are taken in
//! pieces that fit, and the other side goes by once for each.

use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Batches, Cancel, Result};
use euphrates_io::scratch::Scratch;
use euphrates_policy::join::{LEVELS_MAX, is_one_key};
use euphrates_policy::parts::{must_write, part_fits};

use super::plan::{Plan, Side};
use super::probe::{Prober, Sink, by_match, of_table};
use super::rows::SideRows;
use super::table::{Part, Table};
use crate::expression::Room;
use crate::store::{Bits, Pieces, Store, held_bytes, whole};

/// A join that has been checked.
pub struct Ready {
    /// What to do.
    pub plan: Plan,
    /// How the side that is held is.
    pub build: Arc<SideRows>,
    /// How the other one is, where it must wait.
    pub probe: Arc<SideRows>,
}

impl Ready {
    /// The rows of a side.
    pub fn rows(&self, side: Side) -> &Arc<SideRows> {
        if side == self.plan.build { &self.build } else { &self.probe }
    }

    /// What processes send each other: rows of either side, with the columns of both that have no
    /// place in rows.
    pub fn wire(&self) -> SchemaRef {
        let others = [&self.build, &self.probe].map(|rows| rows.held().fields()[2..].to_vec());
        let others = others.into_iter().flatten().map(|field| field.as_ref().clone());
        let others = others.map(|field| Arc::new(field.with_nullable(true)));
        let rows = self.build.held().fields()[..2].iter().cloned();
        Arc::new(Schema::new(rows.chain(others).collect::<Vec<_>>()))
    }

    /// Rows of a side, as they are sent.
    pub fn to_wire(&self, side: Side, held: RecordBatch) -> Result<RecordBatch> {
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

    /// Rows of a side that were sent.
    pub fn of_wire(&self, side: Side, sent: &RecordBatch) -> Result<RecordBatch> {
        let (first, last) = self.on_wire(side);
        let columns = sent.columns()[..2].iter().chain(&sent.columns()[first..last]);
        Ok(RecordBatch::try_new(self.rows(side).held().clone(), columns.cloned().collect())?)
    }

    /// Where the columns of a side are in what is sent.
    fn on_wire(&self, side: Side) -> (usize, usize) {
        let (build, probe) = (self.build.held().fields().len(), self.probe.held().fields().len());
        if side == self.plan.build { (2, build) } else { (build, build + probe - 2) }
    }

    /// Whether it counts which rows of the table match.
    pub fn tracks(&self) -> bool {
        self.plan.keeps(self.plan.build).is_some()
    }

    /// A table of these batches, whose parts have been built.
    pub fn table_of(&self, batches: Vec<RecordBatch>, parts: Vec<Part>) -> Table {
        Table::new(self.build.clone(), batches, parts, self.tracks())
    }
}

/// Both sides of a part, each of which can be read more than once.
pub struct PartOf<'a> {
    /// The side that becomes a table.
    pub build: &'a dyn Fn() -> Result<Batches>,
    /// The other one.
    pub probe: &'a dyn Fn() -> Result<Batches>,
    /// Bytes of the first, with its table.
    pub build_bytes: usize,
}

/// What a part is joined with.
pub struct Parts<'a> {
    /// What to do.
    pub ready: &'a Ready,
    /// Where parts that are dealt once more lie.
    pub scratch: &'a Arc<Scratch>,
    /// The bytes that may be held.
    pub share_bytes: usize,
    /// The end of the flow.
    pub cancel: &'a Cancel,
    /// What goes to scratch.
    pub spilled: &'a dyn Fn(usize),
}

impl Parts<'_> {
    /// Joins a part, chosen by all bits up to these.
    pub fn join(&self, part: &PartOf, level: u32, bits: Bits, put: &mut Sink) -> Result<()> {
        if part_fits(part.build_bytes, self.share_bytes) || level >= LEVELS_MAX {
            return self.in_pieces(part, put);
        }
        let next = Bits { used: bits.used + bits.bits, bits: bits.bits };
        let build = self.deal(&self.ready.build, part.build, next)?;
        let probe = self.deal(&self.ready.probe, part.probe, next)?;
        let sizes: Vec<usize> = (0..next.parts()).map(|part| build.bytes(part)).collect();
        let all = sizes.iter().sum();
        for (number, bytes) in sizes.into_iter().enumerate() {
            let level = if is_one_key(bytes, all) { LEVELS_MAX } else { level + 1 };
            let part = PartOf {
                build: &|| Ok(build.read(number)),
                probe: &|| Ok(probe.read(number)),
                build_bytes: bytes,
            };
            self.join(&part, level, next, put)?;
        }
        Ok(())
    }

    fn deal(
        &self,
        rows: &Arc<SideRows>,
        batches: &dyn Fn() -> Result<Batches>,
        bits: Bits,
    ) -> Result<Pieces> {
        let mut store = Store::new(rows.held().clone(), bits, self.scratch.clone());
        store.part(0)?;
        for batch in batches()? {
            self.cancel.check()?;
            store.push(batch?)?;
            if must_write(store.bytes(), self.share_bytes) {
                (self.spilled)(store.write()?);
            }
        }
        store.finish()
    }

    /// Joins a part by tables of as many rows as fit, most often one.
    fn in_pieces(&self, part: &PartOf, put: &mut Sink) -> Result<()> {
        let plan = &self.ready.plan;
        let schema = self.ready.build.held();
        let mut batches = whole(schema, (part.build)()?).peekable();
        // Of each row of the other side, whether it has had a partner in the pieces so far.
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
            let table = Table::of(self.ready.build.clone(), piece, self.ready.tracks());
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

    /// The other side goes by a piece.
    fn pass(
        &self,
        part: &PartOf,
        table: &Table,
        matched: &mut Option<Vec<bool>>,
        is_last: bool,
        put: &mut Sink,
    ) -> Result<()> {
        let plan = &self.ready.plan;
        let mut prober = Prober::new(Room::within(self.share_bytes));
        let (mut at, is_first) = (0, matched.is_none());
        for batch in (part.probe)()? {
            self.cancel.check()?;
            let rows = self.ready.probe.unpack(&batch?)?;
            let Some(mut now) = prober.pairs(plan, table, &rows, put)? else { continue };
            let count = now.len();
            if !is_first && let Some(before) = matched {
                now.iter_mut().zip(&before[at..at + count]).for_each(|(now, was)| *now |= was);
            }
            if is_last {
                if let Some(out) = by_match(plan, plan.build.other(), &rows.columns, &now)? {
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

/// Whether a piece of so many bytes may have so many more: at least one batch.
fn piece_grows(bytes: usize, more: usize, share_bytes: usize) -> bool {
    bytes == 0 || part_fits(bytes + more, share_bytes)
}
