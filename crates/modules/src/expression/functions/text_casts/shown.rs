//! Values as text, as casts to text and `to_json` write them: fractions without zeros at their end,
//! instants with an offset, intervals in words, bytes that are no text, lists, structs and maps.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion_common::{DataFusionError, exec_datafusion_err};

use crate::expression::common_type::plain;
use crate::expression::functions::time_zones::local;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Sql,
    Json,
}

/// Whether values of this type are written by the rules of this file.
pub(super) fn is_shown(of: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Duration, FixedSizeBinary, Interval, LargeBinary};
    use DataType::{FixedSizeList, LargeList, List, Map, Struct, Time32, Time64, Timestamp};
    let is_bytes = matches!(of, Binary | LargeBinary | BinaryView | FixedSizeBinary(_));
    let is_temporal =
        matches!(of, Timestamp(..) | Time32(_) | Time64(_) | Interval(_) | Duration(_));
    let is_list = matches!(of, List(_) | LargeList(_) | FixedSizeList(..));
    is_bytes || is_temporal || is_list || of.is_floating() || matches!(of, Struct(_) | Map(..))
}

/// The values as text.
pub(crate) fn texts_of(array: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    Ok(Arc::new(written(array, Style::Sql)?))
}

/// The values as JSON; null stays null.
pub(crate) fn json_of(array: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    Ok(Arc::new(written(array, Style::Json)?))
}

fn written(array: &ArrayRef, style: Style) -> Result<StringArray, DataFusionError> {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    let array = &cast(array, plain(array.data_type()))?;
    match array.data_type() {
        List(_) | LargeList(_) | FixedSizeList(..) => lists(array, style),
        Struct(fields) => structs(array, &fields.iter().cloned().collect::<Vec<_>>(), style),
        Map(..) => maps(array, style),
        _ if style == Style::Json => json_values(array),
        _ => plain_values(array),
    }
}

fn plain_values(array: &ArrayRef) -> Result<StringArray, DataFusionError> {
    use DataType::{Binary, BinaryView, Duration, FixedSizeBinary, Interval, LargeBinary};
    use DataType::{Float16, Float32, Float64, Time32, Time64, Timestamp};
    let text = |of: &ArrayRef| -> Result<StringArray, DataFusionError> {
        Ok(cast(of, &DataType::Utf8)?.as_string::<i32>().clone())
    };
    match array.data_type() {
        Timestamp(_, Some(_)) => with_offsets(array),
        Timestamp(_, None) | Time32(_) | Time64(_) => {
            let short = |text: &str| without_zeros(text).replacen('T', " ", 1);
            Ok(text(array)?.iter().map(|text| text.map(short)).collect())
        }
        Duration(unit) => {
            let counts = cast(array, &DataType::Int64)?;
            let interval = |count| days_and_clock(count, *unit).map(interval_text);
            let texts = counts.as_primitive::<Int64Type>().iter();
            let texts = texts.map(|count| count.map(interval).transpose());
            texts.collect()
        }
        Interval(_) => {
            let whole = cast(array, &Interval(IntervalUnit::MonthDayNano))?;
            let whole = whole.as_primitive::<IntervalMonthDayNanoType>();
            Ok(whole.iter().map(|interval| interval.map(interval_text)).collect())
        }
        Float16 | Float32 => {
            let numbers = cast(array, &Float32)?;
            let numbers = numbers.as_primitive::<Float32Type>().iter();
            let texts = numbers.map(|number| {
                number.map(|number| {
                    float_text(number.into(), number.to_string(), || format!("{number:e}"))
                })
            });
            Ok(texts.collect())
        }
        Float64 => {
            let numbers = array.as_primitive::<Float64Type>().iter();
            let texts = numbers.map(|number| {
                number
                    .map(|number| float_text(number, number.to_string(), || format!("{number:e}")))
            });
            Ok(texts.collect())
        }
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => text_of_bytes(array),
        _ => text(array),
    }
}

fn json_values(array: &ArrayRef) -> Result<StringArray, DataFusionError> {
    let texts = plain_values(array)?;
    let of = array.data_type();
    let is_plain = of.is_integer() || *of == DataType::Boolean;
    let (is_decimal, is_float) = (of.is_decimal(), of.is_floating());
    let number = |text: &str| match text {
        "nan" | "inf" | "-inf" => "null".to_string(),
        _ if is_decimal && text.contains('.') => match without_zeros(text) {
            whole if !whole.contains('.') => format!("{whole}.0"),
            short => short.to_string(),
        },
        _ => text.to_string(),
    };
    let one = |text: &str| match is_plain || is_decimal || is_float {
        true => number(text),
        false => quoted_json(text),
    };
    Ok(texts.iter().map(|text| text.map(one)).collect())
}

