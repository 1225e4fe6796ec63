//! Cache of group numbers by packed keys, for keys with text.
//!
//! Where there are few groups, most rows have a key that was seen before. Keys are packed into
//! sixteen bytes each and looked up in a small table; only keys that miss are hashed and compared
//! in full, each once. Short text is packed as it is; for a column with longer text, each value
//! gets a number.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt16Array, UInt64Array};
use arrow::datatypes::DataType;

use super::group_keys::{PACKED_BYTES_MAX, pack, width};
use crate::partitioning::hashing::of_bytes;

/// With more keys, a lookup here costs as much as the group table.
const KEYS_MAX: usize = 1 << 11;
const SLOTS: usize = KEYS_MAX * 2;
const NONE: u32 = u32::MAX;

/// Packed keys and their group numbers.
pub(crate) struct KeyCache {
    /// The packed width of each column, in bytes.
    widths: Vec<usize>,
    /// Numbers of values, for columns with longer text.
    named: Vec<Option<TextIds>>,
    slots: Vec<(u128, u32)>,
    /// The group of each cached key, in the order of insertion.
    groups: Vec<u32>,
    /// Rows of the current batch whose keys are new.
    fresh: Vec<u32>,
    /// Whether the cache has too many keys and is bypassed.
    is_full: bool,
}

impl KeyCache {
    /// A cache for keys of these types, if they can be packed.
    pub(crate) fn new(types: &[DataType]) -> Option<KeyCache> {
        let fixed: usize = types.iter().filter_map(width).sum();
        let texts = types.iter().filter(|one| **one == DataType::Utf8).count();
        let all = types.iter().all(|one| width(one).is_some() || *one == DataType::Utf8);
        // One byte holds the null bits; a text needs one byte for its length, or two for its
        // number.
        let left = (PACKED_BYTES_MAX - 1).checked_sub(fixed)?;
        let each = left.checked_div(texts)?.min(size_of::<u64>());
        if !all || types.len() > 8 || each < 2 {
            return None;
        }
        let widths = types.iter().map(|one| width(one).unwrap_or(each)).collect();
        let named = types.iter().map(|_| None).collect();
        let (slots, groups, fresh) = (vec![], vec![], vec![]);
        Some(KeyCache { widths, named, slots, groups, fresh, is_full: false })
    }

    /// Removes all keys, so that group numbers may begin anew.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.groups.clear();
        self.is_full = false;
    }

    /// The key number of each row, and the rows with new keys, whose groups must be passed to
    /// `resolve`. `None` if the cache is bypassed.
    pub(crate) fn find(&mut self, columns: &[ArrayRef], numbers: &mut Vec<u32>) -> Option<&[u32]> {
        if self.is_full {
            return None;
        }
        let words = self.packed(columns)?;
        self.slots.resize(SLOTS, (0, NONE));
        self.fresh.clear();
        numbers.clear();
        numbers.reserve(words.len());
        let known = self.groups.len();
        for (row, word) in words.iter().enumerate() {
            let mut at = home(*word);
            while self.slots[at].1 != NONE && self.slots[at].0 != *word {
                at = (at + 1) % SLOTS;
            }
            if self.slots[at].1 == NONE {
                if known + self.fresh.len() == KEYS_MAX {
                    self.is_full = true;
                    return None;
                }
                self.slots[at] = (*word, (known + self.fresh.len()) as u32);
                self.fresh.push(row as u32);
            }
            numbers.push(self.slots[at].1);
        }
        Some(&self.fresh)
    }

    /// Stores the groups of the new keys, and replaces key numbers by group numbers.
    pub(crate) fn resolve(&mut self, fresh: &[u32], numbers: &mut [u32]) {
        self.groups.extend_from_slice(fresh);
        numbers.iter_mut().for_each(|number| *number = self.groups[*number as usize]);
    }

    /// Packs the keys of all rows; `None` if there are too many distinct texts.
    fn packed(&mut self, columns: &[ArrayRef]) -> Option<Vec<u128>> {
        let rows = columns[0].len();
        let mut short = Vec::with_capacity(columns.len());
        for (number, column) in columns.iter().enumerate() {
            let Some(texts) = column.as_string_opt::<i32>() else {
                short.push(column.clone());
                continue;
            };
            if self.named[number].is_none() {
                if let Some(words) = words(texts, self.widths[number]) {
                    short.push(words);
                    continue;
                }
                // Cached keys hold this column's text itself, and cannot match numbers.
                self.clear();
                self.named[number] = Some(TextIds::new());
            }
            let numbered = self.named[number].as_mut().and_then(|names| names.numbers(texts));
            self.is_full |= numbered.is_none();
            short.push(numbered?);
        }
        Some(pack(&short, &self.widths, rows))
    }
}

/// Distinct texts, each with a number.
struct TextIds {
    slots: Vec<(u64, u32)>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl TextIds {
    fn new() -> TextIds {
        TextIds { slots: vec![(0, NONE); SLOTS], ends: vec![0], bytes: vec![] }
    }

    /// The number of each text; `None` if there are too many.
    fn numbers(&mut self, texts: &StringArray) -> Option<ArrayRef> {
        let (offsets, values) = (texts.value_offsets(), texts.value_data());
        let mut numbers = Vec::with_capacity(texts.len());
        for pair in offsets.windows(2) {
            let text = &values[pair[0] as usize..pair[1] as usize];
            let hash = of_bytes(text);
            let mut at = hash as usize % SLOTS;
            let number = loop {
                match self.slots[at] {
                    (_, NONE) => break self.name(at, hash, text)?,
                    (other, number) if other == hash && self.text(number) == text => break number,
                    _ => at = (at + 1) % SLOTS,
                }
            };
            numbers.push(number as u16);
        }
        Some(Arc::new(UInt16Array::new(numbers.into(), texts.nulls().cloned())))
    }

    fn name(&mut self, slot: usize, hash: u64, text: &[u8]) -> Option<u32> {
        let number = self.ends.len() - 1;
        if number == KEYS_MAX {
            return None;
        }
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        self.slots[slot] = (hash, number as u32);
        Some(number as u32)
    }

    #[inline(always)]
    fn text(&self, number: u32) -> &[u8] {
        &self.bytes[self.ends[number as usize]..self.ends[number as usize + 1]]
    }
}

/// Texts as integers of `width` bytes: the length, then the text. `None` if one is longer.
fn words(texts: &StringArray, width: usize) -> Option<ArrayRef> {
    let (offsets, bytes) = (texts.value_offsets(), texts.value_data());
    if offsets.windows(2).any(|pair| pair[1] - pair[0] >= width as i32) {
        return None;
    }
    let word = |pair: &[i32]| {
        let (start, length) = (pair[0] as usize, (pair[1] - pair[0]) as usize);
        let text = match bytes.get(start..start + size_of::<u64>()) {
            Some(eight) => u64::from_le_bytes(eight.try_into().expect("eight bytes")),
            None => bytes[start..][..length]
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        (text & !(u64::MAX << (length * 8))) << 8 | length as u64
    };
    let words: Vec<u64> = offsets.windows(2).map(word).collect();
    Some(Arc::new(UInt64Array::new(words.into(), texts.nulls().cloned())))
}

#[inline(always)]
fn home(word: u128) -> usize {
    let folded = (word as u64 ^ (word >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (folded >> 32) as usize % SLOTS
}
