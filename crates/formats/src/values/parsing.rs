//! Parses text to typed values; text that does not fit the column's type is an error, never the
//! nearest value that fits.
//!
//! Arrow's text readers truncate excess precision (a fraction in a column of integers, digits below
//! the unit of a timestamp or the scale of a decimal) and drop zones; so columns of such types are
//! read as text first and parsed here.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, NullArray, PrimitiveBuilder, StringArray,
};
use arrow::compute::cast;
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::*;
use chrono::{DateTime, Offset, TimeZone, Timelike};
use euphrates_flow::{Error, Result};

use crate::values::decimal_digits::unscaled;
use crate::values::digits::few_digits;
use crate::values::inference::{InferredKind, is_code, is_word_number};
use crate::values::iso8601::{
    is_extended, parse_date, parse_duration, parse_moment, parse_time, parse_usual_date,
    parse_usual_moment,
};
use crate::values::printing::zone_named;
use crate::values::text_forms::{has_leap_second, has_zone, is_finer, without_zeros};

/// What the type of a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeOrigin {
    /// Inference from a sample: a text that would lose characters as a number is refused, because
    /// inference would have left such a column text.
    Inferred,
    /// The user: any text that has a value of the type is that value.
    Given,
}

/// A usage error if values of this type cannot be parsed from text.
pub fn check(to: &DataType) -> Result<()> {
    if let DataType::Timestamp(_, Some(zone)) = to {
        zone_named(zone)?;
    }
    let none = StringArray::new_null(0);
    column(&none, to, TypeOrigin::Given).map(drop)
}

/// Texts that are parsed one by one; `None` stands for a null.
pub trait Texts<'a>: Copy {
    /// Number of texts, nulls included.
    fn rows(self) -> usize;
    /// The texts in their order.
    fn each(self) -> impl Iterator<Item = Option<&'a str>>;
}

impl<'a> Texts<'a> for &'a StringArray {
    fn rows(self) -> usize {
        self.len()
    }

    fn each(self) -> impl Iterator<Item = Option<&'a str>> {
        self.iter()
    }
}

/// Parses texts to a type; a corruption error names the first text that does not fit.
pub fn column(texts: &StringArray, to: &DataType, origin: TypeOrigin) -> Result<ArrayRef> {
    use DataType::*;
    if let Some(values) = values(texts, to, origin) {
        return values;
    }
    match to {
        Utf8 => Ok(Arc::new(texts.clone())),
        FixedSizeBinary(width) => fixed_bytes(texts, to, *width),
        Dictionary(_, values) if !is_text(values) => Ok(cast(&column(texts, values, origin)?, to)?),
        RunEndEncoded(_, values) => Ok(cast(&column(texts, values.data_type(), origin)?, to)?),
        Null => match (0..texts.len()).find(|&row| texts.is_valid(row)) {
            Some(row) => Err(misfit(texts.value(row), to)),
            None => Ok(Arc::new(NullArray::new(texts.len()))),
        },
        _ if is_text(to) => Ok(cast(texts, to)?),
        _ => {
            let error = Error::usage(format!("{to} cannot be read from text"));
            Err(error.remedy("give the column another of the `types`"))
        }
    }
}

