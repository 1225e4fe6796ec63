//! `date_part` of durations and intervals, as PostgreSQL and DuckDB count: a duration has days, and
//! hours, minutes and seconds beyond them; milliseconds and microseconds include the seconds.
//! DataFusion's own counts all hours of a duration, in 32 bits, and drops fractions of seconds.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use euphrates_flow::Result;

use super::Translator;
use crate::expression::common_type::plain;
use crate::expression::date_units;
use crate::expression::operators::binary;
use crate::expression::typed::Typed;

const SECOND_MICROS: i64 = 1_000_000;
const MINUTE_MICROS: i64 = 60 * SECOND_MICROS;
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;
const DAY_MICROS: i64 = 24 * HOUR_MICROS;
/// What a year of an interval has beyond twelve months of 30 days: it has 365.25.
const SECONDS_BEYOND_MONTHS: i64 = 21 * 86_400 / 4;

impl Translator<'_> {
    /// A part of a duration or an interval; `None` for other types, and for parts that DataFusion
    /// computes.
    pub(super) fn part_of_span(&self, unit: Typed, of: Typed) -> Result<Option<Typed>> {
        let is_duration = match plain(&of.data_type) {
            DataType::Duration(_) => true,
            DataType::Interval(IntervalUnit::MonthDayNano) => false,
            _ => return Ok(None),
        };
        let unit = date_units::unit("date_part", &unit)?;
        let Some(Some(name)) = unit.value().and_then(ScalarValue::try_as_str) else {
            return Ok(None);
        };
        // A duration has no months, whatever its length.
        if let ("year" | "quarter" | "month", true) = (name, is_duration) {
            let first = i64::from(name == "quarter");
            let none = by(self.micros(of, is_duration)?, Operator::Modulo, 1)?;
            return Ok(Some(by(none, Operator::Plus, first)?.cast(&DataType::Int32)));
        }
        if ("quarter", false) == (name, is_duration) {
            let month = Typed::literal(ScalarValue::from("month"), "'month'");
            let month = self.call("date_part", vec![month, of])?;
            return by(by(month, Operator::Divide, 3)?, Operator::Plus, 1).map(Some);
        }
        // The microseconds of a part are what is left of these, by the size of the part.
        let (whole, size) = match (name, is_duration) {
            ("day", true) => (None, DAY_MICROS),
            ("hour", true) => (Some(DAY_MICROS), HOUR_MICROS),
            ("minute", true) => (Some(HOUR_MICROS), MINUTE_MICROS),
            ("second", true) => (Some(MINUTE_MICROS), SECOND_MICROS),
            ("millisecond", _) => (Some(MINUTE_MICROS), 1000),
            ("microsecond", _) => (Some(MINUTE_MICROS), 1),
            ("epoch", true) => {
                let micros = self.micros(of, is_duration)?.cast(&DataType::Float64);
                return by(micros, Operator::Divide, SECOND_MICROS).map(Some);
            }
            ("epoch", false) => return self.seconds_of_interval(of).map(Some),
            _ => return Ok(None),
        };
        let micros = self.micros(of, is_duration)?;
        let rest = match whole {
            Some(whole) => by(micros, Operator::Modulo, whole)?,
            None => micros,
        };
        Ok(Some(by(rest, Operator::Divide, size)?.cast(&DataType::Int32)))
    }

    /// The microseconds of a duration, or of an interval beside its months and days.
    fn micros(&self, of: Typed, is_duration: bool) -> Result<Typed> {
        match is_duration {
            true => {
                let whole = DataType::Duration(TimeUnit::Microsecond);
                Ok(of.cast_explicit(whole, false)?.cast(&DataType::Int64))
            }
            false => self.call("_micros_of_interval", vec![of]),
        }
    }

    fn seconds_of_interval(&self, of: Typed) -> Result<Typed> {
        let part = |unit: &str, of: Typed| {
            let unit = Typed::literal(ScalarValue::from(unit), format!("'{unit}'"));
            self.call("date_part", vec![unit, of])
        };
        let years = part("year", of.clone())?.cast(&DataType::Int64);
        let more = by(years, Operator::Multiply, SECONDS_BEYOND_MONTHS)?.cast(&DataType::Float64);
        binary(part("epoch", of)?, Operator::Plus, more)
    }
}

fn by(left: Typed, operator: Operator, number: i64) -> Result<Typed> {
    let number = Typed::literal(ScalarValue::from(number), number.to_string());
    let number = number.cast(&left.data_type.clone());
    binary(left, operator, number)
}
