//! Hashes of rows, the same on every machine; a test fails if the function changes.
//!
//! Rows are partitioned by hash across workers and disks, so a hash must not depend on the process
//! that computes it: not on a seed, an address, the byte order in memory, or the encoding of a
//! column. Equal values of one kind have one hash in any representation: text plain, large, as
//! views or in a dictionary; integers, and decimals of scale 0, of any width; floats of any width,
//! with one hash for both zeros and one for every NaN. High bits choose partitions, low bits are
//! for tables, so the rows of a partition still spread over a whole table.

use std::ops::Range;

use arrow::array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, GenericByteArray};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, DataType, TimeUnit, i256};
use euphrates_flow::{Error, Result};

use crate::batches::byte_strings::short_string;
use crate::canonical_floats::canonical64;

/// The version of the hash function, for the test that pins its values; raise it when they change.
/// It is neither stored nor compared at run time.
#[cfg(test)]
const VERSION: u32 = 2;

/// Stands for a null value.
const NULL: u64 = 0x9b05_688c_2b3e_6c1f;
/// Odd constants with their bits well spread, from wyhash.
const SECRET: [u64; 3] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3];

/// The hash of each row over these columns of equal length. For a single numeric, date or time
/// column without nulls whose values fit eight bytes, different values have different hashes. Text
/// and binary values may collide at any length.
pub(crate) fn hash_rows(columns: &[ArrayRef]) -> Result<Vec<u64>> {
    let mut hashes = vec![0; columns.first().map_or(0, |column| column.len())];
    for (number, column) in columns.iter().enumerate() {
        add_column(column, number == 0, &mut hashes)?;
    }
    Ok(hashes)
}

/// Whether rows can be hashed by a column of this type.
pub(crate) fn can_hash(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => can_hash(values),
        Interval(_) | List(_) | ListView(_) | FixedSizeList(..) | LargeList(_)
        | LargeListView(_) | Struct(_) | Union(..) | Map(..) | RunEndEncoded(..) => false,
        _ => true,
    }
}

