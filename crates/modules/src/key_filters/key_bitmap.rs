//! The integers that a join holds, one bit for each from the least to the greatest.
//!
//! Keys of tables are mostly integers of a range that is not much larger than their number. Then a
//! bit for each is smaller than a Bloom filter, knows no false keys, and takes no hash. Rows that
//! lie in the order of their keys ask neighbouring bits, which a hash would scatter.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use euphrates_flow::Result;

use crate::partitioning::hashing::unmix;

/// A set of integers, to which several threads add.
pub(crate) struct KeyBitmap {
    least: i64,
    /// At least one.
    words: Vec<AtomicU64>,
}

impl KeyBitmap {
    /// A set without integers, for those of a domain.
    pub(crate) fn new(domain: KeyDomainBounds) -> KeyBitmap {
        let words = (domain.span / u64::from(u64::BITS)) as usize + 1;
        KeyBitmap { least: domain.least, words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds the integers, of the domain, that have these unique hashes.
    pub(crate) fn add(&self, hashes: &[u64]) {
        for hash in hashes {
            let at = unmix(*hash).wrapping_sub(self.least as u64) as usize;
            let (word, bit) = (&self.words[at / 64], 1 << (at % 64));
            // Reading first leaves the cache line shared where the bit is set already.
            if word.load(Relaxed) & bit == 0 {
                word.fetch_or(bit, Relaxed);
            }
        }
    }

    /// Whether it has each value of a column whose type has a domain. Null stands for any value.
    pub(crate) fn has(&self, column: &ArrayRef) -> Result<BooleanBuffer> {
        let values = integers(column)?;
        Ok(BooleanBuffer::collect_bool(values.len(), |row| {
            let at = values[row].wrapping_sub(self.least) as u64 as usize;
            let is_within = at / 64 < self.words.len();
            // Without branches, so that the processor has many words in flight.
            let word = self.words[if is_within { at / 64 } else { 0 }].load(Relaxed);
            is_within & (word >> (at % 64) & 1 == 1)
        }))
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.words.as_slice())
    }
}

/// The least integer of a domain, and how far the greatest lies above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeyDomainBounds {
    pub(crate) least: i64,
    pub(crate) span: u64,
}

impl KeyDomainBounds {
    /// Those of keys between the two values of `range`; `None` if these are no integers of 64 bits.
    pub(crate) fn of(range: &ArrayRef) -> Option<KeyDomainBounds> {
        is_integer(range.data_type()).then_some(())?;
        let values = integers(range).ok()?;
        let [least, greatest] = values[..] else { return None };
        Some(KeyDomainBounds { least, span: greatest.abs_diff(least) })
    }
}

/// Whether values of a type are integers whose unique hashes are those of 64 bits with a sign.
fn is_integer(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Decimal128(digits, _) => *digits <= 18,
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32 | Date64 => true,
        Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => true,
        _ => false,
    }
}

fn integers(column: &ArrayRef) -> Result<ScalarBuffer<i64>> {
    Ok(match column.data_type() {
        DataType::Decimal128(..) => {
            let values = column.as_primitive::<Decimal128Type>().values();
            values.iter().map(|value| *value as i64).collect()
        }
        DataType::Date32 | DataType::Time32(_) => {
            let days = cast(column, &DataType::Int32)?;
            cast(&days, &DataType::Int64)?.as_primitive::<Int64Type>().values().clone()
        }
        _ => cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().values().clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::partitioning::hashing::hash_rows;
    use arrow::array::{Int64Array, UInt64Array};
    use proptest::prelude::*;

    fn column(values: &[i64], data_type: &DataType) -> ArrayRef {
        let values = Int64Array::from(values.to_vec());
        match data_type {
            DataType::Decimal128(..) => {
                let values: arrow::array::Decimal128Array =
                    values.iter().map(|value| value.map(i128::from)).collect();
                Arc::new(values.with_data_type(data_type.clone()))
            }
            DataType::Date32 | DataType::Time32(_) => {
                cast(&cast(&values, &DataType::Int32).unwrap(), data_type).unwrap()
            }
            other => cast(&values, other).unwrap(),
        }
    }

    proptest! {
        #[test]
        fn set_has_the_added_integers_of_any_type_and_no_others(
            keys in prop::collection::vec(-90_i64..90, 1..40),
            others in prop::collection::vec(-120_i64..120, 0..40),
        ) {
            use DataType::*;
            for data_type in [
                Int8, Int16, Int32, Int64, Date32, Decimal128(9, 2),
                Timestamp(arrow::datatypes::TimeUnit::Microsecond, None),
            ] {
                let (least, greatest) = (*keys.iter().min().unwrap(), *keys.iter().max().unwrap());
                let domain = KeyDomainBounds::of(&column(&[least, greatest], &data_type)).unwrap();
                let set = KeyBitmap::new(domain);
                set.add(&hash_rows(&[column(&keys, &data_type)]).unwrap());
                let found = set.has(&column(&others, &data_type)).unwrap();
                let expected: Vec<bool> = others.iter().map(|it| keys.contains(it)).collect();
                prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn extremes_of_64_bits_are_within_or_beyond_without_overflow() {
        let ends = column(&[i64::MIN, i64::MAX], &DataType::Int64);
        assert_eq!(KeyDomainBounds::of(&ends).unwrap().span, u64::MAX);
        let keys = column(&[i64::MAX - 70, i64::MAX], &DataType::Int64);
        let set = KeyBitmap::new(KeyDomainBounds::of(&keys).unwrap());
        set.add(&hash_rows(std::slice::from_ref(&keys)).unwrap());
        assert_eq!(set.has(&keys).unwrap().count_set_bits(), 2);
        assert_eq!(set.has(&ends).unwrap().iter().collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn integers_beyond_64_bits_with_a_sign_have_no_domain() {
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![0, u64::MAX]));
        assert_eq!(KeyDomainBounds::of(&unsigned), None);
    }
}
