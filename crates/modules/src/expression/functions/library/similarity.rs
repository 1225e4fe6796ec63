//! How like two texts are.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};

use super::row_functions::ArgumentKind::Text;
use super::row_functions::{Computed, ResultKind, RowFunction, each, text};
use crate::expression::budget;

const fn of_texts(
    names: &'static [&'static str],
    returns: ResultKind,
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
) -> RowFunction {
    RowFunction { names, takes: &[Text, Text], optional: 0, returns, compute }
}

pub(super) const FUNCTIONS: [RowFunction; 3] = [
    of_texts(&["damerau_levenshtein"], ResultKind::Integer, |args| {
        let mut taken = 0;
        let found = each(args, |row| {
            let (one, other) = (text(args, 0).value(row), text(args, 1).value(row));
            // A number for each pair of characters, of one row at a time.
            let bytes = (one.len() + 2).saturating_mul(other.len() + 2).saturating_mul(8);
            budget::take(bytes.saturating_sub(taken))?;
            taken = taken.max(bytes);
            Ok(Some(strsim::damerau_levenshtein(one, other) as i64))
        })?;
        Ok(Arc::new(Int64Array::from(found)))
    }),
    of_texts(&["jaro_similarity"], ResultKind::Float, |args| similarity(args, strsim::jaro)),
    of_texts(&["jaro_winkler_similarity"], ResultKind::Float, |args| {
        similarity(args, strsim::jaro_winkler)
    }),
];

/// A share of the characters; an empty text is like none, not even another one.
fn similarity(args: &[ArrayRef], of: fn(&str, &str) -> f64) -> Computed<ArrayRef> {
    let found = each(args, |row| {
        let (one, other) = (text(args, 0).value(row), text(args, 1).value(row));
        Ok(Some(if one.is_empty() || other.is_empty() { 0.0 } else { of(one, other) }))
    })?;
    Ok(Arc::new(Float64Array::from(found)))
}
