//! Folders with a live owner: the lock of each lies next to it, and is held by its owner.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use euphrates_flow::{Error, Owner, Result};
use rustix::fs::{FlockOperation, flock};

use crate::private;

/// A folder whose lock this process holds.
#[derive(Debug)]
pub struct LockedFolder {
    /// The folder that contains its files.
    pub folder: PathBuf,
    lock_path: PathBuf,
    _lock: File,
    owner: Owner,
}

impl LockedFolder {
    /// The path of the lock file, which lies next to the folder.
    pub fn lock_path(&self) -> &Path {
        &self.lock_path
    }

    /// Removes the folder, then the lock. The next start, which searches for locks, reclaims what
    /// cannot be removed now. A forked child removes nothing of its parent's.
    pub fn remove(self) {
        if !self.owner.is_here() {
            return;
        }
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {}
            _ => drop(fs::remove_file(&self.lock_path)),
        }
    }
}

/// Creates a folder with a live owner: the lock first, so that no folder is ever without one.
///
/// ```
/// use euphrates_device::scratch::{hold, is_held, reclaim};
///
/// let parent = tempfile::tempdir()?;
/// let folder = hold(parent.path(), "1700000000-1-0")?;
/// std::fs::write(folder.folder.join("part"), "spilled")?;
/// assert!(is_held(parent.path(), "1700000000-1-0"));
/// assert_eq!(reclaim(parent.path()), 0, "its owner lives");
/// folder.remove();
/// assert!(!is_held(parent.path(), "1700000000-1-0"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn hold(parent: &Path, name: &str) -> Result<LockedFolder> {
    /// How often an empty parent may be removed before the lock is in it.
    const ATTEMPTS_MAX: usize = 10;
    let made = |path: &Path, error| Error::os("make the folder", path, &error);
    let lock_path = parent.join(format!("{name}.lock"));
    let mut left = ATTEMPTS_MAX;
    let lock = loop {
        private::make_folders(parent).map_err(|error| made(parent, error))?;
        left -= 1;
        match lock_file(&lock_path) {
            Err(error) if error.kind() == ErrorKind::NotFound && left > 0 => {}
            locked => break locked.map_err(|error| made(&lock_path, error))?,
        }
    };
    let folder = parent.join(name);
    private::make_folder(&folder).map_err(|error| made(&folder, error))?;
    // Others may share the lock from now on; while any process holds it, none reclaims the folder.
    let shared = flock(&lock, FlockOperation::LockShared);
    shared.map_err(|error| made(&lock_path, error.into()))?;
    Ok(LockedFolder { folder, lock_path, _lock: lock, owner: Owner::here() })
}

/// Shares the lock, if it can be reached, so that no process reclaims the folder when its owner
/// dies.
///
/// ```
/// use euphrates_device::scratch::{hold, is_held, share};
///
/// let parent = tempfile::tempdir()?;
/// let folder = hold(parent.path(), "1700000000-1-0")?;
/// let shared = share(folder.lock_path()).expect("a lock that others may share");
/// drop(folder); // As if its owner died.
/// assert!(is_held(parent.path(), "1700000000-1-0"));
/// drop(shared);
/// assert!(!is_held(parent.path(), "1700000000-1-0"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn share(lock_path: &Path) -> Option<File> {
    let lock = File::open(lock_path).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockShared).ok().map(|()| lock)
}

/// Whether the owner of a folder is alive.
pub fn is_held(parent: &Path, name: &str) -> bool {
    let lock = File::open(parent.join(format!("{name}.lock")));
    lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err())
}

/// Creates and locks the file. A reclaiming process may have seen it before it was locked, and
/// removed it.
fn lock_file(path: &Path) -> std::io::Result<File> {
    loop {
        let lock = private::options().write(true).create(true).truncate(true).open(path)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let still_there = fs::metadata(path).is_ok_and(|now| {
            lock.metadata().is_ok_and(|held| (held.dev(), held.ino()) == (now.dev(), now.ino()))
        });
        if still_there {
            return Ok(lock);
        }
    }
}

