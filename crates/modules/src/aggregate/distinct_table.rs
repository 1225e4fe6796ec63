//! The distinct values of groups, for one `count(distinct)`.
//!
//! If keys and values have few values each, pairs of group and value are stored as numbers
//! (`numbered_rows`), and duplicates are removed now and then. Other pairs are in a hash table.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, new_empty_array};
use arrow::compute::filter;
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use super::exchange::state_rows::{PairPartition, PairPartitioning, RowKind, StateRows};
use super::group_indexer::GroupIndexer;
use super::group_keys::plain;
use super::numbered_rows::NumberedRows;
use super::plan::AggregatePlan;
use crate::partitioning::hashing::hash_rows;

/// The pairs of group and value of one `count(distinct)`.
pub(crate) struct DistinctTable {
    plan: Arc<AggregatePlan>,
    number: usize,
    pairs: DistinctPairs,
    rows: usize,
}

enum DistinctPairs {
    Numbered(NumberedRows),
    Hashed(Box<GroupIndexer>),
}

/// Hashes of pairs, if they are known.
#[derive(Default)]
struct PairHashes {
    /// Those of group and value.
    pairs: Option<Vec<u64>>,
    /// Those of the value alone.
    values: Option<Vec<u64>>,
}

impl DistinctTable {
    /// An empty table for the `number`-th `count(distinct)`.
    pub(crate) fn new(plan: Arc<AggregatePlan>, number: usize) -> DistinctTable {
        DistinctTable {
            plan,
            number,
            pairs: DistinctPairs::Numbered(NumberedRows::default()),
            rows: 0,
        }
    }

    /// The index of its value among all values.
    pub(crate) fn value(&self) -> usize {
        self.plan.distinct[self.number].0
    }

    /// The number of pairs that it stores, which may have some twice.
    pub(crate) fn count(&self) -> usize {
        match &self.pairs {
            DistinctPairs::Numbered(rows) => rows.len(),
            DistinctPairs::Hashed(numbering) => numbering.groups.len(),
        }
    }

    /// Whether pairs are stored as numbers.
    pub(crate) fn is_numbered(&self) -> bool {
        matches!(self.pairs, DistinctPairs::Numbered(_))
    }

    /// The number of rows added.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the pairs.
    pub(crate) fn bytes(&self) -> usize {
        match &self.pairs {
            DistinctPairs::Numbered(rows) => rows.bytes(),
            DistinctPairs::Hashed(numbering) => numbering.groups.bytes(),
        }
    }

    /// Adds the values of groups with these keys.
    pub(crate) fn add(&mut self, keys: &[ArrayRef], values: &ArrayRef) -> Result<()> {
        let columns = valid(keys, values)?;
        self.rows += columns[keys.len()].len();
        if self.add_numbered(&columns)? {
            return Ok(());
        }
        let columns = columns.iter().map(plain).collect::<Result<Vec<_>>>()?;
        self.add_hashed(hash_rows(&columns)?, columns)
    }

    /// Adds plain columns of pairs that hardly recur. The hashes are those of group and value, if
    /// they are known.
    pub(crate) fn add_pairs(
        &mut self,
        hashes: Option<Vec<u64>>,
        columns: Vec<ArrayRef>,
    ) -> Result<()> {
        let rows = columns[0].len();
        self.rows += rows;
        if self.add_numbered(&columns)? {
            return Ok(());
        }
        let hashes = hashes.map_or_else(|| hash_rows(&columns), Ok)?;
        if let DistinctPairs::Hashed(numbering) = &mut self.pairs {
            numbering.groups.reserve(rows);
        }
        self.add_hashed(hashes, columns)
    }

    /// Adds pairs as numbers. `false` if they are hashed from now on, and so are all before.
    fn add_numbered(&mut self, columns: &[ArrayRef]) -> Result<bool> {
        let DistinctPairs::Numbered(rows) = &mut self.pairs else { return Ok(false) };
        if rows.add(columns)? {
            return Ok(true);
        }
        let known = (rows.len() > 0).then(|| rows.values()).transpose()?;
        let hashed = GroupIndexer::new(pair_types(&self.plan, self.number));
        self.pairs = DistinctPairs::Hashed(Box::new(hashed));
        if let Some(known) = known {
            self.add_hashed(hash_rows(&known)?, known)?;
        }
        Ok(false)
    }

