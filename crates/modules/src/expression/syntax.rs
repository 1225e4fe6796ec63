//! Parts of SQL with special syntax: literals, and functions that are not written as calls.

use std::borrow::Cow;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use euphrates_flow::{Error, Result};
use sqlparser::ast::{
    self, CeilFloorKind, Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    TrimWhereField, Value,
};

use super::common_type::plain;
use super::functions::materialize;
use super::functions::text_casts::span;
use super::literals::{decimal_of, digits_of_second};
use super::parse::unsupported;
use super::typed::Typed;
use super::types::{Family, INTERVAL, in_words, type_of};

/// A literal; `sign` is the text before a number.
pub(crate) fn literal(value: &Value, sign: &str) -> Result<Typed> {
    let text = format!("{sign}{value}");
    let value = match value {
        Value::Number(digits, _) => number(&format!("{sign}{digits}"))?,
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
            ScalarValue::from(text.as_str())
        }
        Value::DollarQuotedString(text) => ScalarValue::from(text.value.as_str()),
        Value::Boolean(value) => ScalarValue::from(*value),
        Value::Null => ScalarValue::Null,
        Value::HexStringLiteral(digits) => ScalarValue::Binary(Some(bytes(digits)?)),
        Value::Placeholder(name) => {
            return Err(Error::usage(format!("nothing is known of the value of {name}"))
                .remedy("use a variable of the flow for the whole expression"));
        }
        other => return Err(unsupported(format!("`{other}`"))),
    };
    Ok(Typed::literal(value, text))
}

/// A number with a fraction, as the text of its digits: it has more of them than a floating point
/// number.
pub(crate) fn exact_number(ast: &Ast) -> Option<Typed> {
    let (value, sign) = match ast {
        Ast::Value(value) => (value, ""),
        Ast::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match expr.as_ref() {
            Ast::Value(value) => (value, "-"),
            _ => return None,
        },
        Ast::Nested(inner) => return exact_number(inner),
        _ => return None,
    };
    match &value.value {
        Value::Number(digits, _) if digits.contains('.') && !digits.contains(['e', 'E']) => {
            let text = format!("{sign}{digits}");
            Some(Typed::literal(ScalarValue::from(text.as_str()), text))
        }
        _ => None,
    }
}

fn number(digits: &str) -> Result<ScalarValue> {
    if let Ok(value) = digits.parse::<i64>() {
        return Ok(ScalarValue::from(value));
    }
    if let Ok(value) = digits.parse::<u64>() {
        return Ok(ScalarValue::from(value));
    }
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if let Some(value) = is_whole.then(|| decimal_of(digits)).flatten() {
        return Ok(value);
    }
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(ScalarValue::from(value)),
        _ => Err(Error::usage(format!("`{digits}` is not a number"))),
    }
}

fn bytes(digits: &str) -> Result<Vec<u8>> {
    let wrong = || Error::usage(format!("X'{digits}' is not pairs of hexadecimal digits"));
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong())).collect()
}

/// `DATE '…'`, `TIMESTAMP '…'` and other types before a text.
pub(crate) fn typed_string(typed: &ast::TypedString) -> Result<Typed> {
    let text = typed.to_string();
    let Value::SingleQuotedString(value) = &typed.value.value else {
        return Err(unsupported(format!("`{text}`")));
    };
    let data_type = match type_of(&typed.data_type)? {
        // Nanoseconds if the text has more than six digits.
        DataType::Timestamp(TimeUnit::Microsecond, zone) if digits_of_second(value) > 6 => {
            DataType::Timestamp(TimeUnit::Nanosecond, zone)
        }
        other => other,
    };
    let literal = ScalarValue::from(value.as_str()).cast_to(&data_type);
    match literal {
        Ok(value) if !value.is_null() => Ok(Typed::literal(value, text)),
        _ => Err(Error::usage(format!("'{value}' does not read as {}", in_words(&data_type)))
            .remedy("like DATE '2026-01-31' or TIMESTAMP '2026-01-31 12:00:00'")),
    }
}

