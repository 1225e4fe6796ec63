//! A small file that becomes visible whole and durable, or not at all.
//!
//! Its bytes are synced under a hidden name before the file gets its own, and the folder is synced
//! after that. A hidden file is locked as long as its process lives, so what a dead one has left is
//! told apart, and can be removed.
//!
//! A rename is never taken back: others may have seen the file, and acted on it. If its folder
//! cannot be synced after that, the file is there and may be gone after a loss of power; whoever
//! published it is told ([`Durability`]), and nothing that it replaces is removed before a later
//! sync has succeeded.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use euphrates_flow::{Error, Result};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock};
use rustix::io::Errno;

use crate::private;

/// What a local file is staged as: hidden, so that readers of the folder pass it over, and of a
/// name nobody else uses, so that what the dead have left can be removed.
pub const STAGED_SUFFIX: &str = "euphrates-part";

/// How often a folder is made again that others have removed.
const TRIES_MAX: usize = 8;

/// What is known of something that has just become visible.
#[derive(Debug)]
pub enum Durability {
    /// It survives a loss of power.
    Durable,
    /// It is visible, but its folder could not be synced.
    Unknown(Error),
}

impl Durability {
    /// Syncs a folder in which something has just got its name.
    pub fn of_folder(folder: &Path) -> Durability {
        sync_folder(folder).map_or_else(Durability::Unknown, |()| Durability::Durable)
    }

    /// An error, about what has this name in messages, if it may not survive a loss of power.
    pub fn durable(self, name: &str) -> Result<()> {
        let Durability::Unknown(error) = self else { return Ok(()) };
        let message = format!(
            "{name} is complete and visible, but may not survive a loss of power: {}",
            error.message()
        );
        Err(Error::resource(message))
    }
}

/// A file that is durable and not yet visible. Dropped, it is removed.
#[derive(Debug)]
pub struct Pending {
    staged: PathBuf,
    target: PathBuf,
    /// Held as long as its process lives.
    lock: File,
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
            let pending = Pending { staged, target: target.to_path_buf(), lock };
            let written = file.write_all(bytes).and_then(|()| private::publish(&file));
            let synced = written.and_then(|()| file.sync_all());
            synced.map_err(|error| Error::os("write", &pending.staged, &error))?;
            return Ok(pending);
        }
    }

    /// Makes it visible; `None` if there is a file of its name. An error says that it is not
    /// visible.
    pub fn publish(self) -> Result<Option<Durability>> {
        match rename_new(&self.staged, &self.target) {
            Ok(()) => Ok(Some(Durability::of_folder(folder_of(&self.target)))),
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(Error::os("rename to", &self.target, &errno.into())),
        }
    }

    /// Makes it visible in the place of what has its name. An error says that it is not visible.
    pub fn replace(self) -> Result<Durability> {
        rustix::fs::renameat(CWD, &self.staged, CWD, &self.target)
            .map_err(|errno| Error::os("rename to", &self.target, &errno.into()))?;
        Ok(Durability::of_folder(folder_of(&self.target)))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After a rename it is gone, and removing it changes nothing.
        let _ = fs::remove_file(&self.staged);
    }
}

/// Writes a file, whole and durable when this returns, in the place of what has its name.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_held(path, bytes).map(drop)
}

/// The same, of a file that is locked as long as what is returned lives.
pub fn write_held(path: &Path, bytes: &[u8]) -> Result<File> {
    let pending = Pending::write(path, bytes)?;
    let lock = pending.lock.try_clone().map_err(|error| Error::os("lock", path, &error))?;
    let durable = pending.replace()?.durable(&path.display().to_string());
    durable.map_err(|error| error.remedy("check the disk, then run it again"))?;
    Ok(lock)
}

/// Removes a file, unless a process that lives holds it or `is_needed` says so of its bytes. Says
/// whether it went.
pub fn remove_unheld(path: &Path, is_needed: impl Fn(&[u8]) -> bool) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let is_held = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    if is_held || fs::read(path).map_or(true, |bytes| is_needed(&bytes)) {
        return false;
    }
    // A file that has taken its place since is another's.
    is_at(&file, path) && fs::remove_file(path).is_ok()
}

/// Makes a folder and those above it that are missing, durably.
pub fn make_folder(folder: &Path) -> Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    private::make_folders(folder).map_err(|error| Error::os("make the folder", folder, &error))?;
    missing.into_iter().rev().try_for_each(|made| sync_folder(folder_of(made)))
}

/// What a folder lists survives a loss of power once the folder is synced.
pub fn sync_folder(folder: &Path) -> Result<()> {
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

/// Whether an open file is the one at a path.
pub fn is_at(file: &File, path: &Path) -> bool {
    let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
    let there = fs::metadata(path).map(identity);
    file.metadata().map(identity).is_ok_and(|held| there.is_ok_and(|there| there == held))
}

/// Renames unless the target exists, also where the file system cannot do so in one call.
pub fn rename_new(from: &Path, to: &Path) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::link(from, to)?;
            rustix::fs::unlink(from)
        }
        result => result,
    }
}
