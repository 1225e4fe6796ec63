//! Numbers distinct values from 0, in the order in which they are found.
//!
//! A value is one word, or a text of which the word holds all or the hash. The tables stay in the
//! cache of a core, so they take few values.

use arrow::array::Array;
use arrow::buffer::NullBuffer;

use crate::batches::byte_strings::same;
use crate::partitioning::hashing::of_bytes;
use crate::partitioning::load_factor::is_crowded;

/// In place of a number: the table has as many values as it takes.
const FULL: u32 = u32::MAX;
const EMPTY: u32 = u32::MAX;
const SLOTS_MIN: usize = 1 << 6;

/// A value as an integer.
pub(crate) trait TableWord: Copy + Default + Eq {
    /// Its bits, folded to 64.
    fn folded(self) -> u64;
}

impl TableWord for u64 {
    #[inline(always)]
    fn folded(self) -> u64 {
        self
    }
}

impl TableWord for u128 {
    #[inline(always)]
    fn folded(self) -> u64 {
        self as u64 ^ ((self >> 64) as u64).rotate_left(32)
    }
}

/// A hash table from words to their numbers.
pub(crate) struct WordTable<W> {
    slots: Vec<(W, u32)>,
    /// By how much a product is shifted to get a slot.
    shift: u32,
    len: usize,
    len_max: usize,
}