fn quoted_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The values of a nested value, none of which is null.
fn items(array: &ArrayRef, style: Style) -> Result<Vec<String>, DataFusionError> {
    let is_nested = plain(array.data_type()).is_nested();
    let one = |text: Option<&str>| match (text, style) {
        (None, Style::Sql) => "NULL".to_string(),
        (None, Style::Json) => "null".to_string(),
        (Some(text), Style::Sql) if !is_nested => quoted_item(text),
        (Some(text), _) => text.to_string(),
    };
    Ok(written(array, style)?.iter().map(one).collect())
}

/// A text within another: in quotes where it would be read as something else.
fn quoted_item(text: &str) -> String {
    let is_special = |sign: char| "'\"\\,[]{}()=:".contains(sign);
    let is_plain = !text.is_empty()
        && !text.contains(is_special)
        && text.trim() == text
        && !text.eq_ignore_ascii_case("null");
    if is_plain { text.to_string() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn lists(array: &ArrayRef, style: Style) -> Result<StringArray, DataFusionError> {
    let (DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _)) =
        array.data_type()
    else {
        unreachable!("it is of lists")
    };
    let lists = cast(array, &DataType::LargeList(field.clone()))?;
    let lists = lists.as_list::<i64>();
    let texts = items(lists.values(), style)?;
    let between = if style == Style::Sql { ", " } else { "," };
    let one = |row: usize| {
        let range = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        lists.is_valid(row).then(|| format!("[{}]", texts[range].join(between)))
    };
    Ok((0..lists.len()).map(one).collect())
}

fn structs(
    array: &ArrayRef,
    fields: &[Arc<Field>],
    style: Style,
) -> Result<StringArray, DataFusionError> {
    let structs = array.as_struct();
    let columns = structs.columns().iter().map(|column| items(column, style));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    // The fields of a row have no names of their own.
    let is_own = |(at, field): (usize, &Arc<Field>)| *field.name() != format!("element{}", at + 1);
    let is_row = style == Style::Sql && !fields.iter().enumerate().any(is_own);
    let between = if style == Style::Sql { ", " } else { "," };
    let one = |row: usize| {
        let parts = fields.iter().zip(&columns).map(|(field, column)| match style {
            Style::Json => format!("{}:{}", quoted_json(field.name()), column[row]),
            Style::Sql if is_row => column[row].clone(),
            Style::Sql => format!("{}: {}", quoted(field.name()), column[row]),
        });
        let parts = parts.collect::<Vec<_>>().join(between);
        structs.is_valid(row).then(|| match is_row {
            true => format!("({parts})"),
            false => format!("{{{parts}}}"),
        })
    };
    Ok((0..structs.len()).map(one).collect())
}

fn maps(array: &ArrayRef, style: Style) -> Result<StringArray, DataFusionError> {
    let maps = array.as_map();
    let keys = match style {
        Style::Sql => items(maps.keys(), style)?,
        // The name of a field is text, whatever the type of the key.
        Style::Json => {
            let keys = written(maps.keys(), Style::Sql)?;
            keys.iter().map(|key| quoted_json(key.unwrap_or("null"))).collect()
        }
    };
    let values = items(maps.values(), style)?;
    let (equals, between) = if style == Style::Sql { ("=", ", ") } else { (":", ",") };
    let one = |row: usize| {
        let range = maps.value_offsets()[row] as usize..maps.value_offsets()[row + 1] as usize;
        let entry = |at: usize| format!("{}{equals}{}", keys[at], values[at]);
        let entries = range.map(entry).collect::<Vec<_>>().join(between);
        maps.is_valid(row).then(|| format!("{{{entries}}}"))
    };
    Ok((0..maps.len()).map(one).collect())
}

/// A number with an exponent where it has more than 16 digits before the point, or starts with
/// four zeros behind it. `exact` has all digits, without an exponent.
fn float_text(number: f64, exact: String, scientific: impl Fn() -> String) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    let size = number.abs();
    if size.is_infinite() {
        return exact;
    }
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = scientific();
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        };
    }
    if exact.contains('.') { exact } else { exact + ".0" }
}

