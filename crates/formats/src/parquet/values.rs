//! The values of a column in the layouts of pages, which equal Arrow's wherever possible, so
//! that Arrow buffers are written without a copy.

use arrow::array::{Array, ArrayRef, AsArray, GenericByteArray};
use arrow::buffer::{BooleanBuffer, Buffer, ScalarBuffer};
use arrow::compute::filter;
use arrow::datatypes::*;
use euphrates_flow::{Error, Result};
use parquet::basic::Type;

use super::write::levels::{Levels, NestedLevels};

/// Bytes of the length before a byte string.
pub const LENGTH_BYTES: usize = 4;

/// The most bytes of a decimal of 128 bits.
const DECIMAL_BYTES: i32 = 16;

/// Pages count bytes with 31 bits; this leaves room for the rest of a page.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// The physical layout of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhysicalLayout {
    /// Truth values, a bit each.
    Bits,
    /// Numbers of four bytes.
    Four,
    /// Numbers of eight bytes.
    Eight,
    /// Byte strings of any length.
    Bytes,
    /// Byte strings of this many bytes.
    Fixed(usize),
}

impl PhysicalLayout {
    /// The layout of a leaf of this type to encode here, stored in `width` bytes if these are the
    /// same for all values; `None` if the crate encodes it.
    pub fn of(kind: &DataType, stored: Type, width: i32) -> Option<PhysicalLayout> {
        use DataType::*;
        match (kind, stored) {
            (Boolean, Type::BOOLEAN) => Some(PhysicalLayout::Bits),
            (Decimal128(..), Type::FIXED_LEN_BYTE_ARRAY)
                if (1..=DECIMAL_BYTES).contains(&width) =>
            {
                Some(PhysicalLayout::Fixed(width as usize))
            }
            (FixedSizeBinary(width), _) if *width > 0 => {
                Some(PhysicalLayout::Fixed(*width as usize))
            }
            (Utf8 | LargeUtf8 | Binary | LargeBinary, Type::BYTE_ARRAY) => {
                Some(PhysicalLayout::Bytes)
            }
            (Int8 | Int16 | UInt8 | UInt16 | Decimal128(..), Type::INT32) => {
                Some(PhysicalLayout::Four)
            }
            (Int32 | UInt32 | Date32 | Time32(_), Type::INT32) => Some(PhysicalLayout::Four),
            (Float32, Type::FLOAT) => Some(PhysicalLayout::Four),
            (Int64 | UInt64 | Time64(_) | Timestamp(..) | Decimal128(..), Type::INT64) => {
                Some(PhysicalLayout::Eight)
            }
            (Float64, Type::DOUBLE) => Some(PhysicalLayout::Eight),
            _ => None,
        }
    }
}

/// Values without nulls. Numbers are bit patterns: only statistics depend on their type.
#[derive(Clone, Debug)]
pub enum NonNullValues {
    /// Truth values, a bit each.
    Bits(BooleanBuffer),
    /// Numbers of four bytes.
    Four(ScalarBuffer<u32>),
    /// Numbers of eight bytes.
    Eight(ScalarBuffer<u64>),
    /// The offsets of byte strings, and their bytes.
    Bytes(ScalarBuffer<i32>, Buffer),
    /// Byte strings of this many bytes each, concatenated.
    Fixed(usize, Buffer),
}

impl NonNullValues {
    /// The values of an array, which must have no nulls.
    fn of(array: &ArrayRef, layout: PhysicalLayout) -> Result<NonNullValues> {
        Ok(match layout {
            PhysicalLayout::Bits => NonNullValues::Bits(array.as_boolean().values().clone()),
            PhysicalLayout::Four => NonNullValues::Four(four(array)),
            PhysicalLayout::Eight => NonNullValues::Eight(match array.data_type() {
                DataType::Decimal128(..) => {
                    let values = array.as_primitive::<Decimal128Type>().values();
                    values.iter().map(|value| *value as u64).collect::<Vec<u64>>().into()
                }
                _ => words(array),
            }),
            PhysicalLayout::Bytes => match array.data_type() {
                DataType::Utf8 => small(array.as_string::<i32>()),
                DataType::Binary => small(array.as_binary::<i32>()),
                DataType::LargeUtf8 => large(array.as_string::<i64>())?,
                _ => large(array.as_binary::<i64>())?,
            },
            PhysicalLayout::Fixed(width) => NonNullValues::Fixed(
                width,
                match array.data_type() {
                    DataType::Decimal128(..) => decimals(array, width),
                    _ => array.as_fixed_size_binary().values().clone(),
                },
            ),
        })
    }

