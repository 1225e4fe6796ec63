//! Checks constant regular expressions before the flow starts.

use datafusion_common::ScalarValue;

use crate::expression::typed::Typed;

/// How to correct a malformed pattern.
pub(crate) const REMEDY: &str = "a backslash before a bracket, a star or another sign makes it \
                                 plain; there are no lookarounds and no references back";

/// The position of the argument that is a regular expression.
pub(crate) fn of_call(name: &str) -> Option<usize> {
    name.to_lowercase().starts_with("regexp_").then_some(1)
}

/// Fails if a constant pattern is malformed.
pub(crate) fn check(pattern: &Typed) -> Result<(), String> {
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
