//! The error of a file that does not exist, which names the one of its folder that is meant.

use std::path::{Path, PathBuf};

use euphrates_flow::Error;
use euphrates_flow::error::{did_you_mean, edits};

use super::patterns::{has_extension, is_hidden};

/// Names of a folder that are compared, at most.
const NAMES_MAX: usize = 10_000;
/// Names that an error lists, at most.
const LISTED_MAX: usize = 5;

/// The error of a path at which there is nothing. `extensions` are those of the files looked for.
pub(super) fn missing(path: &Path, extensions: &[impl AsRef<str>]) -> Error {
    let error = Error::usage(format!("no such file: {}", path.display()));
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    if let Some(folder) = path.ancestors().skip(1).take_while(is_missing).last() {
        let folder = folder.display();
        return error.remedy(format!("there is no folder {folder}, either{}", place_of(path)));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = |name: &str| name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
    let names: Vec<String> = names_in(folder)
        .into_iter()
        .filter(|(other, is_folder)| {
            *is_folder || has_extension(other, extensions) || ending(other) == ending(&name)
        })
        .map(|(other, _)| other)
        .collect();
    if let Some(near) = nearest(&name, &names) {
        return error.remedy(format!("did you mean `{}`?", folder.join(near).display()));
    }
    let mut readable = names.iter().filter(|other| has_extension(other, extensions)).peekable();
    if readable.peek().is_none() {
        return error.remedy(format!("check the path{}", place_of(path)));
    }
    let mut listed: Vec<&str> = readable.by_ref().take(LISTED_MAX).map(String::as_str).collect();
    listed.extend(readable.next().map(|_| "…"));
    error.remedy(format!("check the path; its folder has {}", listed.join(", ")))
}

/// Where a relative path begins.
fn place_of(path: &Path) -> String {
    let here = std::env::current_dir().ok().filter(|_| path.is_relative());
    here.map(|here| format!("; it begins in {}", here.display())).unwrap_or_default()
}

/// The names in a folder that are not hidden, sorted, each with whether it is a folder.
fn names_in(folder: &Path) -> Vec<(String, bool)> {
    let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.into() };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(NAMES_MAX);
    let named = entries.map(|entry| {
        let is_folder = entry.file_type().is_ok_and(|of| of.is_dir());
        (entry.file_name().to_string_lossy().into_owned(), is_folder)
    });
    let mut names: Vec<(String, bool)> = named.filter(|(name, _)| !is_hidden(name)).collect();
    names.sort();
    names
}

/// The name that is meant, if one is near. Extensions count only among names that are alike before
/// them: else `a.parquet` would be near to `b.parquet`.
fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a String> {
    let near = did_you_mean(stem(name), names.iter().map(|other| stem(other)))?;
    let alike = names.iter().filter(|other| stem(other) == near);
    alike.min_by_key(|other| edits(name, other))
}

/// A name up to its first dot.
fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_folder_that_is_meant_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["sales.csv", "sales.parquet", "cities.csv.gz", "notes.txt", ".hidden.csv"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("days")).unwrap();
        for (path, remedy) in [
            ("slaes.csv", "did you mean `sales.csv`?"),
            ("sales", "did you mean `sales.csv`?"),
            ("sales.parq", "did you mean `sales.parquet`?"),
            ("Cities.csv", "did you mean `cities.csv.gz`?"),
            ("dyas", "did you mean `days`?"),
            ("note.txt", "did you mean `notes.txt`?"),
            ("notes.csv", "check the path; its folder has cities.csv.gz, sales.csv, sales.parquet"),
            ("hidden.csv", "check the path; its folder has cities.csv.gz, sales.csv,"),
            ("orders.csv", "check the path; its folder has cities.csv.gz, sales.csv,"),
            ("dasy/more/a.csv", "there is no folder dasy, either"),
        ] {
            let error = missing(&folder.path().join(path), &["csv", "csv.gz", "parquet"]);
            let message = format!("no such file: {}", folder.path().join(path).display());
            assert_eq!(error.message(), message);
            let prefix = format!("{}/", folder.path().display());
            let advice = error.advice().unwrap().replace(&prefix, "");
            assert!(advice.starts_with(remedy), "{path}: {advice}");
        }
    }

    #[test]
    fn a_folder_without_files_is_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let error = missing(&folder.path().join("a.csv"), &["csv"]);
        assert_eq!(error.advice(), Some("check the path"));
    }
}
