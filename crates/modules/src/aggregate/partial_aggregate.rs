//! Partial aggregation before the exchange: groups rows as long as that reduces them, and emits
//! states.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{MemoryAccount, MemoryReservation, Result};
use euphrates_policy::aggregate::{
    FrozenTable, PartialTableStep, flush, frozen_table_bytes_max, next, next_of_pairs,
    partial_table_bytes_max, partial_table_memory_bytes,
};

use super::distinct_table::DistinctTable;
use super::exchange::state_rows::{PairPartitioning, RowKind, StateRows};
use super::group_keys::plain;
use super::plan::{AggregatePlan, ArgumentEvaluator};
use super::tables::{AggregateTable, UngroupedRows};
use crate::expression::Budget;
use crate::partitioning::hashing::hash_rows;

/// Rows to be grouped: their keys, which may have dictionaries, and the argument of each value.
struct GroupRows {
    rows: usize,
    keys: Vec<ArrayRef>,
    values: Vec<Option<ArrayRef>>,
}

/// Called with states; its error ends the aggregation.
pub(crate) type StateSink<'a> = dyn FnMut(StateRows) -> Result<()> + 'a;

/// The tables of one instance.
pub(crate) struct PartialAggregator {
    plan: Arc<AggregatePlan>,
    source: Arc<ArgumentEvaluator>,
    table: AggregateTable,
    /// Set while the table takes no new groups.
    frozen: Option<FrozenTable>,
    /// How many of the next rows bypass the table.
    passing: usize,
    /// Whether neighbouring rows of those are often of one group, so that they become one state.
    passes_runs: bool,
    /// An empty table, which makes states of rows that pass.
    passer: AggregateTable,
    distinct: Vec<(DistinctTable, usize)>,
    partitioning: PairPartitioning,
    memory: MemoryAccount,
    /// The tables of this instance.
    reservation: MemoryReservation,
    /// States of rows that have bypassed the table.
    pub(crate) passed_rows: usize,
}

impl PartialAggregator {
    /// Empty tables, which divide the share of an instance.
    pub(crate) fn new(
        plan: Arc<AggregatePlan>,
        source: Arc<ArgumentEvaluator>,
        partitioning: PairPartitioning,
        memory: MemoryAccount,
    ) -> PartialAggregator {
        let distinct = (0..plan.distinct.len()).map(|n| (DistinctTable::new(plan.clone(), n), 0));
        PartialAggregator {
            table: AggregateTable::new(plan.clone()),
            frozen: None,
            passing: 0,
            passes_runs: false,
            passer: AggregateTable::new(plan.clone()),
            distinct: distinct.collect(),
            partitioning,
            reservation: memory.reservation(),
            memory,
            passed_rows: 0,
            plan,
            source,
        }
    }

