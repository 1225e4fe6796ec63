//! Values of a flat column that are collected from pages, and the array that they become.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, BooleanBufferBuilder, Decimal128Array,
    DictionaryArray, FixedSizeBinaryArray, Int32Array, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{ArrowNativeType, DataType, Int32Type};
use euphrates_flow::{Error, Result};

use super::flat_layout::FlatLayout;
use super::strings::{StringDictionary, StringValues, is_text};
use crate::parquet::values::leading;

/// Values without nulls, in the order of their rows.
pub enum FlatValues {
    /// Truth values.
    Bits(BooleanBufferBuilder),
    /// Numbers of four bytes, as bit patterns.
    Four(Vec<u32>),
    /// Numbers of eight bytes, as bit patterns.
    Eight(Vec<u64>),
    /// Decimals of eight bytes, as arrays have them.
    Decimals(Vec<i128>),
    /// Strings of as many bytes as the first field says.
    Fixed(usize, Vec<u8>),
    /// Strings of any length.
    Strings(StringValues),
    /// Codes of a dictionary, each of which is one of its values.
    Codes(Vec<u32>),
}

/// The unscaled value of a decimal of eight bytes.
pub fn wide(bytes: [u8; 8]) -> i128 {
    i64::from_le_bytes(bytes).into()
}

impl FlatValues {
    /// No values of a layout. Strings are codes until one has none.
    pub fn new(layout: FlatLayout) -> FlatValues {
        match layout {
            FlatLayout::Bits => FlatValues::Bits(BooleanBufferBuilder::new(0)),
            FlatLayout::Four => FlatValues::Four(vec![]),
            FlatLayout::Eight => FlatValues::Eight(vec![]),
            FlatLayout::EightOfDecimals => FlatValues::Decimals(vec![]),
            FlatLayout::Fixed(width) => FlatValues::Fixed(width, vec![]),
            FlatLayout::Strings => FlatValues::Codes(vec![]),
        }
    }

    /// Makes room for `count` more values, but for the bytes of strings.
    pub fn reserve(&mut self, count: usize) {
        match self {
            FlatValues::Bits(bits) => bits.reserve(count),
            FlatValues::Four(values) => values.reserve(count),
            FlatValues::Eight(values) => values.reserve(count),
            FlatValues::Decimals(values) => values.reserve(count),
            FlatValues::Fixed(width, bytes) => bytes.reserve(count * *width),
            FlatValues::Strings(strings) => strings.offsets.reserve(count),
            // Of a column without a dictionary, there are none.
            FlatValues::Codes(_) => {}
        }
    }

