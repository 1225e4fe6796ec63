//! States of one part merged and finished, however many there are.
//!
//! What does not fit is dealt once more, by bits of the hash that have not been used, and each part
//! of it is finished by itself. Different values are counted before: they come by hashes of
//! themselves and of their group, for there may be many of a single group, and each part of them
//! adds to the counts. So the states are merged twice then: by parts of values, and by groups.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::compute::kernels::cmp::eq;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt16Type};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Cancel, Result};
use euphrates_io::scratch::Scratch;
use euphrates_policy::aggregate::table_is_full;
use euphrates_policy::parts::{must_write, part_bits};

use super::over::give;
use super::plan::Plan;
use super::table::{Different, Table, hashes_of};
use crate::hashing::hash_rows;
use crate::store::{Bits, Pieces, Store};

/// Bits of a hash that can be used up.
const HASH_BITS: u32 = u64::BITS;

/// Takes what comes out.
pub type Sink<'a> = dyn FnMut(RecordBatch) -> Result<()> + 'a;

/// How states are merged.
pub struct Merging<'a> {
    /// What is computed.
    pub plan: &'a Arc<Plan>,
    /// Where what does not fit goes.
    pub scratch: &'a Arc<Scratch>,
    /// The bytes that may be held.
    pub share_bytes: usize,
    /// The end of the flow.
    pub cancel: &'a Cancel,
    /// What goes to scratch.
    pub spilled: &'a dyn Fn(usize),
    /// Whether values come out; else states, of groups whose different values have been counted.
    pub is_last: bool,
}

impl Merging<'_> {
    /// Finishes groups whose hashes have these high bits in common.
    pub fn merge(
        &self,
        states: impl Iterator<Item = Result<RecordBatch>>,
        used: u32,
        put: &mut Sink,
    ) -> Result<()> {
        let mut groups = Filling { by: self, used, table: self.table()?, store: None };
        let mut different: Vec<DifferentFilling> =
            (0..self.plan.distinct.len()).map(|number| self.different(number, used)).collect();
        for batch in states {
            self.cancel.check()?;
            let batch = batch?;
            let Some(what) = self.plan.what_column() else {
                groups.add(&batch)?;
                continue;
            };
            groups.add(&rows_that_are(&batch, what, 0)?)?;
            for (number, filling) in different.iter_mut().enumerate() {
                let rows = rows_that_are(&batch, what, number as u16 + 1)?;
                let mut pairs = rows.columns()[1..][..self.plan.keys.len()].to_vec();
                pairs.push(rows.column(what + 1 + number).clone());
                filling.different.add_pairs(hashes_of(&rows), pairs)?;
                filling.keep_within()?;
            }
        }
        for filling in different {
            filling.finish(&mut |batch| groups.add(&batch))?;
        }
        groups.finish(put)
    }

    /// An empty table; the one group there is without keys is there without rows, too.
    fn table(&self) -> Result<Table> {
        let mut table = Table::new(self.plan.clone());
        if self.plan.keys.is_empty() {
            let states = self.plan.states.fields()[1..][..self.plan.state_columns()].iter();
            let nothing = states.map(|field| new_null_array(field.data_type(), 1)).collect();
            table.merge(&self.plan.of_groups(vec![0], vec![], nothing)?)?;
        }
        Ok(table)
    }

    fn different(&self, number: usize, used: u32) -> DifferentFilling<'_> {
        let different = Different::new(self.plan.clone(), number);
        DifferentFilling { by: self, number, used, different, store: None }
    }

    /// Whether one of the tables has so much that it must give it away. One entry alone cannot be
    /// dealt to parts, however large it is.
    fn is_full(&self, bytes: usize, entries: usize, used: u32) -> bool {
        let tables = 1 + self.plan.distinct.len();
        table_is_full(bytes, self.share_bytes, tables) && entries > 1 && used < HASH_BITS
    }

    fn store(&self, schema: &SchemaRef, used: u32) -> Result<Store> {
        let bits = Bits { used, bits: part_bits(1).min(HASH_BITS - used) };
        let mut store = Store::new(schema.clone(), bits, self.scratch.clone());
        store.part(0)?;
        Ok(store)
    }

    fn push(&self, store: &mut Store, batch: RecordBatch) -> Result<()> {
        store.push(batch)?;
        if must_write(store.bytes(), self.share_bytes) {
            (self.spilled)(store.write()?);
        }
        Ok(())
    }
}

/// Groups on their way into a table, or several.
struct Filling<'a> {
    by: &'a Merging<'a>,
    used: u32,
    table: Table,
    store: Option<Store>,
}

