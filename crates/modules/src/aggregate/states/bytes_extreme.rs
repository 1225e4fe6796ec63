//! States of `min` and `max` of text and bytes, in byte order.
//!
//! The values of a dictionary are ranked once, and a row compares the rank of its value with that
//! of its group. Other values of up to fifteen bytes are compared and held as numbers of sixteen
//! bytes; of longer ones, the first fifteen bytes decide nearly all comparisons.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, LargeBinaryBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use euphrates_flow::Result;

use super::state::AggregateState;
use crate::batches::byte_strings::order;

/// A dictionary with more values is ranked only if a batch has several rows for each.
const DICTIONARY_SMALL: usize = 1 << 12;
/// Those rows.
const ROWS_PER_VALUE: usize = 4;

/// The minimum or maximum of text and bytes.
pub(crate) struct BytesExtreme {
    data_type: DataType,
    best: BestValues,
    ranked: DictionaryRanks,
}

impl BytesExtreme {
    /// The maximum of values of this type if `is_max`, else the minimum.
    pub(crate) fn new(data_type: DataType, is_max: bool) -> BytesExtreme {
        let (best, ranked) = (BestValues::new(is_max), DictionaryRanks::default());
        BytesExtreme { data_type, best, ranked }
    }

    /// Adds the best values of the dictionary's rows so far, by group.
    fn settle(&mut self) {
        let DictionaryRanks { values, of_rank, best, .. } = &mut self.ranked;
        let Some(values) = values else { return };
        for (group, rank) in best.iter_mut().enumerate().filter(|(_, rank)| **rank > 0) {
            let value = values.value(of_rank[*rank as usize - 1] as usize);
            self.best.add(group, value);
            *rank = 0;
        }
    }
}

impl AggregateState for BytesExtreme {
    fn grow(&mut self, groups: usize) {
        self.best.grow(groups);
        self.ranked.best.resize(groups, 0);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = values.expect("an extreme is of something");
        if let Some(dictionary) = values.as_any_dictionary_opt() {
            let of_rows = dictionary.values();
            if !self.ranked.is_of(of_rows) && is_worth_ranking(of_rows.len(), groups.len()) {
                self.settle();
                self.ranked.rank(of_rows, self.best.is_max)?;
            }
            if self.ranked.is_of(of_rows) {
                self.ranked.add(values, groups);
                return Ok(());
            }
        }
        let values = cast(values, &DataType::LargeBinary)?;
        let values = values.as_binary::<i64>();
        match self.best.is_max {
            true => self.best.add_all::<true>(values, groups),
            false => self.best.add_all::<false>(values, groups),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        self.settle();
        self.ranked = DictionaryRanks::default();
        let out = self.best.take();
        Ok(cast(&out, &self.data_type)?)
    }

    fn bytes(&self) -> usize {
        self.best.bytes() + self.ranked.bytes()
    }
}

fn is_worth_ranking(values: usize, rows: usize) -> bool {
    values <= DICTIONARY_SMALL || values * ROWS_PER_VALUE <= rows
}

/// The best value of each group: a number for each, and the bytes of those that exceed it.
struct BestValues {
    is_max: bool,
    numbers: Vec<u128>,
    /// The value of each group if that is long; empty before the first one.
    long: Vec<Option<Box<[u8]>>>,
    /// Bytes of the long values.
    bytes: usize,
}

impl BestValues {
    fn new(is_max: bool) -> BestValues {
        BestValues { is_max, numbers: vec![], long: vec![], bytes: 0 }
    }

    fn grow(&mut self, groups: usize) {
        // Any value replaces none.
        self.numbers.resize(groups, if self.is_max { u128::MIN } else { u128::MAX });
        if !self.long.is_empty() {
            self.long.resize(groups, None);
        }
    }

    fn add_all<const IS_MAX: bool>(&mut self, values: &LargeBinaryArray, groups: &[u32]) {
        for (group, value) in groups.iter().zip(values) {
            if let Some(value) = value {
                self.add_to::<IS_MAX>(*group as usize, value);
            }
        }
    }

    fn add(&mut self, group: usize, value: &[u8]) {
        match self.is_max {
            true => self.add_to::<true>(group, value),
            false => self.add_to::<false>(group, value),
        }
    }

