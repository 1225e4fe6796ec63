//! Binary operators: brings the types of both sides together and builds the expression.
//!
//! A literal takes the type of the other side whenever that loses nothing, so that the literal is
//! converted, once, and not the column, batch by batch.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion_expr::{BinaryExpr, Expr, Operator};
use euphrates_flow::{Error, Result};

use super::coercion::{coerce_arithmetic, coerce_comparison};
use super::common_type::{common, plain};
use super::functions::library::nested_key;
use super::functions::{exact, zoned_intervals};
use super::literals::{exact_arithmetic, exact_decimal, fit};
use super::typed::Typed;
use super::types::{Family, in_words};

const DAY_NANOS: i64 = 86_400_000_000_000;

/// The type of a date with a time.
const INSTANT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Joins two expressions by an operator, after coercion.
pub(crate) fn binary(left: Typed, op: Operator, right: Typed) -> Result<Typed> {
    if let Some(constant) = exact_arithmetic(&left, op, &right) {
        return Ok(constant);
    }
    let text = format!("{} {op} {}", left.text, right.text);
    let (left, right) = match op {
        Operator::And | Operator::Or => {
            let what = format!("a side of {op}");
            (left.boolean(&what)?, right.boolean(&what)?)
        }
        op if is_comparison(op) => comparable(left, right)?,
        Operator::Plus | Operator::Minus if moves_days(&left, &right) => {
            return moved(left, op, right, text);
        }
        Operator::Plus if moves_days(&right, &left) => return moved(right, op, left, text),
        Operator::Plus | Operator::Minus if moves_within_day(&left, &right) => {
            (left.cast(&INSTANT), right)
        }
        Operator::Plus if moves_within_day(&right, &left) => (left, right.cast(&INSTANT)),
        Operator::Plus | Operator::Minus if is_finer(&right, &left) => (in_micros(left), right),
        Operator::Plus if is_finer(&left, &right) => (left, in_micros(right)),
        op if op.is_numerical_operators() => computable(left, op, right)?,
        _ => (left, right),
    };
    let coercer = BinaryTypeCoercer::new(&left.data_type, &op, &right.data_type);
    let types = coercer.get_input_types().and_then(|types| Ok((types, coercer.get_result_type()?)));
    let Ok(((to_left, to_right), data_type)) = types else {
        let message = format!("{op} does not join {} and {}", left.described(), right.described());
        return Err(Error::usage(message).remedy("convert one of them with CAST(… AS …)"));
    };
    let (left, right) = (left.cast(&to_left), right.cast(&to_right));
    match op {
        Operator::Plus | Operator::Minus if zoned_intervals::applies(&to_left, &to_right) => {
            return Ok(zoned_intervals::moved(left, op, right, text));
        }
        Operator::Plus if zoned_intervals::applies(&to_right, &to_left) => {
            return Ok(zoned_intervals::moved(right, op, left, text));
        }
        _ => {}
    }
    // The kernel that compares lists takes a null within one for less than a value, sorting takes
    // it for more.
    let (left, right) = match is_order(op) && to_left.is_nested() && to_left == to_right {
        true => (nested_key(left), nested_key(right)),
        false => (left, right),
    };
    let joined = BinaryExpr::new(Box::new(left.expr), op, Box::new(right.expr));
    let joined = Typed::new(Expr::BinaryExpr(joined), data_type, text);
    Ok(if op.is_numerical_operators() { exact::checked(joined) } else { joined })
}

/// Whether these are a date and a number of days.
fn moves_days(date: &Typed, days: &Typed) -> bool {
    *plain(&date.data_type) == DataType::Date32 && plain(&days.data_type).is_integer()
}

/// Whether these are a date and an interval that may have a part of a day. With whole days and
/// months, a date stays one.
fn moves_within_day(date: &Typed, interval: &Typed) -> bool {
    let is_whole = match interval.value() {
        Some(ScalarValue::IntervalMonthDayNano(Some(value))) => value.nanoseconds % DAY_NANOS == 0,
        Some(value) => value.is_null(),
        None => false,
    };
    *plain(&date.data_type) == DataType::Date32
        && matches!(plain(&interval.data_type), DataType::Interval(_))
        && !is_whole
}

/// Whether an interval may have a part of the unit of a timestamp in seconds or milliseconds.
fn is_finer(interval: &Typed, instant: &Typed) -> bool {
    let unit_nanos = match plain(&instant.data_type) {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        _ => return false,
    };
    let is_whole = match interval.value() {
        Some(ScalarValue::IntervalMonthDayNano(Some(value))) => value.nanoseconds % unit_nanos == 0,
        Some(value) => value.is_null(),
        None => false,
    };
    matches!(plain(&interval.data_type), DataType::Interval(_)) && !is_whole
}

