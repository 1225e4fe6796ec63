//! Rows whose columns have few values each, stored as the numbers of their values: four bytes for a
//! column.
//!
//! Duplicates are found by the row's address, which has the numbers as digits: in a bitmap, or if
//! there are much more addresses than rows, by sorting these.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use super::group_keys::plain_type;
use super::key_domain::KeyDomain;
use crate::partitioning::hashing::hash_rows;
use crate::sort::distribution_sort::distribution_sort;

/// A bitmap of this size is cheap, however few the rows.
const BITMAP_BITS_MIN: usize = 1 << 20;
/// A larger bitmap has at most this number of bits for each row.
const BITMAP_BITS_PER_ROW: usize = 64;
/// More values of a column must recur: beyond the cache of a core, a hash table of values costs as
/// much as one of rows.
const VALUES_FEW: usize = 1 << 14;
/// With fewer rows, duplicates are not removed as rows are added.
const ROWS_MIN: usize = 1 << 16;
/// Values are made from numbers in pieces of this size: a number may stand for a long text.
const PIECE_BYTES: usize = 4 << 20;

/// Rows of columns of the same length.
#[derive(Default)]
pub(crate) struct NumberedRows {
    /// None before the first rows.
    columns: Vec<NumberedColumn>,
    rows: usize,
    /// When duplicates are removed next: at this number of rows.
    rows_max: usize,
    /// A bit for each address, all unset: kept, since fresh memory costs more than the bits.
    bitmap: Vec<u64>,
}

struct NumberedColumn {
    /// The type of the batches' columns, which may have dictionaries.
    data_type: DataType,
    domain: KeyDomain,
    numbers: Vec<u32>,
    /// The numbers of the last batch.
    batch: Vec<u32>,
}

impl NumberedRows {
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The number of columns; 0 before the first rows.
    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Bytes of the rows and the values.
    pub(crate) fn bytes(&self) -> usize {
        let values = self.columns.iter().map(|column| column.domain.bytes()).sum::<usize>();
        self.rows * self.columns.len() * size_of::<u32>() + values
    }

    /// Bytes of the columns that [`Self::values`] makes.
    pub(crate) fn value_bytes(&self) -> usize {
        let row = self.columns.iter().map(NumberedColumn::value_bytes).sum::<usize>();
        self.rows * row
    }

    /// Forgets the rows, and keeps the numbers of values.
    pub(crate) fn clear(&mut self) {
        self.columns.iter_mut().for_each(|column| column.numbers.clear());
        (self.rows, self.rows_max, self.bitmap) = (0, ROWS_MIN, vec![]);
    }

    /// Adds rows, whose columns may have dictionaries. `false` if the values of a column cannot be
    /// numbered, or are too many; then none was added.
    pub(crate) fn add(&mut self, columns: &[ArrayRef]) -> Result<bool> {
        if self.columns.is_empty() {
            let Some(own) = columns.iter().map(NumberedColumn::of).collect() else {
                return Ok(false);
            };
            (self.columns, self.rows_max) = (own, ROWS_MIN);
        }
        for (own, column) in self.columns.iter_mut().zip(columns) {
            if own.data_type != *column.data_type() || !own.number(column)? {
                return Ok(false);
            }
        }
        let rows = self.rows + columns[0].len();
        let recurs = |values: usize| values <= VALUES_FEW || values * 4 <= rows;
        let recur = self.columns.iter().all(|column| recurs(column.domain.looked_up()));
        if !recur || self.size().is_none() {
            return Ok(false);
        }
        for column in &mut self.columns {
            column.numbers.append(&mut column.batch);
        }
        self.rows = rows;
        if self.rows >= self.rows_max {
            self.remove_duplicates();
            self.rows_max = ROWS_MIN.max(self.rows * 2);
        }
        Ok(true)
    }

