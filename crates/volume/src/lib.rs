//! Volumes: trees of small files whose directory, inodes and data are one log on the disks.
//!
//! `tree` is the tree in memory, which records change; `log` is how records become chunks and
//! blocks, and how a replay orders them. Both are pure. `disks` writes and reads segments, and has
//! the lease; `volume` joins them: operations, checkpoints, and the cleaner.

mod disks;
mod log;
mod tree;
mod volume;

pub use disks::DiskSpace;
pub use tree::{AttributeChange, Errno, InodeKind, ROOT, Times};
pub use volume::{Attributes, NamedInode, NewInode, Volume, VolumeOptions};

#[cfg(test)]
mod tests;
