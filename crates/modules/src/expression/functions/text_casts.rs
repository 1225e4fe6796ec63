//! Casts from text and to text that Arrow does otherwise than SQL: numbers with an exponent, times
//! without a colon, intervals without a unit, instants without seconds.

mod instants;
mod nested;
mod shown;
mod spans;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, IntervalMonthDayNanoArray,
    StringArray, Time64NanosecondArray,
};
use arrow::compute::{cast, kernels::zip::zip};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use chrono::NaiveDate;
use datafusion_common::DataFusionError;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub(crate) use self::instants::{canonical, canonical_date};
pub(crate) use self::shown::json_of;
use self::spans::fraction_nanos;
pub(crate) use self::spans::span;
use super::delegate::{named, of_rows};
use crate::expression::common_type::plain;
use crate::expression::typed::Typed;

/// Digits of the largest number that is read.
const DIGITS_MAX: u8 = 38;

/// Whether texts of this type become values of the other by the rules of this file.
pub(crate) fn reads(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Interval, Time32, Time64, Timestamp};
    let is_read = matches!(
        to,
        Time32(_)
            | Time64(_)
            | Timestamp(..)
            | Interval(IntervalUnit::MonthDayNano)
            | Date32
            | Decimal128(_, 0..)
    );
    is_text(from) && (to.is_integer() || is_read || nested::is_read(to, reads))
}

/// Whether values of this type become text by the rules of this file, which do not fail.
pub(crate) fn shows(from: &DataType, to: &DataType) -> bool {
    is_text(to) && shown::is_shown(from)
}

/// The cast to a type; text that does not read as the type fails, or is null if `tries`.
pub(crate) fn converted(of: Typed, to: &DataType, tries: bool) -> Typed {
    let function = Arc::new(ScalarUDF::new_from_impl(TextCast::new(to.clone(), tries)));
    let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of.expr]));
    Typed::new(call, to.clone(), of.text)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TextCast {
    to: DataType,
    tries: bool,
    any: Signature,
}

impl ScalarUDFImpl for TextCast {
    named!(self => "text_cast");

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        of_rows(&args.args[0], |array| {
            let array = cast(array, plain(array.data_type()))?;
            match is_text(array.data_type()) {
                true => self.read(&array),
                false => Ok(cast(&shown::texts_of(&array)?, &self.to)?),
            }
        })
    }
}

impl TextCast {
    fn new(to: DataType, tries: bool) -> TextCast {
        TextCast { to, tries, any: Signature::any(1, Volatility::Immutable) }
    }

