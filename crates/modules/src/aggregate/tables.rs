//! Hash tables of groups with their states.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, new_batch};
use euphrates_policy::aggregate::PartialTableRows;

use super::functions::AggregateFunction;
use super::group_indexer::GroupIndexer;
use super::group_keys::{GroupKeys, plain};
use super::group_table::{NONE, own};
use super::plan::AggregatePlan;
use super::states::AggregateState;

/// Groups with the states of all their values.
pub(crate) struct AggregateTable {
    plan: Arc<AggregatePlan>,
    numbering: GroupIndexer,
    states: Vec<Box<dyn AggregateState>>,
    taken: PartialTableRows,
}

impl AggregateTable {
    pub(crate) fn new(plan: Arc<AggregatePlan>) -> AggregateTable {
        let (numbering, states) = (GroupIndexer::new(plan.key_types()), plan.start());
        AggregateTable { plan, numbering, states, taken: PartialTableRows::default() }
    }

    pub(crate) fn groups(&self) -> usize {
        self.numbering.groups.len()
    }

    /// The rows added, except those of `add_known`.
    pub(crate) fn taken(&self) -> PartialTableRows {
        self.taken
    }

    /// Bytes of the keys and states of all groups.
    pub(crate) fn bytes(&self) -> usize {
        self.numbering.groups.bytes() + self.states.iter().map(|state| state.bytes()).sum::<usize>()
    }

    /// Bytes of the states that grow with the rows of a group, and the name of a value with such.
    pub(crate) fn collected(&self) -> Option<(usize, &str)> {
        let states = self.states.iter().zip(&self.plan.values);
        let collected = states.filter(|(state, _)| !state.is_bounded());
        let bytes = collected.clone().map(|(state, _)| state.bytes()).sum();
        collected.map(|(_, value)| (bytes, value.name.as_str())).next()
    }

    /// Adds rows: their keys, and the argument of each value.
    pub(crate) fn add(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
        values: &[Option<ArrayRef>],
    ) -> Result<()> {
        self.numbering.find(keys, rows)?;
        self.taken.rows += rows;
        self.taken.runs += runs_of(&self.numbering.numbers);
        self.add_numbered(self.numbering.groups.len(), values)
    }

    /// Adds the rows whose groups are known, and returns the others.
    pub(crate) fn add_known(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
        values: &[Option<ArrayRef>],
    ) -> Result<UngroupedRows> {
        let (hashes, columns) = self.numbering.find_known(keys, rows)?;
        let numbers = &self.numbering.numbers;
        let rows_where = |is_known: bool| -> UInt32Array {
            let rows = numbers.iter().zip(0..).filter(|(group, _)| (**group != NONE) == is_known);
            rows.map(|(_, row)| row).collect::<Vec<u32>>().into()
        };
        let missed = rows_where(false);
        if missed.is_empty() {
            self.add_numbered(self.groups(), values)?;
            return Ok(UngroupedRows::default());
        }
        let known = values_at(values, &rows_where(true))?;
        self.numbering.numbers.retain(|group| *group != NONE);
        self.add_numbered(self.groups(), &known)?;
        let hashes = missed.values().iter().map(|row| hashes[*row as usize]).collect();
        let key = |column: &ArrayRef| Ok(own(plain(&take(column, &missed, None)?)?));
        let keys = columns.iter().map(key).collect::<Result<_>>()?;
        Ok(UngroupedRows::each(hashes, keys, values_at(values, &missed)?))
    }

    /// Turns rows into states, one for each run. The table must be empty.
    pub(crate) fn pass(&mut self, rows: UngroupedRows) -> Result<RecordBatch> {
        assert!(self.numbering.groups.is_empty(), "its groups would get lost");
        let count = rows.runs();
        self.numbering.numbers.clear();
        match rows.run_numbers {
            Some(numbers) => self.numbering.numbers = numbers,
            None => self.numbering.numbers.extend(0..count as u32),
        }
        self.add_numbered(count, &rows.values)?;
        let states = self.take_states()?;
        self.plan.of_groups(rows.hashes, rows.keys, states)
    }