/// Mixes eight bytes so that each bit of the result depends on all of them (Stafford's variant 13,
/// the finalizer of SplitMix64). A bijection.
#[inline(always)]
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The value that `mix` has mixed to this.
#[inline(always)]
pub(crate) fn unmix(mixed: u64) -> u64 {
    // Multiplications by the inverses of its factors; each shift is undone by adding its multiples.
    let value = (mixed ^ (mixed >> 31) ^ (mixed >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let value = (value ^ (value >> 27) ^ (value >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    value ^ (value >> 30) ^ (value >> 60)
}

/// Adds a column to the hashes of the columns before it.
fn add_column(column: &ArrayRef, is_first: bool, hashes: &mut [u64]) -> Result<()> {
    let column = column.as_ref();
    match column.data_type() {
        DataType::Null => add(column, is_first, hashes, |_| NULL),
        DataType::Boolean => {
            let values = column.as_boolean();
            add(column, is_first, hashes, |row| values.value(row).into());
        }
        DataType::Decimal256(..) => {
            let values = column.as_primitive::<arrow::array::types::Decimal256Type>().values();
            add(column, is_first, hashes, |row| of_i256(values[row]));
        }
        DataType::FixedSizeBinary(_) => {
            let values = column.as_fixed_size_binary();
            add(column, is_first, hashes, |row| of_bytes(values.value(row)));
        }
        DataType::Utf8 => add_bytes(column.as_string::<i32>(), is_first, hashes),
        DataType::LargeUtf8 => add_bytes(column.as_string::<i64>(), is_first, hashes),
        DataType::Binary => add_bytes(column.as_binary::<i32>(), is_first, hashes),
        DataType::LargeBinary => add_bytes(column.as_binary::<i64>(), is_first, hashes),
        DataType::Utf8View => {
            let values = column.as_string_view();
            add(column, is_first, hashes, |row| of_bytes(values.value(row).as_bytes()));
        }
        DataType::BinaryView => {
            let values = column.as_binary_view();
            add(column, is_first, hashes, |row| of_bytes(values.value(row)));
        }
        DataType::Dictionary(..) => add_dictionary(column, is_first, hashes)?,
        other => {
            if !add_number(column, is_first, hashes) {
                let error = Error::usage(format!("rows cannot be dealt out by a {other}"));
                return Err(error.remedy("cast it to text, or take its parts apart"));
            }
        }
    }
    Ok(())
}

/// Adds a numeric column; returns false for other types.
fn add_number(column: &dyn Array, is_first: bool, hashes: &mut [u64]) -> bool {
    use DataType::*;
    macro_rules! of {
        ($type:ty, $value:expr) => {
            add_primitive::<$type>(column, is_first, hashes, $value)
        };
    }
    match column.data_type() {
        Int8 => of!(Int8Type, |value| value as u64),
        Int16 => of!(Int16Type, |value| value as u64),
        Int32 => of!(Int32Type, |value| value as u64),
        Int64 => of!(Int64Type, |value| value as u64),
        UInt8 => of!(UInt8Type, u64::from),
        UInt16 => of!(UInt16Type, u64::from),
        UInt32 => of!(UInt32Type, u64::from),
        UInt64 => of!(UInt64Type, |value| value),
        Float16 => of!(Float16Type, |value| of_float(value.to_f64())),
        Float32 => of!(Float32Type, |value| of_float(value.into())),
        Float64 => of!(Float64Type, of_float),
        Date32 => of!(Date32Type, |value| value as u64),
        Date64 => of!(Date64Type, |value| value as u64),
        Time32(TimeUnit::Second) => of!(Time32SecondType, |value| value as u64),
        Time32(_) => of!(Time32MillisecondType, |value| value as u64),
        Time64(TimeUnit::Microsecond) => of!(Time64MicrosecondType, |value| value as u64),
        Time64(_) => of!(Time64NanosecondType, |value| value as u64),
        Timestamp(TimeUnit::Second, _) => of!(TimestampSecondType, |value| value as u64),
        Timestamp(TimeUnit::Millisecond, _) => of!(TimestampMillisecondType, |value| value as u64),
        Timestamp(TimeUnit::Microsecond, _) => of!(TimestampMicrosecondType, |value| value as u64),
        Timestamp(TimeUnit::Nanosecond, _) => of!(TimestampNanosecondType, |value| value as u64),
        Duration(TimeUnit::Second) => of!(DurationSecondType, |value| value as u64),
        Duration(TimeUnit::Millisecond) => of!(DurationMillisecondType, |value| value as u64),
        Duration(TimeUnit::Microsecond) => of!(DurationMicrosecondType, |value| value as u64),
        Duration(TimeUnit::Nanosecond) => of!(DurationNanosecondType, |value| value as u64),
        Decimal32(..) => of!(Decimal32Type, |value| value as u64),
        Decimal64(..) => of!(Decimal64Type, |value| value as u64),
        Decimal128(..) => of!(Decimal128Type, of_i128),
        _ => return false,
    }
    true
}

fn add_primitive<T: ArrowPrimitiveType>(
    column: &dyn Array,
    is_first: bool,
    hashes: &mut [u64],
    value: impl Fn(T::Native) -> u64,
) {
    let values: &[T::Native] = column.as_primitive::<T>().values();
    add(column, is_first, hashes, |row| value(values[row]));
}

fn add_bytes<T: ByteArrayType>(array: &GenericByteArray<T>, is_first: bool, hashes: &mut [u64]) {
    let (offsets, bytes) = (array.value_offsets(), array.value_data());
    add(array, is_first, hashes, |row| {
        of_bytes_within(bytes, offsets[row].as_usize()..offsets[row + 1].as_usize())
    });
}

/// Hashes each value once, however many rows have it.
fn add_dictionary(column: &dyn Array, is_first: bool, hashes: &mut [u64]) -> Result<()> {
    let dictionary = column.as_any_dictionary();
    let values = dictionary.values();
    let mut of_values = vec![0; values.len()];
    add_column(values, true, &mut of_values)?;
    let keys = dictionary.normalized_keys();
    let nulls = dictionary.keys().nulls();
    let is_null =
        |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row)) || values.is_null(keys[row]);
    for (row, hash) in hashes.iter_mut().enumerate() {
        let value = if is_null(row) { mix(NULL) } else { of_values[keys[row]] };
        *hash = if is_first { value } else { combined(*hash, value) };
    }
    Ok(())
}

#[inline(always)]
fn add(column: &dyn Array, is_first: bool, hashes: &mut [u64], value: impl Fn(usize) -> u64) {
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    // Four short loops, so that the processor keeps many rows in flight.
    match (nulls, is_first) {
        (None, true) => {
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = mix(value(row));
            }
        }
        (None, false) => {
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = combined(*hash, mix(value(row)));
            }
        }
        (Some(nulls), true) => {
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = mix(if nulls.is_null(row) { NULL } else { value(row) });
            }
        }
        (Some(nulls), false) => {
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = combined(*hash, mix(if nulls.is_null(row) { NULL } else { value(row) }));
            }
        }
    }
}

