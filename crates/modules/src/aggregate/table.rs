//! Tables that are filled: groups with their states, and the different values of groups.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::filter;
use arrow::datatypes::{DataType, UInt64Type};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use euphrates_flow::Result;

use super::keys::Keys;
use super::numbering::Numbering;
use super::plan::Plan;
use super::spelling::Function;
use super::states::State;
use crate::hashing::hash_rows;

/// Groups with the states of all their values.
pub struct Table {
    plan: Arc<Plan>,
    numbering: Numbering,
    states: Vec<Box<dyn State>>,
    rows: usize,
}

impl Table {
    /// An empty one.
    pub fn new(plan: Arc<Plan>) -> Table {
        let (numbering, states) = (Numbering::new(plan.key_types()), plan.start());
        Table { plan, numbering, states, rows: 0 }
    }

    /// How many groups it has.
    pub fn groups(&self) -> usize {
        self.numbering.groups.len()
    }

    /// How many rows have made them.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of what it holds.
    pub fn bytes(&self) -> usize {
        self.numbering.groups.bytes() + self.states.iter().map(|state| state.bytes()).sum::<usize>()
    }

    /// Adds rows: their keys, and what each value is computed of.
    pub fn add(
        &mut self,
        keys: Vec<ArrayRef>,
        rows: usize,
        values: &[Option<ArrayRef>],
    ) -> Result<()> {
        self.rows += rows;
        self.numbering.find(keys, rows)?;
        self.add_numbered(self.numbering.groups.len(), values)
    }

    /// Rows as they travel, each a group of its own. The table must be empty.
    pub fn pass(&mut self, keys: Keys, values: &[Option<ArrayRef>]) -> Result<RecordBatch> {
        assert!(self.numbering.groups.is_empty(), "its groups would get lost");
        self.numbering.numbers.clear();
        self.numbering.numbers.extend(0..keys.hashes.len() as u32);
        self.add_numbered(keys.hashes.len(), values)?;
        let states = self.take_states()?;
        self.plan.of_groups(keys.hashes, keys.columns, states)
    }

    fn add_numbered(&mut self, groups: usize, values: &[Option<ArrayRef>]) -> Result<()> {
        for (number, state) in self.states.iter_mut().enumerate() {
            state.grow(groups);
            // Different values are counted when all are known.
            if self.plan.values[number].kind.function != Function::CountDistinct {
                state.add(values[number].as_ref(), &self.numbering.numbers)?;
            }
        }
        Ok(())
    }

    /// Merges states of groups.
    pub fn merge(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns();
        let (keys, states) = columns[1..].split_at(self.plan.keys.len());
        // They have been grouped before: most are of groups that are new here.
        self.numbering.groups.reserve(batch.num_rows());
        self.numbering.find_hashed(keys.to_vec(), hashes_of(batch))?;
        self.rows += batch.num_rows();
        let mut at = 0;
        for (state, value) in self.states.iter_mut().zip(&self.plan.values) {
            let columns = value.kind.states().len();
            state.grow(self.numbering.groups.len());
            state.merge(&states[at..at + columns], &self.numbering.numbers)?;
            at += columns;
        }
        Ok(())
    }

    /// The groups as they travel; none are left.
    pub fn take(&mut self) -> Result<RecordBatch> {
        self.rows = 0;
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

    /// The groups, and what the functions give.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let rows = self.numbering.groups.len();
        let (_, mut columns) = self.numbering.take()?;
        for state in &mut self.states {
            columns.push(state.finish()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.plan.given.clone(), columns, &options)?)
    }
}

/// The different values of groups, of one of those values that count such.
pub struct Different {
    plan: Arc<Plan>,
    number: usize,
    numbering: Numbering,
    rows: usize,
}

impl Different {
    /// None yet, of the value of this number among those that count such.
    pub fn new(plan: Arc<Plan>, number: usize) -> Different {
        let mut types: Vec<DataType> = plan.key_types();
        types.push(plan.distinct[number].1.clone());
        Different { plan, number, numbering: Numbering::new(types), rows: 0 }
    }

    /// Which value it is of, among all.
    pub fn value(&self) -> usize {
        self.plan.distinct[self.number].0
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.numbering.groups.len()
    }

    /// How many rows have made them.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of what is held.
    pub fn bytes(&self) -> usize {
        self.numbering.groups.bytes()
    }

    /// Adds values of groups with these keys.
    pub fn add(&mut self, keys: &[ArrayRef], values: &ArrayRef) -> Result<()> {
        let columns = valid(keys, values)?;
        let rows = columns[keys.len()].len();
        self.rows += rows;
        self.numbering.find(columns, rows)
    }

    /// The same, with hashes of groups and values that are known.
    pub fn add_pairs(&mut self, hashes: Vec<u64>, columns: Vec<ArrayRef>) -> Result<()> {
        self.rows += hashes.len();
        self.numbering.find_hashed(columns, hashes)
    }

    /// Values as they travel, of rows that are not looked at.
    pub fn pass(&self, keys: &[ArrayRef], values: &ArrayRef) -> Result<RecordBatch> {
        let columns = valid(keys, values)?;
        self.travelling(hash_rows(&columns)?, columns)
    }

    /// The values as they travel; none are left.
    pub fn take(&mut self) -> Result<RecordBatch> {
        let (hashes, columns) = self.take_pairs()?;
        self.travelling(hashes, columns)
    }

    /// The hashes of groups and values, and they; none are left.
    pub fn take_pairs(&mut self) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        self.rows = 0;
        self.numbering.take()
    }

    /// They go by hashes of group and value, so that those of one group are anywhere.
    fn travelling(&self, hashes: Vec<u64>, mut columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        let values = columns.pop().expect("the value is the last");
        self.plan.of_values(self.number, hashes, columns, values)
    }
}

/// The keys and values of rows whose value is not null.
fn valid(keys: &[ArrayRef], values: &ArrayRef) -> Result<Vec<ArrayRef>> {
    let columns = keys.iter().chain([values]);
    match values.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        None => Ok(columns.cloned().collect()),
        Some(nulls) => {
            let valid = BooleanArray::new(nulls.into_inner(), None);
            columns.map(|column| Ok(filter(column, &valid)?)).collect()
        }
    }
}

/// The first column.
pub fn hashes_of(batch: &RecordBatch) -> Vec<u64> {
    batch.column(0).as_primitive::<UInt64Type>().values().to_vec()
}
