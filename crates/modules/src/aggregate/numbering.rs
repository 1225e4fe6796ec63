//! Numbers the groups of rows, by shortcuts where there are some.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use super::groups::Groups;
use super::keys::{Form, Keys};
use super::shortcuts::Shortcuts;

/// All groups so far, and the numbers of those of a batch.
pub struct Numbering {
    form: Form,
    /// The groups.
    pub groups: Groups,
    shortcuts: Option<Shortcuts>,
    /// For each row of the last batch, the number of its group.
    pub numbers: Vec<u32>,
}

impl Numbering {
    /// Of keys of these types.
    pub fn new(types: Vec<DataType>) -> Numbering {
        let form = Form::of(&types);
        let shortcuts = (form == Form::Bytes).then(|| Shortcuts::new(&types)).flatten();
        Numbering { form, groups: Groups::new(types), shortcuts, numbers: vec![] }
    }

    /// Numbers rows with these keys.
    pub fn find(&mut self, keys: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if self.find_shortly(&keys)? {
            return Ok(());
        }
        let keys = self.form.keys(keys, rows)?;
        self.find_keys(&keys)
    }

    /// The same, with hashes that are known.
    pub fn find_hashed(&mut self, keys: Vec<ArrayRef>, hashes: Vec<u64>) -> Result<()> {
        let keys = self.form.keys_with(keys, hashes)?;
        self.find_keys(&keys)
    }

    fn find_keys(&mut self, keys: &Keys) -> Result<()> {
        self.groups.find(keys, &mut self.numbers)
    }

    /// Numbers rows by what is known of their keys, if that can be.
    fn find_shortly(&mut self, keys: &[ArrayRef]) -> Result<bool> {
        let Some(shortcuts) = &mut self.shortcuts else { return Ok(false) };
        let Some(fresh) = shortcuts.find(keys, &mut self.numbers) else { return Ok(false) };
        let rows = UInt32Array::from(fresh.to_vec());
        let mut groups = vec![];
        if !rows.is_empty() {
            let keys = keys.iter().map(|column| Ok(take(column, &rows, None)?));
            let keys = self.form.keys(keys.collect::<Result<_>>()?, rows.len())?;
            self.groups.find(&keys, &mut groups)?;
        }
        shortcuts.resolve(&groups, &mut self.numbers);
        Ok(true)
    }

    /// All groups by number: their hashes, and their keys; none are left.
    pub fn take(&mut self) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        self.shortcuts.iter_mut().for_each(Shortcuts::clear);
        self.groups.take()
    }
}
