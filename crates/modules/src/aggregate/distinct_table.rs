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

impl Default for DistinctPairs {
    fn default() -> DistinctPairs {
        DistinctPairs::Numbered(NumberedRows::default())
    }
}

impl DistinctTable {
    /// An empty table for the `number`-th `count(distinct)`.
    pub(crate) fn new(plan: Arc<AggregatePlan>, number: usize) -> DistinctTable {
        DistinctTable { plan, number, pairs: DistinctPairs::default(), rows: 0 }
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

    /// Bytes of the pairs, or a quarter of those that they have without numbers, if that is more:
    /// four bytes may stand for a text of any length, and all are made when a text has no number.
    pub(crate) fn weight_bytes(&self) -> usize {
        match &self.pairs {
            DistinctPairs::Numbered(rows) => rows.bytes().max(rows.value_bytes() / 4),
            DistinctPairs::Hashed(_) => self.bytes(),
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
        let known = std::mem::take(rows);
        let hashed = GroupIndexer::new(pair_types(&self.plan, self.number));
        self.pairs = DistinctPairs::Hashed(Box::new(hashed));
        for rows in known.pieces() {
            let columns = known.values(rows)?;
            self.add_hashed(hash_rows(&columns)?, columns)?;
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
        let partition = partition_of(&columns, partitioning)?;
        self.to_states(partition, None, columns)
    }

    /// Takes all distinct values, and puts rows of states: in pieces, since values may be much
    /// larger than their numbers.
    pub(crate) fn take(
        &mut self,
        partitioning: &PairPartitioning,
        put: &mut dyn FnMut(StateRows) -> Result<()>,
    ) -> Result<()> {
        self.rows = 0;
        let mut pairs = std::mem::take(&mut self.pairs);
        match &mut pairs {
            DistinctPairs::Numbered(rows) => {
                rows.remove_duplicates();
                let partition = partition_of_rows(rows, partitioning)?;
                for range in rows.pieces() {
                    let hashes = match partition {
                        PairPartition::ByValue => rows.value_hashes(range.clone())?,
                        PairPartition::ByGroup | PairPartition::Spread => None,
                    };
                    put(self.to_states(partition, hashes, rows.values(range)?)?)?;
                }
                rows.clear();
            }
            DistinctPairs::Hashed(numbering) => {
                let (hashes, columns) = numbering.take()?;
                let partition = partition_of(&columns, partitioning)?;
                let hashes = Some(hashes).filter(|_| partition == PairPartition::Spread);
                put(self.to_states(partition, hashes, columns)?)?;
            }
        }
        self.pairs = pairs;
        Ok(())
    }

    /// Takes each pair once, and puts the hashes of group and value, and the columns of both: in
    /// pieces.
    pub(crate) fn take_pairs(
        &mut self,
        put: &mut dyn FnMut(Vec<u64>, Vec<ArrayRef>) -> Result<()>,
    ) -> Result<()> {
        self.rows = 0;
        match &mut self.pairs {
            DistinctPairs::Numbered(rows) => {
                rows.remove_duplicates();
                for range in rows.pieces() {
                    let columns = rows.values(range)?;
                    put(hash_rows(&columns)?, columns)?;
                }
                rows.clear();
            }
            DistinctPairs::Hashed(numbering) => {
                let (hashes, columns) = numbering.take()?;
                put(hashes, columns)?;
            }
        }
        Ok(())
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

    /// Rows of states of pairs; the hashes are those by which they are partitioned, if known.
    fn to_states(
        &self,
        partition: PairPartition,
        hashes: Option<Vec<u64>>,
        columns: Vec<ArrayRef>,
    ) -> Result<StateRows> {
        let (keys, value) = columns.split_at(columns.len() - 1);
        let hashed = match partition {
            PairPartition::ByGroup => keys,
            PairPartition::ByValue => value,
            PairPartition::Spread => &columns,
        };
        let hashes = hashes.map_or_else(|| hash_rows(hashed), Ok)?;
        let kind = RowKind::Pair { number: self.number, partition };
        Ok(StateRows { kind, rows: self.plan.of_pairs(self.number, hashes, columns)? })
    }
}

/// The partition of pairs with these columns: the keys, and the value.
fn partition_of(columns: &[ArrayRef], by: &PairPartitioning) -> Result<PairPartition> {
    let (keys, value) = columns.split_at(columns.len() - 1);
    match keys.is_empty() || value[0].is_empty() {
        true => Ok(PairPartition::Spread),
        false => by.of(|| Ok((hash_rows(keys)?, hash_rows(value)?))),
    }
}

/// The partition of pairs that are numbers.
fn partition_of_rows(rows: &NumberedRows, by: &PairPartitioning) -> Result<PairPartition> {
    if rows.len() == 0 || rows.columns() == 1 {
        return Ok(PairPartition::Spread);
    }
    by.of(|| {
        let (mut of_keys, mut of_values) = (vec![], vec![]);
        for range in rows.pieces() {
            let columns = rows.values(range.clone())?;
            let (keys, value) = columns.split_at(columns.len() - 1);
            of_keys.append(&mut hash_rows(keys)?);
            let known = rows.value_hashes(range)?;
            of_values.append(&mut known.map_or_else(|| hash_rows(value), Ok)?);
        }
        Ok((of_keys, of_values))
    })
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