/// A text without zeros at the end of its fraction.
fn without_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// A duration of this many units as days and a time of day, as DuckDB divides the difference of two
/// instants. As nanoseconds alone, one of 292 years would overflow.
fn days_and_clock(count: i64, unit: TimeUnit) -> Result<IntervalMonthDayNano, DataFusionError> {
    let per_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let per_day = 24 * 60 * 60 * per_second;
    let days = i32::try_from(count / per_day).map_err(|_| {
        exec_datafusion_err!("a duration of {} days has no text: overflow", count / per_day)
    })?;
    let nanoseconds = count % per_day * (1_000_000_000 / per_second);
    Ok(IntervalMonthDayNano::new(0, days, nanoseconds))
}

/// `1 year 2 months 3 days 04:05:06.5`.
fn interval_text(interval: IntervalMonthDayNano) -> String {
    let mut parts = vec![];
    let numbers =
        [(interval.months / 12, "year"), (interval.months % 12, "month"), (interval.days, "day")];
    for (number, unit) in numbers.into_iter().filter(|(number, _)| *number != 0) {
        let plural = if number.abs() == 1 { "" } else { "s" };
        parts.push(format!("{number} {unit}{plural}"));
    }
    if interval.nanoseconds != 0 || parts.is_empty() {
        let sign = if interval.nanoseconds < 0 { "-" } else { "" };
        let nanoseconds = interval.nanoseconds.unsigned_abs();
        let (seconds, part) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let seconds = format!("{:02}.{part:09}", seconds % 60);
        parts.push(format!("{sign}{hours:02}:{minutes:02}:{}", without_zeros(&seconds)));
    }
    parts.join(" ")
}

/// Instants as local times with the offset of their zone: `2020-01-31 01:00:00+01`.
fn with_offsets(moments: &ArrayRef) -> Result<StringArray, DataFusionError> {
    let local = local(moments)?;
    if local.null_count() > moments.null_count() {
        let message = "overflow: a timestamp is outside the years that the calendar has";
        return Err(DataFusionError::Execution(message.into()));
    }
    let per_second = match local.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => 1,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000_000,
        _ => 1_000_000_000,
    };
    let texts = cast(&local, &DataType::Utf8)?;
    let (there, here) = (cast(&local, &DataType::Int64)?, cast(moments, &DataType::Int64)?);
    let (there, here): (&Int64Array, &Int64Array) =
        (there.as_primitive::<Int64Type>(), here.as_primitive::<Int64Type>());
    let shown = texts.as_string::<i32>().iter().enumerate().map(|(row, text)| {
        let text = text?.replacen('T', " ", 1);
        let text = without_zeros(&text);
        let offset = there.value(row).wrapping_sub(here.value(row)) / per_second;
        let size = offset.abs();
        let mut shown = format!("{text}{}{:02}", if offset < 0 { '-' } else { '+' }, size / 3600);
        for part in [size / 60 % 60, size % 60] {
            if part != 0 || size % 60 != 0 {
                let _ = write!(shown, ":{part:02}");
            }
        }
        Some(shown)
    });
    Ok(shown.collect())
}

/// Bytes as the text that they are. If they are none, bytes that are no plain signs of ASCII are
/// written in hexadecimal digits: `\xFF`.
fn text_of_bytes(bytes: &ArrayRef) -> Result<StringArray, DataFusionError> {
    let bytes = cast(bytes, &DataType::Binary)?;
    let escaped = |byte: &u8| match byte {
        b'\\' | b'\'' | b'"' => format!("\\x{byte:02X}"),
        b' '..=b'~' => (*byte as char).to_string(),
        _ => format!("\\x{byte:02X}"),
    };
    let shown = bytes.as_binary::<i32>().iter().map(|bytes| {
        let bytes = bytes?;
        Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_string(),
            Err(_) => bytes.iter().map(escaped).collect(),
        })
    });
    Ok(shown.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_point_or_an_exponent() {
        let known = [
            (1.0, "1.0"),
            (-0.5, "-0.5"),
            (0.0001, "0.0001"),
            (0.000_012, "1.2e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e100, "1.5e+100"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, text) in known {
            assert_eq!(float_text(number, number.to_string(), || format!("{number:e}")), text);
        }
    }

    #[test]
    fn intervals_are_in_words() {
        let known = [
            ((0, 0, 0), "00:00:00"),
            ((14, 1, 0), "1 year 2 months 1 day"),
            ((-13, 0, -1000), "-1 year -1 month -00:00:00.000001"),
            ((0, -2, 360_000_500_000_000), "-2 days 100:00:00.5"),
        ];
        for ((months, days, nanoseconds), text) in known {
            assert_eq!(interval_text(IntervalMonthDayNano::new(months, days, nanoseconds)), text);
        }
    }
}