    /// The array of this type, given which rows are null. `dictionary` is that of the codes.
    pub fn into_array(
        self,
        nulls: Option<&NullBuffer>,
        data_type: &DataType,
        dictionary: Option<&StringDictionary>,
    ) -> Result<ArrayRef> {
        let value_type = match data_type {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        let array = match self {
            FlatValues::Bits(mut bits) => {
                let bits = bits.finish();
                let bits = match nulls {
                    None => bits,
                    Some(nulls) => spread_bits(&bits, nulls),
                };
                return Ok(Arc::new(BooleanArray::new(bits, nulls.cloned())));
            }
            FlatValues::Four(values) => match value_type {
                DataType::Int8 | DataType::UInt8 => {
                    numbers(values.iter().map(|value| *value as u8).collect(), nulls, value_type)
                }
                DataType::Int16 | DataType::UInt16 => {
                    numbers(values.iter().map(|value| *value as u16).collect(), nulls, value_type)
                }
                DataType::Decimal128(..) => {
                    let wide = values.iter().map(|value| i128::from(*value as i32));
                    decimals(wide.collect(), nulls, value_type)
                }
                _ => numbers(values, nulls, value_type),
            },
            FlatValues::Eight(values) => match value_type {
                DataType::Decimal128(..) => {
                    let wide = values.iter().map(|value| i128::from(*value as i64));
                    decimals(wide.collect(), nulls, value_type)
                }
                _ => numbers(values, nulls, value_type),
            },
            FlatValues::Decimals(values) => decimals(values, nulls, value_type),
            FlatValues::Fixed(width, bytes) => match value_type {
                DataType::Decimal128(..) => {
                    decimals(big_endian_decimals(&bytes, width), nulls, value_type)
                }
                _ => {
                    let bytes = match nulls {
                        None => bytes,
                        Some(nulls) => spread_strings(&bytes, width, nulls),
                    };
                    let (bytes, nulls) = (Buffer::from_vec(bytes), nulls.cloned());
                    Ok(Arc::new(FixedSizeBinaryArray::try_new(width as i32, bytes, nulls)?) as _)
                }
            },
            FlatValues::Strings(strings) => strings.into_array(nulls, is_text(value_type)),
            FlatValues::Codes(codes) => decoded(codes, nulls, data_type, dictionary),
        };
        let array = array?;
        if array.data_type() == data_type { Ok(array) } else { Ok(cast(&array, data_type)?) }
    }

    /// Replaces codes by their strings, since strings without codes follow.
    pub fn strings(&mut self, dictionary: Option<&StringDictionary>) -> Result<&mut StringValues> {
        if let FlatValues::Codes(codes) = self {
            let mut strings = StringValues::default();
            if !codes.is_empty() {
                let dictionary = dictionary.ok_or_else(|| Error::corrupt("no dictionary"))?;
                dictionary.append(codes.iter().map(|code| *code as usize), &mut strings)?;
            }
            *self = FlatValues::Strings(strings);
        }
        match self {
            FlatValues::Strings(strings) => Ok(strings),
            _ => Err(Error::corrupt("strings among numbers")),
        }
    }
}

fn numbers<T: ArrowNativeType>(
    values: Vec<T>,
    nulls: Option<&NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let values = by_row(values, nulls);
    let data = ArrayData::builder(data_type.clone()).len(values.len()).nulls(nulls.cloned());
    Ok(make_array(data.add_buffer(Buffer::from_vec(values)).build()?))
}

fn decimals(
    values: Vec<i128>,
    nulls: Option<&NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let values = by_row(values, nulls);
    let array = Decimal128Array::try_new(values.into(), nulls.cloned())?;
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

/// Numbers in two's complement of `width` bytes each, the highest first; at most 16 bytes.
fn big_endian_decimals(bytes: &[u8], width: usize) -> Vec<i128> {
    let unused_bits = (size_of::<i128>() - width) * 8;
    bytes.chunks_exact(width).map(|value| leading(value) as i128 >> unused_bits).collect()
}

/// The strings of these codes.
fn decoded(
    codes: Vec<u32>,
    nulls: Option<&NullBuffer>,
    data_type: &DataType,
    dictionary: Option<&StringDictionary>,
) -> Result<ArrayRef> {
    let mut strings = StringValues::default();
    // Without a dictionary, all rows are null.
    let Some(dictionary) = dictionary else {
        return strings.into_array(nulls, is_text(data_type));
    };
    let is_valid = dictionary.is_valid(codes.len())?;
    dictionary.append(codes.iter().map(|code| *code as usize), &mut strings)?;
    match is_valid {
        true => strings.into_valid_array(nulls, is_text(data_type)),
        false => strings.into_array(nulls, is_text(data_type)),
    }
}

/// Codes with the values that they stand for, of which each has one: it was checked when it was
/// decoded.
pub fn coded(codes: Vec<u32>, nulls: Option<&NullBuffer>, values: ArrayRef) -> Result<ArrayRef> {
    let codes = by_code(codes, nulls)?;
    debug_assert!(codes.iter().flatten().all(|code| (code as usize) < values.len()));
    // SAFETY: `PageDictionary::check` has compared the codes with the number of values.
    Ok(Arc::new(unsafe { DictionaryArray::<Int32Type>::new_unchecked(codes, values) }))
}

fn by_code(codes: Vec<u32>, nulls: Option<&NullBuffer>) -> Result<Int32Array> {
    let codes: ScalarBuffer<i32> = ScalarBuffer::from(Buffer::from_vec(by_row(codes, nulls)));
    Ok(Int32Array::try_new(codes, nulls.cloned())?)
}

/// Moves each value to its row; rows that are null have the default.
fn by_row<T: Copy + Default>(values: Vec<T>, nulls: Option<&NullBuffer>) -> Vec<T> {
    let Some(nulls) = nulls else { return values };
    let mut rows = vec![T::default(); nulls.len()];
    let mut from = 0;
    for (begin, end) in nulls.valid_slices() {
        let to = from + (end - begin);
        rows[begin..end].copy_from_slice(&values[from..to]);
        from = to;
    }
    rows
}

/// Like `by_row`, for strings of `width` bytes.
fn spread_strings(bytes: &[u8], width: usize, nulls: &NullBuffer) -> Vec<u8> {
    let mut rows = vec![0; nulls.len() * width];
    let mut from = 0;
    for (begin, end) in nulls.valid_slices() {
        let to = from + (end - begin) * width;
        rows[begin * width..end * width].copy_from_slice(&bytes[from..to]);
        from = to;
    }
    rows
}

/// Like `by_row`, for truth values.
fn spread_bits(bits: &BooleanBuffer, nulls: &NullBuffer) -> BooleanBuffer {
    let mut values = bits.iter();
    let row = |is_valid: bool| is_valid && values.next().unwrap_or(false);
    nulls.iter().map(row).collect()
}
