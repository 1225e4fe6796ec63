//! Values as text. `python/tests/sql/slt/values.py` writes those of DuckDB in the same way.
//!
//! Doubles have 12 significant digits and floats 6; decimals no zeros at their end; text that is
//! empty is `(empty)`, and text with spaces at its ends, or with new lines, is in quotes.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationMicrosecondType, Float32Type, Float64Type, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use euphrates_flow::{Error, Result};

const DAY_MICROS: i64 = 86_400_000_000;
const FORMATS: FormatOptions<'static> = FormatOptions::new()
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"))
    .with_time_format(Some("%H:%M:%S%.f"))
    .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"));

/// The type of a column, as the letter of a `query` line says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnType(char);

impl ColumnType {
    /// The letter of a type: sums of integers are integers, whatever their width.
    pub fn of(data_type: &DataType) -> ColumnType {
        ColumnType(match data_type {
            DataType::Boolean => 'B',
            DataType::Decimal128(_, 0) | DataType::Decimal256(_, 0) => 'I',
            of if of.is_integer() => 'I',
            of if of.is_numeric() => 'R',
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => 'T',
            DataType::Date32 | DataType::Date64 => 'D',
            DataType::Timestamp(_, _) => 'P',
            DataType::Dictionary(_, values) => return ColumnType::of(values),
            _ => '?',
        })
    }

    /// Whether the types are the same, or one is not known.
    pub fn is(self, other: &ColumnType) -> bool {
        self == *other || self.0 == '?' || other.0 == '?'
    }
}

impl sqllogictest::ColumnType for ColumnType {
    fn from_char(letter: char) -> Option<ColumnType> {
        "BIRTDP?".contains(letter).then_some(ColumnType(letter))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

/// The values of all rows.
pub fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let mut rows = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| value(column, row));
            rows.push(values.collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(rows)
}

fn value(array: &ArrayRef, row: usize) -> Result<String> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Ok("NULL".into());
    }
    Ok(match array.data_type() {
        DataType::Float64 => number(array.as_primitive::<Float64Type>().value(row), 12),
        DataType::Float32 => number(array.as_primitive::<Float32Type>().value(row).into(), 6),
        DataType::Decimal128(..) | DataType::Decimal256(..) => without_zeros(&plain(array, row)?),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => text(&plain(array, row)?),
        DataType::Timestamp(_, None) | DataType::Time32(_) | DataType::Time64(_) => {
            without_zeros(&plain(array, row)?)
        }
        DataType::Binary => bytes(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => bytes(array.as_binary_view().value(row)),
        DataType::Interval(_) => interval(array, row)?,
        DataType::Duration(_) => {
            let of = DataType::Duration(TimeUnit::Microsecond);
            let array = cast(array, &of)?;
            format!("0 months {} us", array.as_primitive::<DurationMicrosecondType>().value(row))
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row))?,
        DataType::Struct(_) => structure(array, row)?,
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            value(dictionary.values(), dictionary.normalized_keys()[row])?
        }
        _ => plain(array, row)?,
    })
}

fn plain(array: &ArrayRef, row: usize) -> Result<String> {
    let formatter = ArrayFormatter::try_new(array.as_ref(), &FORMATS)?;
    Ok(formatter.value(row).try_to_string()?)
}

/// A number as C's `%.{digits}g` writes it.
fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan".into() } else { value.to_string() };
    }
    if value == 0.0 {
        return "0".into();
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..digits as i32).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    without_zeros(&format!("{value:.*}", (digits as i32 - 1 - exponent) as usize))
}

/// A number without zeros at the end of its digits behind the point.
fn without_zeros(number: &str) -> String {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').into(),
        false => number.into(),
    }
}

fn text(value: &str) -> String {
    if value.is_empty() {
        "(empty)".into()
    } else if value.trim() != value || value.contains(char::is_control) {
        format!("'{}'", value.replace('\n', "\\n").replace('\t', "\\t"))
    } else {
        value.into()
    }
}

fn bytes(value: &[u8]) -> String {
    let byte = |byte: &u8| match byte {
        b'\\' | b'\'' | b'"' => format!("\\x{byte:02X}"),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    };
    let written: String = value.iter().map(byte).collect();
    if written.is_empty() { "(empty)".into() } else { written }
}

/// An interval as months and microseconds.
fn interval(array: &ArrayRef, row: usize) -> Result<String> {
    let of = DataType::Interval(IntervalUnit::MonthDayNano);
    let array = cast(array, &of)?;
    let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
    let micros = i64::from(value.days) * DAY_MICROS + value.nanoseconds / 1000;
    Ok(format!("{} months {micros} us", value.months))
}

fn list(values: &ArrayRef) -> Result<String> {
    let values = (0..values.len()).map(|row| value(values, row));
    Ok(format!("[{}]", values.collect::<Result<Vec<_>>>()?.join(", ")))
}

fn structure(array: &ArrayRef, row: usize) -> Result<String> {
    let array = array.as_struct();
    let fields = array.fields().iter().zip(array.columns());
    let fields =
        fields.map(|(field, column)| Ok(format!("'{}': {}", field.name(), value(column, row)?)));
    Ok(format!("{{{}}}", fields.collect::<Result<Vec<_>, Error>>()?.join(", ")))
}
