//! Scratch: files of one run that nobody else will ever read.
//!
//! Each run has a folder of its own in each scratch folder, made when the first file is. A lock
//! file beside it is held as long as the process lives, so the next start can tell the folders of
//! the dead from those of the living, and removes them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use euphrates_flow::{Error, Result, Setup};
use rustix::fs::{FlockOperation, flock};

/// The scratch folders of one module of one run.
pub struct Scratch {
    parents: Vec<PathBuf>,
    run_id: String,
    held: Mutex<Vec<Held>>,
    files: AtomicUsize,
}

/// A folder in use.
struct Held {
    folder: PathBuf,
    lock_path: PathBuf,
    _lock: File,
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
        for held in held.drain(..) {
            // What cannot be removed now is reclaimed by the next start.
            let _ = fs::remove_dir_all(&held.folder);
            let _ = fs::remove_file(&held.lock_path);
        }
    }
}

/// Makes a folder whose owner is alive: the lock first, so that there is never a folder without.
fn hold(parent: &Path, name: &str) -> Result<Held> {
    let made = |path: &Path, error| Error::os("make the scratch folder", path, &error);
    fs::create_dir_all(parent).map_err(|error| made(parent, error))?;
    reclaim(parent);
    let lock_path = parent.join(format!("{name}.lock"));
    let lock = File::create(&lock_path).map_err(|error| made(&lock_path, error))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|error| made(&lock_path, error.into()))?;
    let folder = parent.join(name);
    fs::create_dir(&folder).map_err(|error| made(&folder, error))?;
    Ok(Held { folder, lock_path, _lock: lock })
}

/// Removes what processes that no longer live have left in a scratch folder. Returns how many
/// folders went.
pub fn reclaim(parent: &Path) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    let locks = entries.flatten().map(|entry| entry.path());
    let locks = locks.filter(|path| path.extension().is_some_and(|extension| extension == "lock"));
    locks.filter(|path| reclaim_one(path).is_ok()).count()
}

fn reclaim_one(lock_path: &Path) -> std::io::Result<()> {
    let lock = File::open(lock_path)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    let folder = lock_path.with_extension("");
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::remove_file(lock_path)
}

#[cfg(test)]
mod tests {
    use super::*;

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
