//! The operations of programs, by inode and name.

use std::sync::atomic::Ordering::Relaxed;

use euphrates_flow::Result;

use super::core::{Core, VolumeState, now};
use super::handle::Volume;
use crate::disks::DiskSpace;
use crate::log::ChunkPlace;
use crate::tree::{
    AttributeChange, Errno, FilePiece, Inode, InodeContent, InodeKind, LogRecord, ROOT, Times,
};

/// Space of a disk that stays free: deleting files needs log, too.
const RESERVED_BYTES: u64 = 64 << 20;
/// Namespaces of extended attributes. Others have a meaning that is not kept (access lists).
const NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// What `stat` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode's number.
    pub number: u64,
    /// Its kind.
    pub kind: InodeKind,
    /// Permissions, with the bits of set-user-id and the like.
    pub permissions: u16,
    /// Names.
    pub links: u32,
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// The device that a special file stands for.
    pub device: u32,
    /// Length of a file.
    pub bytes: u64,
    /// Bytes that take space.
    pub stored_bytes: u64,
    /// Its times.
    pub times: Times,
}

/// An inode that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewInode<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Kind and permissions.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// The device of a special file.
    pub device: u32,
    /// The target of a symbolic link.
    pub target: &'a [u8],
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInode {
    /// The name.
    pub name: Vec<u8>,
    /// The inode's number and kind.
    pub number: u64,
    /// See `number`.
    pub kind: InodeKind,
}

/// Where bytes of a file are.
pub(super) enum PieceSource {
    Zeros,
    /// In the chunk that is being filled.
    Pending(Vec<u8>),
    Chunk {
        chunk: u64,
        place: ChunkPlace,
        at: usize,
    },
}

impl Volume {
    /// Finds a name. The kernel then refers to the inode, until it forgets it.
    pub fn look_up(&self, parent: u64, name: &[u8]) -> Result<Attributes, Errno> {
        let mut state = self.core.state();
        let number = state.tree.child(parent, name)?;
        state.refer(number)
    }

    /// The kernel gives up references to an inode.
    pub fn forget(&self, number: u64, lookups: u64) {
        let mut state = self.core.state();
        if let Some(left) = state.lookups.get_mut(&number) {
            *left = left.saturating_sub(lookups);
            if *left == 0 {
                state.lookups.remove(&number);
                state.tree.drop_orphan(number);
            }
        }
    }

    /// The attributes of an inode.
    pub fn attributes(&self, number: u64) -> Result<Attributes, Errno> {
        self.core.state().attributes(number)
    }

    /// Makes an inode, to which the kernel then refers.
    pub fn create(&self, parent: u64, new: NewInode<'_>) -> Result<Attributes, Errno> {
        self.core.expect_space()?;
        let mut state = self.core.state();
        let NewInode { name, mut mode, owner: (uid, mut gid), device, target } = new;
        let folder = state.tree.inode(parent)?;
        if folder.mode & 0o2000 != 0 {
            gid = folder.gid;
            if InodeKind::of_mode(mode) == Some(InodeKind::Folder) {
                mode |= 0o2000;
            }
        }
        let (number, owner, time) = (state.tree.next_number(), (uid, gid), now());
        let record = LogRecord::Create { number, parent, name, mode, owner, device, target, time };
        self.core.apply(&mut state, &record)?;
        state.refer(number)
    }

    /// Gives an inode another name.
    pub fn link(&self, number: u64, parent: u64, name: &[u8]) -> Result<Attributes, Errno> {
        let mut state = self.core.state();
        let record = LogRecord::Link { number, parent, name, time: now() };
        self.core.apply(&mut state, &record)?;
        state.refer(number)
    }

    /// Removes a name: that of an empty folder, or of anything else.
    pub fn remove(&self, parent: u64, name: &[u8], is_folder: bool) -> Result<(), Errno> {
        let mut state = self.core.state();
        let number = state.tree.child(parent, name)?;
        let record = LogRecord::Remove { parent, name, is_folder, time: now() };
        self.core.apply(&mut state, &record)?;
        state.drop_unreferenced(number);
        Ok(())
    }

    /// Moves a name, in place of one that exists if `may_replace`; or exchanges two names.
    pub fn rename(
        &self,
        (parent, name): (u64, &[u8]),
        (to_parent, to_name): (u64, &[u8]),
        may_replace: bool,
        exchange: bool,
    ) -> Result<(), Errno> {
        let mut state = self.core.state();
        let replaced = state.tree.child(to_parent, to_name).ok();
        if !may_replace && replaced.is_some() {
            return Err(Errno::EXIST);
        }
        let time = now();
        let record = LogRecord::Rename { parent, name, to_parent, to_name, exchange, time };
        self.core.apply(&mut state, &record)?;
        if let Some(replaced) = replaced {
            state.drop_unreferenced(replaced);
        }
        Ok(())
    }

