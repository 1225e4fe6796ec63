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
        let is_alone = |text: &str| extract_calls(text, &mut str::to_string).is_none();
        let alone = config.values.0.iter().filter(|(_, text)| is_alone(text));
        let mut calls: Vec<(String, String)> =
            alone.map(|(name, text)| (name.clone(), text.clone())).collect();
        let (mut outputs, mut seen) = (vec![], 0);
        for (name, text) in &config.values.0 {
            let outer = extract_calls(text, &mut |call| name_of(call, &mut calls));
            outputs.push((
                name.clone(),
                match outer {
                    Some(outer) => Wanted::Computed(outer),
                    None => {
                        seen += 1;
                        Wanted::Column(keys + seen - 1)
                    }
                },
            ));
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

/// The name of a call among these, to which it is added: its own text, unless that is the name of
/// another.
fn name_of(call: &str, calls: &mut Vec<(String, String)>) -> String {
    if let Some((name, _)) = calls.iter().find(|(_, known)| known == call) {
        return name.clone();
    }
    let mut name = call.to_string();
    while calls.iter().any(|(taken, _)| *taken == name) {
        name.push('_');
    }
    calls.push((name.clone(), call.into()));
    name
}

/// Replaces the aggregate calls in an expression by the names of their columns; `None` if the
/// expression is a single call or has none.
fn extract_calls(text: &str, name_of: &mut dyn FnMut(&str) -> String) -> Option<String> {
    let found = outermost_calls(text, is_aggregate)?;
    let is_call = matches!(&found[..], [one] if text[one.clone()].trim() == text.trim());
    if found.is_empty() || is_call {
        return None;
    }
    let (mut outer, mut rest) = (String::new(), 0);
    for Range { start, end } in found {
        outer += &text[rest..start];
        outer += &format!("\"{}\"", name_of(text[start..end].trim()).replace('"', "\"\""));
        rest = end;
    }
    outer += &text[rest..];
    Some(outer)
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
    use serde_json::json;

    use super::*;

    fn strings(of: &[&str]) -> Vec<String> {
        of.iter().map(|one| one.to_string()).collect()
    }

    #[test]
    fn calls_share_the_column_of_an_output() {
        let config = json!({"by": [], "values": {
            "mean": "sum(a) / count(a)", "count(a)": "count(a)", "sum(a)": "max(a)",
        }});
        let config: Config = serde_json::from_value(config).unwrap();
        let calls = AggregateCalls::new(&config).calls;
        let calls: Vec<(&str, &str)> =
            calls.iter().map(|(name, call)| (name.as_str(), call.as_str())).collect();
        let expected = [("count(a)", "count(a)"), ("sum(a)", "max(a)"), ("sum(a)_", "sum(a)")];
        assert_eq!(calls, expected);
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
            let mut calls = vec![];
            let found = extract_calls(text, &mut |call| {
                calls.push(call.to_string());
                call.to_string()
            });
            assert_eq!((found.as_deref(), calls), (Some(outer), strings(inner)));
        }
        for text in ["sum(a * (1 - b))", " count ( x ) ", "price", "sun(a)", "sum(", "'open"] {
            assert_eq!(extract_calls(text, &mut str::to_string), None, "{text}");
        }
    }
}
