//! Bounds of a block's columns, computed when the block is encoded: least and greatest value, and
//! the number of nulls.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNumericType, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray,
};
use arrow::compute::{max, min};
use arrow::datatypes::*;

/// The most bytes of a text in a bound.
pub(super) const BOUND_BYTES_MAX: usize = 64;
/// The number of independent comparisons of floating point numbers in a loop.
const LANES: usize = 8;

/// What is known of the values of a column in one block.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ColumnBounds {
    /// No value is less, apart from NaN.
    pub least: Option<BoundValue>,
    /// No value is greater, apart from NaN.
    pub greatest: Option<BoundValue>,
    pub nulls: u64,
}

/// A value that is not null and not NaN, in the representation of its Arrow type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BoundValue {
    /// Integers, decimals, dates, times and booleans.
    Whole(i128),
    Float(f64),
    /// Text and bytes.
    Bytes(Box<[u8]>),
}

/// Evaluates an expression with `$native` as the Arrow type of a column of integers, decimals,
/// dates or times; `$other` for columns of other types.
macro_rules! match_whole {
    ($data_type:expr, $native:ident => $then:expr, $other:expr) => {
        match_whole!(@ $data_type, $native, $then, $other,
            DataType::Int8 => Int8Type,
            DataType::Int16 => Int16Type,
            DataType::Int32 => Int32Type,
            DataType::Int64 => Int64Type,
            DataType::UInt8 => UInt8Type,
            DataType::UInt16 => UInt16Type,
            DataType::UInt32 => UInt32Type,
            DataType::UInt64 => UInt64Type,
            DataType::Decimal32(..) => Decimal32Type,
            DataType::Decimal64(..) => Decimal64Type,
            DataType::Decimal128(..) => Decimal128Type,
            DataType::Date32 => Date32Type,
            DataType::Date64 => Date64Type,
            DataType::Time32(TimeUnit::Second) => Time32SecondType,
            DataType::Time32(TimeUnit::Millisecond) => Time32MillisecondType,
            DataType::Time64(TimeUnit::Microsecond) => Time64MicrosecondType,
            DataType::Time64(TimeUnit::Nanosecond) => Time64NanosecondType,
            DataType::Timestamp(TimeUnit::Second, _) => TimestampSecondType,
            DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
            DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
        )
    };
    (@ $data_type:expr, $native:ident, $then:expr, $other:expr,
        $($pattern:pat => $arrow:ty,)*) => {
        match $data_type {
            $($pattern => {
                #[allow(dead_code, reason = "some callers need no type")]
                type $native = $arrow;
                $then
            })*
            _ => $other,
        }
    };
}

/// The type in which bounds of a column are stored; `None` for a column that has none. Bounds of
/// texts are bytes: what is cut need not be text.
pub(super) fn bound_type(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    match data_type {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => {
            Some(Binary)
        }
        Boolean | Float32 | Float64 => Some(data_type.clone()),
        other => match_whole!(other, T => Some(data_type.clone()), None),
    }
}

/// The bounds of a column that has a [`bound_type`].
pub(super) fn bounds_of(column: &ArrayRef) -> ColumnBounds {
    let (least, greatest) = range_of(column).unwrap_or_default();
    ColumnBounds { least, greatest, nulls: column.null_count() as u64 }
}

/// The bounds of one type, as an array of a [`bound_type`].
pub(super) fn array_of<'a>(
    data_type: &DataType,
    values: impl Iterator<Item = Option<&'a BoundValue>>,
) -> ArrayRef {
    let whole = |value: &BoundValue| match value {
        BoundValue::Whole(whole) => Some(*whole),
        _ => None,
    };
    let float = |value: &BoundValue| match value {
        BoundValue::Float(float) => Some(*float),
        _ => None,
    };
    let bytes = |value: &'a BoundValue| match value {
        BoundValue::Bytes(bytes) => Some(bytes.as_ref()),
        _ => None,
    };
    match data_type {
        DataType::Binary => Arc::new(
            values.map(|value| value.and_then(bytes)).collect::<arrow::array::BinaryArray>(),
        ),
        DataType::Boolean => {
            let values = values.map(|value| value.and_then(whole).map(|whole| whole != 0));
            Arc::new(values.collect::<BooleanArray>())
        }
        DataType::Float32 => {
            let values = values.map(|value| value.and_then(float).map(|float| float as f32));
            Arc::new(values.collect::<PrimitiveArray<Float32Type>>())
        }
        DataType::Float64 => {
            let values = values.map(|value| value.and_then(float));
            Arc::new(values.collect::<PrimitiveArray<Float64Type>>())
        }
        other => match_whole!(other, T => {
            let native = |value| whole(value).and_then(|whole| whole.try_into().ok());
            let values = values.map(|value| value.and_then(native));
            Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(other.clone()))
        }, unreachable!("a type without bounds")),
    }
}

/// The least and the greatest value, as far as there is a bound.
type Range = (Option<BoundValue>, Option<BoundValue>);