    /// Changes mode, owner and times, and the length with `bytes`.
    pub fn change(
        &self,
        number: u64,
        change: AttributeChange,
        bytes: Option<u64>,
    ) -> Result<Attributes, Errno> {
        let mut state = self.core.state();
        if let Some(bytes) = bytes {
            self.core.apply(&mut state, &LogRecord::Truncate { number, bytes, time: now() })?;
        }
        if change != AttributeChange::default() {
            self.core.apply(&mut state, &LogRecord::Change { number, change, time: now() })?;
        }
        state.attributes(number)
    }

    /// Reads bytes; fewer than wanted at the end of the file.
    pub fn read(&self, number: u64, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        let mut tries = 0..3;
        loop {
            let sources = {
                let state = self.core.state();
                let pieces = state.tree.pieces(number, offset, to.len() as u64)?;
                state.sources(&pieces)
            };
            match self.core.fill(&sources, to) {
                Ok(count) => return Ok(count),
                // The cleaner has moved the bytes meanwhile, unless it happens again.
                Err(_) if tries.next().is_some() => {}
                Err(error) => {
                    let name = &self.core.roots.name;
                    (self.core.say)(&format!("volume {name}: inode {number}: {error}"));
                    return Err(Errno::IO);
                }
            }
        }
    }

    /// Writes bytes at an offset, or at the end of the file.
    pub fn write(&self, number: u64, offset: Option<u64>, data: &[u8]) -> Result<(), Errno> {
        self.core.expect_space()?;
        let mut state = self.core.state();
        let offset = match offset {
            Some(offset) => offset,
            None => state.tree.inode(number)?.bytes(),
        };
        let record = LogRecord::Write { number, offset, time: now(), data };
        self.core.apply(&mut state, &record)
    }

    /// Makes a range a hole. With `extends` the file is then at least that long.
    pub fn zero(&self, number: u64, offset: u64, bytes: u64, extends: bool) -> Result<(), Errno> {
        let mut state = self.core.state();
        let record = LogRecord::Zero { number, offset, bytes, extends, time: now() };
        self.core.apply(&mut state, &record)
    }

    /// Makes a file at least this long. Space is not reserved.
    pub fn extend(&self, number: u64, bytes: u64) -> Result<(), Errno> {
        let mut state = self.core.state();
        match state.tree.inode(number)?.bytes() < bytes {
            true => {
                self.core.apply(&mut state, &LogRecord::Truncate { number, bytes, time: now() })
            }
            false => Ok(()),
        }
    }

    /// The next range of data, or with `is_hole` the next hole, from an offset on.
    pub fn seek(&self, number: u64, offset: u64, is_hole: bool) -> Result<u64, Errno> {
        let state = self.core.state();
        let length = state.tree.inode(number)?.bytes();
        if offset >= length {
            return Err(Errno::NXIO);
        }
        let pieces = state.tree.pieces(number, offset, length - offset)?;
        let found = pieces.iter().find(|piece| piece.place.is_none() == is_hole);
        match (found, is_hole) {
            (Some(piece), _) => Ok(piece.offset),
            (None, true) => Ok(length),
            (None, false) => Err(Errno::NXIO),
        }
    }

    /// The target of a symbolic link.
    pub fn target(&self, number: u64) -> Result<Vec<u8>, Errno> {
        match &self.core.state().tree.inode(number)?.content {
            InodeContent::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        }
    }

    /// The entries of a folder, with `.` and `..`.
    pub fn list(&self, number: u64) -> Result<Vec<NamedInode>, Errno> {
        let state = self.core.state();
        let entry = |name: &[u8], number: u64| {
            let kind = state.tree.inode(number).map_or(InodeKind::Folder, Inode::kind);
            NamedInode { name: name.to_vec(), number, kind }
        };
        let entries = state.tree.entries(number)?;
        let above = state.tree.parent_of(number)?;
        let dots = [entry(b".", number), entry(b"..", above)];
        let named = entries.iter().map(|(name, number)| entry(name, *number));
        Ok(dots.into_iter().chain(named).collect())
    }

    /// The value of an extended attribute.
    pub fn attribute(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        expect_namespace(name)?;
        let state = self.core.state();
        state.tree.inode(number)?.attributes.get(name).cloned().ok_or(Errno::NODATA)
    }

    /// The names of extended attributes, each with a zero behind it.
    pub fn attribute_names(&self, number: u64) -> Result<Vec<u8>, Errno> {
        let state = self.core.state();
        let names = state.tree.inode(number)?.attributes.keys();
        Ok(names.flat_map(|name| name.iter().copied().chain([0])).collect())
    }

