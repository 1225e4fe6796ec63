//! Functions as entries of tables: names, arguments, results, and what computes them of whole
//! columns. Arguments come in one type each, so a function is written once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Int64Type, IntervalUnit, TimeUnit};
use datafusion_common::DataFusionError;

/// What a function computes, or why it cannot.
pub(super) type Computed<T> = Result<T, DataFusionError>;

/// What a function takes, and the type in which it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    /// Text.
    Text,
    /// An integer of 64 bits.
    Integer,
    /// A floating point number of 64 bits.
    Float,
    /// Text or bytes, as bytes.
    Bytes,
    /// A date or a timestamp, in microseconds without a time zone.
    Instant,
    /// Months, days and nanoseconds.
    Interval,
    /// A list.
    List,
    /// A value of any type.
    Any,
}

/// The type of what a function computes.
#[derive(Clone, Copy, Debug)]
pub(super) enum ResultKind {
    Text,
    Texts,
    Integer,
    /// An integer of 64 bits without a sign.
    Unsigned,
    Float,
    Boolean,
    Bytes,
    Instant,
    Time,
    Interval,
    /// The type of the first argument.
    Same,
    /// The type of an item of the first argument.
    Item,
    /// The type of a sum of such items.
    Sum,
    /// What this makes of the types of the arguments.
    Made(fn(&[DataType]) -> Computed<DataType>),
}

/// A function with its names.
pub(super) struct RowFunction {
    pub(super) names: &'static [&'static str],
    pub(super) takes: &'static [ArgumentKind],
    /// How many of the last arguments may be left out.
    pub(super) optional: usize,
    pub(super) returns: ResultKind,
    pub(super) compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
}

/// The type of instants.
pub(super) const INSTANT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

impl ArgumentKind {
    /// The type to which an argument of a type is cast; `None` if it is not taken.
    pub(super) fn coerced(self, of: &DataType) -> Option<DataType> {
        use DataType::*;
        let is_text = matches!(of, Utf8 | LargeUtf8 | Utf8View | Null);
        match self {
            ArgumentKind::Text => is_text.then_some(Utf8),
            ArgumentKind::Integer => (of.is_integer() || *of == Null).then_some(Int64),
            ArgumentKind::Float => (of.is_numeric() || *of == Null).then_some(Float64),
            ArgumentKind::Bytes => {
                let is_bytes = matches!(of, Binary | LargeBinary | BinaryView | FixedSizeBinary(_));
                (is_text || is_bytes).then_some(Binary)
            }
            ArgumentKind::Instant => {
                matches!(of, Date32 | Date64 | Timestamp(..) | Null).then_some(INSTANT)
            }
            ArgumentKind::Interval => {
                let is_interval = matches!(of, DataType::Interval(_) | Null);
                is_interval.then_some(DataType::Interval(IntervalUnit::MonthDayNano))
            }
            ArgumentKind::List => match of {
                List(item) | LargeList(item) | FixedSizeList(item, _) => Some(List(item.clone())),
                _ => None,
            },
            ArgumentKind::Any => Some(of.clone()),
        }
    }
}

/// The values of the rows in which no argument is null.
pub(super) fn each<T>(
    args: &[ArrayRef],
    mut of: impl FnMut(usize) -> Computed<Option<T>>,
) -> Computed<Vec<Option<T>>> {
    let nulls: Vec<_> = args.iter().filter_map(|arg| arg.logical_nulls()).collect();
    let rows = args.first().map_or(0, |arg| arg.len());
    let one = |row: usize| match nulls.iter().any(|nulls| nulls.is_null(row)) {
        true => Ok(None),
        false => of(row),
    };
    (0..rows).map(one).collect()
}

pub(super) fn text(args: &[ArrayRef], at: usize) -> &StringArray {
    args[at].as_string::<i32>()
}

pub(super) fn integer(args: &[ArrayRef], at: usize, row: usize) -> i64 {
    args[at].as_primitive::<Int64Type>().value(row)
}

/// Texts of texts in one argument.
pub(super) fn of_text(
    args: &[ArrayRef],
    of: impl Fn(&str) -> Computed<Option<String>>,
) -> Computed<ArrayRef> {
    let found = each(args, |row| of(text(args, 0).value(row)))?;
    Ok(Arc::new(StringArray::from(found)))
}

pub(super) fn wrong<T>(message: String) -> Computed<T> {
    Err(DataFusionError::Execution(message))
}
