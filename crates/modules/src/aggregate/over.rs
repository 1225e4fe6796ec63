//! Expressions over aggregates: `sum(price) / count()` is what two functions give, and an
//! expression over what they have given.

use std::ops::Range;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;

use super::merging::Sink;
use super::spelling::{Config, is_function};
use crate::expression::{Projection, Room, Wanted, parts};

/// What is to be computed: functions of groups, and what comes out.
pub struct Spelled {
    /// Names, and functions; one stands there once, however often it is used.
    pub calls: Vec<(String, String)>,
    /// Names, and which of the functions, or what is computed of them and the keys.
    outputs: Vec<(String, Wanted)>,
}

impl Spelled {
    /// What a configuration asks for.
    pub fn new(config: &Config) -> Spelled {
        let keys = config.by.len();
        let mut calls: Vec<(String, String)> = vec![];
        let mut outputs = vec![];
        for (name, text) in &config.values.0 {
            let Some((outer, inner)) = several(text) else {
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
        Spelled { calls, outputs }
    }

    /// What makes of keys and functions what comes out, if these are not it.
    pub fn over(self, by: &[FieldRef], given: &Schema) -> Result<Option<Projection>> {
        if self.outputs.iter().all(|(_, wanted)| matches!(wanted, Wanted::Column(_))) {
            return Ok(None);
        }
        let keys = by.iter().enumerate();
        let keys = keys.map(|(at, key)| (key.name().clone(), Wanted::Column(at)));
        Projection::of(keys.chain(self.outputs).collect(), given).map(Some)
    }
}

/// Several functions in an expression, each as the name of a column; `None` if it is one alone.
fn several(text: &str) -> Option<(String, Vec<String>)> {
    let found = parts(text, is_function)?;
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

/// Gives away what comes out for groups whose functions have been computed.
pub fn give(
    over: &Option<Projection>,
    given: RecordBatch,
    share_bytes: usize,
    put: &mut Sink,
) -> Result<()> {
    match over {
        Some(over) => over.evaluate(&given, &Room::within(share_bytes), put),
        None => put(given),
    }
}

/// What comes out.
pub fn output(over: &Option<Projection>, given: &SchemaRef) -> SchemaRef {
    over.as_ref().map_or(given, Projection::schema).clone()
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
        ] {
            let (found, calls) = several(text).unwrap();
            assert_eq!((found.as_str(), calls.as_slice()), (outer, strings(inner).as_slice()));
        }
        for text in ["sum(a * (1 - b))", " count ( x ) ", "price", "sun(a)", "sum(", "'open"] {
            assert_eq!(several(text), None, "{text}");
        }
    }
}
