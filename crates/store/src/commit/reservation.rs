//! Reservation of an output's name: a locked, hidden file in the folder of the target.
//!
//! It is created exclusively, so only one of two flows prepares an output of this name, and its
//! owner holds a lock on it as long as it lives. It names the commit record, so a process that
//! finds it in any folder knows whether to complete the output or to remove what was staged.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use euphrates_flow::DecisionRef;
use rustix::fs::{Dir, DirEntry, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::catalog::folders::remove_empty_versions;
use crate::dataset::remove_staged;
use euphrates_device::durable::is_at;

/// The suffix of a reservation's name, which begins with a dot.
pub(crate) const SUFFIX: &str = "euphrates-commit";

/// The content of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationMark {
    /// A name that no other run has; workers add theirs.
    pub run_id: String,
    /// The file or folder that was staged for it.
    pub staged: Option<PathBuf>,
    /// The record that decides, if the flow has several outputs.
    pub decision: Option<DecisionRef>,
}

/// A name that this process has reserved.
#[derive(Debug)]
pub struct ReservedName {
    pub(super) path: PathBuf,
    pub(super) lock: File,
}

/// The path of the reservation of a file.
pub fn beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{SUFFIX}"))
}

impl ReservedName {
    /// Writes the mark. It has to survive a loss of power only if a record may decide to publish
    /// the output: without one the output is published by its owner or not at all.
    pub(super) fn write(&self, mark: &ReservationMark) -> io::Result<()> {
        (&self.lock).write_all(&serde_json::to_vec(mark)?)?;
        match mark.decision {
            Some(_) => self.lock.sync_all(),
            None => Ok(()),
        }
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

/// Removes the reservations of one run in a folder, and what was staged for them. The caller must
/// hold the run's lock, and have found no record.
pub(super) fn withdraw_run(folder: &Path, decision: &DecisionRef) {
    for path in reservations(&hidden_in(folder)) {
        let Some(mark) = read(path) else { continue };
        if mark.decision.as_ref() == Some(decision) {
            mark.staged.iter().for_each(|staged| drop(remove_staged(staged)));
            let _ = fs::remove_file(path);
        }
    }
    remove_empty_versions(folder);
}

/// The staged files that the reservations among these paths name.
pub(crate) fn staged_of(hidden: &[PathBuf]) -> Vec<PathBuf> {
    reservations(hidden).filter_map(|path| read(path)?.staged).collect()
}

/// The paths of a folder whose name begins with a point, as those of reservations and staged files
/// do. A folder may have 100,000 files, and every flow that writes into it looks for them.
pub(crate) fn hidden_in(folder: &Path) -> Vec<PathBuf> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty());
    let entries = opened.and_then(Dir::new).into_iter().flatten().flatten();
    let name = |entry: DirEntry| {
        let name = entry.file_name().to_bytes();
        let is_hidden = name.starts_with(b".") && name != b"." && name != b"..";
        is_hidden.then(|| folder.join(OsStr::from_bytes(name)))
    };
    entries.filter_map(name).collect()
}

/// The reservations among these paths.
pub(super) fn reservations(hidden: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    hidden.iter().filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with('.') && name.strip_suffix(SUFFIX).is_some_and(|name| name.ends_with('.'))
    })
}

pub(super) fn read(path: &Path) -> Option<ReservationMark> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
