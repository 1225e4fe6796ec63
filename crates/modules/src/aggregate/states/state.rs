//! The interface of aggregation states, and the null flags of their groups.

use arrow::array::ArrayRef;
use euphrates_flow::Result;

/// The states of all groups for one value.
pub(crate) trait AggregateState: Send {
    /// Grows to `groups` groups; the new ones are empty.
    fn grow(&mut self, groups: usize);

    /// Adds rows to their groups: the values of a column, or the mere existence of rows.
    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()>;

    /// Merges states from columns of a batch.
    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.add(states.first(), groups)
    }

    /// Takes the states as columns, and leaves none.
    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.finish()?])
    }

    /// Takes the results, and leaves no states.
    fn finish(&mut self) -> Result<ArrayRef>;

    /// Bytes of the states of all groups.
    fn bytes(&self) -> usize;

    /// Whether the state of one group is small, whatever the number of its rows.
    fn is_bounded(&self) -> bool {
        true
    }
}

/// Which groups have seen a value. Usually all have, and then no flags are stored.
#[derive(Default)]
pub(super) struct SeenGroups {
    /// Stored once a group may have seen none.
    flags: Option<Vec<bool>>,
    groups: usize,
    /// Groups that are new since the last call of `all` or `some`.
    fresh: usize,
}

impl SeenGroups {
    pub(super) fn grow(&mut self, groups: usize) {
        self.fresh += groups - self.groups;
        self.groups = groups;
        if let Some(flags) = &mut self.flags {
            flags.resize(groups, false);
        }
    }

    /// Marks these groups as having seen a value; they include all groups that are new since the
    /// last call.
    pub(super) fn all(&mut self, groups: &[u32]) {
        if let Some(flags) = &mut self.flags {
            groups.iter().for_each(|group| flags[*group as usize] = true);
        }
        self.fresh = 0;
    }

    /// Marks those of these groups whose row is valid.
    pub(super) fn some(&mut self, groups: impl Iterator<Item = u32>) {
        let (known, all) = (self.groups - self.fresh, self.groups);
        let flags = self.flags.get_or_insert_with(|| {
            let mut flags = vec![true; known];
            flags.resize(all, false);
            flags
        });
        groups.for_each(|group| flags[group as usize] = true);
        self.fresh = 0;
    }

    pub(super) fn take(&mut self) -> Option<arrow::buffer::NullBuffer> {
        let flags =
            self.flags.take().or_else(|| (self.fresh > 0).then(|| vec![false; self.groups]));
        (self.groups, self.fresh) = (0, 0);
        flags.map(Into::into)
    }

    pub(super) fn bytes(&self) -> usize {
        self.flags.as_ref().map_or(0, Vec::len)
    }
}