    #[inline(always)]
    fn add_to<const IS_MAX: bool>(&mut self, group: usize, value: &[u8]) {
        let (number, known) = (number(value), &mut self.numbers[group]);
        if if IS_MAX { number < *known } else { number > *known } {
            return;
        }
        let is_same = number == *known;
        *known = number;
        if is_long(number) || !self.long.is_empty() {
            self.keep_long::<IS_MAX>(group, value, is_same);
        }
    }

    /// Keeps or drops the bytes of the group's best value. With `is_same`, its number is that of
    /// the last one, so that the value may be worse.
    fn keep_long<const IS_MAX: bool>(&mut self, group: usize, value: &[u8], is_same: bool) {
        let is_better = if IS_MAX { Ordering::Greater } else { Ordering::Less };
        self.long.resize(self.numbers.len(), None);
        let best = &mut self.long[group];
        if value.len() <= SHORT_BYTES_MAX {
            self.bytes -= best.take().map_or(0, |held| held.len());
            return;
        }
        match best {
            Some(held) if is_same && order(value, held) != is_better => {}
            // A replacement usually has about the same length.
            Some(held) if held.len() == value.len() => held.copy_from_slice(value),
            _ => {
                self.bytes += value.len();
                self.bytes -= best.as_ref().map_or(0, |held| held.len());
                *best = Some(value.into());
            }
        }
    }

    fn take(&mut self) -> ArrayRef {
        let numbers = std::mem::take(&mut self.numbers);
        let long = std::mem::take(&mut self.long);
        let bytes = self.bytes + numbers.len() * SHORT_BYTES_MAX / 2;
        let mut out = LargeBinaryBuilder::with_capacity(numbers.len(), bytes);
        for (group, number) in numbers.into_iter().enumerate() {
            let bytes = number.to_be_bytes();
            match bytes[SHORT_BYTES_MAX] {
                // Of no value.
                0 | u8::MAX => out.append_null(),
                LONG => out.append_option(long[group].as_ref()),
                length => out.append_value(&bytes[..usize::from(length) - 1]),
            }
        }
        self.bytes = 0;
        Arc::new(out.finish())
    }

    fn bytes(&self) -> usize {
        // The size of an entry, and the overhead of an allocation.
        self.bytes + size_of_val(self.numbers.as_slice()) + self.long.len() * 48
    }
}

/// The most bytes of a value that its number contains.
const SHORT_BYTES_MAX: usize = 15;
/// The last byte of the number of a longer value.
const LONG: u8 = SHORT_BYTES_MAX as u8 + 2;

/// A number in the order of values: the first fifteen bytes, with zeros behind a shorter value,
/// then one more than its length, or [`LONG`]. Only long values of one number may differ. The last
/// byte is neither zero nor [`u8::MAX`], which are those of the numbers in place of none.
#[inline(always)]
fn number(value: &[u8]) -> u128 {
    let last = value.len().min(SHORT_BYTES_MAX + 1) as u128 + 1;
    let (high, low) = match value.len() {
        16.. => (word(&value[..8]), word(&value[8..16])),
        // The last eight bytes, without those of the first word.
        length @ 9..16 => (word(&value[..8]), word(&value[length - 8..]) << ((16 - length) * 8)),
        8 => (word(value), 0),
        _ => (value.iter().rev().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56), 0),
    };
    (u128::from(high) << 64 | u128::from(low)) & !0xff | last
}

/// Eight bytes as a number that has their order.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("it has eight bytes"))
}

/// Whether this is the number of a value that it does not contain.
#[inline(always)]
fn is_long(number: u128) -> bool {
    number as u8 == LONG
}

/// Rows of one dictionary, by the ranks of its values, of which a greater one is better.
#[derive(Default)]
struct DictionaryRanks {
    /// The values of the dictionary as they came.
    dictionary: Option<ArrayRef>,
    values: Option<LargeBinaryArray>,
    /// The rank of each value, from 1; 0 for null.
    ranks: Vec<u32>,
    /// A value for each rank, from 1.
    of_rank: Vec<u32>,
    /// The greatest rank in each group; 0 for none.
    best: Vec<u32>,
}

