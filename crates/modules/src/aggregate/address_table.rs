//! Table from keys whose columns have few values each to group numbers.
//!
//! The values of each key column are numbered (`key_domain`). The numbers of a row, as digits, are
//! its address: in an array that stays in the cache, or if that were too large, in a hash table of
//! addresses. So no key is hashed or compared as a whole; only keys that miss are looked up in
//! full, each once.

use arrow::array::{Array, ArrayRef};
use euphrates_flow::Result;

use super::key_domain::KeyDomain;
use super::value_numbers::WordTable;

/// The array has 1 MiB at most, about the cache of a core.
const ARRAY_MAX: usize = 1 << 18;
/// The hash table has 4 MiB at most.
const HASHED_MAX: usize = 1 << 17;
/// The most bytes of the values of all columns, which no account counts.
const DOMAIN_BYTES_MAX: usize = 8 << 20;
/// More values of a column that are looked up must recur: a table of keys costs as much as one of
/// values.
const VALUES_FEW: usize = 1 << 12;
/// After this number of rows, there must have been more hits than misses.
const TRIAL_ROWS: usize = 1 << 18;
const NONE: u32 = u32::MAX;
/// Marks the index of a new key of the current batch, in place of a group.
const NEW: u32 = 1 << 31;

/// Group numbers by the address of their key.
#[derive(Default)]
pub(crate) struct AddressTable {
    domains: Vec<KeyDomain>,
    /// The numbers of the current batch, for each column.
    digits: Vec<Vec<u32>>,
    /// The least integer and the size of each domain for which addresses are computed.
    layout: Vec<(Option<i64>, usize)>,
    groups: AddressedGroups,
    /// Rows of the current batch whose keys are new.
    fresh: Vec<u32>,
    rows: usize,
    misses: usize,
    /// Whether the table is disabled: unsupported key types, too many values, or too many misses.
    is_off: bool,
}

enum AddressedGroups {
    /// The group of each address, and the address of each row of the current batch.
    Array(Vec<u32>, Vec<u32>),
    /// Addresses numbered in the order in which they are found, and the group of each number.
    Hashed(WordTable<u64>, Vec<u32>),
}

impl Default for AddressedGroups {
    fn default() -> AddressedGroups {
        AddressedGroups::Array(vec![], vec![])
    }
}

impl AddressTable {
    /// A table for keys with columns of these types, disabled if one cannot be numbered.
    pub(crate) fn for_columns(columns: &[ArrayRef]) -> AddressTable {
        let domains = columns.iter().map(|column| KeyDomain::new(column.data_type()));
        match domains.collect::<Option<Vec<_>>>() {
            Some(domains) => AddressTable { domains, ..AddressTable::default() },
            None => AddressTable { is_off: true, ..AddressTable::default() },
        }
    }

    /// Forgets all groups, and keeps the domains of their keys.
    pub(crate) fn clear(&mut self) {
        match &mut self.groups {
            AddressedGroups::Array(groups, _) => groups.fill(NONE),
            AddressedGroups::Hashed(addresses, groups) => {
                addresses.clear();
                groups.clear();
            }
        }
    }

    /// A mark or the group of each row, and the rows with new keys, whose groups must be passed to
    /// `resolve`. `None` from then on if a key type has no domain, the keys have too many values,
    /// or most rows have missed.
    pub(crate) fn find(
        &mut self,
        columns: &[ArrayRef],
        numbers: &mut Vec<u32>,
    ) -> Result<Option<&[u32]>> {
        if self.domains.is_empty() && !self.is_off {
            *self = AddressTable::for_columns(columns);
        }
        if self.is_off || !self.number(columns)? || !self.find_addresses(numbers) {
            *self = AddressTable { is_off: true, ..AddressTable::default() };
            return Ok(None);
        }
        self.rows += numbers.len();
        self.misses += self.fresh.len();
        let recur = |values: usize| values <= VALUES_FEW || values * 2 <= self.rows;
        let recur = self.domains.iter().all(|domain| recur(domain.looked_up()));
        // Takes effect from the next batch on.
        self.is_off = !recur || self.rows > TRIAL_ROWS && self.misses * 2 > self.rows;
        Ok(Some(&self.fresh))
    }

