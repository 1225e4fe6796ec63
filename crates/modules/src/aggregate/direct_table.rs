//! Direct-address table from keys of few values to group numbers.
//!
//! The values of each key column are numbered (`key_domain`). The numbers of a row, as digits, are
//! its address in a table that stays in the cache, so nothing is hashed or compared. Only keys that
//! miss are looked up in full, each once.

use arrow::array::{Array, ArrayRef};
use euphrates_flow::Result;

use super::key_domain::KeyDomain;

/// The table has 1 MiB at most, about the cache of a core.
const ADDRESSES_MAX: usize = 1 << 18;
/// After this number of rows, it must have had more hits than misses.
const TRIAL_ROWS: usize = 1 << 18;
const NONE: u32 = u32::MAX;
/// Marks the index of a new key of the current batch, in place of a group.
const NEW: u32 = 1 << 31;

/// Group numbers by the address of their key.
#[derive(Default)]
pub(crate) struct DirectTable {
    domains: Vec<KeyDomain>,
    /// The least integer and the size of each domain for which addresses are computed.
    layout: Vec<(i64, usize)>,
    groups: Vec<u32>,
    /// The address of each row of the current batch.
    addresses: Vec<u32>,
    /// Rows of the current batch whose keys are new.
    fresh: Vec<u32>,
    rows: usize,
    misses: usize,
    /// Whether the table is disabled: unsupported key types, too many values, or too many misses.
    is_off: bool,
}

impl DirectTable {
    /// Forgets all groups, and keeps the domains of their keys.
    pub(crate) fn clear(&mut self) {
        self.groups.fill(NONE);
    }

    /// The group of each row or a mark, and the rows with new keys, whose groups must be passed to
    /// `resolve`. `None` from then on if a key type has no domain, the keys have too many values,
    /// or most rows have missed.
    pub(crate) fn find(
        &mut self,
        columns: &[ArrayRef],
        numbers: &mut Vec<u32>,
    ) -> Result<Option<&[u32]>> {
        if self.is_off || !self.address(columns, numbers)? {
            self.is_off = true;
            return Ok(None);
        }
        self.fresh.clear();
        numbers.clear();
        numbers.reserve(self.addresses.len());
        for (row, address) in self.addresses.iter().enumerate() {
            let mut group = self.groups[*address as usize];
            if group == NONE {
                group = NEW | self.fresh.len() as u32;
                self.groups[*address as usize] = group;
                self.fresh.push(row as u32);
            }
            numbers.push(group);
        }
        self.rows += self.addresses.len();
        self.misses += self.fresh.len();
        self.is_off = self.rows > TRIAL_ROWS && self.misses * 2 > self.rows;
        Ok(Some(&self.fresh))
    }

    /// Stores the groups of the new keys, and replaces marks by groups.
    pub(crate) fn resolve(&mut self, found: &[u32], numbers: &mut [u32]) {
        if found.is_empty() {
            return;
        }
        for (row, group) in self.fresh.iter().zip(found) {
            self.groups[self.addresses[*row as usize] as usize] = *group;
        }
        for number in numbers.iter_mut().filter(|number| **number >= NEW) {
            *number = found[(*number & !NEW) as usize];
        }
    }