/// `INTERVAL '1' DAY`, `INTERVAL '1 day 2 hours'`.
pub(crate) fn interval(interval: &ast::Interval) -> Result<Typed> {
    let text = interval.to_string();
    let remedy = "like INTERVAL '3' MONTH or INTERVAL '1 day 2 hours'";
    let value = match interval.value.as_ref() {
        Ast::Value(value) => match &value.value {
            Value::SingleQuotedString(value) | Value::Number(value, _) => value.clone(),
            _ => return Err(unsupported(format!("`{text}`")).remedy(remedy)),
        },
        _ => return Err(unsupported(format!("`{text}`")).remedy(remedy)),
    };
    let value = match &interval.leading_field {
        Some(unit) => format!("{value} {unit}"),
        None => value,
    };
    // A bare number would be parsed as months.
    let has_unit = value.chars().any(char::is_alphabetic) || value.contains(':');
    let read = match span(&value) {
        Some(span) => Ok(ScalarValue::IntervalMonthDayNano(Some(span))),
        None => ScalarValue::from(value.as_str()).cast_to(&INTERVAL),
    };
    match read {
        Ok(read) if has_unit && !read.is_null() && interval.last_field.is_none() => {
            Ok(Typed::literal(read, text))
        }
        _ => Err(Error::usage(format!("`{text}` does not read as an interval")).remedy(remedy)),
    }
}

/// `a || b`: concatenates text with text or any other type. Null on one side gives null.
pub(crate) fn concatenate(left: Typed, right: Typed) -> Result<Typed> {
    let text = format!("{} || {}", left.text, right.text);
    let families = [left.family(), right.family()];
    if families.contains(&Family::Bytes)
        && families.iter().all(|of| matches!(of, Family::Bytes | Family::Null))
    {
        let is_large = |side: &Typed| *plain(&side.data_type) == DataType::LargeBinary;
        let common = match is_large(&left) || is_large(&right) {
            true => DataType::LargeBinary,
            false => DataType::Binary,
        };
        let (left, right) = (left.cast(&common), right.cast(&common));
        return Ok(materialize::concatenated(left, right, common, text));
    }
    if ![left.family(), right.family()].iter().any(|it| matches!(it, Family::Text | Family::Null)) {
        let message =
            format!("|| joins text or bytes, not {} and {}", left.described(), right.described());
        return Err(Error::usage(message).remedy("convert one of them with CAST(… AS TEXT)"));
    }
    let text_type = |side: &Typed| match side.data_type {
        DataType::LargeUtf8 => DataType::LargeUtf8,
        _ => DataType::Utf8,
    };
    let common = match (text_type(&left), text_type(&right)) {
        (DataType::Utf8, DataType::Utf8) => DataType::Utf8,
        _ => DataType::LargeUtf8,
    };
    let (left, right) =
        (left.cast_explicit(common.clone(), false)?, right.cast_explicit(common.clone(), false)?);
    Ok(materialize::concatenated(left, right, common, text))
}

/// The name of a function. Fails for clauses that are not supported.
pub(crate) fn function_name(function: &Function) -> Result<String> {
    let plain = function.over.is_none()
        && function.filter.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && matches!(function.parameters, FunctionArguments::None);
    if !plain {
        return Err(unsupported(format!("`{function}`"))
            .remedy("an expression sees one row; it cannot aggregate several"));
    }
    Ok(function.name.to_string().trim_matches('"').to_string())
}

pub(crate) fn arguments(function: &Function) -> Result<Vec<&Ast>> {
    let list = match &function.args {
        FunctionArguments::None => return Ok(vec![]),
        FunctionArguments::List(list)
            if list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
        {
            list
        }
        _ => return Err(unsupported(format!("`{function}`"))),
    };
    let plain = |arg| match arg {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Ok(expr),
        other => Err(unsupported(format!("`{other}` as an argument"))),
    };
    list.args.iter().map(plain).collect()
}

