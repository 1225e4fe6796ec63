//! Records applied to the tree: first the checks, then the change.

use super::extents::DataPlace;
use super::inode::{Inode, InodeContent, InodeKind, PERMISSION_BITS, Times};
use super::record::{AttributeChange, LogRecord};
use super::{Errno, VolumeTree, free};

/// The longest target of a symbolic link.
const TARGET_BYTES_MAX: usize = 4095;
/// The longest extended attribute, as the kernel limits it.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// The longest file, as the kernel limits it.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

impl VolumeTree {
    /// Applies a record whose data are at a place of the log. After an error the tree is as before.
    pub fn apply(&mut self, record: &LogRecord<'_>, place: DataPlace) -> Result<(), Errno> {
        match *record {
            LogRecord::Create { .. } => self.create(record),
            LogRecord::Link { number, parent, name, time } => self.link(number, parent, name, time),
            LogRecord::Remove { parent, name, is_folder, time } => {
                self.remove(parent, name, is_folder, time)
            }
            LogRecord::Rename { parent, name, to_parent, to_name, exchange, time } => {
                self.rename((parent, name), (to_parent, to_name), exchange, time)
            }
            LogRecord::Change { number, change, time } => self.change(number, change, time),
            LogRecord::Truncate { number, bytes, time } => self.truncate(number, bytes, time),
            LogRecord::Zero { number, offset, bytes, extends, time } => {
                self.zero(number, offset, bytes, extends, time)
            }
            LogRecord::Write { number, offset, time, data } => {
                let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
                if end > FILE_BYTES_MAX {
                    return Err(Errno::FBIG);
                }
                self.store(number, offset, data.len() as u32, place)?;
                let inode = self.inodes.get_mut(&number).expect("bytes were stored in it");
                if let InodeContent::File { bytes, .. } = &mut inode.content {
                    *bytes = end.max(*bytes);
                }
                inode.touch(time);
                Ok(())
            }
            LogRecord::Move { number, offset, data } => {
                let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
                if end > self.inode(number)?.bytes() {
                    return Err(Errno::INVAL);
                }
                self.store(number, offset, data.len() as u32, place)
            }
            LogRecord::SetAttribute { number, name, value, time } => {
                if value.len() > VALUE_BYTES_MAX {
                    return Err(Errno::TOOBIG);
                }
                let inode = self.inodes.get_mut(&number).ok_or(Errno::NOENT)?;
                inode.attributes.insert(name.to_vec(), value.to_vec());
                inode.times.changed = time;
                Ok(())
            }
            LogRecord::RemoveAttribute { number, name, time } => {
                let inode = self.inodes.get_mut(&number).ok_or(Errno::NOENT)?;
                inode.attributes.remove(name).ok_or(Errno::NODATA)?;
                inode.times.changed = time;
                Ok(())
            }
        }
    }

    fn create(&mut self, record: &LogRecord<'_>) -> Result<(), Errno> {
        let LogRecord::Create { number, parent, name, mode, owner, device, target, time } = *record
        else {
            return Err(Errno::INVAL);
        };
        let kind = InodeKind::of_mode(mode).ok_or(Errno::INVAL)?;
        if target.len() > TARGET_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        if number < self.next {
            return Err(Errno::EXIST);
        }
        self.expect_free(parent, name)?;
        let mut inode = Inode::folder(mode, owner, parent, time);
        inode.mode = kind.bits() | mode & PERMISSION_BITS;
        if kind != InodeKind::Folder {
            inode.links = 1;
            inode.device = device;
            inode.content = match kind {
                InodeKind::File => InodeContent::File { bytes: 0, extents: Default::default() },
                InodeKind::Symlink => InodeContent::Symlink(target.to_vec()),
                _ => InodeContent::Special,
            };
        }
        self.next = number + 1;
        self.inodes.insert(number, inode);
        self.add_name(parent, name, number, time);
        Ok(())
    }