    /// Computes the address of each row; false if there are too many. If a domain
    /// has grown, addresses change, so the table is emptied.
    fn address(&mut self, columns: &[ArrayRef], numbers: &mut Vec<u32>) -> Result<bool> {
        if self.domains.is_empty() {
            let domains = columns.iter().map(|column| KeyDomain::new(column.data_type()));
            let Some(domains) = domains.collect() else { return Ok(false) };
            self.domains = domains;
        }
        let mut left = ADDRESSES_MAX;
        self.addresses.clear();
        for (domain, column) in self.domains.iter_mut().zip(columns) {
            if !domain.number(column, left, numbers)? {
                return Ok(false);
            }
            let size = domain.size();
            left /= size;
            match self.addresses.is_empty() {
                true => std::mem::swap(&mut self.addresses, numbers),
                false => {
                    let rows = self.addresses.iter_mut().zip(numbers.iter());
                    rows.for_each(|(address, number)| *address = *address * size as u32 + number);
                }
            }
        }
        let layout = self.domains.iter().map(|domain| (domain.low(), domain.size()));
        let layout: Vec<(i64, usize)> = layout.collect();
        if layout != self.layout {
            self.groups.clear();
            self.groups.resize(layout.iter().map(|(_, size)| size).product(), NONE);
            self.layout = layout;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, DictionaryArray, Int16Array, Int32Array, StringArray};
    use arrow::datatypes::DataType;
    use proptest::prelude::*;

    use super::*;
    use crate::aggregate::group_indexer::GroupIndexer;
    use crate::aggregate::group_keys::{plain, plain_type};

    /// Batches of a small integer, a flag, and a text of which each batch has a dictionary of its
    /// own, with values that are null or twice there.
    fn batches() -> impl Strategy<Value = Vec<Vec<ArrayRef>>> {
        let row = (
            proptest::option::of(-300_i16..300),
            proptest::option::of(any::<bool>()),
            proptest::option::of(0_i32..6),
        );
        let texts = prop::collection::vec(proptest::option::of("[ab]{0,2}"), 6);
        let batch = (prop::collection::vec(row, 0..60), texts).prop_map(|(rows, texts)| {
            let codes: Int32Array = rows.iter().map(|row| row.2).collect();
            let texts = Arc::new(StringArray::from(texts));
            vec![
                Arc::new(rows.iter().map(|row| row.0).collect::<Int16Array>()) as ArrayRef,
                Arc::new(rows.iter().map(|row| row.1).collect::<BooleanArray>()),
                Arc::new(DictionaryArray::new(codes, texts)),
            ]
        });
        prop::collection::vec(batch, 1..6)
    }

    proptest! {
        #[test]
        fn groups_are_those_of_hashed_plain_keys(batches in batches(), from in 0_usize..3) {
            let types = batches[0][from..].iter().map(|column| plain_type(column.data_type()));
            let types: Vec<DataType> = types.collect();
            let mut direct = GroupIndexer::new(types.clone());
            let mut hashed = GroupIndexer::new(types);
            hashed.direct.is_off = true;
            for columns in &batches {
                let (columns, rows) = (&columns[from..], columns[0].len());
                direct.find(columns, rows).unwrap();
                prop_assert!(!direct.direct.is_off);
                let flat: Vec<ArrayRef> = columns.iter().map(|one| plain(one).unwrap()).collect();
                hashed.find(&flat, rows).unwrap();
                prop_assert_eq!(&direct.numbers, &hashed.numbers);
            }
            let ((_, keys), (_, expected)) = (direct.take().unwrap(), hashed.take().unwrap());
            prop_assert_eq!(keys, expected);
        }
    }

    #[test]
    fn keys_of_many_values_are_left_to_the_hash_table() {
        let mut table = DirectTable::default();
        let mut find = |values: Vec<i64>| {
            let column: ArrayRef = Arc::new(arrow::array::Int64Array::from(values));
            table.find(&[column], &mut vec![]).unwrap().map(<[u32]>::len)
        };
        assert_eq!(find(vec![i64::MIN, i64::MIN + 9]), Some(2));
        assert_eq!(find(vec![i64::MAX]), None);
        assert_eq!(find(vec![i64::MIN]), None, "it is not tried again");
    }

    #[test]
    fn dictionaries_that_are_much_larger_than_batches_are_left_to_the_hash_table() {
        let mut table = DirectTable::default();
        let mut is_found = || {
            let texts = (0..10_000).map(|number| Some(number.to_string()));
            let texts = Arc::new(StringArray::from_iter(texts));
            let codes = Int32Array::from(vec![7]);
            let column: ArrayRef = Arc::new(DictionaryArray::new(codes, texts));
            table.find(&[column], &mut vec![]).unwrap().is_some()
        };
        let found = (0..100).take_while(|_| is_found()).count();
        assert_eq!(found, ADDRESSES_MAX / 10_000);
    }
}