/// Parses texts as [`column`] does; `None` for types whose values are not numbers, times or
/// booleans.
pub fn values<'a>(
    texts: impl Texts<'a>,
    to: &DataType,
    origin: TypeOrigin,
) -> Option<Result<ArrayRef>> {
    use DataType::*;
    Some(match to {
        Boolean => booleans(texts),
        Int8 => whole::<Int8Type>(texts, to, origin),
        Int16 => whole::<Int16Type>(texts, to, origin),
        Int32 => whole::<Int32Type>(texts, to, origin),
        Int64 => whole::<Int64Type>(texts, to, origin),
        UInt8 => whole::<UInt8Type>(texts, to, origin),
        UInt16 => whole::<UInt16Type>(texts, to, origin),
        UInt32 => whole::<UInt32Type>(texts, to, origin),
        UInt64 => whole::<UInt64Type>(texts, to, origin),
        Float16 => float::<Float16Type>(texts, to, origin, |value| value.is_infinite()),
        Float32 => float::<Float32Type>(texts, to, origin, |value| value.is_infinite()),
        Float64 => float::<Float64Type>(texts, to, origin, |value| value.is_infinite()),
        Decimal32(precision, scale) => {
            decimal::<Decimal32Type>(texts, to, origin, (*precision, *scale))
        }
        Decimal64(precision, scale) => {
            decimal::<Decimal64Type>(texts, to, origin, (*precision, *scale))
        }
        Decimal128(precision, scale) => {
            decimal::<Decimal128Type>(texts, to, origin, (*precision, *scale))
        }
        Decimal256(precision, scale) => {
            decimal::<Decimal256Type>(texts, to, origin, (*precision, *scale))
        }
        Date32 => parsed::<Date32Type>(texts, to, |text| {
            if let Some(days) = parse_usual_date(text.as_bytes()) {
                return i32::try_from(days).ok();
            }
            match is_extended(text) {
                true => parse_date(text).and_then(|days| i32::try_from(days).ok()),
                // Rejects a time of day, which would be dropped.
                false if text.contains(':') => None,
                false => Date32Type::parse(text),
            }
        }),
        Date64 => parsed::<Date64Type>(texts, to, |text| match is_extended(text) {
            true => parse_moment(text, TimeUnit::Millisecond, Some(0)),
            false if is_finer(text, TimeUnit::Millisecond) => None,
            false => Date64Type::parse(text),
        }),
        Time32(TimeUnit::Second) => timely::<Time32SecondType>(texts, to, TimeUnit::Second),
        Time32(_) => timely::<Time32MillisecondType>(texts, to, TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond) => {
            timely::<Time64MicrosecondType>(texts, to, TimeUnit::Microsecond)
        }
        Time64(_) => timely::<Time64NanosecondType>(texts, to, TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Second, zone) => {
            timestamp::<TimestampSecondType>(texts, to, zone.as_deref())
        }
        Timestamp(TimeUnit::Millisecond, zone) => {
            timestamp::<TimestampMillisecondType>(texts, to, zone.as_deref())
        }
        Timestamp(TimeUnit::Microsecond, zone) => {
            timestamp::<TimestampMicrosecondType>(texts, to, zone.as_deref())
        }
        Timestamp(TimeUnit::Nanosecond, zone) => {
            timestamp::<TimestampNanosecondType>(texts, to, zone.as_deref())
        }
        Duration(TimeUnit::Second) => duration::<DurationSecondType>(texts, to),
        Duration(TimeUnit::Millisecond) => duration::<DurationMillisecondType>(texts, to),
        Duration(TimeUnit::Microsecond) => duration::<DurationMicrosecondType>(texts, to),
        Duration(TimeUnit::Nanosecond) => duration::<DurationNanosecondType>(texts, to),
        _ => return None,
    })
}

/// Whether values of this type are the text itself.
pub fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

fn misfit(text: &str, to: &DataType) -> Error {
    let shown: String = text.chars().take(40).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    let error = Error::corrupt(format!("`{shown}{more}` does not fit {to}"));
    let other = match (InferredKind::of(text), InferredKind::of_type(to)) {
        (zoned @ InferredKind::Time { zone: true, .. }, InferredKind::Time { zone: false, .. }) => {
            zoned
        }
        (value, column) => value.and(column),
    };
    let other = other.name();
    let option = format!("`types={{\"COLUMN\": \"{other}\"}}`");
    error.remedy(format!("correct it, or read the column as {other}: {option}"))
}

/// Parses each text; fails at the first for which `parse` gives `None`.
fn parsed<'a, T: ArrowPrimitiveType>(
    texts: impl Texts<'a>,
    to: &DataType,
    parse: impl Fn(&str) -> Option<T::Native>,
) -> Result<ArrayRef> {
    let mut values = PrimitiveBuilder::<T>::with_capacity(texts.rows()).with_data_type(to.clone());
    for text in texts.each() {
        match text {
            None => values.append_null(),
            Some(text) => values.append_value(parse(text).ok_or_else(|| misfit(text, to))?),
        }
    }
    Ok(Arc::new(values.finish()))
}

fn booleans<'a>(texts: impl Texts<'a>) -> Result<ArrayRef> {
    let value = |text: Option<&str>| match text {
        None => Ok(None),
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Some(text) => Err(misfit(text, &DataType::Boolean)),
    };
    Ok(Arc::new(texts.each().map(value).collect::<Result<BooleanArray>>()?))
}

fn whole<'a, T: Parser<Native: TryFrom<i64>>>(
    texts: impl Texts<'a>,
    to: &DataType,
    origin: TypeOrigin,
) -> Result<ArrayRef> {
    parsed::<T>(texts, to, |text| {
        let text = (!loses_characters(text, origin)).then(|| text.trim_ascii())?;
        match few_digits(text.as_bytes()) {
            Some(number) => T::Native::try_from(number).ok(),
            None => T::parse(text).or_else(|| T::parse(without_zeros(text)?)),
        }
    })
}

/// Whether a text in a column that was inferred as numbers is a code, like `007`.
fn loses_characters(text: &str, origin: TypeOrigin) -> bool {
    // Most numbers have a first byte behind `0`, and few digits.
    let is_suspect = text.len() > 19 || text.as_bytes().first().is_some_and(|byte| *byte <= b'0');
    is_suspect && origin == TypeOrigin::Inferred && is_code(text)
}

