//! Checks constant regular expressions before the flow starts.

use datafusion_common::ScalarValue;
use euphrates_flow::{Error, Result};
use sqlparser::ast::{Expr, Value};

use crate::expression::typed::Typed;

/// How to correct a malformed pattern.
pub(crate) const REMEDY: &str = "a backslash before a bracket, a star or another sign makes it \
                                 plain; there are no lookarounds and no references back";

/// The position of the argument that is a regular expression.
pub(crate) fn of_call(name: &str) -> Option<usize> {
    name.to_lowercase().starts_with("regexp_").then_some(1)
}

/// The regular expression of a pattern of `similar to`, which is one for the whole text, with the
/// wildcards of `like`.
pub(crate) fn of_similar(pattern: &Expr) -> Result<Expr> {
    let text = match pattern {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text,
            _ => return Err(no_text(pattern)),
        },
        _ => return Err(no_text(pattern)),
    };
    let mut regex = String::from("^(?s:");
    for letter in text.chars() {
        match letter {
            '%' => regex += ".*",
            '_' => regex.push('.'),
            other => regex.push(other),
        }
    }
    Ok(Expr::value(Value::SingleQuotedString(regex + ")$")))
}

fn no_text(pattern: &Expr) -> Error {
    Error::usage(format!("the pattern `{pattern}` of SIMILAR TO is not a text in quotes"))
}

/// Fails if a constant pattern is malformed.
pub(crate) fn check(pattern: &Typed) -> std::result::Result<(), String> {
    let Some(Some(text)) = pattern.value().and_then(ScalarValue::try_as_str) else {
        return Ok(());
    };
    regex::Regex::new(text).map(drop).map_err(|error| {
        // The last line is the reason; the lines before it show the position within the pattern.
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("{} is no regular expression: {reason}", pattern.text)
    })
}