    /// Sets an extended attribute that must exist, must not exist, or may (`None`).
    pub fn set_attribute(
        &self,
        number: u64,
        name: &[u8],
        value: &[u8],
        exists: Option<bool>,
    ) -> Result<(), Errno> {
        expect_namespace(name)?;
        let mut state = self.core.state();
        let is_there = state.tree.inode(number)?.attributes.contains_key(name);
        match exists {
            Some(true) if !is_there => return Err(Errno::NODATA),
            Some(false) if is_there => return Err(Errno::EXIST),
            _ => {}
        }
        self.core.apply(&mut state, &LogRecord::SetAttribute { number, name, value, time: now() })
    }

    /// Removes an extended attribute.
    pub fn remove_attribute(&self, number: u64, name: &[u8]) -> Result<(), Errno> {
        expect_namespace(name)?;
        let mut state = self.core.state();
        self.core.apply(&mut state, &LogRecord::RemoveAttribute { number, name, time: now() })
    }

    /// Makes all operations before this call durable.
    pub fn sync(&self) -> Result<(), Errno> {
        self.core.sync()
    }

    /// Space for data, that of parity left out, and the number of inodes.
    pub fn space(&self) -> (DiskSpace, u64) {
        let (space, (data, parity)) = (*self.core.space.lock(), self.core.layout);
        let (data, width) = (data as u64, (data + parity) as u64);
        let of_data = |bytes: u64| bytes / width * data;
        let DiskSpace { all, free, free_least } = space;
        let inodes = self.core.state().tree.count() as u64;
        (DiskSpace { all: of_data(all), free: of_data(free), free_least }, inodes)
    }
}

impl Core {
    /// Fails if the disks are full. What frees space is not asked.
    fn expect_space(&self) -> Result<(), Errno> {
        if let Some(end) = &self.writer
            && end.has_ended.load(Relaxed)
        {
            return Err(Errno::IO);
        }
        match self.space.lock().free_least < RESERVED_BYTES {
            true => Err(Errno::NOSPC),
            false => Ok(()),
        }
    }

    /// Reads from sources, one after the other. Returns the number of bytes.
    pub(super) fn fill(&self, sources: &[(usize, PieceSource)], to: &mut [u8]) -> Result<usize> {
        let mut at = 0;
        for (bytes, source) in sources {
            let now = &mut to[at..at + bytes];
            at += bytes;
            match source {
                PieceSource::Zeros => now.fill(0),
                PieceSource::Pending(held) => now.copy_from_slice(held),
                PieceSource::Chunk { chunk, place, at } => {
                    let end = self.writer.as_ref();
                    match end.and_then(|end| end.log.in_flight(*chunk)) {
                        Some(payload) => now.copy_from_slice(&payload[*at..at + bytes]),
                        None => self.reader.read(*chunk, place, *at, now)?,
                    }
                }
            }
        }
        Ok(at)
    }
}

impl VolumeState {
    fn attributes(&self, number: u64) -> Result<Attributes, Errno> {
        let inode = self.tree.inode(number)?;
        Ok(Attributes {
            number,
            kind: inode.kind(),
            permissions: (inode.mode & 0o7777) as u16,
            links: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            device: inode.device,
            bytes: inode.bytes(),
            stored_bytes: inode.stored_bytes(),
            times: inode.times,
        })
    }

    /// Counts a reference of the kernel.
    fn refer(&mut self, number: u64) -> Result<Attributes, Errno> {
        let found = self.attributes(number)?;
        if number != ROOT {
            *self.lookups.entry(number).or_default() += 1;
        }
        Ok(found)
    }

    fn drop_unreferenced(&mut self, number: u64) {
        if !self.lookups.contains_key(&number) {
            self.tree.drop_orphan(number);
        }
    }

    /// Where pieces of a file are.
    pub(super) fn sources(&self, pieces: &[FilePiece]) -> Vec<(usize, PieceSource)> {
        let source = |piece: &FilePiece| {
            let Some(place) = piece.place else { return PieceSource::Zeros };
            let at = place.at as usize;
            match self.places.get(&place.chunk) {
                Some(found) => PieceSource::Chunk { chunk: place.chunk, place: found.clone(), at },
                None => PieceSource::Pending(self.pending[at..at + piece.bytes as usize].to_vec()),
            }
        };
        pieces.iter().map(|piece| (piece.bytes as usize, source(piece))).collect()
    }
}

fn expect_namespace(name: &[u8]) -> Result<(), Errno> {
    match NAMESPACES.iter().any(|space| name.starts_with(space)) {
        true => Ok(()),
        false => Err(Errno::OPNOTSUPP),
    }
}