    fn add_hashed(&mut self, hashes: Vec<u64>, columns: Vec<ArrayRef>) -> Result<()> {
        match &mut self.pairs {
            DistinctPairs::Numbered(_) => unreachable!("it was left"),
            DistinctPairs::Hashed(numbering) => numbering.find_hashed(columns, hashes),
        }
    }

    /// Turns values into rows of states, without removing duplicates.
    pub(crate) fn pass(
        &self,
        keys: &[ArrayRef],
        values: &ArrayRef,
        partitioning: &PairPartitioning,
    ) -> Result<StateRows> {
        let columns = valid(keys, values)?.iter().map(plain).collect::<Result<Vec<_>>>()?;
        self.to_states(PairHashes::default(), columns, partitioning)
    }

    /// Takes all distinct values as rows of states.
    pub(crate) fn take(&mut self, partitioning: &PairPartitioning) -> Result<StateRows> {
        let (hashes, columns) = self.take_columns()?;
        self.to_states(hashes, columns, partitioning)
    }

    /// Takes the hashes of group and value, and the columns of both, each pair once.
    pub(crate) fn take_pairs(&mut self) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        let (hashes, columns) = self.take_columns()?;
        Ok((hashes.pairs.map_or_else(|| hash_rows(&columns), Ok)?, columns))
    }

    /// Takes the columns of group and value, each pair once, and the hashes that are known.
    fn take_columns(&mut self) -> Result<(PairHashes, Vec<ArrayRef>)> {
        self.rows = 0;
        match &mut self.pairs {
            DistinctPairs::Numbered(rows) if rows.len() == 0 => {
                let types = pair_types(&self.plan, self.number);
                let hashes = PairHashes { pairs: Some(vec![]), values: Some(vec![]) };
                Ok((hashes, types.iter().map(new_empty_array).collect()))
            }
            DistinctPairs::Numbered(rows) => {
                rows.remove_duplicates();
                let hashes = PairHashes { pairs: None, values: rows.value_hashes()? };
                let columns = rows.values()?;
                rows.clear();
                Ok((hashes, columns))
            }
            DistinctPairs::Hashed(numbering) => {
                let (hashes, columns) = numbering.take()?;
                Ok((PairHashes { pairs: Some(hashes), values: None }, columns))
            }
        }
    }

    /// Takes the keys of groups, which may occur more than once, with a number of values for each.
    pub(crate) fn take_counts(&mut self) -> Result<(Vec<ArrayRef>, Vec<i64>)> {
        self.rows = 0;
        match &mut self.pairs {
            DistinctPairs::Numbered(rows) if rows.len() == 0 => {
                let types = self.plan.key_types();
                Ok((types.iter().map(new_empty_array).collect(), vec![]))
            }
            DistinctPairs::Numbered(rows) => {
                rows.remove_duplicates();
                let counted = rows.counts();
                rows.clear();
                counted
            }
            DistinctPairs::Hashed(numbering) => {
                let (hashes, mut columns) = numbering.take()?;
                columns.pop();
                Ok((columns, vec![1; hashes.len()]))
            }
        }
    }

    /// Rows of states of pairs, of which some hashes are known.
    fn to_states(
        &self,
        known: PairHashes,
        columns: Vec<ArrayRef>,
        partitioning: &PairPartitioning,
    ) -> Result<StateRows> {
        let (keys, value) = columns.split_at(columns.len() - 1);
        let of_values = || known.values.clone().map_or_else(|| hash_rows(value), Ok);
        let partition = match value[0].is_empty() || keys.is_empty() {
            true => PairPartition::Spread,
            false => partitioning.of(|| Ok((hash_rows(keys)?, of_values()?)))?,
        };
        let hashes = match (partition, known.pairs) {
            (PairPartition::ByGroup, _) => hash_rows(keys)?,
            (PairPartition::ByValue, _) => of_values()?,
            (PairPartition::Spread, Some(hashes)) => hashes,
            (PairPartition::Spread, None) => hash_rows(&columns)?,
        };
        let kind = RowKind::Pair { number: self.number, partition };
        Ok(StateRows { kind, rows: self.plan.of_pairs(self.number, hashes, columns)? })
    }
}

/// The types of the keys and of the value.
fn pair_types(plan: &AggregatePlan, number: usize) -> Vec<DataType> {
    let mut types = plan.key_types();
    types.push(plan.distinct[number].1.clone());
    types
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
