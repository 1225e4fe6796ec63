//! Atomic, durable publication of a small file: readers see all of it, or none.
//!
//! The bytes are synced under a hidden name before the file gets its own, and the folder is synced
//! after that. The process that staged a hidden file holds a lock on it as long as it lives, so the
//! leftovers of dead processes are recognised, and can be removed.
//!
//! A rename is never undone: other processes may have seen the file, and acted on it. If the folder
//! cannot be synced after the rename, the file is visible and may be gone after a loss of power;
//! the publisher receives that as a [`Durability`], and removes nothing that the file replaces
//! before a later sync has succeeded.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use euphrates_flow::{Error, Result};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock};
use rustix::io::Errno;

use crate::private;

/// The suffix of a staged local file, whose name begins with a dot: readers of the folder skip
/// hidden files, and no other program uses the suffix, so that leftovers of dead processes can be
/// removed.
pub const STAGED_SUFFIX: &str = "euphrates-part";

/// The most attempts to create a folder that other processes keep removing.
const TRIES_MAX: usize = 8;

/// Whether a change that has just become visible survives a loss of power.
#[derive(Debug)]
pub enum Durability {
    /// It survives a loss of power.
    Durable,
    /// It is visible, but its folder could not be synced.
    Unknown(Error),
    /// The worker that makes it visible was lost before it answered: it may be visible, or not.
    Unanswered(Error),
}

impl Durability {
    /// Syncs the folder in which a name has just been created.
    pub fn of_folder(folder: &Path) -> Durability {
        sync_folder(folder).map_or_else(Durability::Unknown, |()| Durability::Durable)
    }

    /// An error, with this name in its message, if the change may not survive a loss of power.
    pub fn durable(self, name: &str) -> Result<()> {
        let (state, error) = match self {
            Durability::Durable => return Ok(()),
            Durability::Unknown(error) => {
                ("is complete and visible, but may not survive a loss of power", error)
            }
            Durability::Unanswered(error) => ("may be visible, or not", error),
        };
        Err(Error::resource(format!("{name} {state}: {}", error.message())))
    }
}

/// A file that is durable and not yet visible. Dropping it removes the file.
///
/// ```
/// use euphrates_device::durable::DurableFile;
///
/// let folder = tempfile::tempdir()?;
/// let target = folder.path().join("counts.json");
/// let file = DurableFile::write(&target, b"{}")?;
/// assert!(!target.exists());
/// assert!(file.publish()?.is_some());
/// assert_eq!(std::fs::read(&target)?, b"{}");
/// assert!(DurableFile::write(&target, b"[]")?.publish()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DurableFile {
    staged: PathBuf,
    target: PathBuf,
    /// Held as long as the process lives.
    lock: File,
}

impl DurableFile {
    /// Writes and syncs the bytes in the folder of their target, which is created if it is missing.
    ///
    /// ```
    /// use euphrates_device::durable::write;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("new").join("counts.json");
    /// write(&path, b"{}")?;
    /// write(&path, b"[]")?;
    /// assert_eq!(std::fs::read(&path)?, b"[]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(target: &Path, bytes: &[u8]) -> Result<DurableFile> {
        make_folder(folder_of(target))?;
        let mut tries = 0..TRIES_MAX;
        loop {
            let staged = hidden(target);
            let failed = |error: io::Error| Error::os("write", &staged, &error);
            let opened = private::options().write(true).create_new(true).open(&staged);
            // A process that cleans up removes empty folders.
            let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            if opened.as_ref().is_err_and(is_gone) && tries.next().is_some() {
                make_folder(folder_of(target))?;
                continue;
            }
            let mut file = opened.map_err(failed)?;
            // Where a file system has no locks, no process reclaims.
            let is_locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if is_locked && !is_at(&file, &staged) {
                continue;
            }
            let lock = file.try_clone().map_err(failed)?;
            let pending = DurableFile { staged, target: target.to_path_buf(), lock };
            let written = file.write_all(bytes).and_then(|()| private::publish(&file));
            let synced = written.and_then(|()| file.sync_all());
            synced.map_err(|error| Error::os("write", &pending.staged, &error))?;
            return Ok(pending);
        }
    }

    /// Makes the file visible; `None` if its name is taken. An error means that it is not visible.
    pub fn publish(self) -> Result<Option<Durability>> {
        match rename_new(&self.staged, &self.target) {
            Ok(()) => Ok(Some(Durability::of_folder(folder_of(&self.target)))),
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(Error::os("rename to", &self.target, &errno.into())),
        }
    }

    /// Makes the file visible in place of any of its name. An error means that it is not visible.
    pub fn replace(self) -> Result<Durability> {
        rustix::fs::renameat(CWD, &self.staged, CWD, &self.target)
            .map_err(|errno| Error::os("rename to", &self.target, &errno.into()))?;
        Ok(Durability::of_folder(folder_of(&self.target)))
    }
}