fn in_micros(instant: Typed) -> Typed {
    match plain(&instant.data_type).clone() {
        DataType::Timestamp(_, zone) => {
            instant.cast(&DataType::Timestamp(TimeUnit::Microsecond, zone))
        }
        _ => instant,
    }
}

/// A date plus or minus a number of days.
fn moved(date: Typed, op: Operator, days: Typed, text: String) -> Result<Typed> {
    let day = date.cast(&DataType::Int32).cast(&DataType::Int64);
    let moved = binary(day, op, days.cast(&DataType::Int64))?;
    Ok(Typed { text, ..moved.cast(&DataType::Int32).cast(&DataType::Date32) })
}

fn is_order(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Coerces both sides so that equal values have equal bits, in one type if there is one. Fails if
/// they cannot be compared.
pub(crate) fn comparable(left: Typed, right: Typed) -> Result<(Typed, Typed)> {
    let (left, right) = match (left.value().is_some(), right.value().is_some()) {
        (true, false) => (fitted(left, &right.data_type)?, right),
        (false, true) => {
            let right = fitted(right, &left.data_type)?;
            (left, right)
        }
        (true, true) if left.family() == Family::Text && is_read(right.family()) => {
            (fitted(left, &right.data_type)?, right)
        }
        (true, true) if is_read(left.family()) && right.family() == Family::Text => {
            let right = fitted(right, &left.data_type)?;
            (left, right)
        }
        _ => (left, right),
    };
    let families = (left.family(), right.family());
    if families.0 == families.1 || families.0 == Family::Null || families.1 == Family::Null {
        return Ok(coerce_comparison(left, right));
    }
    let message = format!("cannot compare {} with {}", left.described(), right.described());
    Err(Error::usage(message).remedy("convert one of them with CAST(… AS …)"))
}

/// Whether a text beside a literal of the family is read as one of it.
fn is_read(family: Family) -> bool {
    matches!(family, Family::Number | Family::Date | Family::Time)
}

/// Coerces both sides for arithmetic. Fails if they are not numbers or times.
fn computable(left: Typed, op: Operator, right: Typed) -> Result<(Typed, Typed)> {
    for side in [&left, &right] {
        if !matches!(side.family(), Family::Number | Family::Date | Family::Time)
            && !matches!(side.family(), Family::Interval | Family::Null)
        {
            let message = format!("{op} needs numbers, but {} is none", side.described());
            return Err(Error::usage(message).remedy("convert it with CAST(… AS DOUBLE)"));
        }
    }
    match (left.family(), right.family()) {
        (Family::Number, Family::Number) => Ok(coerce_arithmetic(left, right)),
        (Family::Date, Family::Date) if left.data_type != right.data_type => {
            match common(&left.data_type, &right.data_type) {
                Some(common) => Ok((left.cast(&common), right.cast(&common))),
                None => Ok((left, right)),
            }
        }
        _ => Ok((left, right)),
    }
}

/// The literal in the type of the other side, if that loses nothing. Fails for text that cannot be
/// parsed as that type.
fn fitted(literal: Typed, to: &DataType) -> Result<Typed> {
    let Some(value) = literal.value() else { return Ok(literal) };
    match fit(value, &literal.text, to) {
        Some(value) => Ok(Typed::literal(value, literal.text)),
        None if literal.family() == Family::Text && !value.is_null() && !to.is_null() => {
            Err(Error::usage(format!("{} does not read as {}", literal.text, in_words(to))))
        }
        None => match to.is_decimal().then(|| exact_decimal(&literal)).flatten() {
            Some(value) => Ok(Typed::literal(value, literal.text)),
            None => Ok(literal),
        },
    }
}

/// Joins terms as a balanced tree, so that a long chain is not a deep tree.
pub(crate) fn balanced_chain(mut terms: Vec<Typed>, operator: Operator) -> Result<Typed> {
    while terms.len() > 1 {
        let mut pairs = terms.into_iter();
        let mut joined = vec![];
        while let Some(left) = pairs.next() {
            joined.push(match pairs.next() {
                Some(right) => binary(left, operator, right)?,
                None => left,
            });
        }
        terms = joined;
    }
    terms.pop().ok_or_else(|| Error::usage("nothing to join"))
}

pub(crate) fn negate(of: Typed, negated: bool) -> Typed {
    if !negated {
        return of;
    }
    let text = format!("NOT {}", of.text);
    Typed::new(Expr::Not(Box::new(of.expr)), DataType::Boolean, text)
}
