//! Calls whose translation depends on the types of their arguments, or on the arguments that are
//! literals.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use euphrates_flow::Result;
use euphrates_flow::spec::json_path::has_wildcard;
use sqlparser::ast::{Expr as Ast, UnaryOperator, Value};

use super::{Translator, temporal};
use crate::expression::common_type::plain;
use crate::expression::operators::binary;
use crate::expression::parse::parse_expression;
use crate::expression::typed::Typed;
use crate::expression::types::Family;

impl Translator<'_> {
    /// The translation of such a call; `None` for any other.
    pub(super) fn typed_call(
        &self,
        name: &str,
        asts: &[&Ast],
        depth: usize,
    ) -> Result<Option<Typed>> {
        Ok(Some(match (name, asts) {
            ("similar_to", [of, pattern]) => self.similar([*of, *pattern], depth)?,
            ("timezone", [zone, of]) => self.at_zone(of, zone, depth)?,
            ("row", items) => self.row(items, depth)?,
            ("whole_quotient", [of, by]) => self.whole_quotient(of, by, depth)?,
            ("epoch_ms", [of]) => {
                let of = self.expr(of, depth)?;
                match plain(&of.data_type).clone() {
                    DataType::Timestamp(_, zone) => {
                        let whole = DataType::Timestamp(TimeUnit::Millisecond, zone);
                        of.cast_explicit(whole, false)?.cast(&DataType::Int64)
                    }
                    other if other.is_integer() => self.call("instant_of_ms", vec![of])?,
                    _ => return self.epoch_of_span(asts[0], "/ 1000", depth),
                }
            }
            ("epoch_us", [of]) => return self.epoch_of_span(of, "", depth),
            ("epoch_ns", [of]) => return self.epoch_of_span(of, "* 1000", depth),
            ("isfinite" | "isinf", [of]) => {
                let of = self.expr(of, depth)?;
                if of.family() != Family::Date {
                    return Ok(None);
                }
                temporal::is_finite(of, name == "isfinite")?
            }
            ("date_part" | "datepart", [unit, of]) if years_of(unit).is_some() => {
                return self.whole_years(of, years_of(unit).unwrap_or(1), depth);
            }
            ("decade", [of]) => return self.whole_years(of, 10, depth),
            ("century", [of]) => return self.whole_years(of, 100, depth),
            ("millennium", [of]) => return self.whole_years(of, 1000, depth),
            ("date_part" | "datepart", [unit, of]) => {
                return self.part_of_span(self.expr(unit, depth)?, self.expr(of, depth)?);
            }
            ("substr" | "substring" | "mid", [of, from]) => {
                return self.substring(of, from, None, depth);
            }
            ("substr" | "substring" | "mid", [of, from, count]) => {
                return self.substring(of, from, Some(count), depth);
            }
            ("bit_count", [of]) => return self.bits_of_narrow(self.expr(of, depth)?),
            ("nextafter", [of, toward]) => return self.next_single(of, toward, depth),
            (_, [of, path]) if takes_json_path(name) => {
                return self.json_parts(name, of, path, depth);
            }
            _ => return Ok(None),
        }))
    }

    /// The whole decades, centuries or millennia of an interval, which has no first one; `None` for
    /// other types.
    fn whole_years(&self, of: &Ast, years: i64, depth: usize) -> Result<Option<Typed>> {
        if !matches!(plain(&self.expr(of, depth)?.data_type), DataType::Interval(_)) {
            return Ok(None);
        }
        let text = format!("date_part('year', {of}) / {years}");
        self.expr(&parse_expression(&text)?, depth).map(Some)
    }

    /// The microseconds of an interval, whose months have 30 days, or of a time of day, in another
    /// unit; `None` for other types.
    fn epoch_of_span(&self, of: &Ast, in_unit: &str, depth: usize) -> Result<Option<Typed>> {
        let micros = match plain(&self.expr(of, depth)?.data_type) {
            DataType::Interval(_) => "_micros_of_span",
            DataType::Time32(_) | DataType::Time64(_) => "_micros_of_clock",
            _ => return Ok(None),
        };
        let text = format!("{micros}({of}) {in_unit}");
        self.expr(&parse_expression(&text)?, depth).map(Some)
    }

    /// `substr` with a place that counts from the end, or a count of characters before the place:
    /// `substr('river', -2)` is `er`, and `substr('river', 3, -2)` is `ri`.
    fn substring(
        &self,
        of: &Ast,
        from: &Ast,
        count: Option<&Ast>,
        depth: usize,
    ) -> Result<Option<Typed>> {
        if is_not_negative(from) && count.is_none_or(is_not_negative) {
            return Ok(None);
        }
        let start = match is_not_negative(from) {
            true => from.to_string(),
            false => format!(
                "case when ({from}) < 0 then char_length({of}) + 1 + ({from}) else ({from}) end"
            ),
        };
        let (start, count) = match count {
            Some(count) if !is_not_negative(count) => (
                format!("case when ({count}) < 0 then ({start}) + ({count}) else ({start}) end"),
                Some(format!("abs({count})")),
            ),
            other => (start, other.map(Ast::to_string)),
        };
        let mut args = vec![self.expr(of, depth)?];
        for text in [Some(start), count].into_iter().flatten() {
            args.push(self.expr(&parse_expression(&text)?, depth)?.cast(&DataType::Int64));
        }
        self.call("substr", args).map(Some)
    }

    /// `bit_count` of an integer of less than 64 bits, which has no bits beyond them.
    fn bits_of_narrow(&self, of: Typed) -> Result<Option<Typed>> {
        let mask = match plain(&of.data_type) {
            DataType::Int8 => i64::from(u8::MAX),
            DataType::Int16 => i64::from(u16::MAX),
            DataType::Int32 => i64::from(u32::MAX),
            _ => return Ok(None),
        };
        let mask = Typed::literal(ScalarValue::from(mask), mask.to_string());
        let bits = binary(of.cast(&DataType::Int64), Operator::BitwiseAnd, mask)?;
        self.call("bit_count", vec![bits]).map(Some)
    }

    /// `nextafter` of floats of 32 bits; `None` for others.
    fn next_single(&self, of: &Ast, toward: &Ast, depth: usize) -> Result<Option<Typed>> {
        let args = vec![self.expr(of, depth)?, self.expr(toward, depth)?];
        match args.iter().all(|arg| *plain(&arg.data_type) == DataType::Float32) {
            true => Ok(Some(self.call("_nextafter_single", args)?.cast(&DataType::Float32))),
            false => Ok(None),
        }
    }

    /// A function of JSON with a list of paths, or `json_extract` with a path that has a wildcard:
    /// a list.
    fn json_parts(&self, name: &str, of: &Ast, path: &Ast, depth: usize) -> Result<Option<Typed>> {
        let is_text = name.starts_with("json_extract_string") || name.ends_with("_text");
        match path {
            Ast::Array(paths) => {
                let parts = paths.elem.iter().map(|path| format!("{name}({of}, {path})"));
                let parts = parts.collect::<Vec<_>>().join(", ");
                let list = format!("case when ({of}) is not null then [{parts}] end");
                self.expr(&parse_expression(&list)?, depth).map(Some)
            }
            Ast::Value(value) => match &value.value {
                Value::SingleQuotedString(text)
                    if name.starts_with("json_extract") && has_wildcard(text) =>
                {
                    let all = if is_text { "_json_all_texts" } else { "_json_all" };
                    let args = vec![self.expr(of, depth)?, self.expr(path, depth)?];
                    self.call(all, args).map(Some)
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

/// Whether the second argument of a function is a path in JSON.
fn takes_json_path(name: &str) -> bool {
    let others = ["json_exists", "json_keys", "json_type", "json_value", "json_array_length"];
    name.starts_with("json_extract") || others.contains(&name)
}

/// Whether it is known that a number is not negative, or that it is null.
fn is_not_negative(number: &Ast) -> bool {
    match number {
        Ast::Value(value) => matches!(value.value, Value::Number(..) | Value::Null),
        Ast::Nested(inner) | Ast::UnaryOp { op: UnaryOperator::Plus, expr: inner } => {
            is_not_negative(inner)
        }
        _ => false,
    }
}

/// The years of a unit of decades or more.
fn years_of(unit: &Ast) -> Option<i64> {
    let text = unit.to_string().to_lowercase();
    Some(match text.trim_matches('\'') {
        "decade" | "decades" => 10,
        "century" | "centuries" => 100,
        "millennium" | "millennia" => 1000,
        _ => return None,
    })
}
