//! Hash table from group keys to group numbers.
//!
//! A slot has half of a hash and a group number; the keys to compare are stored by group number.
//! The table grows with its groups, and the slots of the next rows are prefetched.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_empty_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use self::stored_keys::{ByHash, Known, StoredKeys, StoredTexts};
use super::group_keys::{Checks, GroupKeys, KeyForm};
use crate::batches::byte_strings::same_within;
use crate::partitioning::load_factor::is_crowded;
use crate::prefetch::prefetch;

mod stored_keys;

/// Slots prefetched ahead: about the memory's latency over the time for one row.
const PREFETCH: usize = 16;
const SLOTS_MIN: usize = 1 << 6;
/// Fewer slots grow fourfold.
const SLOTS_FEW: usize = 1 << 12;
/// The keys of fewer slots are in the cache without being prefetched.
const SLOTS_CACHED: usize = 1 << 14;
/// Average slots per group: the load factor of large tables is between a quarter and a half.
const SLOTS_PER_GROUP: usize = 3;
/// In place of the group of a row whose key has none.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct GroupSlot {
    /// The high half of the group's hash; the low half says where the slot is.
    tag: u32,
    group: u32,
}

const EMPTY: GroupSlot = GroupSlot { tag: 0, group: NONE };

/// All groups so far.
pub(crate) struct GroupTable {
    types: Vec<DataType>,
    slots: Vec<GroupSlot>,
    hashes: Vec<u64>,
    /// The keys of the groups, in chunks for each column; nothing where they are texts.
    columns: Vec<Vec<ArrayRef>>,
    column_bytes: usize,
    known: StoredKeys,
    fresh: Vec<u32>,
}

