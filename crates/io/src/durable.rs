//! A small file that becomes visible whole and durable, or not at all.
//!
//! Its bytes are synced under a hidden name before the file gets its own, and the folder is synced
//! after that. A hidden file is locked as long as its process lives, so what a dead one has left is
//! told apart, and removed by [`crate::output::reclaim`].

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use euphrates_flow::{Error, Result};
use rustix::fs::{CWD, FlockOperation, flock};
use rustix::io::Errno;

use crate::commit::reservation::is_at;
use crate::output::{STAGED_SUFFIX, rename_new};
use crate::private;

/// How often a folder is made again that others have removed.
const TRIES_MAX: usize = 8;

/// A file that is durable and not yet visible. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Pending {
    staged: PathBuf,
    target: PathBuf,
    /// Held as long as its process lives.
    _lock: File,
}

impl Pending {
    /// Writes and syncs the bytes beside their target, whose folder is made if it is missing.
    pub fn write(target: &Path, bytes: &[u8]) -> Result<Pending> {
        make_folder(folder_of(target))?;
        let mut tries = 0..TRIES_MAX;
        loop {
            let staged = hidden(target);
            let failed = |error: io::Error| Error::os("write", &staged, &error);
            let opened = private::options().write(true).create_new(true).open(&staged);
            // Whoever cleans up removes folders that are empty.
            let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            if opened.as_ref().is_err_and(is_gone) && tries.next().is_some() {
                make_folder(folder_of(target))?;
                continue;
            }
            let mut file = opened.map_err(failed)?;
            // Where a file system has no locks, nobody reclaims.
            let is_locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if is_locked && !is_at(&file, &staged) {
                continue;
            }
            let lock = file.try_clone().map_err(failed)?;
            let pending = Pending { staged, target: target.to_path_buf(), _lock: lock };
            let written = file.write_all(bytes).and_then(|()| private::publish(&file));
            let synced = written.and_then(|()| file.sync_all());
            synced.map_err(|error| Error::os("write", &pending.staged, &error))?;
            return Ok(pending);
        }
    }

    /// Makes it visible, durably, unless there is a file of its name; says whether it did. If it
    /// fails the file is not visible.
    pub fn publish(self) -> Result<bool> {
        match rename_new(&self.staged, &self.target) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(false),
            Err(errno) => return Err(Error::os("rename to", &self.target, &errno.into())),
        }
        if let Err(error) = sync_folder(folder_of(&self.target)) {
            // It would be seen now, and gone when the power fails.
            let _ = fs::remove_file(&self.target);
            return Err(error);
        }
        Ok(true)
    }

    /// Makes it visible in the place of what has its name, durably.
    pub fn replace(self) -> Result<()> {
        rustix::fs::renameat(CWD, &self.staged, CWD, &self.target)
            .map_err(|errno| Error::os("rename to", &self.target, &errno.into()))?;
        sync_folder(folder_of(&self.target))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After a rename it is gone, and removing it changes nothing.
        let _ = fs::remove_file(&self.staged);
    }
}

/// Makes a folder and those above it that are missing, durably.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    private::make_folders(folder).map_err(|error| Error::os("make the folder", folder, &error))?;
    missing.into_iter().rev().try_for_each(|made| sync_folder(folder_of(made)))
}

/// What a folder lists survives a loss of power once the folder is synced.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::os("sync the folder", folder, &error))
}

/// A name that nobody else uses, hidden beside the target.
fn hidden(target: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    target.with_file_name(format!(".{name}.{now:x}-{process:x}-{number:x}.{STAGED_SUFFIX}"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::reclaim;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_pending_file_is_hidden_until_it_is_published() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("a/b/file");
        let pending = Pending::write(&target, b"one").unwrap();
        assert!(!target.exists());
        assert_eq!(reclaim(target.parent().unwrap()), 0, "its process lives");
        assert!(pending.publish().unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"one");
        assert!(!Pending::write(&target, b"two").unwrap().publish().unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"one");
        Pending::write(&target, b"three").unwrap().replace().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"three");
        drop(Pending::write(&target, b"four").unwrap());
        assert_eq!(names(target.parent().unwrap()), ["file"]);
    }

    #[test]
    fn what_a_dead_process_left_is_reclaimed() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("file");
        fs::write(hidden(&target), "x").unwrap();
        assert_eq!(reclaim(root.path()), 1);
        assert_eq!(names(root.path()), Vec::<String>::new());
    }
}