/// Parses a float, rounding as usual, but a finite number must not become infinite.
fn float<'a, T: Parser>(
    texts: impl Texts<'a>,
    to: &DataType,
    origin: TypeOrigin,
    is_infinite: impl Fn(T::Native) -> bool,
) -> Result<ArrayRef> {
    parsed::<T>(texts, to, |text| {
        if is_word_number(text) {
            // The sign of NaN has no meaning.
            let is_nan = text.ends_with(['n', 'N']);
            return T::parse(if is_nan { "NaN" } else { text.trim_start_matches('+') });
        }
        if loses_characters(text, origin) {
            return None;
        }
        let value = T::parse(text).or_else(|| T::parse(text.trim_ascii()));
        value.filter(|value| !is_infinite(*value))
    })
}

fn decimal<'a, T: DecimalType>(
    texts: impl Texts<'a>,
    to: &DataType,
    origin: TypeOrigin,
    (precision, scale): (u8, i8),
) -> Result<ArrayRef>
where
    T::Native: FromStr,
{
    parsed::<T>(texts, to, |text| match loses_characters(text, origin) {
        true => None,
        false => unscaled(text.trim(), precision, scale)?.parse().ok(),
    })
}

fn duration<'a, T: DurationType>(texts: impl Texts<'a>, to: &DataType) -> Result<ArrayRef> {
    parsed::<T>(texts, to, |text| parse_duration(text, T::UNIT))
}

fn fixed_bytes(texts: &StringArray, to: &DataType, width: i32) -> Result<ArrayRef> {
    let fits = |text: &&str| text.len() == width as usize;
    if let Some(text) = texts.iter().flatten().find(|text| !fits(text)) {
        return Err(misfit(text, to));
    }
    let values = texts.iter().map(|text| text.map(str::as_bytes));
    Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, width)?))
}

trait DurationType: ArrowPrimitiveType<Native = i64> {
    const UNIT: TimeUnit;
}

impl DurationType for DurationSecondType {
    const UNIT: TimeUnit = TimeUnit::Second;
}

impl DurationType for DurationMillisecondType {
    const UNIT: TimeUnit = TimeUnit::Millisecond;
}

impl DurationType for DurationMicrosecondType {
    const UNIT: TimeUnit = TimeUnit::Microsecond;
}

impl DurationType for DurationNanosecondType {
    const UNIT: TimeUnit = TimeUnit::Nanosecond;
}

/// Parses times of day, none finer than the unit.
fn timely<'a, T: Parser>(texts: impl Texts<'a>, to: &DataType, unit: TimeUnit) -> Result<ArrayRef>
where
    T::Native: TryFrom<i64>,
{
    parsed::<T>(texts, to, |text| {
        if let Some(value) = parse_time(text, unit) {
            return value.try_into().ok();
        }
        // Arrow reads digits alone as units after midnight.
        let is_exact = text.contains(':') && !is_finer(text, unit) && !has_leap_second(text);
        if is_exact { T::parse(text) } else { None }
    })
}

fn timestamp<'a, T: ArrowTimestampType>(
    texts: impl Texts<'a>,
    to: &DataType,
    zone: Option<&str>,
) -> Result<ArrayRef> {
    let offset = zone_named(zone.unwrap_or("UTC"))?;
    let is_utc = zone.is_none_or(|zone| zone.eq_ignore_ascii_case("utc"));
    parsed::<T>(texts, to, |text| {
        if let Some(value) = parse_usual_moment(text.as_bytes(), T::UNIT).filter(|_| is_utc) {
            return Some(value);
        }
        // A column without a zone would drop the value's zone.
        if (zone.is_none() && has_zone(text)) || is_finer(text, T::UNIT) {
            return None;
        }
        if is_extended(text) {
            let ahead = fixed_offset(zone.unwrap_or("UTC"), offset);
            return parse_moment(text, T::UNIT, ahead);
        }
        let at = string_to_datetime(&offset, text).ok()?;
        // Rejects a leap second, which would become the first of the next minute.
        if at.nanosecond() >= 1_000_000_000 {
            return None;
        }
        match T::UNIT {
            TimeUnit::Second => Some(at.timestamp()),
            TimeUnit::Millisecond => Some(at.timestamp_millis()),
            TimeUnit::Microsecond => Some(at.timestamp_micros()),
            TimeUnit::Nanosecond => at.timestamp_nanos_opt(),
        }
    })
}