impl GroupTable {
    /// An empty table for keys of these types.
    pub(crate) fn new(types: Vec<DataType>) -> GroupTable {
        let mut groups = GroupTable {
            types,
            slots: vec![],
            hashes: vec![],
            columns: vec![],
            column_bytes: 0,
            known: StoredKeys::Null(None),
            fresh: vec![],
        };
        groups.clear();
        groups
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Estimated bytes of the groups: average slots, hashes and keys. Slots kept allocated by
    /// `clear` are not counted.
    pub(crate) fn bytes(&self) -> usize {
        let group_bytes = SLOTS_PER_GROUP * size_of::<GroupSlot>() + size_of::<u64>();
        self.len() * group_bytes + self.key_bytes()
    }

    /// Bytes of the keys alone.
    pub(crate) fn key_bytes(&self) -> usize {
        let known = match &self.known {
            StoredKeys::Null(_) => 0,
            StoredKeys::Packed(values) => size_of_val(values.as_slice()),
            StoredKeys::Text(texts) => size_of_val(texts.ends.as_slice()) + texts.bytes.len(),
            StoredKeys::Bytes(ends, bytes) => size_of_val(ends.as_slice()) + bytes.len(),
        };
        self.column_bytes + known
    }

    /// Reserves slots for `more` groups, to avoid growing step by step.
    pub(crate) fn reserve(&mut self, more: usize) {
        let slots = ((self.len() + more) * 2).next_power_of_two();
        if slots > self.slots.len() {
            let GroupTable { slots: own, hashes, fresh, known, .. } = self;
            let unslotted = known.unslotted();
            Finder::<true> { slots: own, hashes, fresh, unslotted }.grow(slots);
        }
    }

    /// The group of each row. New groups get the next numbers.
    pub(crate) fn find(&mut self, keys: &GroupKeys, numbers: &mut Vec<u32>) -> Result<()> {
        self.find_or::<true>(keys, numbers);
        self.keep(keys)
    }

    /// The group of each row, `NONE` if there is none yet.
    pub(crate) fn find_known(&mut self, keys: &GroupKeys, numbers: &mut Vec<u32>) {
        self.find_or::<false>(keys, numbers);
    }

    fn find_or<const INSERT: bool>(&mut self, keys: &GroupKeys, numbers: &mut Vec<u32>) {
        numbers.clear();
        numbers.reserve(keys.hashes.len());
        self.fresh.clear();
        let GroupTable { slots, hashes, fresh, known, .. } = self;
        let unslotted = known.unslotted();
        let mut finder = Finder::<INSERT> { slots, hashes, fresh, unslotted };
        match (known, &keys.checks) {
            (StoredKeys::Null(null), Checks::Nulls(nulls)) => {
                finder.find_values(&keys.hashes, nulls.as_ref(), null, numbers);
            }
            (StoredKeys::Packed(known), Checks::Packed(values)) => {
                finder.find(
                    &keys.hashes,
                    numbers,
                    known,
                    |known, group, row| known[group] == values[row],
                    |known, row| known.push(values[row]),
                );
            }
            (StoredKeys::Text(known), Checks::Text(values)) => {
                let is = |known: &StoredTexts, group, row| known.is(group, values, row);
                let keep = |known: &mut StoredTexts, row| known.keep(values, row);
                finder.find(&keys.hashes, numbers, known, is, keep);
            }
            (StoredKeys::Bytes(ends, bytes), Checks::Bytes(row_ends, values)) => {
                let value = |row: usize| &values[row_ends[row]..row_ends[row + 1]];
                finder.find(
                    &keys.hashes,
                    numbers,
                    &mut (ends, bytes),
                    |(ends, bytes), group, row| {
                        let (begin, length) = (ends[group], ends[group + 1] - ends[group]);
                        let (from, to) = (row_ends[row], row_ends[row + 1]);
                        to - from == length && same_within((bytes, begin), (values, from), length)
                    },
                    |(ends, bytes), row| {
                        bytes.extend_from_slice(value(row));
                        ends.push(bytes.len());
                    },
                );
            }
            _ => unreachable!("keys of one form"),
        }
    }

    /// Stores the keys of new groups.
    fn keep(&mut self, keys: &GroupKeys) -> Result<()> {
        if self.fresh.is_empty() || matches!(self.known, StoredKeys::Text(_)) {
            return Ok(());
        }
        let rows = UInt32Array::from(std::mem::take(&mut self.fresh));
        for (chunks, column) in self.columns.iter_mut().zip(&keys.columns) {
            let chunk = own(take(column, &rows, None)?);
            self.column_bytes += chunk.get_buffer_memory_size();
            chunks.push(chunk);
        }
        Ok(())
    }

    /// The keys of all groups in order of their numbers.
    pub(crate) fn keys(&self) -> Result<Vec<ArrayRef>> {
        if let StoredKeys::Text(texts) = &self.known {
            return Ok(vec![texts.clone().into_column(&self.types[0])?]);
        }
        let whole = |(chunks, data_type): (&Vec<ArrayRef>, &DataType)| match chunks.as_slice() {
            [] => Ok(new_empty_array(data_type)),
            [one] => Ok(one.clone()),
            several => {
                let several: Vec<&dyn Array> = several.iter().map(AsRef::as_ref).collect();
                Ok(concat(&several)?)
            }
        };
        self.columns.iter().zip(&self.types).map(whole).collect()
    }

    /// Takes all groups in order of their numbers: hashes and keys.
    pub(crate) fn take(&mut self) -> Result<(Vec<u64>, Vec<ArrayRef>)> {
        let columns = match &mut self.known {
            StoredKeys::Text(texts) => {
                let texts = std::mem::replace(texts, StoredTexts::new());
                vec![texts.into_column(&self.types[0])?]
            }
            _ => self.keys()?,
        };
        let hashes = std::mem::take(&mut self.hashes);
        self.clear();
        Ok((hashes, columns))
    }

    fn clear(&mut self) {
        // Keeps the size, since the table is likely to be filled again.
        let slots = self.slots.len().max(SLOTS_MIN);
        self.slots.clear();
        self.slots.resize(slots, EMPTY);
        self.hashes.clear();
        self.columns = vec![vec![]; self.types.len()];
        self.column_bytes = 0;
        self.known = match KeyForm::of(&self.types) {
            KeyForm::Nothing | KeyForm::Hash => StoredKeys::Null(None),
            KeyForm::Packed(_) => StoredKeys::Packed(vec![]),
            KeyForm::Text => StoredKeys::Text(StoredTexts::new()),
            KeyForm::Bytes => StoredKeys::Bytes(vec![0], vec![]),
        };
    }
}

/// Finds groups, and makes new ones if it may `INSERT`.
struct Finder<'a, const INSERT: bool> {
    slots: &'a mut Vec<GroupSlot>,
    hashes: &'a mut Vec<u64>,
    fresh: &'a mut Vec<u32>,
    /// The group of null, if it has no slot.
    unslotted: Option<u32>,
}