/// Removes the folders that dead processes have left in a scratch folder. Returns their number.
pub fn reclaim(parent: &Path) -> usize {
    reclaim_after(parent, |_| Ok(()))
}

/// As `reclaim`, but calls `before` on each folder first; a folder for which it fails stays.
pub fn reclaim_after(parent: &Path, before: impl Fn(&Path) -> Result<()>) -> usize {
    let is_removed = |run: AbandonedRun| before(&run.folder()).is_ok() && run.remove().is_ok();
    abandoned(parent).map(is_removed).filter(|removed| *removed).count()
}

/// The folders whose owners have died, each locked against other processes that reclaim.
pub(crate) fn abandoned(parent: &Path) -> impl Iterator<Item = AbandonedRun> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let locks: BTreeSet<PathBuf> = names.filter_map(|name| lock_of(parent, &name)).collect();
    locks.into_iter().filter_map(|lock_path| AbandonedRun::lock(lock_path).ok())
}

/// A folder whose owner has died. Dropping it leaves the folder to others.
pub(crate) struct AbandonedRun {
    lock_path: PathBuf,
    _lock: File,
}

impl AbandonedRun {
    /// Fails if the owner lives, or another process reclaims.
    fn lock(lock_path: PathBuf) -> std::io::Result<AbandonedRun> {
        let lock = File::open(&lock_path)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(AbandonedRun { lock_path, _lock: lock })
    }

    pub fn folder(&self) -> PathBuf {
        self.lock_path.with_extension("")
    }

    /// Removes the folder, then the lock.
    pub fn remove(self) -> std::io::Result<()> {
        let folder = self.folder();
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::remove_file(&self.lock_path)
    }
}

/// The lock that an entry of a folder has, or should have. The owner of a folder creates its lock
/// first; so a folder without one has no owner, and a lock is created to remove it under.
fn lock_of(parent: &Path, name: &str) -> Option<PathBuf> {
    let path = parent.join(name);
    if name.ends_with(".lock") {
        return Some(path);
    }
    let lock_path = parent.join(format!("{name}.lock"));
    let is_left = is_of_run(name) && path.is_dir() && !lock_path.exists();
    let make = || private::options().write(true).create_new(true).open(&lock_path).is_ok();
    (is_left && make()).then_some(lock_path)
}

/// Whether a name begins as that of a run does: a time, a process and a number. Other programs may
/// have folders in a scratch folder.
fn is_of_run(name: &str) -> bool {
    const TIME_DIGITS_MIN: usize = 12;
    let parts: Vec<&str> = name.split('-').collect();
    let is_number = |part: &&str| u64::from_str_radix(part, 16).is_ok();
    parts.len() > 3 && parts[0].len() >= TIME_DIGITS_MIN && parts[..3].iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_dead_processes_are_reclaimed() {
        let parent = tempfile::tempdir().unwrap();
        let living = hold(parent.path(), "living").unwrap();
        fs::create_dir(parent.path().join("dead")).unwrap();
        fs::write(parent.path().join("dead/run-0"), "x").unwrap();
        fs::write(parent.path().join("dead.lock"), "").unwrap();
        assert_eq!(reclaim(parent.path()), 1);
        assert!(living.folder.exists());
        assert!(!parent.path().join("dead").exists());
    }

    #[test]
    fn unlocked_run_folder_is_reclaimed_and_foreign_folders_stay() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("run-0"), "x").unwrap();
            folder
        };
        let left = make("66108e58a676d-133-0-0-0");
        let others = ["notes", "2026-11-24-12", "66108e58a676d-photos-of-us"].map(make);
        assert_eq!(reclaim(parent.path()), 1);
        assert!(!left.exists() && others.iter().all(|other| other.exists()));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), others.len());
    }
}
