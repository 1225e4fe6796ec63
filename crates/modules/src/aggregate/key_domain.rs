//! Numbers the values of a key column from 1, if these are few: integers from the least on, other
//! values in the order in which they are found. 0 is null.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, GenericByteArray, LargeBinaryArray, UInt32Array,
};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, DataType, Int32Type};
use euphrates_flow::Result;

use super::group_keys::{KeyForm, plain, plain_type, width};
use super::group_table::GroupTable;
use super::value_numbers::{TableWord, TextNumbers, WordTable, some_nulls};
use crate::batches::array_values::{fixed_array, fixed_values};
use crate::canonical_floats::canonical_floats;

/// The most values that are looked up for each row: 2 MiB of slots.
const VALUES_MAX: usize = 1 << 16;
/// The most values of dictionaries.
const DICTIONARY_VALUES_MAX: usize = 1 << 18;
/// The most bytes of texts, or of the values of dictionaries.
const VALUES_BYTES_MAX: usize = 4 << 20;
/// The most integers of a range.
const RANGE_MAX: u64 = 1 << 31;

/// The values of a key column so far.
pub(crate) enum KeyDomain {
    /// Integers, or what is stored as integers, from `low` to `high`.
    Range {
        low: i64,
        high: i64,
    },
    /// Values of up to eight bytes.
    Words(WordTable<u64>),
    /// Values of up to sixteen bytes.
    WideWords(WordTable<u128>),
    Texts(TextNumbers),
    Dictionary(Box<DictionaryValues>),
}

/// The values of all dictionaries so far, each with a number.
pub(crate) struct DictionaryValues {
    form: KeyForm,
    known: GroupTable,
    /// The dictionary of the last batch.
    last: Option<ArrayRef>,
    /// The number of each of its values.
    numbers: Vec<u32>,
    /// How many dictionary values have been looked up; one in several dictionaries counts each
    /// time.
    looked_up: usize,
    rows: usize,
}

impl KeyDomain {
    /// An empty domain for columns of this type; `None` if their values cannot be numbered.
    pub(crate) fn new(data_type: &DataType) -> Option<KeyDomain> {
        use DataType::*;
        Some(match data_type {
            Dictionary(..) => {
                let types = vec![plain_type(data_type)];
                let form = KeyForm::of(&types);
                KeyDomain::Dictionary(Box::new(DictionaryValues {
                    form,
                    known: GroupTable::new(types),
                    last: None,
                    numbers: vec![],
                    looked_up: 0,
                    rows: 0,
                }))
            }
            Boolean => KeyDomain::Range { low: 0, high: 1 },
            Utf8 | LargeUtf8 | Binary | LargeBinary => {
                KeyDomain::Texts(TextNumbers::new(VALUES_MAX, VALUES_BYTES_MAX))
            }
            Float16 | Float32 | Float64 | FixedSizeBinary(_) | Interval(_) => {
                KeyDomain::words(width(data_type)?)?
            }
            other if width(other)? <= size_of::<i64>() => EMPTY_RANGE,
            other => KeyDomain::words(width(other)?)?,
        })
    }

    /// An empty domain for values of this width, of which each has to be looked up.
    fn words(width: usize) -> Option<KeyDomain> {
        match width {
            1..=8 => Some(KeyDomain::Words(WordTable::new(VALUES_MAX))),
            9..=16 => Some(KeyDomain::WideWords(WordTable::new(VALUES_MAX))),
            _ => None,
        }
    }

    /// Whether each value of up to eight bytes has to be looked up.
    pub(crate) fn is_word(&self) -> bool {
        matches!(self, KeyDomain::Words(_))
    }

    /// The numbers to provide for: the values, null, and some room for values to come.
    pub(crate) fn size(&self) -> usize {
        let values = match self {
            KeyDomain::Range { low, high } if low > high => 0,
            KeyDomain::Range { low, high } => {
                usize::try_from(high.abs_diff(*low)).unwrap_or(usize::MAX / 4)
            }
            KeyDomain::Words(table) => table.len(),
            KeyDomain::WideWords(table) => table.len(),
            KeyDomain::Texts(texts) => texts.len(),
            KeyDomain::Dictionary(values) => values.known.len(),
        };
        values.saturating_add(2).min(usize::MAX / 4).next_power_of_two()
    }

    /// What the number 1 stands for, if it may change: the least integer. A range that becomes a
    /// table of words changes all numbers.
    pub(crate) fn low(&self) -> Option<i64> {
        match self {
            KeyDomain::Range { low, .. } => Some(*low),
            _ => None,
        }
    }