    /// Numbers the values of each column; false if they are too many. If a domain has grown,
    /// addresses change, so the table is emptied.
    fn number(&mut self, columns: &[ArrayRef]) -> Result<bool> {
        self.digits.resize_with(columns.len(), Vec::new);
        for ((domain, column), digits) in self.domains.iter_mut().zip(columns).zip(&mut self.digits)
        {
            // A single value is hashed as quickly in the group table.
            let can_look_up = columns.len() > 1;
            let is_numbered = domain.number(column, digits)?
                || can_look_up
                    && domain.become_words(column.data_type(), &mut [])
                    && domain.number(column, digits)?;
            if !is_numbered || !can_look_up && domain.is_word() {
                return Ok(false);
            }
        }
        if self.domains.iter().map(KeyDomain::bytes).sum::<usize>() > DOMAIN_BYTES_MAX {
            return Ok(false);
        }
        let layout = self.domains.iter().map(|domain| (domain.low(), domain.size()));
        let layout: Vec<(Option<i64>, usize)> = layout.collect();
        if layout != self.layout {
            let addresses = layout.iter().map(|(_, size)| *size).try_fold(1, usize::checked_mul);
            self.groups = match addresses {
                Some(addresses) if addresses <= ARRAY_MAX => {
                    AddressedGroups::Array(vec![NONE; addresses], vec![])
                }
                Some(_) if columns.len() > 1 => {
                    AddressedGroups::Hashed(WordTable::new(HASHED_MAX), vec![])
                }
                _ => return Ok(false),
            };
            self.layout = layout;
        }
        Ok(true)
    }

    /// Looks up the addresses of the current batch; false if there are too many.
    fn find_addresses(&mut self, numbers: &mut Vec<u32>) -> bool {
        let AddressTable { digits, layout, groups, fresh, .. } = self;
        fresh.clear();
        numbers.clear();
        match groups {
            AddressedGroups::Array(groups, addresses) => {
                std::mem::swap(addresses, &mut digits[0]);
                for (digits, (_, size)) in digits.iter().zip(&*layout).skip(1) {
                    let rows = addresses.iter_mut().zip(digits);
                    rows.for_each(|(address, digit)| *address = *address * *size as u32 + digit);
                }
                numbers.extend(addresses.iter().enumerate().map(|(row, address)| {
                    let group = &mut groups[*address as usize];
                    if *group == NONE {
                        *group = NEW | fresh.len() as u32;
                        fresh.push(row as u32);
                    }
                    *group
                }));
                true
            }
            AddressedGroups::Hashed(known, _) => {
                let mut addresses: Vec<u64> =
                    digits[0].iter().map(|digit| (*digit).into()).collect();
                for (digits, (_, size)) in digits.iter().zip(&*layout).skip(1) {
                    let rows = addresses.iter_mut().zip(digits);
                    rows.for_each(|(address, digit)| {
                        *address = *address * *size as u64 + u64::from(*digit)
                    });
                }
                known.numbers(addresses.into_iter(), numbers, |row| fresh.push(row as u32))
            }
        }
    }

