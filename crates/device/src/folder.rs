//! Folders of disks: what the store needs of one, on this machine or at a worker that serves it.
//!
//! All paths are relative to the folder. The store reads and changes small files whole, publishes
//! them atomically, holds folders of unfinished work as long as its process lives, and reads and
//! writes segments at offsets. It needs nothing else of a disk, so a worker serves no more.

mod local;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use euphrates_flow::Result;
use serde::{Deserialize, Serialize};

use crate::disk::DiskFile;
use crate::durable::Durability;
pub use local::LocalFolder;

/// A folder of a disk, or of a catalog.
pub trait DiskFolder: SmallFiles + FolderTree + fmt::Debug + Send + Sync {
    /// Where it is: its path, or for a served folder, worker and name. No other folder has it.
    fn place(&self) -> &Path;

    /// The path, if it is on this machine.
    fn local(&self) -> Option<&Path>;

    /// Fails with `NotFound` if the folder is missing.
    fn facts(&self) -> io::Result<FolderFacts>;

    /// Makes the folder, if it is missing.
    fn make(&self) -> io::Result<()>;

    /// Opens a segment for reading.
    fn open(&self, path: &Path) -> io::Result<DiskFile>;

    /// Creates a segment, and the folders above it; fails if there is one of its name.
    fn create(&self, path: &Path) -> io::Result<DiskFile>;
}

/// The small files of a disk's folder, which are read and written as a whole.
pub trait SmallFiles {
    /// The kind of an entry; `None` if there is none of this name.
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>>;

    /// The entries of a folder, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>>;

    /// All bytes of a small file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Writes a small file, in place of any of its name, and makes the folders above it.
    fn write(&self, path: &Path, bytes: &[u8], is_synced: bool) -> io::Result<()>;

    /// Writes a small file durably under a hidden name.
    fn stage(&self, path: &Path, bytes: &[u8]) -> Result<Box<dyn StagedSmallFile>>;

    /// Removes the staged files that dead processes have left in a folder. Returns their number.
    fn clear_staged(&self, path: &Path) -> usize;

    /// Gives a file a second name, and makes the folders above it.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
}

/// The folders within a disk's folder.
pub trait FolderTree {
    /// Makes a folder that nobody reclaims as long as this process lives.
    fn hold(&self, parent: &Path, name: &str) -> Result<Box<dyn HeldFolder>>;

    /// Whether the owner of a held folder lives.
    fn is_held(&self, parent: &Path, name: &str) -> bool;

    /// The held folders whose owners have died; no other process gets them meanwhile.
    fn abandoned(&self, parent: &Path) -> Vec<Box<dyn AbandonedFolder>>;

    /// Moves a folder to a name that is free, durably. A missing one is moved as an empty one.
    fn move_folder(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Syncs a folder, after which its entries survive a loss of power.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder and all that it contains.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder and those above it, as long as they are empty.
    fn remove_empty(&self, path: &Path);
}

/// The kind of an entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// Anything but a folder.
    File,
    /// A folder.
    Folder,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderEntry {
    /// Its name, without the folder.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// The identity of a folder, and the space of its file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderFacts {
    /// The machine that has it; empty for this one.
    pub machine: String,
    /// The number of its device on that machine.
    pub device: u64,
    /// Its number on the device.
    pub inode: u64,
    /// Bytes of the file system.
    pub bytes_all: u64,
    /// Bytes that are free.
    pub bytes_free: u64,
}

impl FolderFacts {
    /// Whether both are of the same folder.
    pub fn is_same_folder(&self, other: &FolderFacts) -> bool {
        self.is_same_device(other) && self.inode == other.inode
    }

    /// Whether both are on the same device.
    pub fn is_same_device(&self, other: &FolderFacts) -> bool {
        (&self.machine, self.device) == (&other.machine, other.device)
    }
}

/// A small file that is durable and not yet visible. Dropping it removes the file.
pub trait StagedSmallFile: Send {
    /// Makes the file visible; `None` if its name is taken.
    fn publish(self: Box<Self>) -> Result<Option<Durability>>;

    /// Makes the file visible in place of any of its name.
    fn replace(self: Box<Self>) -> Result<Durability>;
}

/// A folder of unfinished work. Dropping it leaves the folder to whoever reclaims it.
pub trait HeldFolder: fmt::Debug + Send + Sync {
    /// Its path in the disk's folder.
    fn path(&self) -> &Path;

    /// Removes it. In a forked child, which does not own it, does nothing.
    fn remove(self: Box<Self>);
}

/// A folder whose owner has died. Dropping it leaves the folder to others.
pub trait AbandonedFolder: Send {
    /// Its path in the disk's folder.
    fn path(&self) -> &Path;

    /// Removes it.
    fn remove(self: Box<Self>) -> io::Result<()>;
}

/// A path below a folder, or an error if it may lead out of it.
///
/// ```
/// use euphrates_device::folder::inside;
/// use std::path::Path;
///
/// assert!(inside(Path::new("/disks/d1"), Path::new("a/0.blocks")).is_ok());
/// for outside in ["/etc/passwd", "a/../../b", "..", "./a"] {
///     assert!(inside(Path::new("/disks/d1"), Path::new(outside)).is_err());
/// }
/// ```
pub fn inside(folder: &Path, path: &Path) -> io::Result<PathBuf> {
    use std::path::Component;
    // `components` drops dots in the middle, which lead nowhere.
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    match is_inside && !path.as_os_str().as_encoded_bytes().contains(&0) {
        true => Ok(folder.join(path)),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "a path out of the folder")),
    }
}
