//! The least and the greatest value of each key column, gathered batch by batch.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray, UInt32Array,
    downcast_primitive_array,
};
use arrow::buffer::Buffer;
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use euphrates_flow::{Result, array_bytes};

use crate::batches::array_values::{fixed_array, fixed_values};

/// The ranges of several columns without nulls.
#[derive(Clone)]
pub(crate) struct KeyRanges(Vec<KeyRange>);

/// The range of a column.
#[derive(Clone)]
enum KeyRange {
    /// It has no values.
    Empty,
    /// Its least and its greatest value.
    Between(ArrayRef),
    /// Values of its type are not compared.
    Unknown,
}

/// Words of a range that is sent to other processes: a kind, and two values of 16 bytes.
const RANGE_WORDS: usize = 5;
/// The most bytes of a value that is sent.
const SENT_BYTES_MAX: usize = 16;
/// The most bytes of the least and the greatest text together. Longer ones are held by every
/// instance, and tell little.
const TEXT_BYTES_MAX: usize = 4 << 10;

impl KeyRanges {
    /// The ranges of this many columns, without values.
    pub(crate) fn new(columns: usize) -> KeyRanges {
        KeyRanges(vec![KeyRange::Empty; columns])
    }

    /// Ranges of this many columns that are not known.
    pub(crate) fn unknown(columns: usize) -> KeyRanges {
        KeyRanges(vec![KeyRange::Unknown; columns])
    }

    /// The ranges of these columns.
    pub(crate) fn of(columns: &[ArrayRef]) -> Result<KeyRanges> {
        Ok(KeyRanges(columns.iter().map(range_of).collect::<Result<_>>()?))
    }

    /// Adds the values of other columns of the same types.
    pub(crate) fn merge(&mut self, other: KeyRanges) -> Result<()> {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = match (&*own, other) {
                (KeyRange::Unknown, _) | (_, KeyRange::Unknown) => KeyRange::Unknown,
                (KeyRange::Empty, other) => other,
                (_, KeyRange::Empty) => continue,
                (KeyRange::Between(one), KeyRange::Between(other)) => {
                    range_of(&concat(&[one.as_ref(), other.as_ref()])?)?
                }
            };
        }
        Ok(())
    }

    /// The least and the greatest value of each column; `None` if they are not known.
    pub(crate) fn known(&self) -> Vec<Option<ArrayRef>> {
        let known = |range: &KeyRange| match range {
            KeyRange::Between(range) => Some(range.clone()),
            KeyRange::Empty | KeyRange::Unknown => None,
        };
        self.0.iter().map(known).collect()
    }

    /// The number of words of the ranges of this many columns.
    pub(crate) fn words(columns: usize) -> usize {
        columns * RANGE_WORDS
    }

    /// The ranges as words for other processes; those of text are not sent.
    pub(crate) fn encode(&self) -> Vec<usize> {
        self.0.iter().flat_map(encoded).collect()
    }

    /// The ranges of all processes, each encoded, for columns of these types. Further words are
    /// ignored.
    pub(crate) fn of_all(types: &[DataType], all: &[Vec<usize>]) -> Result<KeyRanges> {
        let mut ranges = KeyRanges::new(types.len());
        for words in all {
            let words = words.chunks(RANGE_WORDS).zip(types);
            ranges.merge(KeyRanges(words.map(|(words, of)| decoded(words, of)).collect()))?;
        }
        Ok(ranges)
    }
}

fn encoded(range: &KeyRange) -> [usize; RANGE_WORDS] {
    let mut words = [0; RANGE_WORDS];
    let KeyRange::Between(values) = range else {
        words[0] = if matches!(range, KeyRange::Empty) { 0 } else { 2 };
        return words;
    };
    let Some(width) = sent_width(values.data_type()) else { return [2, 0, 0, 0, 0] };
    let mut padded = [0; 2 * SENT_BYTES_MAX];
    padded[..2 * width].copy_from_slice(&fixed_values(values, width));
    words[0] = 1;
    for (word, bytes) in words[1..].iter_mut().zip(padded.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes) as usize;
    }
    words
}

fn decoded(words: &[usize], data_type: &DataType) -> KeyRange {
    let (Some(1), Some(width)) = (words.first(), sent_width(data_type)) else {
        return if words.first() == Some(&0) { KeyRange::Empty } else { KeyRange::Unknown };
    };
    let bytes: Vec<u8> =
        words[1..].iter().flat_map(|word| (*word as u64).to_le_bytes()).take(2 * width).collect();
    // Not from a vector of bytes, which need not be aligned.
    let values = Buffer::from_slice_ref(&bytes);
    KeyRange::Between(fixed_array(data_type, 2, values, None))
}

/// The bytes of a value, if ranges of the type are sent.
fn sent_width(data_type: &DataType) -> Option<usize> {
    data_type.primitive_width().filter(|width| *width <= SENT_BYTES_MAX)
}

fn range_of(column: &ArrayRef) -> Result<KeyRange> {
    Ok(match column.is_empty() {
        true => KeyRange::Empty,
        false => extremes(column)?.map_or(KeyRange::Unknown, KeyRange::Between),
    })
}

