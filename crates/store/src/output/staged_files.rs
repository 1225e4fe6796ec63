//! Removal of the files and folders that dead processes have staged.

use std::fs::File;
use std::path::{Path, PathBuf};

use euphrates_device::durable::STAGED_SUFFIX;
use rustix::fs::{FlockOperation, flock};

use crate::commit::reservation;
use crate::dataset::remove_staged;

/// Removes what dead processes have staged in a folder and no commit needs.
pub(crate) fn reclaim_staged(folder: &Path) -> usize {
    reclaim_of(&reservation::hidden_in(folder))
}

/// As `reclaim_staged`, of the hidden paths of a folder.
pub(crate) fn reclaim_of(hidden: &[PathBuf]) -> usize {
    let needed = reservation::staged_of(hidden);
    let is_staged = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with('.')
            && name.strip_suffix(STAGED_SUFFIX).is_some_and(|name| name.ends_with('.'))
    };
    let is_needed =
        |path: &Path| needed.iter().any(|needed| needed.file_name() == path.file_name());
    let removed = hidden.iter().filter(is_staged).filter(|path| {
        let is_free = |lock: File| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        !is_needed(path) && File::open(path).is_ok_and(is_free) && remove_staged(path).is_ok()
    });
    removed.count()
}