/// The least and the greatest value; `None` if all are null or NaN.
fn range_of(column: &ArrayRef) -> Option<Range> {
    use DataType::*;
    match column.data_type() {
        Boolean => {
            let values = column.as_boolean();
            let (has_false, has_true) = (values.false_count() > 0, values.true_count() > 0);
            let value = |value: bool| Some(BoundValue::Whole(value.into()));
            (has_false || has_true).then(|| (value(!has_false), value(has_true)))
        }
        Float32 => range_of_floats(column.as_primitive::<Float32Type>()),
        Float64 => range_of_floats(column.as_primitive::<Float64Type>()),
        Utf8 => range_of_bytes(column.as_string::<i32>().iter()),
        LargeUtf8 => range_of_bytes(column.as_string::<i64>().iter()),
        Utf8View => range_of_bytes(column.as_string_view().iter()),
        Binary => range_of_bytes(column.as_binary::<i32>().iter()),
        LargeBinary => range_of_bytes(column.as_binary::<i64>().iter()),
        BinaryView => range_of_bytes(column.as_binary_view().iter()),
        FixedSizeBinary(_) => range_of_bytes(column.as_fixed_size_binary().iter()),
        other => match_whole!(other, T => range_of_whole(column.as_primitive::<T>()), None),
    }
}

fn range_of_whole<T: ArrowNumericType<Native: Into<i128>>>(
    values: &PrimitiveArray<T>,
) -> Option<Range> {
    let value = |value: T::Native| Some(BoundValue::Whole(value.into()));
    min(values).zip(max(values)).map(|(least, greatest)| (value(least), value(greatest)))
}

fn range_of_floats<T: ArrowPrimitiveType<Native: Into<f64> + PartialOrd>>(
    array: &PrimitiveArray<T>,
) -> Option<Range> {
    let mut range = FloatRange::<T::Native>::default();
    let values = array.values();
    match array.nulls() {
        None => range.add(values),
        Some(nulls) => {
            nulls.valid_slices().for_each(|(start, end)| range.add(&values[start..end]));
        }
    }
    let value = |value: T::Native| Some(BoundValue::Float(value.into()));
    range.whole().map(|(least, greatest)| (value(least), value(greatest)))
}

/// The range of floating point numbers so far, which leaves out NaN: it is not less, and not
/// greater, than any number.
struct FloatRange<N> {
    lanes: Option<([N; LANES], [N; LANES])>,
}

impl<N> Default for FloatRange<N> {
    fn default() -> FloatRange<N> {
        FloatRange { lanes: None }
    }
}

impl<N: Copy + PartialOrd> FloatRange<N> {
    fn add(&mut self, values: &[N]) {
        let mut values = values;
        // The lanes begin with a number.
        #[allow(clippy::eq_op, reason = "NaN differs from itself")]
        while self.lanes.is_none() {
            let Some((first, rest)) = values.split_first() else { return };
            values = rest;
            self.lanes = (first == first).then_some(([*first; LANES], [*first; LANES]));
        }
        let Some((least, greatest)) = &mut self.lanes else { return };
        let (groups, rest) = values.as_chunks::<LANES>();
        for group in groups {
            for lane in 0..LANES {
                least[lane] = if group[lane] < least[lane] { group[lane] } else { least[lane] };
                greatest[lane] =
                    if group[lane] > greatest[lane] { group[lane] } else { greatest[lane] };
            }
        }
        for &value in rest {
            least[0] = if value < least[0] { value } else { least[0] };
            greatest[0] = if value > greatest[0] { value } else { greatest[0] };
        }
    }

    fn whole(self) -> Option<(N, N)> {
        let (least, greatest) = self.lanes?;
        let least = least.into_iter().reduce(|one, other| if other < one { other } else { one })?;
        let greatest =
            greatest.into_iter().reduce(|one, other| if other > one { other } else { one })?;
        Some((least, greatest))
    }
}

fn range_of_bytes<'a, T: AsRef<[u8]> + ?Sized + 'a>(
    values: impl Iterator<Item = Option<&'a T>>,
) -> Option<Range> {
    let mut values = values.flatten().map(AsRef::as_ref);
    let first = values.next()?;
    let (mut least, mut greatest) = (first, first);
    let (mut least_head, mut greatest_head) = (head(first), head(first));
    for value in values {
        let head = head(value);
        if head <= least_head && (head < least_head || value < least) {
            (least, least_head) = (value, head);
        }
        if head >= greatest_head && (head > greatest_head || value > greatest) {
            (greatest, greatest_head) = (value, head);
        }
    }
    let least = &least[..least.len().min(BOUND_BYTES_MAX)];
    Some((Some(BoundValue::Bytes(least.into())), not_less(greatest).map(BoundValue::Bytes)))
}

/// The first eight bytes as a number, which decides most comparisons: values are in the order of
/// their heads, and values with equal heads may be in any order.
fn head(value: &[u8]) -> u64 {
    if let Some(head) = value.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..value.len()].copy_from_slice(value);
    u64::from_be_bytes(head)
}

/// Bytes of a limited length that are not less than these, nor than any with the same beginning;
/// `None` if there are none.
fn not_less(value: &[u8]) -> Option<Box<[u8]>> {
    if value.len() <= BOUND_BYTES_MAX {
        return Some(value.into());
    }
    let cut = &value[..BOUND_BYTES_MAX];
    let last = cut.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = cut[..=last].to_vec();
    next[last] += 1;
    Some(next.into())
}