/// An argument of a function with special syntax.
pub(crate) enum Arg<'a> {
    Written(&'a Ast),
    Made(Box<Ast>),
}

impl AsRef<Ast> for Arg<'_> {
    fn as_ref(&self) -> &Ast {
        match self {
            Arg::Written(ast) => ast,
            Arg::Made(ast) => ast,
        }
    }
}

/// The function behind a special syntax, and its arguments.
pub(crate) fn as_call(ast: &Ast) -> Result<Option<(&'static str, Vec<Arg<'_>>)>> {
    let call = match ast {
        Ast::Extract { field, expr, .. } => {
            let unit = Value::SingleQuotedString(field.to_string().to_lowercase());
            ("date_part", vec![Arg::Made(Box::new(Ast::value(unit))), Arg::Written(expr)])
        }
        Ast::Substring { expr, substring_from, substring_for, .. } => {
            let from = match substring_from {
                Some(from) => Arg::Written(from),
                None => return Err(unsupported("SUBSTRING without FROM".into())),
            };
            let length = substring_for.iter().map(|length| Arg::Written(length));
            ("substr", [Arg::Written(expr), from].into_iter().chain(length).collect())
        }
        Ast::Trim { trim_where, trim_what, expr, trim_characters } => {
            let name = match trim_where {
                None | Some(TrimWhereField::Both) => "btrim",
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
            };
            let what = trim_what.iter().map(|what| Arg::Written(what));
            let more = trim_characters.iter().flatten().map(Arg::Written);
            (name, std::iter::once(Arg::Written(expr)).chain(what).chain(more).collect())
        }
        Ast::Position { expr, r#in } => ("strpos", vec![Arg::Written(r#in), Arg::Written(expr)]),
        Ast::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let args = [expr, overlay_what, overlay_from].into_iter().chain(overlay_for);
            ("overlay", args.map(|arg| Arg::Written(arg)).collect())
        }
        Ast::Ceil { expr, field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
            ("ceil", vec![Arg::Written(expr)])
        }
        Ast::Floor {
            expr,
            field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
        } => ("floor", vec![Arg::Written(expr)]),
        _ => return Ok(None),
    };
    Ok(Some(call))
}

/// The expression as text, cut to its beginning.
pub(crate) fn brief(ast: &Ast) -> String {
    let text = ast.to_string();
    let short: String = text.chars().take(60).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// The pattern of a `like`, escaped by backslashes as without `escape`.
pub(crate) fn escaped_pattern<'a>(
    pattern: &'a Ast,
    escape: Option<&ast::ValueWithSpan>,
) -> Result<Cow<'a, Ast>> {
    let text = |value: &Value| match value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    };
    let Some(escape) = escape else { return Ok(Cow::Borrowed(pattern)) };
    let sign = text(&escape.value).filter(|sign| sign.chars().count() <= 1);
    let sign = sign.map(|sign| sign.chars().next());
    if sign == Some(Some('\\')) {
        return Ok(Cow::Borrowed(pattern));
    }
    let written = match pattern {
        Ast::Value(value) => text(&value.value),
        _ => None,
    };
    let (Some(sign), Some(written)) = (sign, written) else {
        let error = Error::usage("LIKE of a computed pattern can only be escaped by a backslash");
        return Err(error.remedy("leave ESCAPE out, and write \\% and \\_"));
    };
    let mut escaped = String::new();
    let mut signs = written.chars();
    while let Some(next) = signs.next() {
        let (literal, is_escaped) = match Some(next) == sign {
            true => (signs.next(), true),
            false => (Some(next), false),
        };
        let Some(literal) = literal else {
            return Err(Error::usage("the pattern of LIKE ends with the sign that escapes"));
        };
        if literal == '\\' || is_escaped && matches!(literal, '%' | '_') {
            escaped.push('\\');
        }
        escaped.push(literal);
    }
    Ok(Cow::Owned(Ast::value(Value::SingleQuotedString(escaped))))
}