    fn read(&self, array: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
        let texts = cast(array, &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        let plain = || cast(array, &self.to);
        let found = match &self.to {
            to if nested::is_read(to, reads) => {
                let inner = |texts: &ArrayRef, to: &DataType, tries: bool| {
                    TextCast::new(to.clone(), tries).read(texts)
                };
                nested::read(texts, to, self.tries, &inner)?
            }
            to if !reads(texts.data_type(), to) => plain()?,
            DataType::Date32 => {
                let trimmed: StringArray = trimmed(texts);
                spelled(&trimmed, &cast(&trimmed, &self.to)?, &canonical_date)?
            }
            DataType::Timestamp(..) => spelled(texts, &plain()?, &canonical)?,
            DataType::Decimal128(digits, scale) => decimals(texts, &plain()?, *digits, *scale)?,
            DataType::Interval(_) => seconds(texts, &plain()?)?,
            to if to.is_integer() => whole_numbers(texts, &plain()?)?,
            _ => times(texts, &plain()?)?,
        };
        let is_wrong = |row: &usize| found.is_null(*row) && texts.is_valid(*row);
        if !self.tries
            && found.null_count() > texts.null_count()
            && let Some(row) = (0..texts.len()).find(is_wrong)
        {
            let text = texts.value(row);
            return Err(DataFusionError::Execution(format!(
                "Cannot cast string '{text}' to value of {:?} type",
                self.to
            )));
        }
        Ok(found)
    }
}

/// Those of Arrow, and of other rows those that it reads in another spelling.
fn spelled(
    texts: &StringArray,
    plain: &ArrayRef,
    spell: &dyn Fn(&str) -> Option<String>,
) -> Result<ArrayRef, DataFusionError> {
    if plain.null_count() == texts.null_count() {
        return Ok(plain.clone());
    }
    let others = (0..texts.len()).map(|row| match plain.is_null(row) && texts.is_valid(row) {
        true => spell(texts.value(row)),
        false => None,
    });
    either(plain, &cast(&others.collect::<StringArray>(), plain.data_type())?)
}

/// The texts without spaces around them.
fn trimmed(texts: &StringArray) -> StringArray {
    texts.iter().map(|text| text.map(str::trim)).collect()
}

/// Those of Arrow, and of other rows those with an exponent.
fn decimals(
    texts: &StringArray,
    plain: &ArrayRef,
    digits: u8,
    scale: i8,
) -> Result<ArrayRef, DataFusionError> {
    if plain.null_count() == texts.null_count() {
        return Ok(plain.clone());
    }
    let end = 10_i128.pow(digits.into());
    let fits = |number: &i128| number.unsigned_abs() < end.unsigned_abs();
    let others = (0..texts.len()).map(|row| match plain.is_null(row) && texts.is_valid(row) {
        true => shifted_number(texts.value(row), scale.into()).filter(fits),
        false => None,
    });
    let others: Decimal128Array = others.collect();
    either(plain, &(Arc::new(others.with_precision_and_scale(digits, scale)?) as ArrayRef))
}

/// Those of Arrow, and of other rows the numbers of texts like `2.5`, `1e3` and `0x1F`.
fn whole_numbers(texts: &StringArray, plain: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    if plain.null_count() == texts.null_count() {
        return Ok(plain.clone());
    }
    let others = (0..texts.len()).map(|row| match plain.is_null(row) && texts.is_valid(row) {
        true => whole_number(texts.value(row)),
        false => None,
    });
    let others: Decimal128Array = others.collect();
    let others: ArrayRef = Arc::new(others.with_precision_and_scale(DIGITS_MAX, 0)?);
    either(plain, &cast(&others, plain.data_type())?)
}

fn either(plain: &ArrayRef, others: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    let is_plain: BooleanArray = (0..plain.len()).map(|row| Some(plain.is_valid(row))).collect();
    Ok(zip(&is_plain, plain, others)?)
}

/// The nearest whole number to the one that is written; halves are rounded away from zero.
fn whole_number(text: &str) -> Option<i128> {
    shifted_number(text, 0)
}

/// The same of the number whose point is moved to the right by some places.
fn shifted_number(text: &str, places: i64) -> Option<i128> {
    let text = text.trim();
    let based = |digits: &str, base: u32| {
        i128::from_str_radix(&plain_digits(digits)?, base).ok().filter(|_| places == 0)
    };
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return based(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0b").or_else(|| text.strip_prefix("0B")) {
        return based(digits, 2);
    }
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let part = plain_digits(part)?;
    let all = plain_digits(whole)? + &part;
    if !all.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let point = i64::try_from(all.len() - part.len()).ok()? + i64::from(exponent) + places;
    let all = all.as_bytes();
    let digit = |at: i64| {
        let digit = usize::try_from(at).ok().and_then(|at| all.get(at));
        digit.map_or(0, |digit| i128::from(digit - b'0'))
    };
    let Some(first) = all.iter().position(|digit| *digit != b'0') else { return Some(0) };
    let first = first as i64;
    if point - first > i64::from(DIGITS_MAX) {
        return None;
    }
    let start = first.min(point.max(0));
    let number = (start..point).fold(0_i128, |number, at| number * 10 + digit(at));
    let number = number + i128::from(point >= 0 && digit(point) >= 5);
    Some(if is_negative { -number } else { number })
}

/// Digits without the underscores between them.
fn plain_digits(digits: &str) -> Option<String> {
    let is_wrong = digits.starts_with(['_', '+', '-']) || digits.ends_with('_');
    (!is_wrong && !digits.contains("__")).then(|| digits.replace('_', ""))
}

/// Those of Arrow that are written with a colon, and of other rows the times behind dates.
fn times(texts: &StringArray, plain: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    let others = texts.iter().map(|text| time(text?));
    let others: ArrayRef = Arc::new(others.collect::<Time64NanosecondArray>());
    let others = cast(&others, plain.data_type())?;
    let has_colon = |row: usize| plain.is_valid(row) && texts.value(row).contains(':');
    let is_plain: BooleanArray = (0..texts.len()).map(|row| Some(has_colon(row))).collect();
    Ok(zip(&is_plain, plain, &others)?)
}

/// The nanoseconds of a time of day, which may stand behind a date, as may nothing.
fn time(text: &str) -> Option<i64> {
    let text = text.trim();
    let is_date = |text: &str| NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok();
    let clock = match text.split_once([' ', 'T']) {
        Some((date, clock)) if is_date(date) => clock.trim_start(),
        _ if is_date(text) => return Some(0),
        _ => text,
    };
    let mut parts = clock.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let number = |text: &str, below: i64| {
        let is_short = (1..=2).contains(&text.len());
        let is_digits = is_short && text.bytes().all(|digit| digit.is_ascii_digit());
        is_digits.then(|| text.parse().ok()).flatten().filter(|number: &i64| *number < below)
    };
    if parts.next().is_some() {
        return None;
    }
    let (hours, minutes, seconds) =
        (number(hours, 24)?, number(minutes, 60)?, number(seconds, 60)?);
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + fraction_nanos(fraction)?)
}

