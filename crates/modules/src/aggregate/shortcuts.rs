//! Groups by keys with text, known again without hashing, spelling and comparing whole keys.
//!
//! Where there are few groups, most rows have a key that has been seen. So keys are packed into
//! sixteen bytes each, and looked up in a small table; only those that are not there go the long
//! way, each once. Text that is short is packed as it is; of a column with longer text, each value
//! gets a number.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt16Array, UInt64Array};
use arrow::datatypes::DataType;

use super::keys::{PACKED_BYTES_MAX, pack, width};
use crate::hashing::of_bytes;

/// With more keys than this, the long way is no longer than this one.
const KEYS_MAX: usize = 1 << 11;
const SLOTS: usize = KEYS_MAX * 2;
const NONE: u32 = u32::MAX;

/// Packed keys and the numbers of their groups.
pub struct Shortcuts {
    /// The bytes of each column.
    widths: Vec<usize>,
    /// Of columns with longer text, the numbers of values.
    named: Vec<Option<Names>>,
    slots: Vec<(u128, u32)>,
    /// The groups of keys, in the order they came.
    groups: Vec<u32>,
    /// Rows of a batch whose keys have just come.
    fresh: Vec<u32>,
    /// Whether there are too many keys.
    is_full: bool,
}

impl Shortcuts {
    /// For keys of these types, if there is a way.
    pub fn new(types: &[DataType]) -> Option<Shortcuts> {
        let fixed: usize = types.iter().filter_map(width).sum();
        let texts = types.iter().filter(|one| **one == DataType::Utf8).count();
        let all = types.iter().all(|one| width(one).is_some() || *one == DataType::Utf8);
        // One byte has the bits of nulls, and each text one for its length, or two for its number.
        let left = (PACKED_BYTES_MAX - 1).checked_sub(fixed)?;
        let each = left.checked_div(texts)?.min(size_of::<u64>());
        if !all || types.len() > 8 || each < 2 {
            return None;
        }
        let widths = types.iter().map(|one| width(one).unwrap_or(each)).collect();
        let named = types.iter().map(|_| None).collect();
        let (slots, groups, fresh) = (vec![], vec![], vec![]);
        Some(Shortcuts { widths, named, slots, groups, fresh, is_full: false })
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.groups.clear();
        self.is_full = false;
    }

    /// For each row the number of its key, in the order they came; and the rows of those that have
    /// just come, whose groups must be told at once. `None` if there is no short way.
    pub fn find(&mut self, columns: &[ArrayRef], numbers: &mut Vec<u32>) -> Option<&[u32]> {
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

    /// Tells the groups of keys that have just come, and makes numbers of keys those of groups.
    pub fn resolve(&mut self, fresh: &[u32], numbers: &mut [u32]) {
        self.groups.extend_from_slice(fresh);
        numbers.iter_mut().for_each(|number| *number = self.groups[*number as usize]);
    }

    /// Keys in sixteen bytes each, unless there are too many different texts.
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
                // What is known of keys with this text as it is would be of no more use.
                self.clear();
                self.named[number] = Some(Names::new());
            }
            let numbered = self.named[number].as_mut().and_then(|names| names.numbers(texts));
            self.is_full |= numbered.is_none();
            short.push(numbered?);
        }
        Some(pack(&short, &self.widths, rows))
    }
}

/// Different texts, each with a number.
struct Names {
    slots: Vec<(u64, u32)>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Names {
    fn new() -> Names {
        Names { slots: vec![(0, NONE); SLOTS], ends: vec![0], bytes: vec![] }
    }

    /// The number of each text, unless there are too many.
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

/// Text as numbers, of whose bytes so many count: its length, and then it. `None` if one is longer.
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
