//! Scratch: files of one run that nobody else will ever read.
//!
//! Each run has a folder of its own in each scratch folder, made when the first file is. A lock
//! file beside it is held as long as the process lives, so the next start can tell the folders of
//! the dead from those of the living, and removes them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use euphrates_flow::{Error, Owner, Result, Setup};
use rustix::fs::{FlockOperation, flock};

/// The scratch folders of one module of one run.
pub struct Scratch {
    parents: Vec<PathBuf>,
    run_id: String,
    held: Mutex<Vec<Held>>,
    files: AtomicUsize,
}

/// A folder in use.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) folder: PathBuf,
    lock_path: PathBuf,
    _lock: File,
    owner: Owner,
}

impl Held {
    /// The lock beside the folder.
    pub(crate) fn lock_path(&self) -> &Path {
        &self.lock_path
    }

    /// Removes the folder, then the lock. What cannot be removed now is reclaimed by the next
    /// start. A forked child removes nothing of its parent's.
    pub(crate) fn remove(self) {
        if !self.owner.is_here() {
            return;
        }
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_file(&self.lock_path);
    }
}

impl Scratch {
    /// Scratch for this run; nothing is made yet.
    pub fn new(setup: &Setup) -> Scratch {
        Scratch {
            parents: setup.scratch.clone(),
            run_id: setup.run_id.clone(),
            held: Mutex::default(),
            files: AtomicUsize::new(0),
        }
    }

    /// A path for a new file, in each scratch folder in turn.
    pub fn file(&self, kind: &str) -> Result<PathBuf> {
        let mut held = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if held.is_empty() {
            for (number, parent) in self.parents.iter().enumerate() {
                held.push(hold(parent, &format!("{}-{number:x}", self.name()))?);
            }
        }
        let number = self.files.fetch_add(1, Relaxed);
        Ok(held[number % held.len()].folder.join(format!("{kind}-{number}")))
    }

    /// A name no other scratch of this process has.
    fn name(&self) -> String {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        format!("{}-{:x}", self.run_id, NUMBER.fetch_add(1, Relaxed))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        held.drain(..).for_each(Held::remove);
    }
}

/// Removes what a run of this process has in these scratch folders. Nobody needs it any more,
/// though somebody may hold it for a while.
pub fn forget(parents: &[PathBuf], run_id: &str) {
    let entries = parents.iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
    // Of another run whose name begins like this one's, more than the two numbers is left.
    let is_its = |name: &str| {
        let numbers = name.strip_prefix(run_id).and_then(|rest| rest.strip_prefix('-'));
        numbers.is_some_and(|numbers| numbers.split('-').count() == 2)
    };
    for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(is_its)) {
        // What cannot be removed now is reclaimed by the next start.
        let path = entry.path();
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}

/// Makes a folder whose owner is alive: the lock first, so that there is never a folder without.
pub(crate) fn hold(parent: &Path, name: &str) -> Result<Held> {
    let made = |path: &Path, error| Error::os("make the folder", path, &error);
    fs::create_dir_all(parent).map_err(|error| made(parent, error))?;
    let lock_path = parent.join(format!("{name}.lock"));
    let lock = lock_file(&lock_path).map_err(|error| made(&lock_path, error))?;
    let folder = parent.join(name);
    fs::create_dir(&folder).map_err(|error| made(&folder, error))?;
    // Others may hold it too from now on; nobody reclaims what is held by anybody.
    let shared = flock(&lock, FlockOperation::LockShared);
    shared.map_err(|error| made(&lock_path, error.into()))?;
    Ok(Held { folder, lock_path, _lock: lock, owner: Owner::here() })
}

/// Keeps others from reclaiming a folder whose owner may die, where its lock can be reached.
pub(crate) fn share(lock_path: &Path) -> Option<File> {
    let lock = File::open(lock_path).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockShared).ok().map(|()| lock)
}

/// The lock, held. Whoever reclaims may have seen the file before it was, and removed it.
fn lock_file(path: &Path) -> std::io::Result<File> {
    loop {
        let lock = File::create(path)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let still_there = fs::metadata(path).is_ok_and(|now| {
            lock.metadata().is_ok_and(|held| (held.dev(), held.ino()) == (now.dev(), now.ino()))
        });
        if still_there {
            return Ok(lock);
        }
    }
}

/// Removes what processes that no longer live have left in a scratch folder. Returns how many
/// folders went.
pub fn reclaim(parent: &Path) -> usize {
    reclaim_after(parent, |_| Ok(()))
}

/// The same, where something is to be done for each folder before it goes; if that fails, it stays.
pub(crate) fn reclaim_after(parent: &Path, before: impl Fn(&Path) -> Result<()>) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    let locks = entries.flatten().map(|entry| entry.path());
    let locks = locks.filter(|path| path.extension().is_some_and(|extension| extension == "lock"));
    locks.filter(|path| reclaim_one(path, &before).unwrap_or(false)).count()
}

fn reclaim_one(lock_path: &Path, before: impl Fn(&Path) -> Result<()>) -> std::io::Result<bool> {
    let lock = File::open(lock_path)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    let folder = lock_path.with_extension("");
    if before(&folder).is_err() {
        return Ok(false);
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::remove_file(lock_path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_has_is_forgotten_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let mine = hold(parent.path(), "run-w1-0-3-0").unwrap();
        fs::write(mine.folder.join("sort-0"), "x").unwrap();
        let others = ["run-w10-0-3-0", "run-w1-1-3-0", "run-w1-0-0-3-0"];
        let others = others.map(|name| hold(parent.path(), name).unwrap());
        forget(&[parent.path().into(), parent.path().join("nowhere")], "run-w1-0");
        assert!(!mine.folder.exists() && !mine.lock_path.exists());
        assert!(others.iter().all(|other| other.folder.exists() && other.lock_path.exists()));
    }

    #[test]
    fn the_dead_are_reclaimed_and_the_living_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let living = hold(parent.path(), "living").unwrap();
        fs::create_dir(parent.path().join("dead")).unwrap();
        fs::write(parent.path().join("dead/run-0"), "x").unwrap();
        fs::write(parent.path().join("dead.lock"), "").unwrap();
        assert_eq!(reclaim(parent.path()), 1);
        assert!(living.folder.exists());
        assert!(!parent.path().join("dead").exists());
    }
}