    /// Number of values, which excludes nulls.
    pub fn len(&self) -> usize {
        match self {
            NonNullValues::Bits(values) => values.len(),
            NonNullValues::Four(values) => values.len(),
            NonNullValues::Eight(values) => values.len(),
            NonNullValues::Bytes(offsets, _) => offsets.len() - 1,
            NonNullValues::Fixed(width, bytes) => bytes.len() / width,
        }
    }

    /// Bytes of the values in plain encoding.
    pub fn plain_bytes(&self) -> usize {
        match self {
            NonNullValues::Bits(values) => values.len().div_ceil(8),
            NonNullValues::Four(values) => values.inner().len(),
            NonNullValues::Eight(values) => values.inner().len(),
            NonNullValues::Bytes(..) => self.string_bytes() + self.len() * LENGTH_BYTES,
            NonNullValues::Fixed(_, bytes) => bytes.len(),
        }
    }

    /// Bytes of byte strings without lengths; 0 for numbers.
    pub fn string_bytes(&self) -> usize {
        match self {
            NonNullValues::Bytes(offsets, _) => (offsets[offsets.len() - 1] - offsets[0]) as usize,
            _ => 0,
        }
    }

    /// How many of the first `count` values take about `bytes_max` in plain encoding; at least one.
    fn fitting(&self, count: usize, bytes_max: usize) -> usize {
        let most = match self {
            NonNullValues::Bits(_) => bytes_max * 8,
            NonNullValues::Four(_) => bytes_max / 4,
            NonNullValues::Eight(_) => bytes_max / 8,
            NonNullValues::Fixed(width, _) => bytes_max / width,
            NonNullValues::Bytes(offsets, _) => {
                let first = offsets[0] as usize;
                offsets[1..].partition_point(|end| *end as usize - first <= bytes_max)
            }
        };
        most.max(1).min(count)
    }

    fn slice(&self, from: usize, count: usize) -> NonNullValues {
        match self {
            NonNullValues::Bits(values) => NonNullValues::Bits(values.slice(from, count)),
            NonNullValues::Four(values) => NonNullValues::Four(values.slice(from, count)),
            NonNullValues::Eight(values) => NonNullValues::Eight(values.slice(from, count)),
            NonNullValues::Bytes(offsets, data) => {
                NonNullValues::Bytes(offsets.slice(from, count + 1), data.clone())
            }
            NonNullValues::Fixed(width, bytes) => {
                NonNullValues::Fixed(*width, bytes.slice_with_length(from * width, count * width))
            }
        }
    }
}

/// The buffer of an array whose numbers have the same width in pages.
fn words<T: ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// The last `width` bytes of decimals, most significant first. Each is written with 16 bytes, of
/// which the next one overwrites the rest: copies of a size known to the compiler.
fn decimals(array: &ArrayRef, width: usize) -> Buffer {
    let values = array.as_primitive::<Decimal128Type>().values();
    let mut bytes = vec![0; values.len() * width + WIDE_BYTES];
    for (row, value) in values.iter().enumerate() {
        let leading = value << ((WIDE_BYTES - width) * 8);
        bytes[row * width..][..WIDE_BYTES].copy_from_slice(&leading.to_be_bytes());
    }
    bytes.truncate(values.len() * width);
    Buffer::from_vec(bytes)
}

const WIDE_BYTES: usize = size_of::<u128>();

/// The bytes of a value of at most 16, the first one most significant, with zeros behind them.
#[inline(always)]
pub fn leading(value: &[u8]) -> u128 {
    if let Some(whole) = value.first_chunk() {
        return u128::from_be_bytes(*whole);
    }
    if let (Some(first), Some(last)) = (value.first_chunk(), value.last_chunk()) {
        // The two overlap.
        let [first, last] = [first, last].map(|half| u128::from(u64::from_be_bytes(*half)));
        return first << 64 | last << ((WIDE_BYTES - value.len()) * 8);
    }
    let mut bytes = [0; WIDE_BYTES];
    bytes[..value.len()].copy_from_slice(value);
    u128::from_be_bytes(bytes)
}

fn four(array: &ArrayRef) -> ScalarBuffer<u32> {
    fn widened<T: ArrowPrimitiveType>(array: &ArrayRef) -> ScalarBuffer<u32>
    where
        T::Native: Into<i32>,
    {
        let values = array.as_primitive::<T>().values();
        values.iter().map(|value| (*value).into() as u32).collect::<Vec<u32>>().into()
    }
    match array.data_type() {
        DataType::Int8 => widened::<Int8Type>(array),
        DataType::Int16 => widened::<Int16Type>(array),
        DataType::UInt8 => widened::<UInt8Type>(array),
        DataType::UInt16 => widened::<UInt16Type>(array),
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            values.iter().map(|value| *value as u32).collect::<Vec<u32>>().into()
        }
        _ => words(array),
    }
}

