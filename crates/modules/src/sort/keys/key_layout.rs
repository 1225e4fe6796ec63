//! Codes of key columns: how values become bits of a key, in fewer bits than their type has.
//!
//! A code is chosen by the values seen first, and covers others too: a value that it cannot express
//! *escapes*. Its code then only says where it belongs (below or above a range, between two words),
//! the bits of the columns behind it hold the first bits of the value, and keys that tie are
//! compared by their whole row encodings. A value outside of what was seen costs time, and no
//! correctness.

use serde::{Deserialize, Serialize};

/// Bits that say where a text or a prefix lies: a null, below, within, above.
pub(super) const PLACE_BITS: u32 = 3;
/// Bits of the length of a text that is encoded whole.
pub(super) const LENGTH_BITS: u32 = 4;
/// The longest text that is encoded whole, in bytes: its bits and those of its length fit a key.
pub(super) const TEXT_BYTES_MAX: usize = 11;
/// Bits of all columns of an adapted key. Below them, one is set if the key is compared whole.
pub(super) const COLUMN_BITS: u32 = 95;

/// A column of a sort key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyColumn {
    /// Position of the column in the schema.
    pub(crate) column: usize,
    pub(crate) descending: bool,
    /// Whether nulls come before everything else, in either direction.
    pub(crate) nulls_first: bool,
}

/// The code of one column. Nulls have the first or the last code of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ColumnCode {
    /// All values of the type, and a bit above that tells values from nulls, if there may be any.
    Full { bits: u32, nullable: bool },
    /// Integers from `low` on: 0 and the last code are nulls, 1 is below, the last but one above.
    Range { low: WideInt, bits: u32 },
    /// These numbers, in the order of the key: number `i` has the code 2 i + 2, and the codes
    /// between are gaps.
    Numbers(Vec<WideInt>),
    /// These words, sorted: word `i` has the code 2 i + 2, and the codes between are gaps.
    Words(Vec<Vec<u8>>),
    /// Texts that begin with `prefix`, and have at most `bytes` behind it: these, zeros, and their
    /// number.
    Text { prefix: Vec<u8>, bytes: u32 },
    /// The first bits of integers from `low` on, of which all seen so far have `span_bits`.
    NumberPrefix { low: WideInt, span_bits: u32, bits: u32 },
    /// The first bits of texts behind `prefix`.
    TextPrefix { prefix: Vec<u8>, bits: u32 },
}

/// A 128-bit integer, as formats of text have none: its upper and its lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WideInt(u64, u64);

impl WideInt {
    pub(super) fn new(value: u128) -> WideInt {
        WideInt((value >> 64) as u64, value as u64)
    }

    pub(super) fn get(self) -> u128 {
        u128::from(self.0) << 64 | u128::from(self.1)
    }
}

impl ColumnCode {
    /// Bits of the code in a key.
    pub(super) fn bits(&self) -> u32 {
        match self {
            ColumnCode::Full { bits, nullable } => bits + u32::from(*nullable),
            ColumnCode::Range { bits, .. } => *bits,
            ColumnCode::Numbers(numbers) => word_bits(numbers.len()),
            ColumnCode::Words(words) => word_bits(words.len()),
            ColumnCode::Text { bytes, .. } => text_bits(*bytes as usize),
            ColumnCode::NumberPrefix { bits, .. } | ColumnCode::TextPrefix { bits, .. } => {
                PLACE_BITS + bits
            }
        }
    }

    /// Whether every key must be compared whole, because the code is only a prefix of its value.
    pub(super) fn is_prefix(&self) -> bool {
        matches!(self, ColumnCode::NumberPrefix { .. } | ColumnCode::TextPrefix { .. })
    }
}

/// Bits of a code of this number of words, or of numbers.
pub(super) fn word_bits(words: usize) -> u32 {
    usize::BITS - (2 * words + 2).leading_zeros()
}

/// Bits of a code of texts of at most this number of bytes.
pub(super) fn text_bits(bytes: usize) -> u32 {
    PLACE_BITS + 8 * bytes as u32 + LENGTH_BITS
}

