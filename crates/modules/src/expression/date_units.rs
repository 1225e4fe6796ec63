//! Units of `date_part` and `date_trunc`, with their synonyms.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Expr, ScalarUDF};
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Kind, Result};

use super::compile::{evaluate_constant, translate_error};
use super::typed::Typed;

/// Units, and their synonyms.
const UNITS: [(&str, &[&str]); 10] = [
    ("year", &["y", "yr", "yrs", "years"]),
    ("quarter", &["qtr", "quarters"]),
    ("month", &["mon", "mons", "months"]),
    ("week", &["w", "weeks"]),
    ("day", &["d", "days"]),
    ("hour", &["h", "hr", "hrs", "hours"]),
    ("minute", &["m", "min", "mins", "minutes"]),
    ("second", &["s", "sec", "secs", "seconds"]),
    ("millisecond", &["ms", "msec", "msecs", "msecond", "mseconds", "milliseconds"]),
    ("microsecond", &["us", "usec", "usecs", "usecond", "useconds", "microseconds"]),
];

/// Further units of `date_part`.
const PARTS: [(&str, &[&str]); 6] = [
    ("nanosecond", &["nanoseconds"]),
    ("isoyear", &[]),
    ("doy", &[]),
    ("dow", &[]),
    ("isodow", &[]),
    ("epoch", &[]),
];

/// The first argument of `function`, with synonyms replaced.
pub(crate) fn unit(function: &str, of: &Typed) -> Result<Typed> {
    let parts = if function == "date_part" { PARTS.as_slice() } else { &[] };
    let known = || UNITS.iter().chain(parts).map(|(name, _)| *name);
    let Some(Some(word)) = of.value().and_then(ScalarValue::try_as_str) else {
        let error = Error::usage(format!("`{}` is no unit that `{function}` takes", of.text));
        let known: Vec<&str> = known().collect();
        return Err(error.remedy(format!("one of these in quotes: {}", known.join(", "))));
    };
    let quotes = |sign| matches!(sign, '\'' | '"');
    let lower = word.trim_matches(quotes).to_lowercase();
    let mut units = UNITS.iter().chain(parts);
    match units.find(|(name, others)| *name == lower || others.contains(&lower.as_str())) {
        Some((name, _)) => Ok(Typed::literal(ScalarValue::from(*name), of.text.clone())),
        None => Err(unknown("unit", word, known())),
    }
}

/// Fails if values of this type do not have this unit, as times of day have no years.
pub(crate) fn check(function: &Arc<ScalarUDF>, unit: &Typed, of: &Typed) -> Result<()> {
    let nothing = ScalarValue::try_new_null(&of.data_type);
    let nothing = nothing.map_err(|error| translate_error(&error, Kind::Usage))?;
    let args = vec![unit.expr.clone(), Expr::Literal(nothing, None)];
    let call = ScalarFunction::new_udf(function.clone(), args);
    evaluate_constant(&Expr::ScalarFunction(call)).map(drop)
}
