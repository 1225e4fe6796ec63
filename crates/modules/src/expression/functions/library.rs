//! Functions that DataFusion lacks, as tables: names, arguments, results, and what computes them
//! of whole columns. Arguments come in one type each, so a function is written once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, IntervalUnit, TimeUnit};
use datafusion_common::{DataFusionError, ScalarValue, plan_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::expression::common_type::plain;

mod clock_text;
mod digests;
mod instants;
mod intervals;
mod json;
mod json_path;
mod list_aggregates;
mod nested_keys;
mod numbers;
mod texts;

/// What a function computes, or why it cannot.
pub(crate) type Computed<T> = Result<T, DataFusionError>;

/// What a function takes, and the type in which it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentKind {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultKind {
    Text,
    Texts,
    Integer,
    Float,
    Boolean,
    Bytes,
    Instant,
    Time,
    Interval,
    /// The type of an item of the first argument.
    Item,
    /// A date if the argument at this place is one, else an instant.
    DateOrInstant(usize),
}

/// A function with its names.
struct RowFunction {
    names: &'static [&'static str],
    takes: &'static [ArgumentKind],
    /// How many of the last arguments may be left out.
    optional: usize,
    returns: ResultKind,
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
}

/// All functions of the tables.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let tables = [
        &clock_text::FUNCTIONS[..],
        &digests::FUNCTIONS[..],
        &instants::FUNCTIONS[..],
        &intervals::FUNCTIONS[..],
        &json::FUNCTIONS[..],
        &list_aggregates::FUNCTIONS[..],
        &nested_keys::FUNCTIONS[..],
        &numbers::FUNCTIONS[..],
        &texts::FUNCTIONS[..],
    ];
    let all = tables.into_iter().flatten();
    let named = all.flat_map(|function| function.names.iter().map(move |name| (*name, function)));
    let made = named.map(|(name, function)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(LibraryFunction { name, function, signature }))
    });
    made.collect()
}

struct LibraryFunction {
    name: &'static str,
    function: &'static RowFunction,
    signature: Signature,
}

impl std::fmt::Debug for LibraryFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for LibraryFunction {
    fn eq(&self, other: &LibraryFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for LibraryFunction {}

impl std::hash::Hash for LibraryFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for LibraryFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Computed<Vec<DataType>> {
        let takes = self.function.takes;
        if types.len() > takes.len() || types.len() + self.function.optional < takes.len() {
            return plan_err!("{} has {} arguments", self.name, types.len());
        }
        let coerced = takes.iter().zip(types).map(|(kind, of)| kind.coerced(plain(of)));
        match coerced.collect() {
            Some(coerced) => Ok(coerced),
            None => plan_err!("{} does not take these types", self.name),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Computed<DataType> {
        Ok(match self.function.returns {
            ResultKind::Text => DataType::Utf8,
            ResultKind::Texts => {
                DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
            }
            ResultKind::Integer => DataType::Int64,
            ResultKind::Float => DataType::Float64,
            ResultKind::Boolean => DataType::Boolean,
            ResultKind::Bytes => DataType::Binary,
            ResultKind::Instant => INSTANT,
            ResultKind::Time => DataType::Time64(TimeUnit::Microsecond),
            ResultKind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            ResultKind::Item => match &types[0] {
                DataType::List(item) => item.data_type().clone(),
                other => other.clone(),
            },
            ResultKind::DateOrInstant(at) if types[at] == DataType::Date32 => DataType::Date32,
            ResultKind::DateOrInstant(_) => INSTANT,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Computed<ColumnarValue> {
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_constant = args.args.iter().all(is_constant);
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Computed<Vec<_>>>();
        let found = (self.function.compute)(&columns?)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}

/// The type of instants.
const INSTANT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

impl ArgumentKind {
    /// The type to which an argument of a type is cast; `None` if it is not taken.
    fn coerced(self, of: &DataType) -> Option<DataType> {
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
fn each<T>(
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

fn text(args: &[ArrayRef], at: usize) -> &StringArray {
    args[at].as_string::<i32>()
}

fn integer(args: &[ArrayRef], at: usize, row: usize) -> i64 {
    args[at].as_primitive::<Int64Type>().value(row)
}

/// Texts of texts in one argument.
fn of_text(args: &[ArrayRef], of: impl Fn(&str) -> Computed<Option<String>>) -> Computed<ArrayRef> {
    let found = each(args, |row| of(text(args, 0).value(row)))?;
    Ok(Arc::new(StringArray::from(found)))
}

fn wrong<T>(message: String) -> Computed<T> {
    Err(DataFusionError::Execution(message))
}
