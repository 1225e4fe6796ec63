//! Bounds of a block's columns, computed when the block is encoded: least and greatest value, and
//! the number of nulls.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, GenericByteArray,
    PrimitiveArray,
};
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;

/// The most columns that have bounds, the first ones: a block has a megabyte, whatever the number
/// of its columns.
const COLUMNS_MAX: usize = 256;
/// The most bytes of a text in a bound.
pub(super) const BOUND_BYTES_MAX: usize = 64;
/// The number of independent comparisons in a loop.
const LANES: usize = 8;

/// What is known of the values of a column in one block.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ColumnBounds {
    /// No value is less, apart from NaN.
    pub least: Option<BoundValue>,
    /// No value is greater, apart from NaN.
    pub greatest: Option<BoundValue>,
    pub nulls: u64,
}

/// A value that is not null and not NaN, in the representation of its Arrow type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BoundValue {
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

/// The columns of a schema that have bounds, and the types of these.
pub(super) fn columns_with_bounds(schema: &Schema) -> Vec<(usize, DataType)> {
    let fields = schema.fields().iter().enumerate();
    let fields = fields.filter_map(|(at, field)| Some((at, bound_type(field.data_type())?)));
    fields.take(COLUMNS_MAX).collect()
}

/// Computes the bounds of blocks of one schema.
pub(super) struct BoundsOfBlock {
    columns: Vec<usize>,
}

impl BoundsOfBlock {
    /// `None` if no column has bounds.
    pub fn new(schema: &Schema) -> Option<BoundsOfBlock> {
        let columns: Vec<usize> =
            columns_with_bounds(schema).into_iter().map(|(at, _)| at).collect();
        (!columns.is_empty()).then_some(BoundsOfBlock { columns })
    }

    pub fn of(&self, batch: &RecordBatch) -> Vec<(usize, ColumnBounds)> {
        self.columns.iter().map(|at| (*at, bounds_of(batch.column(*at)))).collect()
    }
}

/// The bounds of a column that has a [`bound_type`].
pub(crate) fn bounds_of(column: &ArrayRef) -> ColumnBounds {
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
        DataType::Binary => {
            Arc::new(values.map(|value| value.and_then(bytes)).collect::<BinaryArray>())
        }
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
            array_of_whole::<T>(other, values.map(|value| value.and_then(whole)))
        }, unreachable!("a type without bounds")),
    }
}

fn array_of_whole<T: ArrowPrimitiveType<Native: TryFrom<i128>>>(
    data_type: &DataType,
    values: impl Iterator<Item = Option<i128>>,
) -> ArrayRef {
    let values = values.map(|value| value.and_then(|value| value.try_into().ok()));
    Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(data_type.clone()))
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
        Float32 => range_of_numbers(column.as_primitive::<Float32Type>(), |value| {
            BoundValue::Float(value.into())
        }),
        Float64 => range_of_numbers(column.as_primitive::<Float64Type>(), BoundValue::Float),
        Utf8 => range_of_texts(column.as_string::<i32>()),
        LargeUtf8 => range_of_texts(column.as_string::<i64>()),
        Binary => range_of_texts(column.as_binary::<i32>()),
        LargeBinary => range_of_texts(column.as_binary::<i64>()),
        Utf8View => range_of_bytes(column.as_string_view().iter().flatten().map(str::as_bytes)),
        BinaryView => range_of_bytes(column.as_binary_view().iter().flatten()),
        FixedSizeBinary(_) => range_of_bytes(column.as_fixed_size_binary().iter().flatten()),
        other => match_whole!(other, T => range_of_whole(column.as_primitive::<T>()), None),
    }
}

fn range_of_whole<T: ArrowPrimitiveType<Native: Into<i128> + PartialOrd>>(
    array: &PrimitiveArray<T>,
) -> Option<Range> {
    range_of_numbers(array, |value| BoundValue::Whole(value.into()))
}

/// The least and the greatest number of an array, as the values that `value` makes of them.
fn range_of_numbers<T: ArrowPrimitiveType<Native: PartialOrd>>(
    array: &PrimitiveArray<T>,
    value: impl Fn(T::Native) -> BoundValue,
) -> Option<Range> {
    let mut range = NumberRange { lanes: None };
    let values = array.values();
    match array.nulls() {
        None => range.add(values),
        Some(nulls) => {
            nulls.valid_slices().for_each(|(start, end)| range.add(&values[start..end]));
        }
    }
    range.whole().map(|(least, greatest)| (Some(value(least)), Some(value(greatest))))
}

/// The least and the greatest number so far. NaN is left out: it is not less, and not greater, than
/// any number. One pass, of independent comparisons, takes a third of the time of Arrow's two.
struct NumberRange<N> {
    lanes: Option<([N; LANES], [N; LANES])>,
}

impl<N: Copy + PartialOrd> NumberRange<N> {
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
                least[lane] = lesser(least[lane], group[lane]);
                greatest[lane] = greater(greatest[lane], group[lane]);
            }
        }
        for &value in rest {
            least[0] = lesser(least[0], value);
            greatest[0] = greater(greatest[0], value);
        }
    }

    fn whole(self) -> Option<(N, N)> {
        let (least, greatest) = self.lanes?;
        Some((least.into_iter().reduce(lesser)?, greatest.into_iter().reduce(greater)?))
    }
}

fn lesser<N: PartialOrd>(known: N, value: N) -> N {
    if value < known { value } else { known }
}

fn greater<N: PartialOrd>(known: N, value: N) -> N {
    if value > known { value } else { known }
}

fn range_of_texts<T: ByteArrayType>(array: &GenericByteArray<T>) -> Option<Range> {
    if array.null_count() > 0 {
        return range_of_bytes(array.iter().flatten().map(AsRef::as_ref));
    }
    let values = array.value_data();
    let ends = array.value_offsets().windows(2);
    range_of_bytes(ends.map(|ends| &values[ends[0].as_usize()..ends[1].as_usize()]))
}

fn range_of_bytes<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Range> {
    let first = values.next()?;
    let start = (head(first), second_head(first));
    let ((mut least, mut least_start), (mut greatest, mut greatest_start)) =
        ((first, start), (first, start));
    values.for_each(|value| {
        let head = head(value);
        if least_start.0 < head && head < greatest_start.0 {
            return;
        }
        let start = (head, second_head(value));
        if start < least_start || start == least_start && value < least {
            (least, least_start) = (value, start);
        }
        if start > greatest_start || start == greatest_start && value > greatest {
            (greatest, greatest_start) = (value, start);
        }
    });
    let least = &least[..least.len().min(BOUND_BYTES_MAX)];
    Some((Some(BoundValue::Bytes(least.into())), not_less(greatest).map(BoundValue::Bytes)))
}

/// The first eight bytes as a number, which decides most comparisons: values are in the order of
/// their heads, and values with equal heads may be in any order.
fn head(value: &[u8]) -> u64 {
    if let Some(head) = value.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let at = |index: usize| u64::from(value[index]) << (56 - 8 * index);
    match (value.first_chunk(), value.last_chunk()) {
        // Both ends, which may overlap.
        (Some(first), Some(last)) => {
            let last = u64::from(u32::from_be_bytes(*last)) << (64 - 8 * value.len());
            u64::from(u32::from_be_bytes(*first)) << 32 | last
        }
        _ if value.is_empty() => 0,
        _ => at(0) | at(value.len() / 2) | at(value.len() - 1),
    }
}

/// The head of what follows the first eight bytes.
fn second_head(value: &[u8]) -> u64 {
    value.get(8..).map_or(0, head)
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
