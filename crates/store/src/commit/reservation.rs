//! Reservation of an output's name: a locked, hidden file in the folder of the target.
//!
//! It is created exclusively, so only one of two flows prepares an output of this name, and its
//! owner holds a lock on it as long as it lives. It names the commit record, so a process that
//! finds it in any folder knows whether to complete the output or to remove what was staged.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use euphrates_flow::{DecisionRef, Error, Result};
use euphrates_policy::commit::{Record, Reserved, reserved};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{decision, resolve};
use crate::catalog::folders::remove_if_empty;
use euphrates_device::durable::is_at;
use euphrates_device::private;

/// The suffix of a reservation's name, which begins with a dot.
pub const SUFFIX: &str = "euphrates-commit";

/// The content of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// A name that no other run has; workers add theirs.
    pub run_id: String,
    /// The file that was staged for it.
    pub staged: Option<PathBuf>,
    /// The record that decides, if the flow has several outputs.
    pub decision: Option<DecisionRef>,
}

/// A name that this process has reserved.
#[derive(Debug)]
pub struct Reservation {
    path: PathBuf,
    lock: File,
}

/// The path of the reservation of a file.
pub fn beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{SUFFIX}"))
}

impl Reservation {
    /// Reserves `name`: syncs the file, not its folder. First completes or removes what a dead
    /// flow has prepared under it; fails if another flow needs it.
    pub fn take(path: PathBuf, name: &str, mark: &Mark) -> Result<Reservation> {
        let failed = |error: io::Error| Error::os("reserve", &path, &error);
        let folder = path.parent().unwrap_or(Path::new("."));
        loop {
            clear(&path, name)?;
            private::make_folders(folder).map_err(failed)?;
            let lock = match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(created) => created,
                // Another flow was faster, or has removed the folder.
                Err(error) if is_race(&error) => continue,
                Err(error) => return Err(failed(error)),
            };
            // Another process may have seen the file before it was locked, and removed it. Where a
            // file system has no locks, no process removes it.
            let has_locks = flock(&lock, FlockOperation::LockExclusive).is_ok();
            if has_locks && !is_at(&lock, &path) {
                continue;
            }
            let reservation = Reservation { path, lock };
            return match reservation.write(mark) {
                Ok(()) => Ok(reservation),
                Err(error) => {
                    reservation.remove();
                    Err(Error::os("reserve", &reservation.path, &error))
                }
            };
        }
    }

    fn write(&self, mark: &Mark) -> io::Result<()> {
        (&self.lock).write_all(&serde_json::to_vec(mark)?)?;
        self.lock.sync_all()
    }

    /// The path of the reservation's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the reservation, if it still exists.
    pub fn remove(&self) {
        if is_at(&self.lock, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Ends the reservation of a run, regardless of its holder.
pub fn release(path: &Path, run_id: &str) {
    if read(path).is_some_and(|mark| mark.run_id == run_id) {
        let _ = fs::remove_file(path);
    }
}

/// Resolves the reservations of dead flows in a folder: completes what was decided, and removes the
/// rest. Returns the number of reservations that ended.
pub fn reclaim(folder: &Path) -> usize {
    let all = in_folder(folder);
    all.into_iter().filter(|path| clear(path, "").is_ok() && !path.exists()).count()
}

/// Removes the reservations of one run in a folder, and what was staged for them. The caller must
/// hold the run's lock, and have found no record.
pub(super) fn withdraw_run(folder: &Path, decision: &DecisionRef) {
    for path in in_folder(folder) {
        let Some(mark) = read(&path) else { continue };
        if mark.decision.as_ref() == Some(decision) {
            mark.staged.iter().for_each(|staged| drop(fs::remove_file(staged)));
            let _ = fs::remove_file(&path);
        }
    }
    remove_if_empty(folder);
}

/// The staged files that the reservations of a folder name.
pub fn staged_in(folder: &Path) -> Vec<PathBuf> {
    in_folder(folder).iter().filter_map(|path| read(path)?.staged).collect()
}

fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with('.') && name.strip_suffix(SUFFIX).is_some_and(|name| name.ends_with('.'))
    };
    entries.filter(is_one).collect()
}

/// Ends a reservation that no living flow needs. An error gives the reason why it stays.
fn clear(path: &Path, name: &str) -> Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::os("open", path, &error)),
    };
    let in_use = || {
        Error::failed(format!("{name} is being written by another flow"))
            .remedy("run it again when that has ended, or choose another name")
    };
    let owner_lives = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    // A truncated reservation was never synced, so nothing has been decided.
    let mark = read(path);
    let decision = mark.as_ref().and_then(|mark| mark.decision.as_ref());
    match reserved(owner_lives, decision.map_or(Record::NotNeeded, decision::look)) {
        Reserved::Stale => {
            if is_at(&file, path) {
                let staged = mark.and_then(|mark| mark.staged);
                staged.iter().for_each(|staged| drop(fs::remove_file(staged)));
                let _ = fs::remove_file(path);
                path.parent().into_iter().for_each(remove_if_empty);
            }
            Ok(())
        }
        Reserved::Complete => {
            drop(file);
            let left = decision.and_then(resolve::resolve_run).and_then(|done| done.left);
            match (left, path.exists()) {
                (_, false) => Ok(()),
                (Some(error), true) => Err(error),
                (None, true) => Err(in_use()),
            }
        }
        Reserved::InUse => Err(in_use()),
        Reserved::InDoubt => {
            let home = decision.map(|decision| decision.folder.display().to_string());
            let home = home.unwrap_or_default();
            Err(Error::failed(format!(
                "{name} is reserved by a flow whose commit record, in {home}, cannot be seen from \
                 here"
            ))
            .remedy(format!("run `euphrates gc` where that folder is, or remove {path:?}")))
        }
    }
}

fn read(path: &Path) -> Option<Mark> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn is_race(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound)
}
