//! Operators of intervals with numbers, and of dates with times of day.

use arrow::datatypes::DataType;
use datafusion_expr::Operator;
use euphrates_flow::Result;

use crate::expression::common_type::plain;
use crate::expression::operators::binary;
use crate::expression::typed::Typed;
use crate::expression::types::Family;

/// The function that an operator of two such values is, and whether it takes the right one first.
pub(super) fn function_of(
    left: &Typed,
    op: Operator,
    right: &Typed,
) -> Option<(&'static str, bool)> {
    let is_interval = |of: &Typed| matches!(plain(&of.data_type), DataType::Interval(_));
    let is_number = |of: &Typed| of.family() == Family::Number;
    let is_clock = |of: &Typed| of.family() == Family::Time;
    let is_day = |of: &Typed| matches!(plain(&of.data_type), DataType::Date32 | DataType::Date64);
    match op {
        Operator::Multiply if is_interval(left) && is_number(right) => {
            Some(("_interval_times", false))
        }
        Operator::Multiply if is_number(left) && is_interval(right) => {
            Some(("_interval_times", true))
        }
        Operator::Divide if is_interval(left) && is_number(right) => {
            Some(("_interval_over", false))
        }
        Operator::Plus if is_day(left) && is_clock(right) => Some(("_instant_at", false)),
        Operator::Plus if is_clock(left) && is_day(right) => Some(("_instant_at", true)),
        _ => None,
    }
}

/// Whether an instant is finite, or not: all are, since no type has infinite ones.
pub(super) fn is_finite(of: Typed, is_asked: bool) -> Result<Typed> {
    let op = if is_asked { Operator::Eq } else { Operator::NotEq };
    binary(of.clone(), op, of)
}
