//! What an instance does before the exchange: it groups what it takes in, as far as that saves
//! anything, and gives away states.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_policy::aggregate::{Next, next};

use super::plan::{Plan, Source};
use super::table::{Different, Table};
use crate::expression::Room;

/// Takes states.
pub type Sink<'a> = dyn FnMut(RecordBatch) -> Result<()> + 'a;

/// The tables of an instance.
pub struct Before {
    plan: Arc<Plan>,
    source: Arc<Source>,
    table: Table,
    /// How many of the next rows are not grouped.
    passing: usize,
    different: Vec<(Different, usize)>,
    share_bytes: usize,
    /// Rows that have not been grouped.
    pub passed_rows: usize,
}

impl Before {
    /// Empty ones, which may have a part of these bytes.
    pub fn new(plan: Arc<Plan>, source: Arc<Source>, share_bytes: usize) -> Before {
        let different = (0..plan.distinct.len()).map(|n| (Different::new(plan.clone(), n), 0));
        Before {
            table: Table::new(plan.clone()),
            passing: 0,
            different: different.collect(),
            share_bytes: share_bytes / (1 + plan.distinct.len()),
            passed_rows: 0,
            plan,
            source,
        }
    }

    /// Takes records in.
    pub fn add(&mut self, batch: &RecordBatch, put: &mut Sink) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (source, room) = (self.source.clone(), Room::within(self.share_bytes));
        let compute = |rows| source.values(batch, rows);
        source.slice_rows.each(batch.num_rows(), &room, compute, |rows, values| {
            self.add_slice(&batch.slice(rows.start, rows.len()), values, put)
        })
    }

    fn add_slice(
        &mut self,
        batch: &RecordBatch,
        values: Vec<Option<ArrayRef>>,
        put: &mut Sink,
    ) -> Result<()> {
        let columns = self.source.keys(batch)?;
        for number in 0..self.different.len() {
            let column = values[self.plan.distinct[number].0].as_ref();
            self.add_different(number, &columns, column.expect("it is of something"), put)?;
        }
        let rows = batch.num_rows();
        if self.passing > 0 {
            self.passing = self.passing.saturating_sub(rows);
            self.passed_rows += rows;
            return put(self.table.pass(self.plan.form.keys(columns, rows)?, &values)?);
        }
        let table = &mut self.table;
        table.add(columns, rows, &values)?;
        match next(table.rows(), table.groups(), table.bytes(), self.share_bytes) {
            Next::Fill => return Ok(()),
            Next::HandOn => {}
            Next::PassOn(rows) => self.passing = rows,
        }
        put(table.take()?)
    }

    fn add_different(
        &mut self,
        number: usize,
        keys: &[ArrayRef],
        values: &ArrayRef,
        put: &mut Sink,
    ) -> Result<()> {
        let (different, passing) = &mut self.different[number];
        if *passing > 0 {
            *passing = passing.saturating_sub(values.len());
            return put(different.pass(keys, values)?);
        }
        different.add(keys, values)?;
        match next(different.rows(), different.count(), different.bytes(), self.share_bytes) {
            Next::Fill => return Ok(()),
            Next::HandOn => {}
            Next::PassOn(rows) => *passing = rows,
        }
        put(different.take()?)
    }

    /// Gives away what is left.
    pub fn finish(&mut self, put: &mut Sink) -> Result<()> {
        for (different, _) in &mut self.different {
            put(different.take()?)?;
        }
        put(self.table.take()?)
    }
}
