//! Which files a pattern or a folder names.

use euphrates_flow::{Error, Result};

use super::file_ref::FileRef;

/// A star matches no separator, and no dot at the beginning of a name.
pub(super) const MATCH: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

pub(super) fn some(
    found: Vec<FileRef>,
    path: &str,
    extensions: &[impl AsRef<str>],
) -> Result<Vec<FileRef>> {
    if !found.is_empty() {
        return Ok(found);
    }
    let message = format!("{path} is neither a file nor a folder with a file of a known kind");
    let known: Vec<&str> = extensions.iter().map(AsRef::as_ref).collect();
    Err(Error::usage(message).remedy(format!("known extensions: {}", known.join(", "))))
}

pub(super) fn matching(found: Vec<FileRef>, what: &str, path: &str) -> Result<Vec<FileRef>> {
    if found.is_empty() {
        let error = Error::usage(format!("no {what} matches `{path}`"));
        return Err(error.remedy("check the pattern"));
    }
    Ok(found)
}

/// Whether a name is passed over in folders. `_name=value` is a column's folder, as in Spark.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || (name.starts_with('_') && !name.contains('='))
}

/// Whether a name ends with a dot and one of these: `csv`, `csv.gz`.
pub(super) fn has_extension(name: &str, extensions: &[impl AsRef<str>]) -> bool {
    let name = name.to_lowercase();
    let has = |extension: &str| {
        let stem = name.strip_suffix(extension).and_then(|name| name.strip_suffix('.'));
        stem.is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/'))
    };
    extensions.iter().any(|extension| has(extension.as_ref()))
}

pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(is_pattern_char)
}

pub(super) fn is_pattern_char(character: char) -> bool {
    matches!(character, '*' | '?' | '[')
}

pub(super) fn wrong_pattern(path: &str, error: &glob::PatternError) -> Error {
    Error::usage(format!("`{path}` is no valid pattern: {error}")).remedy("`*`, `?`, `[a-z]`, `**`")
}
