//! Decides whether a path into JSON reaches several values. Expressions of modules and SQL queries
//! share the rule, because the type of the result depends on it.

/// Whether a path has a wildcard outside quotes: `$.a[*].b`, `$.*`.
///
/// ```
/// use euphrates_flow::spec::json_path::has_wildcard;
///
/// assert!(has_wildcard("$.a[*].b"));
/// assert!(!has_wildcard("$.\"*\".b") && !has_wildcard("*"));
/// ```
pub fn has_wildcard(path: &str) -> bool {
    let outside_quotes = path.split('"').step_by(2);
    path.starts_with('$') && outside_quotes.into_iter().any(|part| part.contains('*'))
}