fn small<T: ByteArrayType<Offset = i32>>(array: &GenericByteArray<T>) -> NonNullValues {
    NonNullValues::Bytes(array.offsets().inner().clone(), array.values().clone())
}

/// The values of an array with 64-bit offsets, rebased to the first string. A usage error if they
/// exceed `VALUE_BYTES_MAX`.
fn large<T: ByteArrayType<Offset = i64>>(array: &GenericByteArray<T>) -> Result<NonNullValues> {
    let offsets = array.offsets();
    let (first, last) = (offsets[0], offsets[array.len()]);
    if (last - first) as usize > VALUE_BYTES_MAX {
        let message = format!("{} bytes of a column in one batch are too many", last - first);
        return Err(Error::usage(message).remedy("cut them into smaller batches"));
    }
    let near: Vec<i32> = offsets.iter().map(|offset| (offset - first) as i32).collect();
    let bytes = array.values().slice_with_length(first as usize, (last - first) as usize);
    Ok(NonNullValues::Bytes(near.into(), bytes))
}

/// Entries of a column: their levels, and the values of those that have one.
#[derive(Clone, Debug)]
pub struct ColumnPiece {
    /// Number of entries: of a flat column its rows, nulls included.
    pub entries: usize,
    /// The levels of the entries.
    pub levels: Levels,
    /// The values of the entries that have one.
    pub values: NonNullValues,
}

impl ColumnPiece {
    /// Converts a flat array to a layout that `PhysicalLayout::of` gave for its type.
    pub fn of(array: &ArrayRef, layout: PhysicalLayout) -> Result<ColumnPiece> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let values = match &nulls {
            None => NonNullValues::of(array, layout)?,
            Some(nulls) => {
                let present = filter(array, &nulls.inner().clone().into())?;
                NonNullValues::of(&present, layout)?
            }
        };
        Ok(ColumnPiece { entries: array.len(), levels: Levels::Flat(nulls), values })
    }

    /// Converts a leaf of nested records: its levels, and its values without nulls.
    pub fn nested(
        levels: NestedLevels,
        values: &ArrayRef,
        layout: PhysicalLayout,
    ) -> Result<ColumnPiece> {
        let values = NonNullValues::of(values, layout)?;
        let entries = levels.definition.len();
        Ok(ColumnPiece { entries, levels: Levels::Nested(levels), values })
    }

    /// Splits off the first records: at most `entries_max` entries and about `bytes_max` in plain
    /// encoding, or one record that has more.
    pub fn cut(&self, entries_max: usize, bytes_max: usize) -> (ColumnPiece, ColumnPiece) {
        let most = self.entries.min(entries_max);
        let count = self.levels.values_in(most);
        let entry = match self.values.fitting(count, bytes_max) {
            fitting if fitting < count => self.levels.entry_of(fitting).unwrap_or(most),
            _ => most,
        };
        match self.levels.record_at(entry) {
            0 => self.split(self.levels.first_record_end().min(self.entries)),
            begin => self.split(begin),
        }
    }

    /// Splits before the record of the value with this index.
    pub fn before(&self, value: usize) -> (ColumnPiece, ColumnPiece) {
        let entry = self.levels.entry_of(value).unwrap_or(self.entries);
        self.split(self.levels.record_at(entry))
    }

    fn split(&self, entry: usize) -> (ColumnPiece, ColumnPiece) {
        let value = self.levels.values_in(entry);
        let part = |entry: usize, entries: usize, value: usize, count: usize| ColumnPiece {
            entries,
            levels: self.levels.slice(entry, entries),
            values: self.values.slice(value, count),
        };
        let rest = part(entry, self.entries - entry, value, self.values.len() - value);
        (part(0, entry, 0, value), rest)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Decimal128Array;

    use super::*;

    #[test]
    fn decimals_of_every_width_are_their_last_bytes() {
        for width in 1..=WIDE_BYTES {
            let bits = width * 8;
            let least = i128::MIN >> (128 - bits);
            let numbers = [0, 1, -1, least, !least, least / 3, 0x1234_5678 % (!least).max(1)];
            let array: ArrayRef = Arc::new(Decimal128Array::from(numbers.to_vec()));
            let bytes = decimals(&array, width);
            let expected =
                numbers.map(|number| number.to_be_bytes()[WIDE_BYTES - width..].to_vec());
            assert_eq!(bytes.as_slice(), expected.concat(), "{width} bytes");
            for (value, number) in bytes.chunks_exact(width).zip(numbers) {
                assert_eq!(leading(value) as i128 >> (128 - bits), number, "{width} bytes");
            }
        }
    }
}
