//! A prepared dataset, which any process that sees it can publish by one rename.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use euphrates_device::durable::{Durability, rename_new};
use euphrates_flow::{Error, Result};
use euphrates_policy::commit::OutputState;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::tree::{self, Tree};
use crate::commit::reservation;

/// A complete, synced folder beside its target, whose name is reserved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FolderOutput {
    /// Before the publication the new folder, after it the one that was replaced, if any.
    pub(super) staged: PathBuf,
    /// The path under which it will be visible.
    pub target: PathBuf,
    /// The fingerprint of the folder that it replaces; `None` if there was none, or an empty one.
    pub(super) before: Option<u64>,
    /// Its own fingerprint.
    pub(super) content: u64,
    pub(super) reservation: PathBuf,
    /// The run in its reservation.
    pub(super) run_id: String,
    pub(super) identity: FolderIdentity,
}

/// Distinguishes a folder from others of its name. A rename keeps it, and so do changes of what is
/// in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderIdentity {
    inode: u64,
    /// When it was made, in nanoseconds since 1970; 0 where the file system does not know.
    created_ns: u64,
}

impl FolderIdentity {
    pub fn of(path: &Path) -> io::Result<FolderIdentity> {
        let about = fs::symlink_metadata(path)?;
        let created = about.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created = created.and_then(|time| u64::try_from(time.as_nanos()).ok());
        Ok(FolderIdentity { inode: about.ino(), created_ns: created.unwrap_or(0) })
    }
}

impl FolderOutput {
    /// Its state in the commit; `None` if this process finds no trace of it.
    pub fn state(&self) -> Option<OutputState> {
        match (self.is_at(&self.target), self.is_at(&self.staged)) {
            (true, _) => Some(OutputState::Published),
            (false, false) => None,
            (false, true) => match self.check_unchanged() {
                Ok(()) => Some(OutputState::Ready),
                Err(_) => Some(OutputState::Refused),
            },
        }
    }

    /// Whether it is visible under its own name, and nothing in it has changed since.
    pub fn is_published_unchanged(&self) -> bool {
        let is_same = |tree: Tree| tree.fingerprint == self.content;
        self.is_at(&self.target) && Tree::of(&self.target).is_ok_and(is_same)
    }

    /// Gives it the name of its target, in one step.
    pub fn publish(&self) -> Result<Durability> {
        if !self.is_at(&self.target) {
            self.rename()?;
        }
        let durability = Durability::of_folder(self.target.parent().unwrap_or(Path::new("/")));
        reservation::release(&self.reservation, &self.run_id);
        Ok(durability)
    }

    /// Removes the staged folder and the reservation.
    pub fn withdraw(&self) {
        if self.is_at(&self.staged) {
            let _ = fs::remove_dir_all(&self.staged);
        }
        reservation::release(&self.reservation, &self.run_id);
    }

    /// Removes the folder that it has replaced.
    pub fn clean(&self) {
        if self.is_at(&self.target) && !self.is_at(&self.staged) {
            let _ = fs::remove_dir_all(&self.staged);
        }
    }

    fn is_at(&self, path: &Path) -> bool {
        FolderIdentity::of(path).is_ok_and(|seen| seen == self.identity)
    }

    /// Fails if the target is not what it was when the files that stay were linked.
    fn check_unchanged(&self) -> Result<()> {
        let now = match self.target.is_dir() && !tree::is_empty(&self.target)? {
            true => Some(Tree::of(&self.target)?.fingerprint),
            false => None,
        };
        match now == self.before && (self.target.is_dir() || !self.target.exists()) {
            true => Ok(()),
            false => Err(changed(&self.target)),
        }
    }

    fn rename(&self) -> Result<()> {
        let (staged, target) = (&self.staged, &self.target);
        if !self.is_at(staged) {
            let error = Error::failed("what was staged has been removed or changed");
            return Err(error.at(staged.display()));
        }
        self.check_unchanged()?;
        let renamed = match (self.before, target.is_dir()) {
            (Some(_), _) => {
                rustix::fs::renameat_with(CWD, staged, CWD, target, RenameFlags::EXCHANGE)
            }
            // Takes the place of a folder only if that is empty.
            (None, true) => rustix::fs::renameat(CWD, staged, CWD, target),
            (None, false) => rename_new(staged, target),
        };
        match renamed {
            Ok(()) => Ok(()),
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOENT) => Err(changed(target)),
            Err(errno) => Err(Error::os("rename to", target, &errno.into())),
        }
    }
}

fn changed(target: &Path) -> Error {
    let message = format!("{} has been changed while the flow ran", target.display());
    Error::failed(message).remedy("run the flow again")
}
