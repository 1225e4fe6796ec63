//! Regular expressions that are constants are tried before the flow starts.

use datafusion_common::ScalarValue;

use super::typed::Typed;

/// What can be done about a wrong one.
pub const REMEDY: &str = "a backslash before a bracket, a star or another sign makes it plain; \
                          there are no lookarounds and no references back";

/// Which argument of a function is a regular expression.
pub fn of_call(name: &str) -> Option<usize> {
    name.to_lowercase().starts_with("regexp_").then_some(1)
}

/// Fails with what is wrong with a pattern, if it is a constant.
pub fn check(pattern: &Typed) -> Result<(), String> {
    let Some(Some(text)) = pattern.value().and_then(ScalarValue::try_as_str) else {
        return Ok(());
    };
    regex::Regex::new(text).map(drop).map_err(|error| {
        // The last line says what is wrong; those before it show where, in the pattern alone.
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("{} is no regular expression: {reason}", pattern.text)
    })
}
