//! Partial aggregation before the exchange: groups rows as long as that reduces them, and emits
//! states.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{MemoryAccount, MemoryReservation, Result};
use euphrates_policy::aggregate::{PartialTableStep, next, table_memory_bytes};

use super::group_keys::plain;
use super::plan::{AggregatePlan, ArgumentEvaluator};
use super::tables::{AggregateTable, DistinctTable};
use crate::batches::sink::BatchSink;
use crate::expression::Budget;

/// The tables of one instance.
pub(crate) struct PartialAggregator {
    plan: Arc<AggregatePlan>,
    source: Arc<ArgumentEvaluator>,
    table: AggregateTable,
    /// How many of the next rows bypass the table.
    passing: usize,
    distinct: Vec<(DistinctTable, usize)>,
    memory: MemoryAccount,
    /// The tables of this instance.
    reservation: MemoryReservation,
    /// Rows that have bypassed the table.
    pub(crate) passed_rows: usize,
}

impl PartialAggregator {
    /// Empty tables, which divide the share of an instance.
    pub(crate) fn new(
        plan: Arc<AggregatePlan>,
        source: Arc<ArgumentEvaluator>,
        memory: MemoryAccount,
    ) -> PartialAggregator {
        let distinct = (0..plan.distinct.len()).map(|n| (DistinctTable::new(plan.clone(), n), 0));
        PartialAggregator {
            table: AggregateTable::new(plan.clone()),
            passing: 0,
            distinct: distinct.collect(),
            reservation: memory.reservation(),
            memory,
            passed_rows: 0,
            plan,
            source,
        }
    }

    /// Adds rows, and puts states when a table is full or rows bypass it.
    pub(crate) fn add(&mut self, batch: &RecordBatch, put: &mut BatchSink) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (source, budget) = (self.source.clone(), Budget::within(self.table_share_bytes()));
        let compute = |rows| source.values(batch, rows);
        source.slice_rows.each(batch.num_rows(), &budget, compute, |rows, values| {
            self.add_slice(&batch.slice(rows.start, rows.len()), values, put)
        })?;
        let distinct = self.distinct.iter().map(|(table, _)| table.bytes()).sum::<usize>();
        self.reservation.resize(table_memory_bytes(self.table.bytes() + distinct));
        Ok(())
    }

    /// The share of each table.
    fn table_share_bytes(&self) -> usize {
        self.memory.share_bytes() / (1 + self.distinct.len())
    }

    fn add_slice(
        &mut self,
        batch: &RecordBatch,
        values: Vec<Option<ArrayRef>>,
        put: &mut BatchSink,
    ) -> Result<()> {
        let columns = self.source.keys(batch);
        for number in 0..self.distinct.len() {
            let column = values[self.plan.distinct[number].0].as_ref();
            self.add_distinct(number, &columns, column.expect("it is of something"), put)?;
        }
        let rows = batch.num_rows();
        if self.passing > 0 {
            self.passing = self.passing.saturating_sub(rows);
            self.passed_rows += rows;
            let columns = columns.iter().map(plain).collect::<Result<_>>()?;
            return put(self.table.pass(self.plan.form.keys(columns, rows)?, &values)?);
        }
        let share_bytes = self.table_share_bytes();
        let table = &mut self.table;
        table.add(&columns, rows, &values)?;
        match next(table.rows(), table.groups(), table.bytes(), share_bytes) {
            PartialTableStep::Fill => return Ok(()),
            PartialTableStep::Flush => {}
            PartialTableStep::FlushThenPassThrough(rows) => self.passing = rows,
        }
        put(table.take()?)
    }

    fn add_distinct(
        &mut self,
        number: usize,
        keys: &[ArrayRef],
        values: &ArrayRef,
        put: &mut BatchSink,
    ) -> Result<()> {
        let share_bytes = self.table_share_bytes();
        let (distinct, passing) = &mut self.distinct[number];
        if *passing > 0 {
            *passing = passing.saturating_sub(values.len());
            return put(distinct.pass(keys, values)?);
        }
        distinct.add(keys, values)?;
        match next(distinct.rows(), distinct.count(), distinct.bytes(), share_bytes) {
            PartialTableStep::Fill => return Ok(()),
            PartialTableStep::Flush => {}
            PartialTableStep::FlushThenPassThrough(rows) => *passing = rows,
        }
        put(distinct.take()?)
    }

    /// Puts the remaining states.
    pub(crate) fn finish(&mut self, put: &mut BatchSink) -> Result<()> {
        for (distinct, _) in &mut self.distinct {
            put(distinct.take()?)?;
        }
        put(self.table.take()?)?;
        self.reservation.resize(0);
        Ok(())
    }
}