    /// Makes a range that would have become too large a table of the values with these numbers, and
    /// replaces the numbers. `false`, and nothing changes, if it is no range or has too many.
    pub(crate) fn become_words(&mut self, data_type: &DataType, numbers: &mut [u32]) -> bool {
        let KeyDomain::Range { low, .. } = *self else { return false };
        let Some(bits) = width(data_type).map(|width| width as u32 * u8::BITS) else {
            return false;
        };
        let word = |number: &u32| {
            let value = low.wrapping_add(i64::from(*number) - 1) as u64;
            value & (u64::MAX >> (u64::BITS - bits))
        };
        let mut table = WordTable::new(VALUES_MAX);
        let mut of_words = vec![];
        let known = numbers.iter().filter(|number| **number > 0);
        if !table.numbers(known.map(word), &mut of_words, |_| {}) {
            return false;
        }
        let known = numbers.iter_mut().filter(|number| **number > 0);
        known.zip(of_words).for_each(|(number, of_word)| *number = of_word + 1);
        *self = KeyDomain::Words(table);
        true
    }

    /// Adds the values of a column, and puts the number of each row. `false` if there are too many;
    /// a range is then as it was before.
    pub(crate) fn number(&mut self, column: &ArrayRef, numbers: &mut Vec<u32>) -> Result<bool> {
        numbers.clear();
        let column = match column.data_type() {
            DataType::Boolean => &cast(column, &DataType::Int8)?,
            // Its values become canonical when they are looked up, once for each dictionary.
            DataType::Dictionary(..) => column,
            _ => &canonical_floats(column),
        };
        let fits = match self {
            KeyDomain::Range { low, high } => {
                let (mut least, mut most) = (*low, *high);
                let fits = number_range(column, (&mut least, &mut most), numbers);
                if fits {
                    (*low, *high) = (least, most);
                }
                fits
            }
            KeyDomain::Words(table) => number_words(table, column, numbers),
            KeyDomain::WideWords(table) => number_wide_words(table, column, numbers),
            KeyDomain::Texts(texts) => number_texts(texts, column, numbers),
            KeyDomain::Dictionary(values) => values.number(column, numbers)?,
        };
        if fits && let Some(nulls) = some_nulls(column) {
            let rows = numbers.iter_mut().zip(nulls);
            rows.for_each(|(number, is_valid)| *number *= u32::from(is_valid));
        }
        Ok(fits)
    }

    /// How many values there are that have to be looked up for each row.
    pub(crate) fn looked_up(&self) -> usize {
        match self {
            KeyDomain::Words(table) => table.len(),
            KeyDomain::WideWords(table) => table.len(),
            KeyDomain::Texts(texts) => texts.len(),
            KeyDomain::Range { .. } | KeyDomain::Dictionary(_) => 0,
        }
    }

    /// How many values there are whose array takes a copy of all.
    pub(crate) fn texts(&self) -> usize {
        match self {
            KeyDomain::Texts(texts) => texts.len(),
            KeyDomain::Dictionary(values) => values.known.len(),
            KeyDomain::Range { .. } | KeyDomain::Words(_) | KeyDomain::WideWords(_) => 0,
        }
    }