/// Bits of a code of this number of integers in a range, besides those for values outside.
pub(super) fn range_bits(values: u128) -> u32 {
    u128::BITS - values.saturating_add(3).leading_zeros()
}

/// How all columns of a key are encoded, the most significant first. Columns behind a prefix have
/// no code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyLayout {
    codes: Vec<ColumnCode>,
    /// Whether the columns behind the last code, or a part of its own, are not encoded.
    is_cut: bool,
}

impl KeyLayout {
    /// The layout by the types of all columns, which has a code for every value.
    pub(super) fn of_types(codes: Vec<ColumnCode>) -> KeyLayout {
        KeyLayout { codes, is_cut: false }
    }

    /// The layout of a key of this number of columns, of which the first have these codes.
    pub(super) fn adapted(codes: Vec<ColumnCode>, columns: usize) -> KeyLayout {
        let is_cut = codes.len() < columns || codes.last().is_some_and(ColumnCode::is_prefix);
        KeyLayout { codes, is_cut }
    }

    pub(super) fn codes(&self) -> &[ColumnCode] {
        &self.codes
    }

    /// Whether every key must be compared whole.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether some keys must be compared whole: these have the lowest bit set.
    pub(super) fn may_tie(&self) -> bool {
        self.is_cut || !self.codes.iter().all(|code| matches!(code, ColumnCode::Full { .. }))
    }

    /// Bits of a key.
    pub(super) fn bits(&self) -> u32 {
        self.bits_behind(0)
    }

    /// Bits behind the first `columns`, with the one that marks ties.
    pub(super) fn bits_behind(&self, columns: usize) -> u32 {
        self.column_bits_behind(columns) + u32::from(self.may_tie())
    }

    /// Bits of the columns behind the first `columns`.
    pub(super) fn column_bits_behind(&self, columns: usize) -> u32 {
        self.codes[columns..].iter().map(ColumnCode::bits).sum()
    }

    /// The layout as another process receives it.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a layout consists of numbers and lists")
    }

    /// The layout of `to_bytes`; `None` for other bytes, or if its keys would not fit.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<KeyLayout> {
        let layout: KeyLayout = serde_json::from_slice(bytes).ok()?;
        (layout.column_bits_behind(0) <= COLUMN_BITS).then_some(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_roundtrips_and_foreign_bytes_are_refused() {
        let codes = vec![
            ColumnCode::Full { bits: 8, nullable: true },
            ColumnCode::Range { low: WideInt::new(u128::MAX - 7), bits: 5 },
            ColumnCode::Numbers(vec![WideInt::new(7), WideInt::new(1 << 99)]),
            ColumnCode::Words(vec![b"Ur".to_vec(), b"Uruk".to_vec()]),
            ColumnCode::TextPrefix { prefix: b"https://".to_vec(), bits: 40 },
        ];
        let layout = KeyLayout::adapted(codes, 5);
        assert!(layout.is_cut() && layout.may_tie());
        assert_eq!(layout.bits(), 9 + 5 + 3 + 3 + 43 + 1);
        assert_eq!(KeyLayout::from_bytes(&layout.to_bytes()), Some(layout));
        assert_eq!(KeyLayout::from_bytes(b"{}"), None);
        let wide = vec![ColumnCode::Full { bits: 96, nullable: false }];
        let wide = KeyLayout::of_types(wide);
        assert!(!wide.may_tie());
        assert_eq!(KeyLayout::from_bytes(&wide.to_bytes()), None);
    }

    #[test]
    fn ranges_and_words_have_codes_for_what_lies_outside() {
        // One value, and four codes besides.
        assert_eq!([1, 4, 5, 12, 13].map(range_bits), [3, 3, 4, 4, 5]);
        // Two words, three gaps, and two codes of nulls.
        assert_eq!([0, 1, 2, 6, 7].map(word_bits), [2, 3, 3, 4, 5]);
    }
}
