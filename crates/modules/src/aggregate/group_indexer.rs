//! Assigns group numbers to rows, by a key cache where possible.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use super::group_keys::{GroupKeys, KeyForm};
use super::group_table::GroupTable;
use super::key_cache::KeyCache;

/// The groups so far, and the group of each row of the last batch.
pub(crate) struct GroupIndexer {
    form: KeyForm,
    pub(crate) groups: GroupTable,
    cache: Option<KeyCache>,
    /// The group of each row of the last batch.
    pub(crate) numbers: Vec<u32>,
}

impl GroupIndexer {
    /// An indexer for keys of these types.
    pub(crate) fn new(types: Vec<DataType>) -> GroupIndexer {
        let form = KeyForm::of(&types);
        let cache =
            matches!(form, KeyForm::Text | KeyForm::Bytes).then(|| KeyCache::new(&types)).flatten();
        GroupIndexer { form, groups: GroupTable::new(types), cache, numbers: vec![] }
    }

    /// Assigns groups to rows with these keys.
    pub(crate) fn find(&mut self, keys: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if self.find_cached(&keys)? {
            return Ok(());
        }
        let keys = self.form.keys(keys, rows)?;
        self.find_keys(&keys)
    }

    /// Like `find`, with known hashes.
    pub(crate) fn find_hashed(&mut self, keys: Vec<ArrayRef>, hashes: Vec<u64>) -> Result<()> {
        let keys = self.form.keys_with(keys, hashes)?;
        self.find_keys(&keys)
    }

    fn find_keys(&mut self, keys: &GroupKeys) -> Result<()> {
        self.groups.find(keys, &mut self.numbers)
    }

    /// Assigns groups by the key cache; false if that is not possible.
    fn find_cached(&mut self, keys: &[ArrayRef]) -> Result<bool> {
        let Some(cache) = &mut self.cache else { return Ok(false) };
        let Some(fresh) = cache.find(keys, &mut self.numbers) else { return Ok(false) };
        let rows = UInt32Array::from(fresh.to_vec());
        let mut groups = vec![];
        if !rows.is_empty() {
            let keys = keys.iter().map(|column| Ok(take(column, &rows, None)?));
            let keys = self.form.keys(keys.collect::<Result<_>>()?, rows.len())?;
            self.groups.find(&keys, &mut groups)?;
        }
        cache.resolve(&groups, &mut self.numbers);
        Ok(true)
    }

    /// Takes all groups in order of their numbers: hashes and keys.
    pub(crate) fn take(&mut self) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        self.cache.iter_mut().for_each(KeyCache::clear);
        self.groups.take()
    }
}