/// The offset of a zone from UTC in seconds; `None` if it varies.
fn fixed_offset(zone: &str, offset: Tz) -> Option<i32> {
    let is_fixed = zone.eq_ignore_ascii_case("utc") || zone.starts_with(['+', '-']);
    let ahead = || offset.offset_from_utc_datetime(&DateTime::UNIX_EPOCH.naive_utc()).fix();
    is_fixed.then(|| ahead().local_minus_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::type_named;
    use arrow::util::display::array_value_to_string;

    fn read(text: &str, to: &str) -> Result<String, String> {
        let to = type_named(to).unwrap();
        match column(&StringArray::from(vec![None, Some(text)]), &to, TypeOrigin::Given) {
            Ok(column) => {
                // Arrow formats named zones only with its zone database.
                let shown = match column.data_type() {
                    DataType::Timestamp(unit, Some(_)) => {
                        cast(&column, &DataType::Timestamp(*unit, None)).unwrap()
                    }
                    _ => column,
                };
                Ok(array_value_to_string(&shown, 1).unwrap())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn value_is_parsed_exactly_or_not_at_all() {
        let cases = [
            ("7", "int8", Ok("7")),
            ("-2.00", "int8", Ok("-2")),
            ("1.7", "int64", Err("float64")),
            ("-1.5", "int64", Err("float64")),
            ("1e3", "int64", Err("float64")),
            ("128", "int8", Err("int64")),
            ("18446744073709551615", "uint64", Ok("18446744073709551615")),
            ("18446744073709551615", "int64", Err("Decimal128(20, 0)")),
            ("-1", "uint64", Err("Decimal128(20, 0)")),
            ("x", "int64", Err("string")),
            ("1e300", "float32", Err("float64")),
            ("1e400", "float64", Err("string")),
            ("0.1", "float32", Ok("0.1")),
            ("inf", "float32", Ok("inf")),
            ("1.00", "Decimal128(5, 2)", Ok("1.00")),
            ("1.0050", "Decimal128(5, 2)", Err("float64")),
            ("100.500e-1", "Decimal128(5, 2)", Ok("10.05")),
            ("1005e-3", "Decimal128(5, 2)", Err("float64")),
            ("1500e-3", "Decimal128(5, 2)", Ok("1.50")),
            ("12345", "Decimal128(5, 2)", Err("float64")),
            ("TRUE", "bool", Ok("true")),
            ("1", "bool", Err("string")),
            ("2024-01-02", "date", Ok("2024-01-02")),
            ("2024-01-02 03:04:05", "date", Err("timestamp")),
            ("2024-01-02T03:04:05.123456", "timestamp", Ok("2024-01-02T03:04:05.123456")),
            ("2024-01-02T03:04:05.1230000", "timestamp", Ok("2024-01-02T03:04:05.123")),
            ("2024-01-02T03:04:05.123456789", "timestamp", Err("timestamp_ns")),
            ("2024-01-02 03:04:05.5", "timestamp_s", Err("timestamp")),
            ("2024-01-02T03:04:05+02:00", "timestamp", Err("timestamptz")),
            ("2024-01-02T03:04:05+02:00", "timestamptz", Ok("2024-01-02T01:04:05")),
            ("2024-01-02T03:04:05", "timestamptz", Ok("2024-01-02T03:04:05")),
            ("2016-12-31 23:59:60", "timestamp", Err("string")),
            ("2016-12-31T235960", "timestamp", Err("string")),
            ("23:59:60", "Time64(ns)", Err("string")),
            ("12:30:60", "Time32(s)", Err("string")),
            ("03:04:05.5", "Time32(s)", Err("time")),
            ("12", "Time64(us)", Err("string")),
            ("12:00:00.25", "Time64(us)", Ok("12:00:00.250")),
            (" 12 ", "int64", Ok("12")),
            (" -1.5", "float64", Ok("-1.5")),
            ("word", "Dictionary(Int32, Utf8)", Ok("word")),
        ];
        for (text, to, expected) in cases {
            match (read(text, to), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text} as {to}"),
                (Err(error), Err(other)) => {
                    assert!(error.contains(&format!("`{text}` does not fit")), "{error}");
                    let remedy = format!(" as {other}: `types={{\"COLUMN\": \"{other}\"}}`");
                    assert!(error.ends_with(&remedy), "{text} as {to}: {error}");
                }
                (found, _) => panic!("{text} as {to}: {found:?}"),
            }
        }
    }

    #[test]
    fn types_that_cannot_be_parsed_are_refused_beforehand() {
        assert!(check(&type_named("Interval(YearMonth)").unwrap()).is_err());
        assert!(check(&type_named("Timestamp(ns, \"Nowhere\")").unwrap()).is_err());
        assert!(check(&type_named("timestamptz").unwrap()).is_ok());
    }
}