/// Those of Arrow, and of other rows those with a clock; but a number alone has seconds, of which
/// Arrow makes months.
fn seconds(texts: &StringArray, plain: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    let number = |text: &str| {
        let text = text.trim();
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_digits = whole.bytes().all(|digit| digit.is_ascii_digit());
        let whole = is_digits.then(|| whole.parse::<i64>().ok()).flatten()?;
        let nanos = whole.checked_mul(1_000_000_000)?.checked_add(fraction_nanos(fraction)?)?;
        Some(IntervalMonthDayNano::new(0, 0, sign * nanos))
    };
    let spans = texts.iter().enumerate().map(|(row, text)| match plain.is_null(row) {
        true => span(text?),
        false => None,
    });
    let spans: ArrayRef = Arc::new(spans.collect::<IntervalMonthDayNanoArray>());
    let plain = &either(plain, &spans)?;
    let others: IntervalMonthDayNanoArray = texts.iter().map(|text| number(text?)).collect();
    let is_number = |text: Option<&str>| {
        let is_sign = |sign: char| sign.is_ascii_digit() || "+-. ".contains(sign);
        Some(text.is_some_and(|text| text.chars().all(is_sign)))
    };
    let is_number: BooleanArray = texts.iter().map(is_number).collect();
    let others: ArrayRef = Arc::new(others);
    Ok(zip(&is_number, &others, plain)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_fractions_exponents_and_prefixes() {
        let known = [
            ("-3.50", Some(-4)),
            ("2.5", Some(3)),
            ("2.49", Some(2)),
            (".5", Some(1)),
            ("5.", Some(5)),
            ("1e3", Some(1000)),
            ("5e-1", Some(1)),
            ("1e-1", Some(0)),
            ("9e-30", Some(0)),
            ("0e99", Some(0)),
            ("1.5E1", Some(15)),
            ("1_000", Some(1000)),
            ("0x1F", Some(31)),
            ("0b11", Some(3)),
            ("9223372036854775807.4", Some(i128::from(i64::MAX))),
        ];
        for (text, number) in known {
            assert_eq!(whole_number(text), number, "{text}");
        }
        for text in ["", ".", "-", "1e", "1_", "1__0", "x", "-0x1", "1e99", "1 2", "0x", "1.-2"] {
            assert_eq!(whole_number(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_a_colon_or_a_date() {
        assert_eq!(time("1:2:3.5"), Some(3_723_500_000_000));
        assert_eq!(time("2024-02-29 12:00:01"), Some(43_201_000_000_000));
        assert_eq!(time("2024-02-29"), Some(0));
        for text in ["12", "24:00", "12:60", "1:2:3:4", "12:00:00 PM", "2024-02-30", ":"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
