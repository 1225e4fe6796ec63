//! Paths of striped files: one file, a pattern, or a folder, which is what paths have in common.

use std::sync::Arc;

use euphrates_flow::Result;

use super::file_ref::FileRef;
use super::patterns::{MATCH, has_extension, is_hidden, is_pattern, matching, some, wrong_pattern};
use crate::striped::{StripedEntry, StripedFiles, StripedInput};

/// The files of a path behind `euphrates://`. The path of an existing file is never a pattern.
pub(super) fn find_striped(
    path: &str,
    key: &str,
    files: &Arc<dyn StripedFiles>,
    extensions: &[impl AsRef<str>],
) -> Result<Vec<FileRef>> {
    let found = |entry: StripedEntry| FileRef::striped(StripedInput::new(entry, files));
    let may_be_file = !key.is_empty() && !key.ends_with('/');
    if may_be_file && let Some(entry) = files.find(key)? {
        return Ok(vec![found(entry)]);
    }
    let all = files.list()?.into_iter();
    if is_pattern(key) {
        let pattern = glob::Pattern::new(key).map_err(|error| wrong_pattern(path, &error))?;
        let all = all.filter(|entry| pattern.matches_with(&entry.path, MATCH));
        return matching(all.map(found).collect(), "striped file", path);
    }
    let folder = key.trim_end_matches('/');
    let is_in = |entry: &StripedEntry| {
        let below = entry.path.strip_prefix(folder);
        let below = below.filter(|below| folder.is_empty() || below.starts_with('/'));
        below.is_some_and(|it| !it.split('/').any(is_hidden) && has_extension(it, extensions))
    };
    some(all.filter(is_in).map(found).collect(), path, extensions)
}