impl DictionaryRanks {
    /// Whether these are the values of the dictionary.
    fn is_of(&self, values: &ArrayRef) -> bool {
        self.dictionary
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, values) || own.to_data().ptr_eq(&values.to_data()))
    }

    fn rank(&mut self, dictionary: &ArrayRef, is_max: bool) -> Result<()> {
        let values = cast(dictionary, &DataType::LargeBinary)?.as_binary::<i64>().clone();
        let valid = (0..values.len() as u32).filter(|code| values.is_valid(*code as usize));
        let value = |code: u32| values.value(code as usize);
        let mut codes: Vec<(u128, u32)> = valid.map(|code| (number(value(code)), code)).collect();
        codes.sort_unstable_by(|(one_number, one), (other_number, other)| {
            let by_value = || order(value(*one), value(*other));
            let increasing = one_number.cmp(other_number).then_with(by_value);
            if is_max { increasing } else { increasing.reverse() }
        });
        self.ranks.clear();
        self.ranks.resize(values.len(), 0);
        self.of_rank.clear();
        for (_, code) in codes {
            let is_same = self.of_rank.last().is_some_and(|last| value(*last) == value(code));
            if !is_same {
                self.of_rank.push(code);
            }
            self.ranks[code as usize] = self.of_rank.len() as u32;
        }
        self.values = Some(values);
        self.dictionary = Some(dictionary.clone());
        Ok(())
    }

    /// Adds rows of this dictionary.
    fn add(&mut self, rows: &ArrayRef, groups: &[u32]) {
        let DictionaryRanks { ranks, best, .. } = self;
        let mut add = |group: u32, code: usize| {
            let best = &mut best[group as usize];
            *best = (*best).max(ranks[code]);
        };
        let dictionary = rows.as_any_dictionary();
        match dictionary.keys().nulls().filter(|nulls| nulls.null_count() > 0) {
            _ if ranks.is_empty() => {}
            Some(nulls) => {
                let codes = dictionary.normalized_keys();
                nulls.valid_indices().for_each(|row| add(groups[row], codes[row]));
            }
            None => match dictionary.keys().as_primitive_opt::<Int32Type>() {
                Some(codes) => {
                    let rows = groups.iter().zip(codes.values());
                    rows.for_each(|(group, code)| add(*group, *code as usize));
                }
                None => {
                    let codes = dictionary.normalized_keys();
                    groups.iter().zip(codes).for_each(|(group, code)| add(*group, code));
                }
            },
        }
    }

    fn bytes(&self) -> usize {
        let words = self.ranks.len() + self.of_rank.len() + self.best.len();
        let values = self.values.as_ref().map_or(0, |values| values.get_buffer_memory_size());
        words * size_of::<u32>() + values
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Option<String>> {
        // Of up to fifteen bytes, or more with equal beginnings.
        proptest::option::of("[\0ab\u{ff}]{0,8}|[\0a]{13,18}|a{14,15}[\0ab]{0,3}")
    }

    proptest! {
        #[test]
        fn extremes_of_bytes_are_those_of_slices(
            rows in prop::collection::vec((0_u32..3, text()), 0..99), is_max: bool,
            encoded in prop::collection::vec(any::<bool>(), 9),
        ) {
            let mut state = BytesExtreme::new(DataType::LargeBinary, is_max);
            state.grow(3);
            // Batches of one dictionary, of others, and of none.
            for (rows, is_encoded) in rows.chunks(11).zip(encoded) {
                let (groups, texts): (Vec<u32>, Vec<&Option<String>>) =
                    rows.iter().map(|(group, text)| (*group, text)).unzip();
                let bytes = texts.iter().map(|text| text.as_ref().map(String::as_bytes));
                let values: ArrayRef = Arc::new(bytes.collect::<LargeBinaryArray>());
                let dictionary = DataType::Dictionary(
                    Box::new(DataType::Int32), Box::new(DataType::LargeBinary),
                );
                let values = match is_encoded {
                    true => cast(&values, &dictionary).unwrap(),
                    false => values,
                };
                let (first, rest) = (groups.len() / 2, groups.len() - groups.len() / 2);
                state.add(Some(&values.slice(0, first)), &groups[..first]).unwrap();
                state.add(Some(&values.slice(first, rest)), &groups[first..]).unwrap();
            }
            let (groups, texts): (Vec<u32>, Vec<Option<String>>) = rows.into_iter().unzip();
            let found = state.finish().unwrap();
            for group in 0..3 {
                let of_group = groups.iter().zip(&texts).filter(|(of, _)| **of == group);
                let of_group = of_group.filter_map(|(_, text)| text.as_ref().map(String::as_bytes));
                let expected = if is_max { of_group.max() } else { of_group.min() };
                let found = found.as_binary::<i64>();
                let found = found.is_valid(group as usize).then(|| found.value(group as usize));
                prop_assert_eq!(found, expected);
            }
        }
    }
}