    /// Bytes of the values.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            KeyDomain::Range { .. } => 0,
            KeyDomain::Words(table) => table.bytes(),
            KeyDomain::WideWords(table) => table.bytes(),
            KeyDomain::Texts(texts) => texts.bytes(),
            KeyDomain::Dictionary(values) => values.known.bytes(),
        }
    }

    /// Bytes of a value in a plain column of this type: the mean, if they differ.
    pub(crate) fn value_bytes(&self, data_type: &DataType) -> usize {
        let mean = |bytes: usize, values: usize| bytes / values.max(1);
        match self {
            KeyDomain::Texts(texts) => size_of::<i32>() + mean(texts.text_bytes(), texts.len()),
            KeyDomain::Dictionary(values) => mean(values.known.key_bytes(), values.known.len()),
            _ => width(data_type).unwrap_or(1),
        }
    }

    /// The values with these numbers, as a plain column of this type.
    pub(crate) fn values(&self, data_type: &DataType, numbers: &[u32]) -> Result<ArrayRef> {
        let nulls = || {
            let nulls: NullBuffer = numbers.iter().map(|number| *number > 0).collect();
            Some(nulls).filter(|nulls| nulls.null_count() > 0)
        };
        let fixed = |bytes| fixed_array(data_type, numbers.len(), bytes, nulls());
        let width = width(data_type).unwrap_or(1);
        Ok(match self {
            KeyDomain::Range { low, .. } => {
                let bytes = bytes_of(numbers, width, |at| low.wrapping_add(at as i64) as u128);
                match data_type {
                    DataType::Boolean => {
                        let values = bytes.iter().map(|value| *value > 0);
                        Arc::new(BooleanArray::new(values.collect(), nulls()))
                    }
                    _ => fixed(bytes),
                }
            }
            KeyDomain::Words(table) => {
                let words = table.words();
                fixed(bytes_of(numbers, width, |at| words[at].into()))
            }
            KeyDomain::WideWords(table) => {
                let words = table.words();
                fixed(bytes_of(numbers, width, |at| words[at]))
            }
            KeyDomain::Texts(texts) => {
                let all = (0..texts.len()).map(|at| Some(texts.text(at)));
                let all = cast(&all.collect::<LargeBinaryArray>(), data_type)?;
                let rows = numbers.iter().map(|number| number.checked_sub(1));
                take(&all, &rows.collect::<UInt32Array>(), None)?
            }
            KeyDomain::Dictionary(values) => {
                let number = |number: &u32| number.checked_sub(1);
                let rows: UInt32Array = numbers.iter().map(number).collect();
                take(&values.known.keys()?[0], &rows, None)?
            }
        })
    }
}

const EMPTY_RANGE: KeyDomain = KeyDomain::Range { low: i64::MAX, high: i64::MIN };

impl DictionaryValues {
    fn number(&mut self, column: &ArrayRef, numbers: &mut Vec<u32>) -> Result<bool> {
        let dictionary = column.as_any_dictionary();
        let values = dictionary.values();
        let is_last = |last: &ArrayRef| last.to_data().ptr_eq(&values.to_data());
        self.rows += column.len();
        if !self.last.as_ref().is_some_and(is_last) {
            // Bounded by the rows, since each batch may bring a large dictionary of its own.
            self.looked_up += values.len();
            if self.looked_up > self.rows + DICTIONARY_VALUES_MAX {
                return Ok(false);
            }
            let plain = plain(values)?;
            self.known.find(&self.form.keys(vec![plain], values.len())?, &mut self.numbers)?;
            let nulls = values.logical_nulls();
            let is_null = |at: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
            let numbers = self.numbers.iter_mut().enumerate();
            numbers.for_each(|(at, number)| *number = if is_null(at) { 0 } else { *number + 1 });
            self.last = Some(values.clone());
        }
        if self.known.len() + 2 > DICTIONARY_VALUES_MAX || self.known.bytes() > VALUES_BYTES_MAX {
            return Ok(false);
        }
        let number = |code: usize| self.numbers.get(code).copied().unwrap_or(0);
        match dictionary.keys().as_primitive_opt::<Int32Type>() {
            Some(codes) => numbers.extend(codes.values().iter().map(|code| number(*code as usize))),
            None if values.is_empty() => numbers.resize(column.len(), 0),
            None => numbers.extend(dictionary.normalized_keys().into_iter().map(number)),
        }
        Ok(true)
    }
}

/// The bytes of values with these numbers, given the bits of each value from 0; zeros for null.
fn bytes_of(numbers: &[u32], width: usize, value: impl Fn(usize) -> u128) -> Buffer {
    let values =
        numbers.iter().map(|number| number.checked_sub(1).map_or(0, |at| value(at as usize)));
    match width {
        4 => Buffer::from_vec(values.map(|value| value as u32).collect()),
        8 => Buffer::from_vec(values.map(|value| value as u64).collect()),
        16 => Buffer::from_vec(values.collect::<Vec<u128>>()),
        _ => {
            let mut bytes = MutableBuffer::with_capacity(numbers.len() * width);
            values.for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()[..width]));
            bytes.into()
        }
    }
}

/// Extends a range by the values of a column, and puts their numbers. `false` if it would have too
/// many; then numbers are undefined.
fn number_range(column: &ArrayRef, range: (&mut i64, &mut i64), numbers: &mut Vec<u32>) -> bool {
    let width = width(column.data_type()).expect("only such columns have a range");
    let bytes = fixed_values(column, width);
    match width {
        1 => number_integers::<i8>(bytes.typed_data(), column, range, numbers),
        2 => number_integers::<i16>(bytes.typed_data(), column, range, numbers),
        4 => number_integers::<i32>(bytes.typed_data(), column, range, numbers),
        _ => number_integers::<i64>(bytes.typed_data(), column, range, numbers),
    }
}