    /// Adds rows, and puts states when a table is full or rows bypass it. `stored_bytes` are what
    /// the instance stores beside the tables.
    pub(crate) fn add(
        &mut self,
        batch: &RecordBatch,
        stored_bytes: usize,
        put: &mut StateSink,
    ) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (source, budget) = (self.source.clone(), Budget::within(self.table_share_bytes()));
        let compute = |rows| source.values(batch, rows);
        source.slice_rows.each(batch.num_rows(), &budget, compute, |rows, values| {
            self.add_slice(&batch.slice(rows.start, rows.len()), values, stored_bytes, put)
        })?;
        self.reserve();
        Ok(())
    }

    /// The tables that divide the share: without the table of groups, if it has only the groups
    /// all of whose distinct values are null.
    fn tables(&self) -> usize {
        match self.has_only_pairs() {
            true => self.distinct.len(),
            false => 1 + self.distinct.len(),
        }
    }

    /// Whether all values are counts of distinct values, whose pairs name their groups.
    fn has_only_pairs(&self) -> bool {
        let (pairs, values) = (self.plan.distinct.len(), self.plan.values.len());
        !self.plan.keys.is_empty() && pairs > 0 && pairs == values
    }

    /// The share of each table.
    fn table_share_bytes(&self) -> usize {
        self.memory.share_bytes() / self.tables()
    }

    /// Reserves what the tables need now.
    fn reserve(&self) {
        let distinct = self.distinct.iter().map(|(table, _)| table.bytes()).sum::<usize>();
        self.reservation.resize(partial_table_memory_bytes(self.table.bytes() + distinct));
    }

    /// The bytes of each table, at most.
    fn table_bytes_max(&self, stored_bytes: usize) -> usize {
        partial_table_bytes_max(self.memory.intake_share_bytes(), stored_bytes, self.tables())
    }

    fn frozen_bytes_max(&self) -> usize {
        frozen_table_bytes_max(self.memory.intake_share_bytes(), self.tables())
    }

    fn add_slice(
        &mut self,
        batch: &RecordBatch,
        values: Vec<Option<ArrayRef>>,
        stored_bytes: usize,
        put: &mut StateSink,
    ) -> Result<()> {
        let columns = self.source.keys(batch);
        let bytes_max = self.table_bytes_max(stored_bytes);
        for number in 0..self.distinct.len() {
            let column = values[self.plan.distinct[number].0].as_ref();
            let column = column.expect("it is of something");
            self.add_distinct(number, &columns, column, bytes_max, put)?;
        }
        let all = GroupRows { rows: batch.num_rows(), keys: columns, values };
        match self.without_pairs(&all)? {
            Some(others) if others.rows == 0 => Ok(()),
            Some(others) => self.add_groups(others, bytes_max, put),
            None => self.add_groups(all, bytes_max, put),
        }
    }

    /// The rows whose groups are not those of distinct values; `None` if all rows matter.
    fn without_pairs(&self, all: &GroupRows) -> Result<Option<GroupRows>> {
        if !self.has_only_pairs() {
            return Ok(None);
        }
        let Some(Some(counted)) = all.values.first() else { return Ok(None) };
        let nulls = counted.logical_nulls().map(|nulls| !nulls.inner());
        let nulls = nulls.unwrap_or_else(|| BooleanBuffer::new_unset(counted.len()));
        let nulls = BooleanArray::new(nulls, None);
        let those = |column: &ArrayRef| Ok(filter(column, &nulls)?);
        let value = |value: &Option<ArrayRef>| value.as_ref().map(those).transpose();
        Ok(Some(GroupRows {
            rows: nulls.true_count(),
            keys: all.keys.iter().map(those).collect::<Result<_>>()?,
            values: all.values.iter().map(value).collect::<Result<_>>()?,
        }))
    }

    /// Adds rows to the table of groups, or puts them as states.
    fn add_groups(
        &mut self,
        GroupRows { rows, keys: columns, values }: GroupRows,
        bytes_max: usize,
        put: &mut StateSink,
    ) -> Result<()> {
        if self.passing > 0 {
            self.passing = self.passing.saturating_sub(rows);
            let columns: Vec<ArrayRef> = columns.iter().map(plain).collect::<Result<_>>()?;
            // Without keys, all rows are one run.
            let rows = match self.passes_runs || columns.is_empty() {
                true => UngroupedRows::in_runs(self.plan.form.keys(columns, rows)?, values)?,
                false => UngroupedRows::each(hash_rows(&columns)?, columns, values),
            };
            return self.pass(rows, put);
        }
        if let Some(frozen) = &mut self.frozen {
            let missed = self.table.add_known(&columns, rows, &values)?;
            let stays = frozen.stays_after(rows, missed.runs());
            self.pass(missed, put)?;
            return match stays && self.table.bytes() <= self.frozen_bytes_max() {
                true => Ok(()),
                false => self.flush(put),
            };
        }
        let table = &mut self.table;
        table.add(&columns, rows, &values)?;
        let (taken, groups) = (table.taken(), table.groups());
        if next(taken, groups, table.bytes(), bytes_max) == PartialTableStep::Fill {
            return Ok(());
        }
        self.frozen = FrozenTable::after(taken, groups);
        match self.frozen {
            Some(_) => Ok(()),
            None => self.flush(put),
        }
    }

    /// Puts rows as states.
    fn pass(&mut self, rows: UngroupedRows, put: &mut StateSink) -> Result<()> {
        if rows.runs() == 0 {
            return Ok(());
        }
        self.passed_rows += rows.runs();
        put(StateRows { kind: RowKind::Group, rows: self.passer.pass(rows)? })
    }

    /// Puts the states of the table, and begins a new one, if the last has saved enough.
    fn flush(&mut self, put: &mut StateSink) -> Result<()> {
        let taken = self.table.taken();
        if let PartialTableStep::FlushThenPassThrough(rows) = flush(taken, self.table.groups()) {
            self.passing = rows;
            self.passes_runs = taken.runs < taken.rows / 4 * 3;
        }
        self.frozen = None;
        let states = self.table.take()?;
        // What is sent is counted where it is stored.
        self.reserve();
        put(StateRows { kind: RowKind::Group, rows: states })
    }

    fn add_distinct(
        &mut self,
        number: usize,
        keys: &[ArrayRef],
        values: &ArrayRef,
        bytes_max: usize,
        put: &mut StateSink,
    ) -> Result<()> {
        let (distinct, passing) = &mut self.distinct[number];
        if *passing > 0 {
            *passing = passing.saturating_sub(values.len());
            return put(distinct.pass(keys, values, &self.partitioning)?);
        }
        distinct.add(keys, values)?;
        let (rows, count, bytes) = (distinct.rows(), distinct.count(), distinct.weight_bytes());
        match next_of_pairs(rows, count, bytes, bytes_max, distinct.is_numbered()) {
            PartialTableStep::Fill => return Ok(()),
            PartialTableStep::Flush => {}
            PartialTableStep::FlushThenPassThrough(rows) => *passing = rows,
        }
        distinct.take(&self.partitioning, put)
    }

    /// Puts the remaining states.
    pub(crate) fn finish(&mut self, put: &mut StateSink) -> Result<()> {
        for number in 0..self.distinct.len() {
            self.distinct[number].0.take(&self.partitioning, put)?;
            self.reserve();
        }
        self.flush(put)
    }
}
