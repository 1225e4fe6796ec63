//! Assigns group numbers to rows: by the address table if each key column has few values, else by
//! the hash table.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use super::address_table::AddressTable;
use super::group_keys::{KeyForm, plain};
use super::group_table::GroupTable;

/// Values of dictionaries that may be looked up in addition to one for each row.
const DICTIONARY_VALUES_FREE: usize = 1 << 17;

/// The groups so far, and the group of each row of the last batch.
pub(crate) struct GroupIndexer {
    form: KeyForm,
    pub(crate) groups: GroupTable,
    pub(super) addresses: AddressTable,
    /// The group of each row of the last batch.
    pub(crate) numbers: Vec<u32>,
    /// The dictionary of the keys that `find_known` looked up last.
    dictionary: Option<KnownDictionary>,
    looked_up: LookedUp,
}

/// The values of a dictionary, and null behind them, with the hash and the group of each, or
/// `group_table::NONE`.
struct KnownDictionary {
    values: ArrayRef,
    hashes: Vec<u64>,
    numbers: Vec<u32>,
    /// The number of groups then: more groups make it stale.
    groups: usize,
}

/// How many rows and values of dictionaries have been looked up.
#[derive(Default)]
struct LookedUp {
    rows: usize,
    values: usize,
}

impl GroupIndexer {
    /// An indexer for keys of these types, without dictionaries.
    pub(crate) fn new(types: Vec<DataType>) -> GroupIndexer {
        let form = KeyForm::of(&types);
        let (groups, addresses) = (GroupTable::new(types), AddressTable::default());
        let (numbers, dictionary, looked_up) = (vec![], None, LookedUp::default());
        GroupIndexer { form, groups, addresses, numbers, dictionary, looked_up }
    }

    /// Assigns groups to rows with these keys, which may have dictionaries.
    pub(crate) fn find(&mut self, keys: &[ArrayRef], rows: usize) -> Result<()> {
        if self.form == KeyForm::Nothing {
            return self.find_only(rows);
        }
        if let Some(fresh) = self.addresses.find(keys, &mut self.numbers)?.map(<[u32]>::to_vec) {
            let groups = self.groups_of(keys, fresh)?;
            self.addresses.resolve(&groups, &mut self.numbers);
            return Ok(());
        }
        let keys = keys.iter().map(plain).collect::<Result<Vec<ArrayRef>>>()?;
        self.groups.find(&self.form.keys(keys, rows)?, &mut self.numbers)
    }

    /// Assigns rows without keys to the only group.
    fn find_only(&mut self, rows: usize) -> Result<()> {
        if rows > 0 && self.groups.is_empty() {
            self.groups.find(&self.form.keys(vec![], 1)?, &mut self.numbers)?;
        }
        self.numbers.clear();
        self.numbers.resize(rows, 0);
        Ok(())
    }

    /// The groups of some rows.
    fn groups_of(&mut self, keys: &[ArrayRef], rows: Vec<u32>) -> Result<Vec<u32>> {
        let mut groups = vec![];
        if !rows.is_empty() {
            let rows = UInt32Array::from(rows);
            let keys = keys.iter().map(|column| plain(&take(column, &rows, None)?));
            let keys = self.form.keys(keys.collect::<Result<_>>()?, rows.len())?;
            self.groups.find(&keys, &mut groups)?;
        }
        Ok(groups)
    }