fn number_integers<T: Copy + Ord + Into<i64>>(
    values: &[T],
    column: &ArrayRef,
    (low, high): (&mut i64, &mut i64),
    numbers: &mut Vec<u32>,
) -> bool {
    let range = match some_nulls(column) {
        None => range(values.iter().copied()),
        Some(nulls) => range(nulls.valid_indices().map(|row| values[row])),
    };
    if let Some((least, most)) = range {
        (*low, *high) = (least.into().min(*low), most.into().max(*high));
        if high.abs_diff(*low) > RANGE_MAX {
            return false;
        }
    }
    let low = *low;
    let number = |value: &T| ((*value).into().wrapping_sub(low) as u32).wrapping_add(1);
    numbers.extend(values.iter().map(number));
    true
}

/// The least and the largest value.
fn range<T: Copy + Ord>(mut values: impl Iterator<Item = T>) -> Option<(T, T)> {
    let first = values.next()?;
    Some(values.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
}

fn number_words(table: &mut WordTable<u64>, column: &ArrayRef, numbers: &mut Vec<u32>) -> bool {
    let width = width(column.data_type()).expect("only such columns have words");
    let bytes = fixed_values(column, width);
    match width {
        2 => look_up(table, column, bytes.as_chunks().0.iter().map(word16), numbers),
        4 => look_up(table, column, bytes.as_chunks().0.iter().map(word32), numbers),
        8 => look_up(table, column, bytes.as_chunks().0.iter().map(word64), numbers),
        width => look_up(table, column, bytes.chunks_exact(width).map(wide_word), numbers),
    }
}

fn word16(value: &[u8; 2]) -> u64 {
    u16::from_le_bytes(*value).into()
}

fn word32(value: &[u8; 4]) -> u64 {
    u32::from_le_bytes(*value).into()
}

fn word64(value: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*value)
}

fn number_wide_words(
    table: &mut WordTable<u128>,
    column: &ArrayRef,
    numbers: &mut Vec<u32>,
) -> bool {
    let width = width(column.data_type()).expect("only such columns have words");
    let bytes = fixed_values(column, width);
    match width {
        16 => {
            let words = bytes.as_chunks().0.iter().map(|word| u128::from_le_bytes(*word));
            look_up(table, column, words, numbers)
        }
        width => look_up(table, column, bytes.chunks_exact(width).map(wide_word), numbers),
    }
}

/// A value of fewer bytes than the word.
fn wide_word<W: TryFrom<u128>>(value: &[u8]) -> W {
    let mut wide = [0; size_of::<u128>()];
    wide[..value.len()].copy_from_slice(value);
    W::try_from(u128::from_le_bytes(wide)).ok().expect("no more bytes than the word has")
}

/// Puts the numbers of words from 1, any number for null.
fn look_up<W: TableWord>(
    table: &mut WordTable<W>,
    column: &ArrayRef,
    words: impl Iterator<Item = W>,
    numbers: &mut Vec<u32>,
) -> bool {
    let fits = match some_nulls(column) {
        None => table.numbers(words, numbers, |_| {}),
        // Whatever is stored for null is no value.
        Some(nulls) => {
            let words =
                words.zip(nulls).map(|(word, valid)| if valid { word } else { W::default() });
            table.numbers(words, numbers, |_| {})
        }
    };
    numbers.iter_mut().for_each(|number| *number += 1);
    fits
}

fn number_texts(texts: &mut TextNumbers, column: &ArrayRef, numbers: &mut Vec<u32>) -> bool {
    fn of<T: ByteArrayType>(
        texts: &mut TextNumbers,
        column: &GenericByteArray<T>,
        numbers: &mut Vec<u32>,
    ) -> bool {
        let (ends, bytes) = (column.value_offsets(), column.value_data());
        let text = |row: usize| &bytes[ends[row].as_usize()..ends[row + 1].as_usize()];
        texts.numbers(column.len(), some_nulls(column), text, numbers)
    }
    let fits = match column.data_type() {
        DataType::Utf8 => of(texts, column.as_string::<i32>(), numbers),
        DataType::LargeUtf8 => of(texts, column.as_string::<i64>(), numbers),
        DataType::Binary => of(texts, column.as_binary::<i32>(), numbers),
        _ => of(texts, column.as_binary::<i64>(), numbers),
    };
    numbers.iter_mut().for_each(|number| *number += 1);
    fits
}
