//! Removal of the files and folders that dead processes have staged.

use std::fs::{self, File};
use std::path::Path;

use euphrates_device::durable::STAGED_SUFFIX;
use rustix::fs::{FlockOperation, flock};

use crate::commit::reservation;
use crate::dataset::remove_staged;

/// Removes what dead processes have staged in a folder and no commit needs.
pub(crate) fn reclaim_staged(folder: &Path) -> usize {
    let needed = reservation::staged_in(folder);
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let is_staged = |name: &str| {
        name.starts_with('.')
            && name.strip_suffix(STAGED_SUFFIX).is_some_and(|name| name.ends_with('.'))
    };
    let staged = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(is_staged);
    let is_needed =
        |path: &Path| needed.iter().any(|needed| needed.file_name() == path.file_name());
    let removed = entries.flatten().filter(staged).filter(|entry| {
        let path = entry.path();
        let is_free = |lock: File| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        !is_needed(&path) && File::open(&path).is_ok_and(is_free) && remove_staged(&path).is_ok()
    });
    removed.count()
}