    fn link(&mut self, number: u64, parent: u64, name: &[u8], time: i64) -> Result<(), Errno> {
        let inode = self.inode(number)?;
        if inode.is_folder() {
            return Err(Errno::PERM);
        }
        if inode.links == 0 {
            return Err(Errno::NOENT);
        }
        self.expect_free(parent, name)?;
        let inode = self.inodes.get_mut(&number).expect("it was found");
        inode.links = inode.links.checked_add(1).ok_or(Errno::MLINK)?;
        inode.times.changed = time;
        self.add_name(parent, name, number, time);
        Ok(())
    }

    fn remove(
        &mut self,
        parent: u64,
        name: &[u8],
        is_folder: bool,
        time: i64,
    ) -> Result<(), Errno> {
        let number = *self.entries(parent)?.get(name).ok_or(Errno::NOENT)?;
        self.expect_removable(number, is_folder)?;
        self.take_name(parent, name, time);
        self.unlink(number, time);
        Ok(())
    }

    fn change(&mut self, number: u64, change: AttributeChange, time: i64) -> Result<(), Errno> {
        let inode = self.inodes.get_mut(&number).ok_or(Errno::NOENT)?;
        let AttributeChange { mode, uid, gid, accessed, modified } = change;
        if let Some(mode) = mode {
            inode.mode = inode.kind().bits() | mode & PERMISSION_BITS;
        }
        inode.uid = uid.unwrap_or(inode.uid);
        inode.gid = gid.unwrap_or(inode.gid);
        let Times { accessed: old_accessed, modified: old_modified, .. } = inode.times;
        inode.times = Times {
            accessed: accessed.unwrap_or(old_accessed),
            modified: modified.unwrap_or(old_modified),
            changed: time,
        };
        Ok(())
    }

    fn truncate(&mut self, number: u64, bytes: u64, time: i64) -> Result<(), Errno> {
        if bytes > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let live = &mut self.live;
        let inode = self.inodes.get_mut(&number).ok_or(Errno::NOENT)?;
        let InodeContent::File { bytes: length, extents } = &mut inode.content else {
            return Err(if inode.is_folder() { Errno::ISDIR } else { Errno::INVAL });
        };
        extents.cut(bytes, u64::MAX, &mut |chunk, bytes| free(live, chunk, bytes));
        *length = bytes;
        inode.touch(time);
        Ok(())
    }

    fn zero(
        &mut self,
        number: u64,
        offset: u64,
        bytes: u64,
        extends: bool,
        time: i64,
    ) -> Result<(), Errno> {
        let end = offset.checked_add(bytes).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Errno::FBIG)?;
        let live = &mut self.live;
        let inode = self.inodes.get_mut(&number).ok_or(Errno::NOENT)?;
        let InodeContent::File { bytes: length, extents } = &mut inode.content else {
            return Err(Errno::INVAL);
        };
        extents.cut(offset, end, &mut |chunk, bytes| free(live, chunk, bytes));
        if extends {
            *length = end.max(*length);
        }
        inode.touch(time);
        Ok(())
    }

    /// Refers a range of a file to bytes of the log.
    fn store(
        &mut self,
        number: u64,
        offset: u64,
        bytes: u32,
        place: DataPlace,
    ) -> Result<(), Errno> {
        let live = &mut self.live;
        let inode = self.inodes.get_mut(&number).ok_or(Errno::NOENT)?;
        let InodeContent::File { extents, .. } = &mut inode.content else {
            return Err(Errno::INVAL);
        };
        let end = offset + u64::from(bytes);
        extents.cut(offset, end, &mut |chunk, bytes| free(live, chunk, bytes));
        extents.insert(offset, bytes, place);
        if bytes > 0 {
            *live.entry(place.chunk).or_default() += u64::from(bytes);
        }
        Ok(())
    }
}

impl Inode {
    /// The content has changed.
    pub(super) fn touch(&mut self, time: i64) {
        (self.times.modified, self.times.changed) = (time, time);
    }
}
