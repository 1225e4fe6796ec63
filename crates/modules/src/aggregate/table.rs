//! Tables that are filled: groups with their states, and the different values of groups.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::compute::{filter, take};
use arrow::datatypes::{DataType, UInt64Type};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use euphrates_flow::Result;

use super::groups::Groups;
use super::keys::{Form, Keys};
use super::plan::Plan;
use super::shortcuts::Shortcuts;
use super::spelling::Function;
use super::states::State;
use crate::hashing::hash_rows;

/// Groups with the states of all their values.
pub struct Table {
    plan: Arc<Plan>,
    groups: Groups,
    states: Vec<Box<dyn State>>,
    shortcuts: Option<Shortcuts>,
    numbers: Vec<u32>,
    rows: usize,
}

impl Table {
    /// An empty one.
    pub fn new(plan: Arc<Plan>) -> Table {
        let (groups, states) = (Groups::new(plan.key_types()), plan.start());
        let has = plan.form == Form::Bytes;
        let shortcuts = has.then(|| Shortcuts::new(&plan.key_types())).flatten();
        Table { plan, groups, states, shortcuts, numbers: vec![], rows: 0 }
    }

    /// How many groups it has.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// How many rows have made them.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of what it holds.
    pub fn bytes(&self) -> usize {
        self.groups.bytes() + self.states.iter().map(|state| state.bytes()).sum::<usize>()
    }

    /// Adds rows: their keys, and what each value is computed of.
    pub fn add(
        &mut self,
        keys: Vec<ArrayRef>,
        rows: usize,
        values: &[Option<ArrayRef>],
    ) -> Result<()> {
        self.rows += rows;
        if !self.find_shortly(&keys)? {
            let keys = self.plan.form.keys(keys, rows)?;
            self.groups.find(&keys, &mut self.numbers)?;
        }
        self.add_numbered(self.groups.len(), values)
    }

    /// Numbers rows by what is known of their keys, if that can be.
    fn find_shortly(&mut self, keys: &[ArrayRef]) -> Result<bool> {
        let Some(shortcuts) = &mut self.shortcuts else { return Ok(false) };
        let Some(fresh) = shortcuts.find(keys, &mut self.numbers) else { return Ok(false) };
        let rows = UInt32Array::from(fresh.to_vec());
        let mut groups = vec![];
        if !rows.is_empty() {
            let keys = keys.iter().map(|column| Ok(take(column, &rows, None)?));
            let keys = self.plan.form.keys(keys.collect::<Result<_>>()?, rows.len())?;
            self.groups.find(&keys, &mut groups)?;
        }
        shortcuts.resolve(&groups, &mut self.numbers);
        Ok(true)
    }

    /// Rows as they travel, each a group of its own. The table must be empty.
    pub fn pass(&mut self, keys: Keys, values: &[Option<ArrayRef>]) -> Result<RecordBatch> {
        assert!(self.groups.is_empty(), "its groups would get lost");
        self.numbers.clear();
        self.numbers.extend(0..keys.hashes.len() as u32);
        self.add_numbered(keys.hashes.len(), values)?;
        let states = self.take_states()?;
        self.plan.of_groups(keys.hashes, keys.columns, states)
    }

    fn add_numbered(&mut self, groups: usize, values: &[Option<ArrayRef>]) -> Result<()> {
        for (number, state) in self.states.iter_mut().enumerate() {
            state.grow(groups);
            // Different values are counted when all are known.
            if self.plan.values[number].kind.function != Function::CountDistinct {
                state.add(values[number].as_ref(), &self.numbers)?;
            }
        }
        Ok(())
    }

    /// Merges states of groups.
    pub fn merge(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns();
        let (keys, states) = columns[1..].split_at(self.plan.keys.len());
        let keys = self.plan.form.keys_with(keys.to_vec(), hashes_of(batch))?;
        // They have been grouped before: most are of groups that are new here.
        self.groups.reserve(batch.num_rows());
        self.groups.find(&keys, &mut self.numbers)?;
        self.rows += batch.num_rows();
        let mut at = 0;
        for (state, value) in self.states.iter_mut().zip(&self.plan.values) {
            let columns = value.kind.states().len();
            state.grow(self.groups.len());
            state.merge(&states[at..at + columns], &self.numbers)?;
            at += columns;
        }
        Ok(())
    }

    /// The groups as they travel; none are left.
    pub fn take(&mut self) -> Result<RecordBatch> {
        self.rows = 0;
        self.shortcuts.iter_mut().for_each(Shortcuts::clear);
        let states = self.take_states()?;
        let (hashes, keys) = self.groups.take()?;
        self.plan.of_groups(hashes, keys, states)
    }

    fn take_states(&mut self) -> Result<Vec<ArrayRef>> {
        let mut states = Vec::with_capacity(self.plan.state_columns());
        for state in &mut self.states {
            states.extend(state.take()?);
        }
        Ok(states)
    }

    /// What comes out.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let rows = self.groups.len();
        let (_, mut columns) = self.groups.take()?;
        for state in &mut self.states {
            columns.push(state.finish()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.plan.output.clone(), columns, &options)?)
    }
}

/// The different values of groups, of one of those values that count such.
pub struct Different {
    plan: Arc<Plan>,
    number: usize,
    form: Form,
    groups: Groups,
    numbers: Vec<u32>,
    rows: usize,
}

impl Different {
    /// None yet, of the value of this number among those that count such.
    pub fn new(plan: Arc<Plan>, number: usize) -> Different {
        let mut types: Vec<DataType> = plan.key_types();
        types.push(plan.distinct[number].1.clone());
        let (form, groups) = (Form::of(&types), Groups::new(types));
        Different { plan, number, form, groups, numbers: vec![], rows: 0 }
    }

    /// Which value it is of, among all.
    pub fn value(&self) -> usize {
        self.plan.distinct[self.number].0
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// How many rows have made them.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of what is held.
    pub fn bytes(&self) -> usize {
        self.groups.bytes()
    }

    /// Adds values of groups with these keys.
    pub fn add(&mut self, keys: &[ArrayRef], values: &ArrayRef) -> Result<()> {
        let columns = valid(keys, values)?;
        let rows = columns[keys.len()].len();
        let pairs = self.form.keys(columns, rows)?;
        self.rows += rows;
        self.groups.find(&pairs, &mut self.numbers)
    }

    /// The same, with hashes that are known of what `take_pairs` has given.
    pub fn add_pairs(&mut self, batch: &RecordBatch) -> Result<()> {
        let pairs = self.form.keys_with(batch.columns()[1..].to_vec(), hashes_of(batch))?;
        self.rows += batch.num_rows();
        self.groups.find(&pairs, &mut self.numbers)
    }

    /// Values as they travel, of rows that are not looked at.
    pub fn pass(&self, keys: &[ArrayRef], values: &ArrayRef) -> Result<RecordBatch> {
        self.travelling(valid(keys, values)?)
    }

    /// The values as they travel; none are left.
    pub fn take(&mut self) -> Result<RecordBatch> {
        self.rows = 0;
        let (_, columns) = self.groups.take()?;
        self.travelling(columns)
    }

    /// The values with the hashes of themselves, rather than those of groups; none are left.
    pub fn take_pairs(&mut self) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        self.rows = 0;
        self.groups.take()
    }

    fn travelling(&self, mut columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        let values = columns.pop().expect("the value is the last");
        let hashes = match columns.is_empty() {
            true => vec![0; values.len()],
            false => hash_rows(&columns)?,
        };
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

fn hashes_of(batch: &RecordBatch) -> Vec<u64> {
    batch.column(0).as_primitive::<UInt64Type>().values().to_vec()
}