/// Combines the hash of the previous columns with that of one more. Their order matters.
#[inline(always)]
fn combined(hash: u64, value: u64) -> u64 {
    mix(hash.rotate_left(25).wrapping_mul(SECRET[0]) ^ value)
}

/// Equal numbers have equal bits.
#[inline(always)]
fn of_float(value: f64) -> u64 {
    canonical64(value).to_bits()
}

/// Equal to the 64-bit integer if the value fits.
#[inline(always)]
fn of_i128(value: i128) -> u64 {
    let low = value as i64;
    match i128::from(low) == value {
        true => low as u64,
        false => low as u64 ^ mix((value >> 64) as u64 ^ SECRET[1]),
    }
}

fn of_i256(value: i256) -> u64 {
    match value.to_i128() {
        Some(value) => of_i128(value),
        None => of_bytes(&value.to_le_bytes()),
    }
}

/// Hashes bytes without the final mix: up to sixteen as one number, more of them sixteen at a time,
/// as wyhash does.
#[inline(always)]
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half =
        |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as u64;
    let one = |at: usize| u64::from(bytes[at]) << (at * 8);
    let length = bytes.len();
    let mut seed = SECRET[0];
    // Words that overlap, for copies of any length are calls.
    let (low, high) = match length {
        0 => (0, 0),
        1..4 => (one(0) | one(length / 2) | one(length - 1), 0),
        4..8 => (half(0) | half(length - 4) << ((length - 4) * 8), 0),
        8 => (word(0), 0),
        9..=16 => (word(0), word(length - 8) >> ((16 - length) * 8)),
        _ => {
            let mut at = 0;
            while at + 16 < length {
                seed = folded(word(at) ^ SECRET[1], word(at + 8) ^ seed);
                at += 16;
            }
            (word(length - 16), word(length - 8))
        }
    };
    of_words(low, high, seed, length)
}

/// Like `of_bytes`, of those at a place among others, which are read with the next ones if they are
/// few: branches on random lengths take longer.
#[inline(always)]
fn of_bytes_within(bytes: &[u8], range: Range<usize>) -> u64 {
    let length = range.len();
    match short_string(bytes, range.start, length) {
        Some(short) => of_words(short as u64, (short >> 64) as u64, SECRET[0], length),
        None => of_bytes(&bytes[range]),
    }
}

#[inline(always)]
fn of_words(low: u64, high: u64, seed: u64, length: usize) -> u64 {
    folded(low ^ SECRET[1], high ^ seed) ^ (length as u64).wrapping_mul(SECRET[2])
}