impl Filling<'_> {
    fn add(&mut self, states: &RecordBatch) -> Result<()> {
        self.table.merge(states)?;
        if self.by.is_full(self.table.bytes(), self.table.groups(), self.used) {
            self.give_away()?;
        }
        Ok(())
    }

    fn give_away(&mut self) -> Result<()> {
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(self.by.store(&self.by.plan.states, self.used)?),
        };
        self.by.push(store, self.table.take()?)
    }

    fn finish(mut self, put: &mut Sink) -> Result<()> {
        if self.store.is_none() {
            let Merging { plan, share_bytes, is_last, .. } = self.by;
            return match is_last {
                true => give(&plan.over, self.table.finish()?, *share_bytes, put),
                false => put(self.table.take()?),
            };
        }
        self.give_away()?;
        let Filling { by, used, store, table } = self;
        drop(table);
        let Some((pieces, bits)) = finished(store)? else { return Ok(()) };
        for part in 0..bits.parts() {
            // They count different values no more.
            let mut groups = Filling {
                by,
                used: used + bits.bits,
                table: Table::new(by.plan.clone()),
                store: None,
            };
            for batch in pieces.read(part) {
                by.cancel.check()?;
                groups.add(&batch?)?;
            }
            groups.finish(put)?;
        }
        Ok(())
    }
}

/// Different values on their way into a table, or several.
struct DifferentFilling<'a> {
    by: &'a Merging<'a>,
    number: usize,
    used: u32,
    different: Different,
    store: Option<Store>,
}

impl DifferentFilling<'_> {
    fn keep_within(&mut self) -> Result<()> {
        match self.by.is_full(self.different.bytes(), self.different.count(), self.used) {
            true => self.give_away(),
            false => Ok(()),
        }
    }

    fn give_away(&mut self) -> Result<()> {
        let schema = self.pairs();
        let (hashes, columns) = self.different.take_pairs()?;
        let columns = [Arc::new(UInt64Array::from(hashes)) as ArrayRef].into_iter().chain(columns);
        let batch = RecordBatch::try_new(schema.clone(), columns.collect())?;
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(self.by.store(&schema, self.used)?),
        };
        self.by.push(store, batch)
    }

    /// Different values with the hashes of themselves and their groups.
    fn pairs(&self) -> SchemaRef {
        let plan = &self.by.plan;
        let mut fields: Vec<FieldRef> = plan.states.fields()[..1 + plan.keys.len()].to_vec();
        let data_type = plan.distinct[self.number].1.clone();
        fields.push(Arc::new(Field::new("value", data_type, false)));
        Arc::new(Schema::new(fields))
    }

    /// Gives how many there are as states of their groups.
    fn finish(mut self, put: &mut Sink) -> Result<()> {
        if self.store.is_none() {
            return put(self.counted()?);
        }
        self.give_away()?;
        let DifferentFilling { by, number, used, store, different } = self;
        drop(different);
        let Some((pieces, bits)) = finished(store)? else { return Ok(()) };
        for part in 0..bits.parts() {
            let mut filling = by.different(number, used + bits.bits);
            for batch in pieces.read(part) {
                by.cancel.check()?;
                let batch = batch?;
                filling.different.add_pairs(hashes_of(&batch), batch.columns()[1..].to_vec())?;
                filling.keep_within()?;
            }
            filling.finish(put)?;
        }
        Ok(())
    }

    fn counted(&mut self) -> Result<RecordBatch> {
        let plan = &self.by.plan;
        let (pairs, mut columns) = self.different.take_pairs()?;
        let rows = pairs.len();
        columns.pop();
        let hashes = if columns.is_empty() { vec![0; rows] } else { hash_rows(&columns)? };
        let mut states: Vec<ArrayRef> = vec![];
        for (number, value) in plan.values.iter().enumerate() {
            if number == self.different.value() {
                states.push(Arc::new(Int64Array::from(vec![1; rows])));
            } else {
                let nothing = |of: DataType| new_null_array(&of, rows);
                states.extend(value.kind.states().into_iter().map(nothing));
            }
        }
        plan.of_groups(hashes, columns, states)
    }
}

fn finished(store: Option<Store>) -> Result<Option<(Pieces, Bits)>> {
    let Some(store) = store else { return Ok(None) };
    let bits = store.bits();
    Ok(Some((store.finish()?, bits)))
}

fn rows_that_are(batch: &RecordBatch, column: usize, what: u16) -> Result<RecordBatch> {
    let all = batch.column(column).as_primitive::<UInt16Type>().values();
    // What an instance hands on at once is of one kind.
    if all.iter().all(|other| *other == what) {
        return Ok(batch.clone());
    }
    let whats: &dyn Array = batch.column(column);
    let whats = whats.as_primitive::<UInt16Type>();
    let wanted = eq(whats, &arrow::array::UInt16Array::new_scalar(what))?;
    Ok(filter_record_batch(batch, &wanted)?)
}