    /// Keeps one row of each address, and orders the rows by it.
    pub(crate) fn remove_duplicates(&mut self) {
        let size = self.size().expect("checked as rows were added");
        let mut addresses = self.row_addresses();
        if size <= BITMAP_BITS_MIN.max(self.rows.saturating_mul(BITMAP_BITS_PER_ROW)) {
            // Written and not just allocated, so that no page is mapped twice, to be read and then
            // to be written.
            self.bitmap.resize(size.div_ceil(u64::BITS as usize), 0);
            addresses.iter().for_each(|address| {
                self.bitmap[(address / 64) as usize] |= 1 << (address % 64);
            });
            addresses.clear();
            for (at, word) in self.bitmap.iter_mut().enumerate() {
                let mut word = std::mem::take(word);
                while word != 0 {
                    addresses.push(at as u64 * 64 + u64::from(word.trailing_zeros()));
                    word &= word - 1;
                }
            }
        } else {
            distribution_sort(&mut addresses, |address| address);
            addresses.dedup();
        }
        self.rows = addresses.len();
        let mut shift = 0;
        for column in self.columns.iter_mut().rev() {
            let digit =
                |address: &u64| (address >> shift) as u32 & (column.domain.size() - 1) as u32;
            column.numbers.clear();
            column.numbers.extend(addresses.iter().map(digit));
            shift += column.domain.size().trailing_zeros();
        }
    }

    /// Ranges of rows whose values have [`PIECE_BYTES`]; of at least as many rows as there are
    /// texts, all of which become an array each time.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let texts = self.columns.iter().map(|column| column.domain.texts()).max().unwrap_or(0);
        let row_bytes = self.value_bytes() / self.rows.max(1);
        let (rows, step) = (self.rows, (PIECE_BYTES / row_bytes.max(1)).max(texts).max(1));
        (0..rows).step_by(step).map(move |start| start..rows.min(start + step))
    }

    /// The columns of these rows, without dictionaries.
    pub(crate) fn values(&self, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        self.columns.iter().map(|column| column.values(&column.numbers[rows.clone()])).collect()
    }

    /// The hash of the last column of each of these rows, which must not be null: from one hash for
    /// each of its values, if these are known. `None` for integers of a range.
    pub(crate) fn value_hashes(&self, rows: Range<usize>) -> Result<Option<Vec<u64>>> {
        let Some(column) = self.columns.last() else { return Ok(None) };
        let values = column.domain.looked_up() as u32;
        if values == 0 {
            return Ok(None);
        }
        let hashes = hash_rows(&[column.values(&(1..=values).collect::<Vec<u32>>())?])?;
        let numbers = column.numbers[rows].iter();
        Ok(Some(numbers.map(|number| hashes[*number as usize - 1]).collect()))
    }

    /// The distinct values of the columns before the last, and the number of rows with each. There
    /// must be rows, without duplicates.
    pub(crate) fn counts(&self) -> Result<(Vec<ArrayRef>, Vec<i64>)> {
        let keys = &self.columns[..self.columns.len() - 1];
        // The first rows of keys; rows are in the order of their addresses.
        let is_first = |row: &usize| {
            *row == 0 || keys.iter().any(|key| key.numbers[*row] != key.numbers[*row - 1])
        };
        let first: Vec<usize> = (0..self.rows).filter(is_first).collect();
        let ends = first.iter().skip(1).chain([&self.rows]);
        let counts = first.iter().zip(ends).map(|(first, end)| (end - first) as i64).collect();
        let values = keys.iter().map(|key| {
            let numbers: Vec<u32> = first.iter().map(|row| key.numbers[*row]).collect();
            key.values(&numbers)
        });
        Ok((values.collect::<Result<_>>()?, counts))
    }

    /// The number of addresses; `None` if one may not fit a word.
    fn size(&self) -> Option<usize> {
        self.columns.iter().try_fold(1, |all: usize, one| all.checked_mul(one.domain.size()))
    }

    /// The address of each row.
    fn row_addresses(&self) -> Vec<u64> {
        let Some((first, others)) = self.columns.split_first() else { return vec![] };
        let mut addresses: Vec<u64> = first.numbers.iter().copied().map(u64::from).collect();
        for column in others {
            let bits = column.domain.size().trailing_zeros();
            let rows = addresses.iter_mut().zip(&column.numbers);
            rows.for_each(|(address, number)| *address = *address << bits | u64::from(*number));
        }
        addresses
    }
}

impl NumberedColumn {
    /// The values with these numbers, without dictionaries.
    fn values(&self, numbers: &[u32]) -> Result<ArrayRef> {
        self.domain.values(&plain_type(&self.data_type), numbers)
    }

    /// Bytes of one of its values without dictionaries.
    fn value_bytes(&self) -> usize {
        self.domain.value_bytes(&plain_type(&self.data_type))
    }

    /// No rows of columns of this type; `None` if their values have no numbers.
    fn of(column: &ArrayRef) -> Option<NumberedColumn> {
        let data_type = column.data_type().clone();
        let domain = KeyDomain::new(&data_type)?;
        Some(NumberedColumn { data_type, domain, numbers: vec![], batch: vec![] })
    }