    /// Stores the groups of the new keys, and replaces marks by groups.
    pub(crate) fn resolve(&mut self, found: &[u32], numbers: &mut [u32]) {
        match &mut self.groups {
            AddressedGroups::Array(..) if found.is_empty() => {}
            AddressedGroups::Array(groups, addresses) => {
                for (row, group) in self.fresh.iter().zip(found) {
                    groups[addresses[*row as usize] as usize] = *group;
                }
                for number in numbers.iter_mut().filter(|number| **number >= NEW) {
                    *number = found[(*number & !NEW) as usize];
                }
            }
            AddressedGroups::Hashed(_, groups) => {
                groups.extend_from_slice(found);
                numbers.iter_mut().for_each(|number| *number = groups[*number as usize]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int16Array, Int32Array,
        Int64Array, LargeStringArray, StringArray,
    };
    use arrow::datatypes::DataType;
    use proptest::option::of;
    use proptest::prelude::*;
    use proptest::sample::{Index, select, subsequence};

    use super::*;
    use crate::aggregate::group_indexer::GroupIndexer;
    use crate::aggregate::group_keys::{plain, plain_type};

    const COLUMNS: usize = 7;

    /// A small integer, a flag, one of few integers far apart, a wide decimal, a float and a text.
    type Row = (Option<i16>, Option<bool>, Option<i64>, Option<i128>, Option<f64>, Option<String>);

    fn row() -> impl Strategy<Value = Row> {
        (
            of(-300_i16..300),
            of(any::<bool>()),
            of(select(vec![i64::MIN, -1, 7, i64::MAX])),
            of(select(vec![-(10_i128.pow(37)), 0, 1 << 64])),
            of(select(vec![0.0, -0.0, 1.5, f64::NAN, -f64::NAN])),
            of("[ab]{0,9}"),
        )
    }

    /// Batches of rows, and of a text of which each batch has a dictionary of its own, with values
    /// that are null or twice there.
    fn batches() -> impl Strategy<Value = Vec<Vec<ArrayRef>>> {
        let texts = prop::collection::vec(of("[ab]{0,2}"), 6);
        let rows = prop::collection::vec((row(), of(0_i32..6)), 0..60);
        let batch = (rows, texts).prop_map(|(rows, texts)| {
            let codes: Int32Array = rows.iter().map(|row| row.1).collect();
            let rows = || rows.iter().map(|row| &row.0);
            let decimals = rows().map(|row| row.3).collect::<Decimal128Array>();
            let columns: [ArrayRef; COLUMNS] = [
                Arc::new(rows().map(|row| row.0).collect::<Int16Array>()),
                Arc::new(rows().map(|row| row.1).collect::<BooleanArray>()),
                Arc::new(rows().map(|row| row.2).collect::<Int64Array>()),
                Arc::new(decimals.with_precision_and_scale(38, 2).unwrap()),
                Arc::new(rows().map(|row| row.4).collect::<Float64Array>()),
                Arc::new(rows().map(|row| row.5.as_deref()).collect::<LargeStringArray>()),
                Arc::new(DictionaryArray::new(codes, Arc::new(StringArray::from(texts)))),
            ];
            columns.to_vec()
        });
        prop::collection::vec(batch, 1..6)
    }

    fn columns() -> impl Strategy<Value = Vec<usize>> {
        subsequence((0..COLUMNS).collect::<Vec<_>>(), 2..=COLUMNS)
    }

    proptest! {
        #[test]
        fn groups_are_those_of_hashed_plain_keys(
            batches in batches(), chosen in columns(), taken: Index,
        ) {
            let types = chosen.iter().map(|at| plain_type(batches[0][*at].data_type()));
            let types: Vec<DataType> = types.collect();
            let mut by_address = GroupIndexer::new(types.clone());
            let mut hashed = GroupIndexer::new(types);
            hashed.addresses.is_off = true;
            let taken = taken.index(batches.len());
            for (number, batch) in batches.iter().enumerate() {
                let columns: Vec<ArrayRef> = chosen.iter().map(|at| batch[*at].clone()).collect();
                let rows = columns[0].len();
                by_address.find(&columns, rows).unwrap();
                prop_assert!(!by_address.addresses.is_off);
                let flat: Vec<ArrayRef> = columns.iter().map(|one| plain(one).unwrap()).collect();
                hashed.find(&flat, rows).unwrap();
                prop_assert_eq!(&by_address.numbers, &hashed.numbers);
                if number >= taken {
                    let (_, keys) = by_address.take().unwrap();
                    prop_assert_eq!(keys, hashed.take().unwrap().1);
                }
            }
        }
    }

    #[test]
    fn keys_of_many_values_are_left_to_the_hash_table() {
        let mut table = AddressTable::default();
        let mut find = |values: Vec<i64>| {
            let column: ArrayRef = Arc::new(Int64Array::from(values));
            table.find(&[column], &mut vec![]).unwrap().map(<[u32]>::len)
        };
        assert_eq!(find(vec![i64::MIN, i64::MIN + 9]), Some(2));
        assert_eq!(find(vec![i64::MAX]), None);
        assert_eq!(find(vec![i64::MIN]), None, "it is not tried again");
    }

    #[test]
    fn columns_whose_values_take_much_memory_are_left_to_the_hash_table() {
        let mut table = AddressTable::default();
        let mut find = |columns: usize| {
            let values = (0..60_000).map(|value| i128::from(value) << 64);
            let column: ArrayRef = Arc::new(values.map(Some).collect::<Decimal128Array>());
            table.find(&vec![column; columns], &mut vec![]).unwrap().is_some()
        };
        assert!(!find(3));
        table = AddressTable::default();
        let mut find = |values: std::ops::Range<i64>| {
            let column = |by| Arc::new(values.clone().map(|v| v << by).collect::<Int64Array>());
            let columns: [ArrayRef; 2] = [column(30), column(20)];
            table.find(&columns, &mut vec![]).unwrap().is_some()
        };
        assert!(find(0..60_000));
    }

    #[test]
    fn dictionaries_that_are_much_larger_than_batches_are_left_to_the_hash_table() {
        let mut table = AddressTable::default();
        let mut is_found = || {
            let texts = (0..10_000).map(|number| Some(number.to_string()));
            let texts = Arc::new(StringArray::from_iter(texts));
            let codes = Int32Array::from(vec![7]);
            let column: ArrayRef = Arc::new(DictionaryArray::new(codes, texts));
            table.find(&[column], &mut vec![]).unwrap().is_some()
        };
        let found = (0..100).take_while(|_| is_found()).count();
        assert_eq!(found, ARRAY_MAX / 10_000);
    }
}