impl<const INSERT: bool> Finder<'_, INSERT> {
    /// Finds groups by hash alone, except for null.
    fn find_values(
        &mut self,
        hashes: &[u64],
        nulls: Option<&NullBuffer>,
        null: &mut Option<u32>,
        numbers: &mut Vec<u32>,
    ) {
        let Some(nulls) = nulls else {
            return self.find(hashes, numbers, &mut ByHash, |_, _, _| true, |_, _| {});
        };
        for (row, hash) in hashes.iter().enumerate() {
            numbers.push(match nulls.is_null(row) {
                true if !INSERT => null.unwrap_or(NONE),
                true => *null.get_or_insert_with(|| {
                    self.hashes.push(*hash);
                    self.fresh.push(row as u32);
                    let group = self.hashes.len() as u32 - 1;
                    self.unslotted = Some(group);
                    group
                }),
                false => self.find_one(*hash, row, &mut ByHash, &|_, _, _| true, &|_, _| {}),
            });
        }
    }

    #[inline(always)]
    fn find<K: Known>(
        &mut self,
        hashes: &[u64],
        numbers: &mut Vec<u32>,
        known: &mut K,
        is: impl Fn(&K, usize, usize) -> bool,
        keep: impl Fn(&mut K, usize),
    ) {
        let (mut last, mut group) = (0, NONE);
        for (row, hash) in hashes.iter().enumerate() {
            self.prefetch(hashes, row, known);
            // Neighbouring rows are often of one group.
            if *hash != last || group == NONE || !is(known, group as usize, row) {
                (last, group) = (*hash, self.find_one(*hash, row, known, &is, &keep));
            }
            numbers.push(group);
        }
    }

    /// Prefetches the slots of a row ahead, and, where a table exceeds the cache, the keys in the
    /// slots of nearer rows.
    #[inline(always)]
    fn prefetch<K: Known>(&self, hashes: &[u64], row: usize, known: &K) {
        let mask = self.slots.len() - 1;
        if let Some(ahead) = hashes.get(row + PREFETCH) {
            prefetch(self.slots, *ahead as usize & mask);
        }
        if !K::IS_APART || self.slots.len() < SLOTS_CACHED {
            return;
        }
        let group_of = |ahead: usize| {
            let slot = self.slots[*hashes.get(row + ahead)? as usize & mask];
            (slot.group != NONE).then_some(slot.group as usize)
        };
        if let Some(group) = group_of(PREFETCH / 2) {
            known.prefetch_place(group);
        }
        if let Some(group) = group_of(PREFETCH / 4) {
            known.prefetch_key(group);
        }
    }

    #[inline(always)]
    fn find_one<K: Known>(
        &mut self,
        hash: u64,
        row: usize,
        known: &mut K,
        is: &impl Fn(&K, usize, usize) -> bool,
        keep: &impl Fn(&mut K, usize),
    ) -> u32 {
        let (mask, tag) = (self.slots.len() - 1, tag(hash));
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.group == NONE {
                break;
            }
            let group = slot.group as usize;
            let is_hash = || !K::IS_BY_HASH || self.hashes[group] == hash;
            if slot.tag == tag && is_hash() && is(known, group, row) {
                return slot.group;
            }
            at = (at + 1) & mask;
        }
        if !INSERT {
            return NONE;
        }
        let group = self.hashes.len() as u32;
        self.slots[at] = GroupSlot { tag, group };
        self.hashes.push(hash);
        self.fresh.push(row as u32);
        keep(known, row);
        if is_crowded(self.hashes.len(), self.slots.len(), size_of::<GroupSlot>()) {
            let few = self.slots.len() < SLOTS_FEW;
            self.grow(self.slots.len() * if few { 4 } else { 2 });
        }
        group
    }

    /// Makes this number of slots. They are filled in order of the groups, whose hashes are then
    /// read in sequence.
    #[cold]
    fn grow(&mut self, slots: usize) {
        *self.slots = vec![EMPTY; slots];
        let mask = slots - 1;
        for (hash, group) in self.hashes.iter().zip(0_u32..) {
            if self.unslotted == Some(group) {
                continue;
            }
            let mut at = *hash as usize & mask;
            while self.slots[at].group != NONE {
                at = (at + 1) & mask;
            }
            self.slots[at] = GroupSlot { tag: tag(*hash), group };
        }
    }
}

#[inline(always)]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The column with view buffers that it alone uses.
pub(crate) fn own(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn null_and_empty_texts_are_groups_of_their_own() {
        let types = vec![DataType::Utf8];
        let (form, mut table, mut numbers) = (KeyForm::of(&types), GroupTable::new(types), vec![]);
        for (texts, expected) in [
            (vec![Some(""), None, Some("a"), None, Some("a"), Some("")], vec![0, 1, 2, 1, 2, 0]),
            (vec![Some("b"), Some("aa"), None, Some("")], vec![3, 4, 1, 0]),
        ] {
            let column: ArrayRef = Arc::new(StringArray::from(texts.clone()));
            let keys = form.keys(vec![column], texts.len()).unwrap();
            table.find(&keys, &mut numbers).unwrap();
            assert_eq!(numbers, expected, "{texts:?}");
        }
        let (_, columns) = table.take().unwrap();
        let expected = StringArray::from(vec![Some(""), None, Some("a"), Some("b"), Some("aa")]);
        assert_eq!(columns[0].as_string::<i32>(), &expected);
    }
}
