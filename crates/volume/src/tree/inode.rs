//! Inodes: files, folders, symbolic links and special files.

use std::collections::BTreeMap;

use super::extents::ExtentMap;

/// The bits of a mode that tell the kind.
pub const KIND_BITS: u32 = 0o170_000;
/// The bits of a mode that programs change.
pub const PERMISSION_BITS: u32 = 0o7777;

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// Times in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Of the last access.
    pub accessed: i64,
    /// Of the last change of the content.
    pub modified: i64,
    /// Of the last change of content or attributes.
    pub changed: i64,
}

/// A file, folder, or another thing that has names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Kind and permissions, as `stat` shows them.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// The device that a special file stands for.
    pub device: u32,
    /// Names; of a folder, 2 and its folders. 0 if it has been removed and may still be open.
    pub links: u32,
    pub times: Times,
    /// Extended attributes.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    pub content: InodeContent,
}

/// What an inode contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InodeContent {
    File { bytes: u64, extents: ExtentMap },
    Folder { parent: u64, entries: BTreeMap<Vec<u8>, u64> },
    Symlink(Vec<u8>),
    Special,
}

impl InodeKind {
    /// The kind in a mode, if it is one.
    pub fn of_mode(mode: u32) -> Option<InodeKind> {
        Some(match mode & KIND_BITS {
            0o100_000 => InodeKind::File,
            0o040_000 => InodeKind::Folder,
            0o120_000 => InodeKind::Symlink,
            0o010_000 => InodeKind::Fifo,
            0o140_000 => InodeKind::Socket,
            0o020_000 => InodeKind::CharDevice,
            0o060_000 => InodeKind::BlockDevice,
            _ => return None,
        })
    }

    /// Its bits of a mode.
    pub fn bits(self) -> u32 {
        match self {
            InodeKind::File => 0o100_000,
            InodeKind::Folder => 0o040_000,
            InodeKind::Symlink => 0o120_000,
            InodeKind::Fifo => 0o010_000,
            InodeKind::Socket => 0o140_000,
            InodeKind::CharDevice => 0o020_000,
            InodeKind::BlockDevice => 0o060_000,
        }
    }
}

impl Inode {
    /// An empty folder.
    pub fn folder(mode: u32, (uid, gid): (u32, u32), parent: u64, time: i64) -> Inode {
        Inode {
            mode: InodeKind::Folder.bits() | mode & PERMISSION_BITS,
            uid,
            gid,
            device: 0,
            links: 2,
            times: Times { accessed: time, modified: time, changed: time },
            attributes: BTreeMap::new(),
            content: InodeContent::Folder { parent, entries: BTreeMap::new() },
        }
    }

    pub fn kind(&self) -> InodeKind {
        InodeKind::of_mode(self.mode).expect("modes are checked")
    }

    pub fn is_folder(&self) -> bool {
        matches!(self.content, InodeContent::Folder { .. })
    }

    /// The length that `stat` shows.
    pub fn bytes(&self) -> u64 {
        match &self.content {
            InodeContent::File { bytes, .. } => *bytes,
            InodeContent::Folder { entries, .. } => 32 * entries.len() as u64,
            InodeContent::Symlink(target) => target.len() as u64,
            InodeContent::Special => 0,
        }
    }

    /// The bytes that take space.
    pub fn stored_bytes(&self) -> u64 {
        match &self.content {
            InodeContent::File { extents, .. } => extents.stored_bytes(),
            _ => 0,
        }
    }
}
