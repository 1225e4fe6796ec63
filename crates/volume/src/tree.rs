//! The tree of a volume in memory: inodes, folders and extents, changed by records alone.
//!
//! Programs' requests and the replay of the log apply the same records, so both give the same tree.
//! A record that cannot be applied changes nothing and returns the error that a program gets.

mod apply;
mod codec;
mod extents;
mod inode;
mod names;
mod record;
mod snapshot;

pub use codec::{BytesIn, BytesOut};
pub use extents::{DataPlace, FilePiece};
pub use inode::{Inode, InodeContent, InodeKind, Times};
pub use record::{AttributeChange, LogRecord};

use std::collections::BTreeMap;

/// The number of the root folder.
pub const ROOT: u64 = 1;

/// Why an operation was refused, as programs see it.
pub type Errno = rustix::io::Errno;

/// The tree, and the bytes of each chunk of the log that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeTree {
    inodes: BTreeMap<u64, Inode>,
    next: u64,
    /// Bytes that extents refer to, by chunk; none is 0.
    live: BTreeMap<u64, u64>,
}

impl VolumeTree {
    /// A tree with an empty root folder.
    pub fn new(mode: u32, uid: u32, gid: u32, time: i64) -> VolumeTree {
        let root = Inode::folder(mode, (uid, gid), ROOT, time);
        VolumeTree { inodes: [(ROOT, root)].into(), next: ROOT + 1, live: BTreeMap::new() }
    }

    /// An inode.
    pub fn inode(&self, number: u64) -> Result<&Inode, Errno> {
        self.inodes.get(&number).ok_or(Errno::NOENT)
    }

    /// The number that the next inode has.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// All inodes by number.
    pub fn inodes(&self) -> impl Iterator<Item = (u64, &Inode)> {
        self.inodes.iter().map(|(number, inode)| (*number, inode))
    }

    /// The number of the inodes.
    pub fn count(&self) -> usize {
        self.inodes.len()
    }

    /// The inode of a name in a folder.
    pub fn child(&self, parent: u64, name: &[u8]) -> Result<u64, Errno> {
        match name {
            b"." => Ok(parent),
            b".." => Ok(self.parent_of(parent)?),
            _ => self.entries(parent)?.get(name).copied().ok_or(Errno::NOENT),
        }
    }

    /// The entries of a folder, without `.` and `..`.
    pub fn entries(&self, number: u64) -> Result<&BTreeMap<Vec<u8>, u64>, Errno> {
        match &self.inode(number)?.content {
            InodeContent::Folder { entries, .. } => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// The folder above a folder; the root is above itself.
    pub fn parent_of(&self, number: u64) -> Result<u64, Errno> {
        match &self.inode(number)?.content {
            InodeContent::Folder { parent, .. } => Ok(*parent),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Where the bytes of a range are; the range ends with the file at the latest.
    pub fn pieces(&self, number: u64, offset: u64, bytes: u64) -> Result<Vec<FilePiece>, Errno> {
        match &self.inode(number)?.content {
            InodeContent::File { bytes: length, extents } => {
                let end = offset.saturating_add(bytes).min(*length);
                Ok(extents.pieces(offset, end.saturating_sub(offset)))
            }
            InodeContent::Folder { .. } => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    /// Bytes that extents refer to, of the chunks that have any.
    pub fn live(&self) -> &BTreeMap<u64, u64> {
        &self.live
    }

    /// Removes an inode without a name. Returns whether there was one.
    pub fn drop_orphan(&mut self, number: u64) -> bool {
        let is_orphan = self.inodes.get(&number).is_some_and(|inode| inode.links == 0);
        if is_orphan && let Some(inode) = self.inodes.remove(&number) {
            self.release(inode);
        }
        is_orphan
    }

    /// Removes all inodes without a name: their programs have ended.
    pub fn drop_orphans(&mut self) {
        let orphans = self.inodes().filter(|(_, inode)| inode.links == 0);
        for number in orphans.map(|(number, _)| number).collect::<Vec<_>>() {
            self.drop_orphan(number);
        }
    }

    fn release(&mut self, inode: Inode) {
        if let InodeContent::File { mut extents, .. } = inode.content {
            extents.cut(0, u64::MAX, &mut |chunk, bytes| free(&mut self.live, chunk, bytes));
        }
    }

    /// Asserts that links, names and live bytes agree.
    #[cfg(test)]
    pub fn check(&self) {
        let (mut links, mut live) = (BTreeMap::<u64, u32>::new(), BTreeMap::<u64, u64>::new());
        for (number, inode) in self.inodes() {
            match &inode.content {
                InodeContent::Folder { parent, entries } => {
                    let mut folders = 0;
                    for (name, child) in entries {
                        let found = &self.inodes[child];
                        *links.entry(*child).or_default() += 1;
                        if let InodeContent::Folder { parent, .. } = &found.content {
                            assert_eq!(*parent, number, "{name:?} has another folder above it");
                            folders += 1;
                        }
                    }
                    assert!(self.inodes.contains_key(parent) || inode.links == 0);
                    let expected = if inode.links == 0 { 0 } else { 2 + folders };
                    assert_eq!(inode.links, expected, "links of folder {number}");
                }
                InodeContent::File { bytes, extents } => {
                    for (start, extent) in extents.iter() {
                        assert!(start + u64::from(extent.bytes) <= *bytes, "behind the end");
                        *live.entry(extent.place.chunk).or_default() += u64::from(extent.bytes);
                    }
                }
                _ => {}
            }
            assert!(number < self.next);
        }
        for (number, inode) in self.inodes() {
            let named = links.get(&number).copied().unwrap_or(0);
            match inode.content {
                InodeContent::Folder { .. } if number != ROOT => {
                    assert_eq!(named, u32::from(inode.links > 0), "names of folder {number}");
                }
                InodeContent::Folder { .. } => assert_eq!(named, 0),
                _ => assert_eq!(inode.links, named, "links of {number}"),
            }
        }
        assert_eq!(live, self.live, "live bytes of chunks");
    }
}

fn free(live: &mut BTreeMap<u64, u64>, chunk: u64, bytes: u64) {
    let left = live.get_mut(&chunk).expect("an extent of the chunk is counted");
    *left -= bytes;
    if *left == 0 {
        live.remove(&chunk);
    }
}