    fn add_numbered(&mut self, groups: usize, values: &[Option<ArrayRef>]) -> Result<()> {
        for (number, state) in self.states.iter_mut().enumerate() {
            state.grow(groups);
            // Distinct values are counted when all are known.
            if self.plan.values[number].kind.function != AggregateFunction::CountDistinct {
                state.add(values[number].as_ref(), &self.numbering.numbers)?;
            }
        }
        Ok(())
    }

    pub(crate) fn merge(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns();
        let (keys, states) = columns[1..].split_at(self.plan.keys.len());
        // The states are grouped already, so most bring a new group.
        self.numbering.groups.reserve(batch.num_rows());
        self.numbering.find_hashed(keys.to_vec(), hashes_of(batch))?;
        let mut at = 0;
        for (state, value) in self.states.iter_mut().zip(&self.plan.values) {
            let columns = value.kind.states().len();
            state.grow(self.numbering.groups.len());
            state.merge(&states[at..at + columns], &self.numbering.numbers)?;
            at += columns;
        }
        Ok(())
    }

    /// Takes all groups as a batch of states.
    pub(crate) fn take(&mut self) -> Result<RecordBatch> {
        self.taken = PartialTableRows::default();
        let states = self.take_states()?;
        let (hashes, keys) = self.numbering.take()?;
        self.plan.of_groups(hashes, keys, states)
    }

    fn take_states(&mut self) -> Result<Vec<ArrayRef>> {
        let mut states = Vec::with_capacity(self.plan.state_columns());
        for state in &mut self.states {
            states.extend(state.take()?);
        }
        Ok(states)
    }

    /// Takes the groups with the results of the functions.
    pub(crate) fn finish(mut self) -> Result<RecordBatch> {
        let rows = self.numbering.groups.len();
        let (_, mut columns) = self.numbering.take()?;
        for state in &mut self.states {
            columns.push(state.finish()?);
        }
        Ok(new_batch(self.plan.results.clone(), columns, rows)?)
    }
}

/// Rows that are not grouped, but for neighbours with equal keys.
#[derive(Default)]
pub(crate) struct UngroupedRows {
    /// The hash of each run of rows.
    pub(crate) hashes: Vec<u64>,
    /// The keys of each run.
    pub(crate) keys: Vec<ArrayRef>,
    /// The arguments of each row.
    pub(crate) values: Vec<Option<ArrayRef>>,
    /// The run of each row; `None` if each row is a run.
    pub(crate) run_numbers: Option<Vec<u32>>,
}

impl UngroupedRows {
    pub(crate) fn runs(&self) -> usize {
        self.hashes.len()
    }

    /// Rows with these keys, with a run for each.
    pub(crate) fn each(
        hashes: Vec<u64>,
        keys: Vec<ArrayRef>,
        values: Vec<Option<ArrayRef>>,
    ) -> UngroupedRows {
        UngroupedRows { hashes, keys, values, run_numbers: None }
    }

    /// Rows with these keys, where neighbours with equal keys are a run.
    pub(crate) fn in_runs(keys: GroupKeys, values: Vec<Option<ArrayRef>>) -> Result<UngroupedRows> {
        let (firsts, numbers) = keys.runs();
        let firsts = UInt32Array::from(firsts);
        let hash = |row: &u32| keys.hashes[*row as usize];
        let hashes = firsts.values().iter().map(hash).collect();
        let key = |column: &ArrayRef| Ok(own(take(column, &firsts, None)?));
        let keys = keys.columns.iter().map(key).collect::<Result<_>>()?;
        Ok(UngroupedRows { hashes, keys, values, run_numbers: Some(numbers) })
    }
}

/// The number of runs of equal numbers.
fn runs_of(numbers: &[u32]) -> usize {
    let changes = numbers.windows(2).filter(|pair| pair[0] != pair[1]).count();
    changes + usize::from(!numbers.is_empty())
}

/// The arguments of some rows.
fn values_at(values: &[Option<ArrayRef>], rows: &UInt32Array) -> Result<Vec<Option<ArrayRef>>> {
    let at = |values: &ArrayRef| Ok(take(values, rows, None)?);
    values.iter().map(|values| values.as_ref().map(at).transpose()).collect()
}

/// The hashes, which are the first column.
pub(crate) fn hashes_of(batch: &RecordBatch) -> Vec<u64> {
    batch.column(0).as_primitive::<UInt64Type>().values().to_vec()
}
