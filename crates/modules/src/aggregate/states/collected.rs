//! Rows that are collected by group, for functions that need all values of a group at once:
//! `median`, `array_agg(city order by price)`, `sum(distinct price)`.
//!
//! A state is a list of rows. Where few of them can matter, as for `first` and distinct values,
//! rows are reduced as they come: whenever they have doubled, and before they are sent.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, LargeListArray, StructArray, UInt32Array, make_comparator,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortColumn, SortOptions, concat, lexsort_to_indices, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use euphrates_flow::{Error, Result};

use super::grouped_rows::GroupedRows;
use super::state::AggregateState;
use crate::aggregate::functions::{Keep, RowCollection};
use crate::aggregate::group_table::own;

/// Fewer rows than these are not reduced.
const REDUCED_ROWS_MIN: usize = 1 << 14;

impl RowCollection {
    /// The type of a collected row, given that of its arguments.
    pub(crate) fn row_type(&self, arguments: &DataType) -> DataType {
        match arguments {
            DataType::Struct(fields) => {
                let columns = fields.len() - usize::from(self.is_filtered);
                DataType::Struct(fields.iter().take(columns).cloned().collect())
            }
            other => other.clone(),
        }
    }

    /// The type of a state.
    pub(crate) fn state_type(row: &DataType) -> DataType {
        DataType::LargeList(item(row))
    }

    /// The type of the rows of a state.
    pub(crate) fn row_type_of_state(state: &DataType) -> Option<DataType> {
        match state {
            DataType::LargeList(item) => Some(item.data_type().clone()),
            _ => None,
        }
    }
}

fn item(row: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(row.clone(), true))
}

/// The collected rows of all groups.
pub(crate) struct CollectedGroups {
    by: RowCollection,
    /// The columns of a row.
    fields: Fields,
    output: DataType,
    inner: Option<Box<dyn AggregateState>>,
    /// The name of the result, for errors.
    name: String,
    /// Rows as structs.
    chunks: Vec<ArrayRef>,
    /// The group of each row.
    groups: Vec<u32>,
    group_count: usize,
    bytes: usize,
    /// Rows left by the last reduction.
    reduced_rows: usize,
}

impl CollectedGroups {
    /// No rows, which will have this type. `inner` is the state of the function of all values, if
    /// one is made of them.
    pub(crate) fn new(
        by: RowCollection,
        row: &DataType,
        output: DataType,
        name: &str,
        inner: Option<Box<dyn AggregateState>>,
    ) -> CollectedGroups {
        let DataType::Struct(fields) = row.clone() else {
            unreachable!("rows of a collection are structs")
        };
        CollectedGroups {
            by,
            fields,
            output,
            inner,
            name: name.into(),
            chunks: vec![],
            groups: vec![],
            group_count: 0,
            bytes: 0,
            reduced_rows: 0,
        }
    }

    fn push(&mut self, rows: ArrayRef, groups: impl Iterator<Item = u32>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.bytes += bytes_of(&rows);
        self.chunks.push(rows);
        self.groups.extend(groups);
        let grown = self.groups.len() >= (2 * self.reduced_rows).max(REDUCED_ROWS_MIN);
        if self.by.keep != Keep::All && grown {
            let GroupedRows { rows, ends } = self.arranged()?;
            let mut start = 0;
            for (group, end) in ends.iter().enumerate() {
                self.groups.extend(std::iter::repeat_n(group as u32, end - start));
                start = *end;
            }
            self.reduced_rows = rows.len();
            let rows: ArrayRef = Arc::new(rows);
            self.bytes = bytes_of(&rows);
            self.chunks = vec![rows];
        }
        Ok(())
    }

    /// Takes all rows, by group and in the order of a group, without those that are not kept.
    fn arranged(&mut self) -> Result<GroupedRows> {
        let groups = std::mem::take(&mut self.groups);
        let chunks = std::mem::take(&mut self.chunks);
        (self.bytes, self.reduced_rows) = (0, 0);
        let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
        let rows = match &chunks[..] {
            [] => arrow::array::new_empty_array(&DataType::Struct(self.fields.clone())),
            chunks => concat(chunks)?,
        };
        if u32::try_from(rows.len()).is_err() {
            return Err(Error::resource(format!("`{}` collects too many rows", self.name)));
        }
        let rows = rows.as_struct();
        let sorted = match self.order(rows) {
            keys if keys.is_empty() => by_group(&groups, self.group_count),
            keys => sorted(&groups, keys)?,
        };
        let kept = self.kept(rows, &groups, sorted)?;
        let mut ends = vec![0; self.group_count];
        kept.iter().for_each(|row| ends[groups[*row as usize] as usize] += 1);
        let mut end = 0;
        for length in &mut ends {
            end += *length;
            *length = end;
        }
        let rows = take(rows, &UInt32Array::from(kept), None)?;
        Ok(GroupedRows { rows: rows.as_struct().clone(), ends })
    }

    /// The columns that order the rows of a group.
    fn order(&self, rows: &StructArray) -> Vec<SortColumn> {
        let column = |values: &ArrayRef, options| SortColumn { values: values.clone(), options };
        let given = self.by.order.iter().copied();
        let by_value = [SortOptions { descending: false, nulls_first: false }];
        match self.by.keep {
            Keep::Distinct => {
                let options = self.by.order.first().or(by_value.first()).copied();
                vec![column(rows.column(0), options)]
            }
            _ if self.by.order.is_empty() && self.by.finish.is_of_sorted_values() => {
                vec![column(rows.column(0), by_value.first().copied())]
            }
            _ => given
                .zip(&rows.columns()[1..])
                .map(|(options, values)| column(values, Some(options)))
                .collect(),
        }
    }

