//! Converts literals to the type of the other operand, if that loses nothing.
//!
//! Numbers are parsed from the text as written: a double has 15 digits, a decimal up to 38.

use arrow::datatypes::{DataType, Decimal128Type, DecimalType, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;

use super::functions::text_casts::canonical;
use super::typed::Typed;
use super::types::Family;

/// A number literal as the narrowest decimal: `0.05` next to a decimal column is not a floating
/// point number, unless it has an exponent.
pub(crate) fn exact_decimal(literal: &Typed) -> Option<ScalarValue> {
    use ScalarValue::*;
    match literal.value()? {
        value @ Decimal128(..) => return Some(value.clone()),
        Int64(Some(_)) | UInt64(Some(_)) => {}
        Float64(Some(value)) if value.is_finite() => {}
        _ => return None,
    }
    let written = literal.text.trim_matches(|sign| matches!(sign, '(' | ')' | '+' | ' '));
    let is_number = written.bytes().any(|byte| byte.is_ascii_digit())
        && written.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    match (is_number, literal.value()?) {
        (true, _) => decimal_of(written),
        // The literal was folded from an expression.
        (false, Float64(_)) if written.contains(['e', 'E']) => None,
        (false, value) => decimal_of(&value.to_string()),
    }
}

/// The sum, difference or product of two written numbers, one of which has a fraction, as the
/// literal that has all its digits: `0.06 - 0.01` is 0.05, not the difference of two doubles.
pub(crate) fn exact_arithmetic(left: &Typed, op: Operator, right: &Typed) -> Option<Typed> {
    use ScalarValue::{Decimal128, Float64};
    // A cast is not a written number.
    if [left, right].iter().any(|side| side.text.starts_with("CAST")) {
        return None;
    }
    let is_double = |side: &Typed| matches!(side.value(), Some(Float64(_)));
    let is_zero =
        |side: &Typed| matches!(side.value(), Some(Float64(Some(value))) if *value == 0.0);
    if !is_double(left) && !is_double(right) || is_zero(left) || is_zero(right) {
        return None;
    }
    let (left, right) = (exact_decimal(left)?, exact_decimal(right)?);
    let (Decimal128(Some(a), _, x), Decimal128(Some(b), _, y)) = (left, right) else {
        return None;
    };
    let scale = x.max(y);
    let scaled = |value: i128, from: i8| {
        let factor = 10_i128.checked_pow(u32::try_from(scale - from).ok()?)?;
        value.checked_mul(factor)
    };
    let (value, scale) = match op {
        Operator::Plus => (scaled(a, x)?.checked_add(scaled(b, y)?)?, scale),
        Operator::Minus => (scaled(a, x)?.checked_sub(scaled(b, y)?)?, scale),
        Operator::Multiply => (a.checked_mul(b)?, x.checked_add(y)?),
        _ => return None,
    };
    if !(0..=38).contains(&scale) {
        return None;
    }
    let text = Decimal128Type::format_decimal(value, 38, scale);
    let nearest = text.parse().ok()?;
    Some(Typed::literal(Float64(Some(nearest)), text))
}

/// The narrowest decimal with these digits.
pub(crate) fn decimal_of(text: &str) -> Option<ScalarValue> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = part.trim_end_matches('0');
    let unscaled: i128 = format!("{whole}{part}").parse().ok()?;
    let digits = unscaled.unsigned_abs().to_string().len().max(part.len()).max(1);
    (digits <= 38).then_some(())?;
    Some(ScalarValue::Decimal128(Some(unscaled), digits as u8, part.len() as i8))
}

/// The literal in another type, if its value is the same there; `written` is its text in the
/// expression.
pub(crate) fn fit(value: &ScalarValue, written: &str, to: &DataType) -> Option<ScalarValue> {
    let from = value.data_type();
    if from == *to {
        return Some(value.clone());
    }
    if let DataType::Dictionary(keys, values) = to {
        let inner = Box::new(fit(value, written, values)?);
        return Some(ScalarValue::Dictionary(keys.clone(), inner));
    }
    if value.is_null() {
        return ScalarValue::try_new_null(to).ok();
    }
    let (family, wanted) = (Family::of(&from), Family::of(to));
    let text = value.try_as_str().flatten();
    match (family, wanted, text) {
        (Family::Text, Family::Nested | Family::Null, _) => return None,
        (Family::Text, _, Some(text)) => return read(text, to),
        (family, wanted, _) if family != wanted => return None,
        _ => {}
    }
    if to.is_decimal() {
        let literal = Typed::literal(value.clone(), written);
        return same(&exact_decimal(&literal)?, to);
    }
    same(value, to)
}

/// The value in another type, if that loses nothing.
fn same(value: &ScalarValue, to: &DataType) -> Option<ScalarValue> {
    let fitted = value.cast_to(to).ok()?;
    (fitted.cast_to(&value.data_type()).ok()? == *value).then_some(fitted)
}

/// A text literal next to a column of this type: in that type, or in a wider one that loses
/// nothing.
fn read(text: &str, to: &DataType) -> Option<ScalarValue> {
    let value = ScalarValue::from(text);
    let precise = match Family::of(to) {
        // A date would lose the time of day.
        Family::Date if text.contains(':') => instant(text, zone_of(to)),
        Family::Time => value.cast_to(&DataType::Time64(TimeUnit::Nanosecond)).ok(),
        Family::Number if to.is_decimal() => decimal_of(text.trim()),
        // Bytes of a length other than the column's.
        Family::Bytes => value.cast_to(&DataType::Binary).ok(),
        _ => None,
    };
    match precise.filter(|precise| !precise.is_null()) {
        Some(precise) => Some(same(&precise, to).unwrap_or(precise)),
        None => {
            let plain = value.cast_to(to).ok().filter(|value| !value.is_null());
            plain.or_else(|| match Family::of(to) {
                Family::Date => ScalarValue::from(canonical(text)?).cast_to(to).ok(),
                _ => None,
            })
        }
    }
}

fn zone_of(data_type: &DataType) -> Option<std::sync::Arc<str>> {
    match data_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    }
}

/// A timestamp in the coarsest unit that holds all its digits, which has the widest range.
pub(crate) fn instant(text: &str, zone: Option<std::sync::Arc<str>>) -> Option<ScalarValue> {
    let unit = match digits_of_second(text) {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    };
    let to = DataType::Timestamp(unit, zone);
    let read = |text: &str| {
        let read = ScalarValue::from(text).cast_to(&to);
        read.ok().filter(|value| !value.is_null())
    };
    read(text).or_else(|| read(&canonical(text)?))
}

/// The number of fractional digits of the seconds.
pub(crate) fn digits_of_second(text: &str) -> usize {
    let part = text.rsplit_once('.').map_or("", |(_, part)| part);
    part.chars().take_while(char::is_ascii_digit).count()
}