    /// Assigns rows to the groups that there are, others to `group_table::NONE`; returns their
    /// hashes, and their keys, which may have dictionaries.
    pub(crate) fn find_known(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
    ) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        self.looked_up.rows += rows;
        if let [key] = keys
            && let Some(hashes) = self.find_known_values(key)?
        {
            return Ok((hashes, vec![key.clone()]));
        }
        let keys = keys.iter().map(plain).collect::<Result<Vec<ArrayRef>>>()?;
        let keys = self.form.keys(keys, rows)?;
        self.groups.find_known(&keys, &mut self.numbers);
        Ok((keys.hashes, keys.columns))
    }

    /// The same for a key with a dictionary, whose values are looked up once. `None` if the key has
    /// none, or dictionaries have had more values than there were rows.
    fn find_known_values(&mut self, key: &ArrayRef) -> Result<Option<Vec<u64>>> {
        let Some(dictionary) = key.as_any_dictionary_opt() else { return Ok(None) };
        let values = dictionary.values();
        let is_same = |known: &KnownDictionary| {
            known.groups == self.groups.len() && known.values.to_data().ptr_eq(&values.to_data())
        };
        if !self.dictionary.as_ref().is_some_and(is_same) {
            self.looked_up.values += values.len();
            if self.looked_up.values > self.looked_up.rows + DICTIONARY_VALUES_FREE {
                return Ok(None);
            }
            let all = concat(&[values.as_ref(), &new_null_array(values.data_type(), 1)])?;
            let (keys, mut numbers) = (self.form.keys(vec![plain(&all)?], all.len())?, vec![]);
            self.groups.find_known(&keys, &mut numbers);
            let (values, groups) = (values.clone(), self.groups.len());
            self.dictionary =
                Some(KnownDictionary { values, hashes: keys.hashes, numbers, groups });
        }
        let known = self.dictionary.as_ref().expect("it was looked up");
        let null = known.hashes.len() - 1;
        let codes: Vec<usize> = match key.nulls() {
            None => dictionary.normalized_keys(),
            Some(nulls) if dictionary.values().is_empty() => vec![null; nulls.len()],
            Some(nulls) => {
                let codes = dictionary.normalized_keys().into_iter().zip(nulls);
                codes.map(|(code, is_valid)| if is_valid { code } else { null }).collect()
            }
        };
        self.numbers.clear();
        self.numbers.extend(codes.iter().map(|code| known.numbers[*code]));
        Ok(Some(codes.into_iter().map(|code| known.hashes[code]).collect()))
    }

    /// Like `find`, with known hashes.
    pub(crate) fn find_hashed(&mut self, keys: Vec<ArrayRef>, hashes: Vec<u64>) -> Result<()> {
        self.groups.find(&self.form.keys_with(keys, hashes)?, &mut self.numbers)
    }

    /// Takes all groups in order of their numbers: hashes and keys.
    pub(crate) fn take(&mut self) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        self.addresses.clear();
        self.dictionary = None;
        self.groups.take()
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int32Array, StringArray};
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;
    use crate::aggregate::group_table::NONE;

    proptest! {
        #[test]
        fn known_groups_of_dictionaries_are_those_of_their_values(
            known in prop::collection::vec(of("[ab]{0,2}"), 0..6),
            batches in prop::collection::vec(
                (
                    prop::collection::vec(of("[ab]{0,2}"), 1..6),
                    prop::collection::vec(of(any::<prop::sample::Index>()), 0..40),
                ),
                1..4,
            ),
        ) {
            let mut groups = GroupIndexer::new(vec![DataType::Utf8]);
            let known: ArrayRef = Arc::new(StringArray::from(known));
            groups.find(from_ref(&known), known.len()).unwrap();
            for (values, codes) in batches {
                let codes = codes.iter().map(|code| code.map(|at| at.index(values.len()) as i32));
                let (codes, values) = (codes.collect::<Int32Array>(), StringArray::from(values));
                let keys: ArrayRef = Arc::new(DictionaryArray::new(codes, Arc::new(values)));
                // A slice has the same dictionary.
                for keys in [keys.clone(), keys.slice(0, keys.len() / 2)] {
                    let flat = plain(&keys).unwrap();
                    let (hashes, _) = groups.find_known(from_ref(&keys), keys.len()).unwrap();
                    let numbers = groups.numbers.clone();
                    let (expected, _) = groups.find_known(&[flat], keys.len()).unwrap();
                    prop_assert_eq!(hashes, expected);
                    prop_assert_eq!(&numbers, &groups.numbers);
                    let groups = groups.groups.len() as u32;
                    let is_known = |group: &u32| *group == NONE || *group < groups;
                    prop_assert!(numbers.iter().all(is_known));
                }
            }
        }
    }
}
