//! A prepared output file, which any process that sees it can publish by a rename to its target.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use euphrates_flow::{Error, Result};
use euphrates_policy::commit::OutputState;
use rustix::fs::CWD;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::target::{appeared, folder_of};
use crate::commit::reservation;
use euphrates_device::durable::{Durability, rename_new};

/// A synced file in the folder of its target, whose name is reserved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileOutput {
    pub(super) staged: PathBuf,
    /// The path under which it will be visible.
    pub target: PathBuf,
    /// Whether it may replace an existing file.
    pub replaces: bool,
    pub(super) reservation: PathBuf,
    /// The run in its reservation.
    pub(super) run_id: String,
    pub(super) identity: FileIdentity,
}

/// The identity of a file, which distinguishes it from others of its name. A rename keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileIdentity {
    /// Another machine may have a different file of that name.
    inode: u64,
    bytes: u64,
    /// The time of the last change, in nanoseconds since 1970.
    modified_ns: i64,
}

impl FileIdentity {
    pub fn of(path: &Path) -> io::Result<FileIdentity> {
        let meta = fs::symlink_metadata(path)?;
        let modified_ns = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
        Ok(FileIdentity { inode: meta.ino(), bytes: meta.len(), modified_ns })
    }
}

impl FileOutput {
    /// Whether it is visible under its own name, and has not changed since.
    pub fn is_published(&self) -> bool {
        self.is_at(&self.target)
    }

    /// Its state in the commit; `None` if this process finds no trace of it.
    pub fn state(&self) -> Option<OutputState> {
        match (self.is_at(&self.staged), self.is_at(&self.target)) {
            (_, true) => Some(OutputState::Published),
            (true, false) if !self.replaces && fs::symlink_metadata(&self.target).is_ok() => {
                Some(OutputState::Refused)
            }
            (true, false) => Some(OutputState::Ready),
            (false, false) => None,
        }
    }

    /// Renames it to its target.
    pub fn publish(&self) -> Result<Durability> {
        if !self.is_published() {
            self.rename()?;
        } else if self.is_at(&self.staged) {
            // It is linked where a file system cannot rename without replacing.
            let _ = fs::remove_file(&self.staged);
        }
        let durability = Durability::of_folder(folder_of(&self.target));
        reservation::release(&self.reservation, &self.run_id);
        Ok(durability)
    }

    fn rename(&self) -> Result<()> {
        let (staged, target) = (&self.staged, &self.target);
        if !self.is_at(staged) {
            let error = Error::failed("what was staged has been removed or changed");
            return Err(error.at(staged.display()));
        }
        let renamed = match self.replaces {
            true => rustix::fs::renameat(CWD, staged, CWD, target),
            false => rename_new(staged, target),
        };
        match renamed {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(appeared(&target.display().to_string())),
            Err(errno) => Err(Error::os("rename to", target, &errno.into())),
        }
    }

    /// Removes the staged file and the reservation.
    pub fn withdraw(&self) {
        if self.is_at(&self.staged) {
            let _ = fs::remove_file(&self.staged);
        }
        reservation::release(&self.reservation, &self.run_id);
    }

    fn is_at(&self, path: &Path) -> bool {
        FileIdentity::of(path).is_ok_and(|seen| seen == self.identity)
    }
}