impl<W: TableWord> WordTable<W> {
    /// An empty table for at most `len_max` words.
    pub(crate) fn new(len_max: usize) -> WordTable<W> {
        let shift = u64::BITS - SLOTS_MIN.trailing_zeros();
        let slots = vec![(W::default(), EMPTY); SLOTS_MIN];
        WordTable { slots, shift, len: 0, len_max }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.slots.as_slice())
    }

    /// The words in the order of their numbers.
    pub(crate) fn words(&self) -> Vec<W> {
        let mut words = vec![W::default(); self.len];
        for (word, number) in self.slots.iter().filter(|slot| slot.1 != EMPTY) {
            words[*number as usize] = *word;
        }
        words
    }

    pub(crate) fn clear(&mut self) {
        self.slots.fill((W::default(), EMPTY));
        self.len = 0;
    }

    /// The number of a word, and whether it is new. `is` says whether the value with a number and
    /// the same word is this one.
    #[inline(always)]
    fn find(&mut self, word: W, is: impl Fn(u32) -> bool) -> (u32, bool) {
        let mut at = home(word, self.shift);
        loop {
            let (other, number) = self.slots[at];
            if number == EMPTY {
                return (self.insert(word, at), true);
            }
            if other == word && is(number) {
                return (number, false);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    #[cold]
    fn insert(&mut self, word: W, at: usize) -> u32 {
        if self.len == self.len_max {
            return FULL;
        }
        let number = self.len as u32;
        self.slots[at] = (word, number);
        self.len += 1;
        if is_crowded(self.len, self.slots.len(), size_of::<(W, u32)>()) {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let slots = vec![(W::default(), EMPTY); self.slots.len() * 2];
        self.shift -= 1;
        let mask = slots.len() - 1;
        let known = std::mem::replace(&mut self.slots, slots);
        for slot in known.into_iter().filter(|slot| slot.1 != EMPTY) {
            let mut at = home(slot.0, self.shift);
            while self.slots[at].1 != EMPTY {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    /// Puts the number of each word, and the rows whose words are new. `false` if there are too
    /// many words.
    pub(crate) fn numbers(
        &mut self,
        words: impl Iterator<Item = W>,
        numbers: &mut Vec<u32>,
        mut on_new: impl FnMut(usize),
    ) -> bool {
        for (row, word) in words.enumerate() {
            let (number, is_new) = self.find(word, |_| true);
            if is_new {
                if number == FULL {
                    return false;
                }
                on_new(row);
            }
            numbers.push(number);
        }
        true
    }
}

/// Texts and their numbers.
pub(crate) struct TextNumbers {
    table: WordTable<u64>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
    bytes_max: usize,
}

/// The top byte of the word of a text that is longer than seven bytes; below are bits of its hash.
const LONG: u64 = 0xff << 56;

impl TextNumbers {
    /// No texts yet, and never more than these.
    pub(crate) fn new(len_max: usize, bytes_max: usize) -> TextNumbers {
        TextNumbers { table: WordTable::new(len_max), ends: vec![0], bytes: vec![], bytes_max }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + size_of_val(self.ends.as_slice()) + self.bytes.len()
    }

    /// Bytes of the texts alone.
    pub(crate) fn text_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The text with a number.
    pub(crate) fn text(&self, number: usize) -> &[u8] {
        &self.bytes[self.ends[number]..self.ends[number + 1]]
    }

    /// Puts the number of each of `rows` texts, any number for null. `false` if there are too many.
    #[inline(always)]
    pub(crate) fn numbers<'a>(
        &mut self,
        rows: usize,
        nulls: Option<&NullBuffer>,
        text: impl Fn(usize) -> &'a [u8],
        numbers: &mut Vec<u32>,
    ) -> bool {
        for row in 0..rows {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                numbers.push(0);
                continue;
            }
            let text = text(row);
            let TextNumbers { table, ends, bytes, .. } = self;
            let (number, is_new) = match short_word(text) {
                Some(word) => table.find(word, |_| true),
                None => table.find(of_bytes(text) | LONG, |number| {
                    same(&bytes[ends[number as usize]..ends[number as usize + 1]], text)
                }),
            };
            if is_new {
                if number == FULL || self.bytes.len() + text.len() > self.bytes_max {
                    return false;
                }
                self.bytes.extend_from_slice(text);
                self.ends.push(self.bytes.len());
            }
            numbers.push(number);
        }
        true
    }
}

/// A text of at most seven bytes, with its length in the top byte.
#[inline(always)]
fn short_word(text: &[u8]) -> Option<u64> {
    let length = text.len();
    let low = |at: usize| u64::from(text[at]);
    let half = |at: usize| u64::from(u32::from_le_bytes(text[at..at + 4].try_into().expect("4")));
    let word = match length {
        0 => 0,
        // The first, the middle and the last byte are all of up to three.
        1..4 => {
            low(0) | low(length / 2) << (length / 2 * 8) | low(length - 1) << ((length - 1) * 8)
        }
        4..8 => half(0) | half(length - 4) << ((length - 4) * 8),
        _ => return None,
    };
    Some(word | (length as u64) << 56)
}

/// The slot of a word: the high bits of a product, on which all its bits have effect.
#[inline(always)]
fn home<W: TableWord>(word: W, shift: u32) -> usize {
    let mixed = word.folded().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> shift) as usize
}

/// The nulls of a column, if there are any.
pub(crate) fn some_nulls(column: &dyn Array) -> Option<&NullBuffer> {
    column.nulls().filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_get_numbers_in_the_order_of_their_first_rows(
            texts in prop::collection::vec("[ab\0]{0,9}", 0..200),
        ) {
            let mut table = TextNumbers::new(1 << 12, 1 << 20);
            let (mut numbers, mut known) = (vec![], HashMap::new());
            let text = |row: usize| texts[row].as_bytes();
            prop_assert!(table.numbers(texts.len(), None, text, &mut numbers));
            for (text, number) in texts.iter().zip(numbers) {
                let next = known.len() as u32;
                prop_assert_eq!(number, *known.entry(text).or_insert(next));
            }
        }

        #[test]
        fn words_get_numbers_in_the_order_of_their_first_rows(
            words in prop::collection::vec(0_u128..300, 0..900), spread: u128,
        ) {
            let (mut table, mut numbers, mut new) = (WordTable::new(1 << 12), vec![], vec![]);
            let spread = spread | 1;
            let spread_words = words.iter().map(|word| word.wrapping_mul(spread));
            prop_assert!(table.numbers(spread_words, &mut numbers, |row| new.push(row)));
            let mut known = HashMap::new();
            for (row, (word, number)) in words.iter().zip(numbers).enumerate() {
                let next = known.len() as u32;
                prop_assert_eq!(new.contains(&row), !known.contains_key(word));
                prop_assert_eq!(number, *known.entry(word).or_insert(next));
            }
        }
    }

    #[test]
    fn more_values_than_the_most_are_refused() {
        let mut table = WordTable::new(100);
        assert!(table.numbers(0..100_u64, &mut vec![], |_| {}));
        assert!(table.numbers(0..100_u64, &mut vec![], |_| panic!("all are known")));
        assert!(!table.numbers([7, 100].into_iter(), &mut vec![], |_| {}));
        let mut texts = TextNumbers::new(100, 10);
        let mut add = |text: &'static str| texts.numbers(1, None, |_| text.as_bytes(), &mut vec![]);
        assert!(add("nine byte"));
        assert!(!add("ten"));
    }
}
