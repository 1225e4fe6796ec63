//! Assigns group numbers to rows: by the address table if each key column has few values, else by
//! the hash table.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use super::address_table::AddressTable;
use super::group_keys::{KeyForm, plain};
use super::group_table::GroupTable;

/// The groups so far, and the group of each row of the last batch.
pub(crate) struct GroupIndexer {
    form: KeyForm,
    pub(crate) groups: GroupTable,
    pub(super) addresses: AddressTable,
    /// The group of each row of the last batch.
    pub(crate) numbers: Vec<u32>,
}

impl GroupIndexer {
    /// An indexer for keys of these types, without dictionaries.
    pub(crate) fn new(types: Vec<DataType>) -> GroupIndexer {
        let form = KeyForm::of(&types);
        let (groups, addresses) = (GroupTable::new(types), AddressTable::default());
        GroupIndexer { form, groups, addresses, numbers: vec![] }
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
    /// hashes, and their keys without dictionaries.
    pub(crate) fn find_known(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
    ) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        let keys = keys.iter().map(plain).collect::<Result<Vec<ArrayRef>>>()?;
        let keys = self.form.keys(keys, rows)?;
        self.groups.find_known(&keys, &mut self.numbers);
        Ok((keys.hashes, keys.columns))
    }

    /// Like `find`, with known hashes.
    pub(crate) fn find_hashed(&mut self, keys: Vec<ArrayRef>, hashes: Vec<u64>) -> Result<()> {
        self.groups.find(&self.form.keys_with(keys, hashes)?, &mut self.numbers)
    }

    /// Takes all groups in order of their numbers: hashes and keys.
    pub(crate) fn take(&mut self) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        self.addresses.clear();
        self.groups.take()
    }
}