/// The least and the greatest of some values without nulls; `None` if the type is not compared.
/// NaN is the greatest of all.
fn extremes(column: &ArrayRef) -> Result<Option<ArrayRef>> {
    let array = column.as_ref();
    downcast_primitive_array!(
        array => Ok(Some(Arc::new(of_numbers(array)) as ArrayRef)),
        DataType::Utf8 => at(column, of_values(array.as_string::<i32>().iter())),
        DataType::LargeUtf8 => at(column, of_values(array.as_string::<i64>().iter())),
        DataType::Utf8View => at(column, of_values(array.as_string_view().iter())),
        DataType::Binary => at(column, of_values(array.as_binary::<i32>().iter())),
        DataType::LargeBinary => at(column, of_values(array.as_binary::<i64>().iter())),
        DataType::BinaryView => at(column, of_values(array.as_binary_view().iter())),
        _ => Ok(None)
    )
}

fn of_numbers<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> PrimitiveArray<T> {
    let values = array.values();
    let first = values[0];
    let less = |one: T::Native, other: T::Native| if other.is_lt(one) { other } else { one };
    let more = |one: T::Native, other: T::Native| if one.is_lt(other) { other } else { one };
    let least = values.iter().fold(first, |least, value| less(least, *value));
    let greatest = values.iter().fold(first, |greatest, value| more(greatest, *value));
    PrimitiveArray::<T>::from_iter_values([least, greatest])
        .with_data_type(array.data_type().clone())
}

/// The positions of the least and the greatest value.
fn of_values<T: Ord>(values: impl Iterator<Item = Option<T>> + Clone) -> Option<[u32; 2]> {
    let numbered = || values.clone().zip(0_u32..);
    let least = numbered().min_by(|(one, _), (other, _)| one.cmp(other))?.1;
    let greatest = numbered().max_by(|(one, _), (other, _)| one.cmp(other))?.1;
    Some([least, greatest])
}

fn at(column: &ArrayRef, rows: Option<[u32; 2]>) -> Result<Option<ArrayRef>> {
    let Some(rows) = rows else { return Ok(None) };
    let lengths = rows.map(|row| array_bytes(&column.slice(row as usize, 1)));
    if lengths.iter().sum::<usize>() > TEXT_BYTES_MAX {
        return Ok(None);
    }
    let both = take(column, &UInt32Array::from(rows.to_vec()), None)?;
    // Views would keep the text of the whole batch.
    Ok(Some(match both.data_type() {
        DataType::Utf8View => Arc::new(both.as_string_view().gc()),
        DataType::BinaryView => Arc::new(both.as_binary_view().gc()),
        _ => both,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, LargeStringArray, StringViewArray};
    use proptest::prelude::*;

    fn known(columns: &[&[ArrayRef]]) -> Vec<Option<ArrayRef>> {
        let mut ranges = KeyRanges::new(columns[0].len());
        for columns in columns {
            ranges.merge(KeyRanges::of(columns).unwrap()).unwrap();
        }
        ranges.known()
    }

    fn integers(values: &[i32]) -> ArrayRef {
        Arc::new(Int32Array::from(values.to_vec()))
    }

    proptest! {
        #[test]
        fn range_of_batches_is_that_of_all_values_also_from_several_processes(
            batches in prop::collection::vec(prop::collection::vec(any::<i32>(), 0..20), 1..6),
        ) {
            let all = batches.concat();
            let wanted = all.iter().min().map(|min| integers(&[*min, *all.iter().max().unwrap()]));
            let columns: Vec<[ArrayRef; 1]> = batches.iter().map(|it| [integers(it)]).collect();
            let columns: Vec<&[ArrayRef]> = columns.iter().map(|it| it.as_slice()).collect();
            prop_assert_eq!(&known(&columns), &vec![wanted.clone()]);
            let sent = |it: &&[ArrayRef]| KeyRanges::of(it).unwrap().encode();
            let sent: Vec<Vec<usize>> = columns.iter().map(sent).collect();
            let gathered = KeyRanges::of_all(&[DataType::Int32], &sent).unwrap();
            prop_assert_eq!(gathered.known(), vec![wanted]);
        }
    }

    #[test]
    fn text_is_ordered_by_its_bytes_and_nan_is_the_greatest() {
        let texts = ["b", "é", "", "ab"];
        let large: ArrayRef = Arc::new(LargeStringArray::from(texts.to_vec()));
        let views: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![2.0, f64::NAN, -1.0, 0.0]));
        let found = known(&[&[large, views, floats]]);
        let wanted: [ArrayRef; 2] = [
            Arc::new(LargeStringArray::from(vec!["", "é"])),
            Arc::new(StringViewArray::from(vec!["", "é"])),
        ];
        assert_eq!(found[..2], wanted.map(Some));
        let floats = found[2].as_ref().unwrap();
        let floats = floats.as_primitive::<arrow::datatypes::Float64Type>();
        assert!(floats.value(0) == -1.0 && floats.value(1).is_nan());
    }

    #[test]
    fn range_that_a_process_does_not_know_is_known_to_none() {
        let own = KeyRanges::of(&[integers(&[7])]).unwrap();
        let sent = [own.encode(), KeyRanges::unknown(1).encode(), KeyRanges::new(1).encode()];
        assert_eq!(KeyRanges::of_all(&[DataType::Int32], &sent).unwrap().known(), [None]);
        let text: ArrayRef = Arc::new(LargeStringArray::from(vec!["a"]));
        let sent = [KeyRanges::of(&[text]).unwrap().encode()];
        assert_eq!(KeyRanges::of_all(&[DataType::LargeUtf8], &sent).unwrap().known(), [None]);
    }
}