    /// Those of the sorted rows that are kept.
    fn kept(&self, rows: &StructArray, groups: &[u32], sorted: Vec<u32>) -> Result<Vec<u32>> {
        let group = |row: u32| groups[row as usize];
        let value = rows.column(0);
        let compare = match self.by.keep {
            Keep::All => return Ok(sorted),
            Keep::First | Keep::Last => None,
            Keep::Few(count) => {
                let (mut before, mut taken) = (None, 0);
                let is_kept = |row: &u32| {
                    taken = if before == Some(group(*row)) { taken + 1 } else { 1 };
                    before = Some(group(*row));
                    taken <= count
                };
                return Ok(sorted.into_iter().filter(is_kept).collect());
            }
            Keep::Distinct => Some(make_comparator(value, value, SortOptions::default())?),
        };
        let is_same = |one: u32, other: u32| {
            let equal = compare.as_ref().map(|compare| compare(one as usize, other as usize));
            group(one) == group(other) && equal.is_none_or(|equal| equal.is_eq())
        };
        let mut kept = sorted;
        let is_last = self.by.keep == Keep::Last;
        if is_last {
            kept.reverse();
        }
        kept.dedup_by(|row, before| is_same(*row, *before));
        if is_last {
            kept.reverse();
        }
        Ok(kept)
    }
}

impl AggregateState for CollectedGroups {
    fn grow(&mut self, groups: usize) {
        self.group_count = groups;
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let rows = values.expect("a collection is of something").as_struct();
        let condition = self.by.is_filtered.then(|| rows.column(self.fields.len()).as_boolean());
        let needed = rows.columns()[..self.by.skips_nulls].iter();
        let needed: Vec<_> = needed.filter_map(|column| column.logical_nulls()).collect();
        let is_kept = |row: &u32| {
            let row = *row as usize;
            condition.is_none_or(|holds| holds.is_valid(row) && holds.value(row))
                && needed.iter().all(|nulls| nulls.is_valid(row))
        };
        let kept: Vec<u32> = (0..groups.len() as u32).filter(is_kept).collect();
        let groups: Vec<u32> = kept.iter().map(|row| groups[*row as usize]).collect();
        // A copy: the batch is not held.
        let kept = UInt32Array::from(kept);
        let columns = rows.columns()[..self.fields.len()].iter();
        let columns = columns.map(|column| Ok(own(take(column, &kept, None)?)));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows =
            StructArray::try_new_with_length(self.fields.clone(), columns, None, kept.len())?;
        self.push(Arc::new(rows), groups.into_iter())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let lists = states[0].as_list::<i64>();
        let offsets = lists.value_offsets();
        let (Some(start), Some(end)) = (offsets.first(), offsets.last()) else { return Ok(()) };
        let rows = lists.values().slice(*start as usize, (*end - *start) as usize);
        let lengths = offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
        let groups = groups.iter().zip(lengths);
        self.push(rows, groups.flat_map(|(group, length)| std::iter::repeat_n(*group, length)))
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let GroupedRows { rows, ends } = self.arranged()?;
        self.group_count = 0;
        let ends = std::iter::once(0).chain(ends.iter().map(|end| *end as i64));
        let offsets = OffsetBuffer::new(ends.collect());
        let item = item(&DataType::Struct(self.fields.clone()));
        Ok(vec![Arc::new(LargeListArray::try_new(item, offsets, Arc::new(rows), None)?)])
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let rows = self.arranged()?;
        self.group_count = 0;
        let finish = self.by.finish.clone();
        finish.of(rows, &self.output, &self.name, self.inner.as_mut())
    }

    fn bytes(&self) -> usize {
        self.bytes + size_of_val(&self.groups[..]) + self.group_count * size_of::<i64>()
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

/// Bytes of these rows alone, which may be a slice of a batch of states.
fn bytes_of(rows: &ArrayRef) -> usize {
    let of_slice = rows.to_data().get_slice_memory_size();
    of_slice.unwrap_or_else(|_| rows.get_array_memory_size())
}

/// The rows by group, in the order in which they came.
fn by_group(groups: &[u32], group_count: usize) -> Vec<u32> {
    let mut starts = vec![0; group_count + 1];
    groups.iter().for_each(|group| starts[*group as usize + 1] += 1);
    for group in 0..group_count {
        starts[group + 1] += starts[group];
    }
    let mut rows = vec![0; groups.len()];
    for (row, group) in groups.iter().enumerate() {
        let at = &mut starts[*group as usize];
        rows[*at] = row as u32;
        *at += 1;
    }
    rows
}

/// The rows by group, and by further columns.
fn sorted(groups: &[u32], keys: Vec<SortColumn>) -> Result<Vec<u32>> {
    let groups: ArrayRef = Arc::new(UInt32Array::from(groups.to_vec()));
    let mut columns = vec![SortColumn { values: groups, options: None }];
    columns.extend(keys);
    Ok(lexsort_to_indices(&columns, None)?.values().to_vec())
}
