//! Predicates over the columns of a table, and the values that they compare.

mod grouped_rows;

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::*;
use euphrates_policy::predicate::{Comparison, Facts, Predicate};

pub use grouped_rows::{StoredBounds, may_pass_each};
pub(crate) use grouped_rows::{bound_values, compared_columns};

/// A column whose values are compared in a type that may differ from that of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedColumn {
    /// The column's name in the schema.
    pub name: String,
    /// The type to which its values are cast before they are compared. The cast keeps their order.
    pub data_type: DataType,
}

/// A value that is not null, and not NaN, in the representation of its Arrow type: decimals without
/// their scale, times in their unit.
#[derive(Clone, Debug, PartialEq)]
pub enum ComparedValue {
    /// Integers, decimals, dates, times and booleans.
    Whole(i128),
    /// Zeros of either sign are equal.
    Float(f64),
    /// Text and bytes, in the order of their unsigned bytes.
    Bytes(Vec<u8>),
}

/// A predicate over a table's rows.
pub type RowPredicate = Predicate<ComparedColumn, ComparedValue>;

impl PartialOrd for ComparedValue {
    fn partial_cmp(&self, other: &ComparedValue) -> Option<Ordering> {
        use ComparedValue::{Bytes, Float, Whole};
        match (self, other) {
            (Whole(one), Whole(other)) => Some(one.cmp(other)),
            (Float(one), Float(other)) => one.partial_cmp(other),
            (Bytes(one), Bytes(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

/// Whether a row that these facts describe may pass a filter.
pub(crate) fn may_pass(
    predicate: &RowPredicate,
    facts: &impl Facts<ComparedColumn, ComparedValue>,
) -> bool {
    predicate.outcomes(facts).yes
}

/// Whether the predicate tests a column for a value.
pub(crate) fn has_equality(predicate: &RowPredicate) -> bool {
    match predicate {
        Predicate::Compare(_, comparison, _) => *comparison == Comparison::Equal,
        Predicate::Not(inner) | Predicate::IsNotFalse(inner) => has_equality(inner),
        Predicate::All(terms) | Predicate::Any(terms) => terms.iter().any(has_equality),
        Predicate::IsNull(_) | Predicate::Unknown => false,
    }
}

/// The values of an array; `None` for a null, for NaN, and for a type that is not compared.
pub fn compared_values(array: &ArrayRef) -> Vec<Option<ComparedValue>> {
    use DataType::*;
    match array.data_type() {
        Boolean => {
            let values = array.as_boolean().iter();
            values.map(|value| value.map(|value| ComparedValue::Whole(value.into()))).collect()
        }
        Int8 => whole::<Int8Type>(array),
        Int16 => whole::<Int16Type>(array),
        Int32 => whole::<Int32Type>(array),
        Int64 => whole::<Int64Type>(array),
        UInt8 => whole::<UInt8Type>(array),
        UInt16 => whole::<UInt16Type>(array),
        UInt32 => whole::<UInt32Type>(array),
        UInt64 => whole::<UInt64Type>(array),
        Decimal32(..) => whole::<Decimal32Type>(array),
        Decimal64(..) => whole::<Decimal64Type>(array),
        Decimal128(..) => whole::<Decimal128Type>(array),
        Date32 => whole::<Date32Type>(array),
        Date64 => whole::<Date64Type>(array),
        Time32(TimeUnit::Second) => whole::<Time32SecondType>(array),
        Time32(_) => whole::<Time32MillisecondType>(array),
        Time64(TimeUnit::Microsecond) => whole::<Time64MicrosecondType>(array),
        Time64(_) => whole::<Time64NanosecondType>(array),
        Timestamp(TimeUnit::Second, _) => whole::<TimestampSecondType>(array),
        Timestamp(TimeUnit::Millisecond, _) => whole::<TimestampMillisecondType>(array),
        Timestamp(TimeUnit::Microsecond, _) => whole::<TimestampMicrosecondType>(array),
        Timestamp(TimeUnit::Nanosecond, _) => whole::<TimestampNanosecondType>(array),
        Float32 => floats(array.as_primitive::<Float32Type>()),
        Float64 => floats(array.as_primitive::<Float64Type>()),
        Utf8 => bytes(array.as_string::<i32>().iter()),
        LargeUtf8 => bytes(array.as_string::<i64>().iter()),
        Utf8View => bytes(array.as_string_view().iter()),
        Binary => bytes(array.as_binary::<i32>().iter()),
        LargeBinary => bytes(array.as_binary::<i64>().iter()),
        BinaryView => bytes(array.as_binary_view().iter()),
        FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().iter()),
        _ => vec![None; array.len()],
    }
}

/// Like `compared_values` after a cast; `None` for a value that the type does not hold.
pub(crate) fn values_in(array: &ArrayRef, data_type: &DataType) -> Vec<Option<ComparedValue>> {
    let strict = CastOptions { safe: true, ..CastOptions::default() };
    match cast_with_options(array, data_type, &strict) {
        Ok(cast) => compared_values(&cast),
        Err(_) => vec![None; array.len()],
    }
}

fn whole<T: ArrowPrimitiveType<Native: Into<i128>>>(
    array: &ArrayRef,
) -> Vec<Option<ComparedValue>> {
    let values = array.as_primitive::<T>().iter();
    values.map(|value| value.map(|value| ComparedValue::Whole(value.into()))).collect()
}

fn floats<T: ArrowPrimitiveType<Native: Into<f64>>>(
    array: &PrimitiveArray<T>,
) -> Vec<Option<ComparedValue>> {
    let values = array.iter().map(|value| value.map(Into::into));
    values.map(|value| value.filter(|value| !value.is_nan()).map(ComparedValue::Float)).collect()
}

fn bytes<'a, T: AsRef<[u8]> + ?Sized + 'a>(
    values: impl Iterator<Item = Option<&'a T>>,
) -> Vec<Option<ComparedValue>> {
    values.map(|value| value.map(|value| ComparedValue::Bytes(value.as_ref().to_vec()))).collect()
}