/// Folds both halves of a product.
#[inline(always)]
fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// The part of a hash, one of `1 << bits`, after `used_bits` of its high bits.
#[inline(always)]
pub(crate) fn part_of(hash: u64, used_bits: u32, bits: u32) -> usize {
    match bits {
        0 => 0,
        _ => ((hash << used_bits) >> (64 - bits)) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::*;
    use arrow::compute::cast;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn hash(array: impl Array + 'static) -> Vec<u64> {
        hash_rows(&[Arc::new(array)]).unwrap()
    }

    proptest! {
        #[test]
        fn mixed_values_are_got_back(value: u64) {
            prop_assert_eq!(unmix(mix(value)), value);
        }
    }

    /// These hashes must not change without a new `VERSION`.
    #[test]
    fn hashes_are_stable() {
        assert_eq!(VERSION, 2);
        let numbers = hash(Int64Array::from(vec![0, 1, -1]));
        let texts = ["", "abc", "seven b", "euphrates", "the river that flows on and on"];
        let texts = hash(StringArray::from(texts.to_vec()));
        let both: [ArrayRef; 2] = [
            Arc::new(Int64Array::from(vec![Some(7), None])),
            Arc::new(StringArray::from(vec!["x", "y"])),
        ];
        let both = hash_rows(&both).unwrap();
        assert_eq!(numbers, KNOWN[0..3], "numbers");
        assert_eq!(texts, KNOWN[3..8], "texts");
        assert_eq!(both, KNOWN[8..10], "both");
    }

    /// Computed independently, by another program.
    const KNOWN: [u64; 10] = [
        0x0000_0000_0000_0000,
        0x5692_161d_100b_05e5,
        0xb4d0_55fc_f2cb_bd7b,
        0x4e6a_e996_bbe4_4404,
        0x26e2_98c2_59d8_8b40,
        0x02e1_3562_70d4_122a,
        0x610c_cc4e_815a_b7f4,
        0xf197_6fc8_3d32_6cfc,
        0xed7c_9cf2_3d8d_2335,
        0xbeff_cca7_c6f6_f2b8,
    ];

    #[test]
    fn equal_values_hash_equal_in_any_representation() {
        let words = StringArray::from(vec![Some("tigris"), None, Some("a longer name than 12")]);
        let plain = hash(words.clone());
        let text = |to: DataType| Box::new(to);
        for to in [
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::BinaryView,
            DataType::Dictionary(text(DataType::Int8), text(DataType::Utf8)),
        ] {
            let other = cast(&words, &to).unwrap();
            assert_eq!(hash_rows(&[other]).unwrap(), plain, "{to}");
        }
        let wide = hash(Int64Array::from(vec![-3, 0, 100]));
        for to in [
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Decimal128(38, 0),
            DataType::Decimal256(40, 0),
        ] {
            let other = cast(&Int64Array::from(vec![-3, 0, 100]), &to).unwrap();
            assert_eq!(hash_rows(&[other]).unwrap(), wide, "{to}");
        }
        let nan = f64::from_bits(0xfff8_0000_0000_0001);
        let floats = hash(Float64Array::from(vec![0.0, -0.0, f64::NAN, nan, 1.5]));
        assert_eq!((floats[0], floats[2]), (floats[1], floats[3]));
        assert_eq!(
            hash(Float32Array::from(vec![-0.0, f32::NAN, 1.5])),
            [floats[0], floats[2], floats[4]]
        );
    }

    #[test]
    fn nested_columns_are_refused() {
        let list = DataType::new_list(DataType::Int8, true);
        assert!(!can_hash(&list));
        let error = hash_rows(&[new_empty_array(&list)]).unwrap_err();
        assert!(error.to_string().contains("cannot be dealt out by a List"), "{error}");
    }

    /// Parts and slots get about equal shares, for any distribution of keys.
    #[test]
    fn hashes_spread_over_high_and_low_bits() {
        let rows = 1 << 16;
        let numbers = |step: i64| Int64Array::from_iter_values((0..rows).map(|n| n * step));
        let texts = StringArray::from_iter_values((0..rows).map(|n| format!("Clerk#{n:09}")));
        let pair: [ArrayRef; 2] = [
            Arc::new(Int64Array::from_iter_values((0..rows).map(|n| n % 256))),
            Arc::new(Int64Array::from_iter_values((0..rows).map(|n| n / 256))),
        ];
        for hashes in [
            hash(numbers(1)),
            hash(numbers(1 << 20)),
            hash(numbers(1 << 40)),
            hash(Float64Array::from_iter_values((0..rows).map(|n| n as f64))),
            hash(texts),
            hash_rows(&pair).unwrap(),
        ] {
            for shift in [0, 24, 58] {
                let mut counts = [0; 64];
                hashes.iter().for_each(|hash| counts[(hash >> shift) as usize & 63] += 1);
                // 1024 each are expected, with a standard deviation of 32.
                assert!(counts.iter().all(|count| (824..1224).contains(count)), "{counts:?}");
            }
        }
    }
}
