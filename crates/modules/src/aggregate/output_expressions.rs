//! Expressions over aggregates: `sum(price) / count()` is two aggregate functions, and an
//! expression over their results.

use std::ops::Range;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_flow::module::ColumnNames;

use super::config::Config;
use super::function_syntax::{AggregateCall, parse};
use super::functions::{AggregateFunction, is_aggregate};
use crate::batches::sink::BatchSink;
use crate::expression::{Budget, Projection, Wanted, column_names, outermost_calls};

/// The aggregate calls of a configuration, and its outputs.
pub(crate) struct AggregateCalls {
    /// Names and calls; each distinct call is listed once.
    pub(crate) calls: Vec<(String, String)>,
    /// Names and outputs: a call, or an expression over calls and keys.
    outputs: Vec<(String, Wanted)>,
}

impl AggregateCalls {
    /// Splits the values of a configuration into calls and expressions over them.
    pub(crate) fn new(config: &Config) -> AggregateCalls {
        let keys = config.by.len();
        let mut calls: Vec<(String, String)> = vec![];
        let mut outputs = vec![];
        for (name, text) in &config.values.0 {
            let Some((outer, inner)) = extract_calls(text) else {
                outputs.push((name.clone(), Wanted::Column(keys + calls.len())));
                calls.push((name.clone(), text.clone()));
                continue;
            };
            for call in inner {
                if calls.iter().all(|(known, _)| *known != call) {
                    calls.push((call.clone(), call));
                }
            }
            outputs.push((name.clone(), Wanted::Computed(outer)));
        }
        AggregateCalls { calls, outputs }
    }

    /// The projection from keys and results to the output, unless they are the output.
    pub(crate) fn projection(
        self,
        by: &[FieldRef],
        results: &Schema,
    ) -> Result<Option<Projection>> {
        if self.outputs.iter().all(|(_, wanted)| matches!(wanted, Wanted::Column(_))) {
            return Ok(None);
        }
        let keys = by.iter().enumerate();
        let keys = keys.map(|(at, key)| (key.name().clone(), Wanted::Column(at)));
        Projection::of(keys.chain(self.outputs).collect(), results).map(Some)
    }
}

/// The columns of records that an aggregation reads; `None` if a call has a mistake.
pub(crate) fn needed_columns(config: &Config) -> Option<ColumnNames> {
    let mut names = ColumnNames::default();
    config.by.iter().for_each(|key| names.add_encoded(key));
    for (_, call) in AggregateCalls::new(config).calls {
        let AggregateCall { function, arguments } = parse(&call).ok()?;
        for argument in arguments {
            match function {
                AggregateFunction::Count | AggregateFunction::CountDistinct
                    if is_name(&argument) =>
                {
                    names.add_encoded(&argument);
                }
                AggregateFunction::Min | AggregateFunction::Max if is_name(&argument) => {
                    names.add_encoded(&argument);
                    names.encode_only_text(&argument);
                }
                _ => names.merge(&column_names(&argument)?),
            }
        }
    }
    Some(names)
}

/// Whether an argument is the name of a column, rather than an expression.
fn is_name(argument: &str) -> bool {
    let is_letter = |letter: char| letter == '_' || letter.is_alphanumeric();
    argument.starts_with(|first: char| is_letter(first) && !first.is_numeric())
        && argument.chars().all(is_letter)
}

/// Replaces the aggregate calls in an expression by column names, and returns both; `None` if the
/// expression is a single call or has none.
fn extract_calls(text: &str) -> Option<(String, Vec<String>)> {
    let found = outermost_calls(text, is_aggregate)?;
    let mut outer = String::new();
    let mut inner = vec![];
    let mut rest = 0;
    for Range { start, end } in found {
        let call = text[start..end].trim();
        outer += &text[rest..start];
        outer += &format!("\"{}\"", call.replace('"', "\"\""));
        inner.push(call.to_string());
        rest = end;
    }
    let alone = inner.len() == 1 && text.trim() == inner[0];
    outer += &text[rest..];
    (!inner.is_empty() && !alone).then_some((outer, inner))
}

/// Projects the results of finished groups, and puts the output.
pub(crate) fn emit(
    projection: &Option<Projection>,
    results: RecordBatch,
    share_bytes: usize,
    put: &mut BatchSink,
) -> Result<()> {
    match projection {
        Some(projection) => projection.evaluate(&results, &Budget::within(share_bytes), put),
        None => put(results),
    }
}

/// The schema of the output.
pub(crate) fn output(projection: &Option<Projection>, results: &SchemaRef) -> SchemaRef {
    projection.as_ref().map_or(results, Projection::schema).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(of: &[&str]) -> Vec<String> {
        of.iter().map(|one| one.to_string()).collect()
    }

    #[test]
    fn functions_are_found_in_expressions() {
        for (text, outer, inner) in [
            ("sum(a)/count()", "\"sum(a)\"/\"count()\"", &["sum(a)", "count()"] as &[&str]),
            ("round(avg(x), 2)", "round(\"avg(x)\", 2)", &["avg(x)"]),
            ("-MAX(\"A b\")", "-\"MAX(\"\"A b\"\")\"", &["MAX(\"A b\")"]),
            ("sum(f(a, (b))) + k", "\"sum(f(a, (b)))\" + k", &["sum(f(a, (b)))"]),
            ("(sum(a))", "(\"sum(a)\")", &["sum(a)"]),
            ("sum(x) || ')'", "\"sum(x)\" || ')'", &["sum(x)"]),
            (
                "sum (a) + count(distinct ')')",
                "\"sum (a)\" + \"count(distinct ')')\"",
                &["sum (a)", "count(distinct ')')"],
            ),
            ("sum(ü) + 1", "\"sum(ü)\" + 1", &["sum(ü)"]),
            (
                "sum(a) FILTER (where (b) > 1) / count()",
                "\"sum(a) FILTER (where (b) > 1)\" / \"count()\"",
                &["sum(a) FILTER (where (b) > 1)", "count()"],
            ),
            (
                "mode() within group (order by a) + 1",
                "\"mode() within group (order by a)\" + 1",
                &["mode() within group (order by a)"],
            ),
        ] {
            let (found, calls) = extract_calls(text).unwrap();
            assert_eq!((found.as_str(), calls.as_slice()), (outer, strings(inner).as_slice()));
        }
        for text in ["sum(a * (1 - b))", " count ( x ) ", "price", "sun(a)", "sum(", "'open"] {
            assert_eq!(extract_calls(text), None, "{text}");
        }
    }
}