    /// Numbers the values of a batch; false if there are too many.
    fn number(&mut self, column: &ArrayRef) -> Result<bool> {
        let low = self.domain.low();
        if !self.domain.number(column, &mut self.batch)? {
            return Ok(self.domain.become_words(&self.data_type, &mut self.numbers)
                && self.domain.number(column, &mut self.batch)?);
        }
        if let (Some(before), Some(low)) = (low, self.domain.low())
            && low < before
        {
            // Unless it was empty, the range is small, and so is the difference.
            let shift = before.wrapping_sub(low) as u32;
            for number in self.numbers.iter_mut().filter(|number| **number > 0) {
                *number += shift;
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::{Array, DictionaryArray, Int32Array, Int64Array, StringArray};
    use arrow::datatypes::Int32Type;
    use arrow::util::display::array_value_to_string;
    use proptest::option::of;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Two integers and a text with a dictionary. The first integers begin as a small range.
    fn batch(wide: bool) -> impl Strategy<Value = Vec<ArrayRef>> {
        let spread = if wide { 1 << 40 } else { 1 };
        let row = (of(-9_i64..9), of(select(vec![i64::MIN, 0, i64::MAX])), of(0_i32..4));
        let texts = prop::collection::vec(of("[ab]{0,2}"), 4);
        (prop::collection::vec(row, 1..50), texts).prop_map(move |(rows, texts)| {
            let codes: Int32Array = rows.iter().map(|row| row.2).collect();
            let first: Int64Array = rows.iter().map(|row| row.0.map(|v| v * spread)).collect();
            let second: Int64Array = rows.iter().map(|row| row.1).collect();
            let texts =
                DictionaryArray::<Int32Type>::new(codes, Arc::new(StringArray::from(texts)));
            vec![Arc::new(first) as ArrayRef, Arc::new(texts), Arc::new(second)]
        })
    }

    fn batches() -> impl Strategy<Value = Vec<Vec<ArrayRef>>> {
        let narrow = prop::collection::vec(batch(false), 1..4);
        (narrow, prop::collection::vec(batch(true), 0..3)).prop_map(|(a, b)| [a, b].concat())
    }

    fn row(columns: &[ArrayRef], row: usize) -> Vec<Option<String>> {
        let is_null = |column: &ArrayRef| column.logical_nulls().is_some_and(|n| n.is_null(row));
        let text = |column: &ArrayRef| array_value_to_string(column, row).unwrap();
        columns.iter().map(|column| (!is_null(column)).then(|| text(column))).collect()
    }

    proptest! {
        #[test]
        fn rows_are_kept_once_with_their_values(batches in batches(), settled: bool) {
            let mut rows = NumberedRows::default();
            let mut expected = vec![];
            for columns in &batches {
                prop_assert!(rows.add(columns).unwrap());
                if settled {
                    rows.remove_duplicates();
                }
                expected.extend((0..columns[0].len()).map(|at| row(columns, at)));
            }
            rows.remove_duplicates();
            let columns = rows.values(0..rows.len()).unwrap();
            let mut found: Vec<_> = (0..rows.len()).map(|at| row(&columns, at)).collect();
            found.sort();
            expected.sort();
            expected.dedup();
            prop_assert_eq!(&found, &expected);

            let (keys, counts) = rows.counts().unwrap();
            let found = counts.iter().enumerate().map(|(at, count)| (row(&keys, at), *count));
            let found: BTreeMap<_, _> = found.collect();
            let mut groups = BTreeMap::new();
            expected.iter().for_each(|row| *groups.entry(row[..2].to_vec()).or_insert(0) += 1);
            prop_assert_eq!(found, groups);
        }
    }

    #[test]
    fn many_values_are_refused_and_those_before_are_kept() {
        let column = |values: std::ops::Range<i64>| -> ArrayRef {
            Arc::new(
                values
                    .map(|value| value.wrapping_mul(0x1e37_79b9_7f4a_7c15))
                    .collect::<Int64Array>(),
            )
        };
        let mut rows = NumberedRows::default();
        assert!(rows.add(&[column(0..1000)]).unwrap());
        assert!(!rows.add(&[column(0..100_000)]).unwrap());
        assert_eq!(&rows.values(0..rows.len()).unwrap()[0], &column(0..1000));
    }
}