impl Drop for DurableFile {
    fn drop(&mut self) {
        // After a rename the hidden name is gone, and this removal does nothing.
        let _ = fs::remove_file(&self.staged);
    }
}

/// Writes a file atomically and durably, in place of any of its name.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_held(path, bytes).map(drop)
}

/// As `write`, for a file that stays locked until the returned handle drops.
pub fn write_held(path: &Path, bytes: &[u8]) -> Result<File> {
    let pending = DurableFile::write(path, bytes)?;
    let lock = pending.lock.try_clone().map_err(|error| Error::os("lock", path, &error))?;
    let durable = pending.replace()?.durable(&path.display().to_string());
    durable.map_err(|error| error.remedy("check the disk, then run it again"))?;
    Ok(lock)
}

/// Removes a file, unless a living process holds its lock or `is_needed` returns true for its
/// bytes. Returns whether it was removed.
///
/// ```
/// use euphrates_device::durable::{remove_unheld, write_held};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("run");
/// let held = write_held(&path, b"needed")?;
/// assert!(!remove_unheld(&path, |_| false), "its owner lives");
/// drop(held);
/// assert!(!remove_unheld(&path, |bytes| bytes == b"needed"));
/// assert!(remove_unheld(&path, |_| false) && !path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn remove_unheld(path: &Path, is_needed: impl Fn(&[u8]) -> bool) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let is_held = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    if is_held || fs::read(path).map_or(true, |bytes| is_needed(&bytes)) {
        return false;
    }
    // A file that has taken the path since belongs to another process.
    is_at(&file, path) && fs::remove_file(path).is_ok()
}

/// Creates a folder and the missing ones above it, durably.
pub fn make_folder(folder: &Path) -> Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    private::make_folders(folder).map_err(|error| Error::os("make the folder", folder, &error))?;
    missing.into_iter().rev().try_for_each(|made| sync_folder(folder_of(made)))
}

/// Syncs a folder, after which its entries survive a loss of power.
pub fn sync_folder(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::os("sync the folder", folder, &error))
}

/// A hidden name in the folder of the target that no other process uses.
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

/// Whether an open file is the one that a path names now.
///
/// ```
/// use euphrates_device::durable::is_at;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("a");
/// let file = std::fs::File::create(&path)?;
/// assert!(is_at(&file, &path));
/// std::fs::rename(&path, folder.path().join("b"))?;
/// std::fs::write(&path, "")?;
/// assert!(!is_at(&file, &path), "another file has the name now");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn is_at(file: &File, path: &Path) -> bool {
    let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
    let there = fs::metadata(path).map(identity);
    file.metadata().map(identity).is_ok_and(|held| there.is_ok_and(|there| there == held))
}

/// Renames unless the target exists, also where the file system cannot do so in one call.
///
/// ```
/// use euphrates_device::durable::rename_new;
///
/// let folder = tempfile::tempdir()?;
/// let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
/// std::fs::write(&a, "new")?;
/// rename_new(&a, &b)?;
/// std::fs::write(&a, "newer")?;
/// assert!(rename_new(&a, &b).is_err(), "the name is taken");
/// assert_eq!(std::fs::read(&b)?, b"new");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn rename_new(from: &Path, to: &Path) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::link(from, to)?;
            rustix::fs::unlink(from)
        }
        result => result,
    }
}
