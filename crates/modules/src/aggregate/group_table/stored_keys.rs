//! The keys of groups, to compare those of rows with.

use arrow::array::{Array, ArrayRef, LargeBinaryArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use euphrates_flow::Result;

use crate::batches::byte_strings::same_within;
use crate::prefetch::prefetch;

/// The stored keys to compare when hashes are equal, by group.
pub(super) enum StoredKeys {
    /// Hashes are unique; the group of the null key, if any.
    Null(Option<u32>),
    Packed(Vec<u128>),
    Text(StoredTexts),
    Bytes(Vec<usize>, Vec<u8>),
}

impl StoredKeys {
    /// The group that is found without a slot.
    pub(super) fn unslotted(&self) -> Option<u32> {
        match self {
            StoredKeys::Null(null) => *null,
            _ => None,
        }
    }
}

/// One text for each group: the key column itself.
#[derive(Clone)]
pub(super) struct StoredTexts {
    pub(super) ends: Vec<i64>,
    pub(super) bytes: Vec<u8>,
    /// The group of null, which has no bytes here.
    null: Option<usize>,
}

impl StoredTexts {
    pub(super) fn new() -> StoredTexts {
        StoredTexts { ends: vec![0], bytes: vec![], null: None }
    }

    /// The texts as a column of this type.
    pub(super) fn into_column(self, data_type: &DataType) -> Result<ArrayRef> {
        let groups = 0..self.ends.len() - 1;
        let nulls = self.null.map(|null| groups.map(|group| group != null).collect::<NullBuffer>());
        let ends = OffsetBuffer::new(self.ends.into());
        let texts = LargeBinaryArray::new(ends, self.bytes.into(), nulls);
        Ok(cast(&texts, data_type)?)
    }

    /// Whether a group has the text of a row.
    #[inline(always)]
    pub(super) fn is(&self, group: usize, values: &LargeBinaryArray, row: usize) -> bool {
        match values.is_null(row) {
            true => self.null == Some(group),
            false => self.has(group, values, row) && self.null != Some(group),
        }
    }

    #[inline(always)]
    fn has(&self, group: usize, values: &LargeBinaryArray, row: usize) -> bool {
        let (begin, end) = (self.ends[group], self.ends[group + 1]);
        let offsets = values.value_offsets();
        let text = (values.value_data(), offsets[row] as usize);
        offsets[row + 1] - offsets[row] == end - begin
            && same_within((&self.bytes, begin as usize), text, (end - begin) as usize)
    }

    /// Stores the text of a row for the next group.
    pub(super) fn keep(&mut self, values: &LargeBinaryArray, row: usize) {
        match values.is_null(row) {
            true => self.null = Some(self.ends.len() - 1),
            false => self.bytes.extend_from_slice(values.value(row)),
        }
        self.ends.push(self.bytes.len() as i64);
    }
}

/// What is known of the keys of groups.
pub(super) trait Known {
    /// Whether equal hashes mean equal keys, so that whole hashes have to be compared.
    const IS_BY_HASH: bool = false;
    /// Whether keys lie apart from the slots, in places that `prefetch_place` and, some rows later,
    /// `prefetch_key` bring into the cache.
    const IS_APART: bool = false;

    #[inline(always)]
    fn prefetch_place(&self, group: usize) {
        let _ = group;
    }

    #[inline(always)]
    fn prefetch_key(&self, group: usize) {
        let _ = group;
    }
}

pub(super) struct ByHash;

impl Known for ByHash {
    const IS_BY_HASH: bool = true;
}

impl Known for Vec<u128> {
    const IS_APART: bool = true;

    #[inline(always)]
    fn prefetch_key(&self, group: usize) {
        prefetch(self, group);
    }
}

impl Known for StoredTexts {
    const IS_APART: bool = true;

    #[inline(always)]
    fn prefetch_place(&self, group: usize) {
        prefetch(&self.ends, group);
    }

    #[inline(always)]
    fn prefetch_key(&self, group: usize) {
        prefetch(&self.bytes, self.ends[group] as usize);
    }
}

impl Known for (&mut Vec<usize>, &mut Vec<u8>) {
    const IS_APART: bool = true;

    #[inline(always)]
    fn prefetch_place(&self, group: usize) {
        prefetch(self.0, group);
    }

    #[inline(always)]
    fn prefetch_key(&self, group: usize) {
        prefetch(self.1, self.0[group]);
    }
}
