//! Names: adding, removing and moving them, with the links that they count.

use super::inode::InodeContent;
use super::{Errno, ROOT, VolumeTree};

/// The longest name.
pub const NAME_BYTES_MAX: usize = 255;

impl VolumeTree {
    /// Fails unless a name can be given in a folder.
    pub(super) fn expect_free(&self, parent: u64, name: &[u8]) -> Result<(), Errno> {
        match self.entries(parent)?.contains_key(name) {
            true => Err(Errno::EXIST),
            false => self.expect_name(parent, name),
        }
    }

    /// Fails unless a folder may have a name.
    fn expect_name(&self, parent: u64, name: &[u8]) -> Result<(), Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        if name.is_empty() || matches!(name, b"." | b"..") || name.contains(&b'/') {
            return Err(Errno::INVAL);
        }
        let folder = self.inode(parent)?;
        match (folder.is_folder(), folder.links) {
            (false, _) => Err(Errno::NOTDIR),
            // A removed folder, in which a program still is.
            (true, 0) => Err(Errno::NOENT),
            (true, _) => Ok(()),
        }
    }

    /// Fails unless what has a name can be removed as a folder, or as something else.
    pub(super) fn expect_removable(&self, number: u64, is_folder: bool) -> Result<(), Errno> {
        match (&self.inode(number)?.content, is_folder) {
            (InodeContent::Folder { entries, .. }, true) if !entries.is_empty() => {
                Err(Errno::NOTEMPTY)
            }
            (InodeContent::Folder { .. }, false) => Err(Errno::ISDIR),
            (InodeContent::Folder { .. }, true) => Ok(()),
            (_, true) => Err(Errno::NOTDIR),
            (_, false) => Ok(()),
        }
    }

    /// Adds a name to a folder, and a link to the folder if it is that of a folder.
    pub(super) fn add_name(&mut self, parent: u64, name: &[u8], number: u64, time: i64) {
        let is_folder = match &mut self.inodes.get_mut(&number).expect("it exists").content {
            InodeContent::Folder { parent: above, .. } => {
                *above = parent;
                true
            }
            _ => false,
        };
        let folder = self.inodes.get_mut(&parent).expect("it was checked");
        folder.links += u32::from(is_folder);
        folder.touch(time);
        if let InodeContent::Folder { entries, .. } = &mut folder.content {
            entries.insert(name.to_vec(), number);
        }
    }

    /// Takes a name from a folder, and the link of a folder.
    pub(super) fn take_name(&mut self, parent: u64, name: &[u8], time: i64) {
        let folder = self.inodes.get_mut(&parent).expect("it was checked");
        folder.touch(time);
        let InodeContent::Folder { entries, .. } = &mut folder.content else { return };
        let number = entries.remove(name).expect("it was checked");
        if self.inodes[&number].is_folder() {
            self.inodes.get_mut(&parent).expect("it was checked").links -= 1;
        }
    }

    /// What has lost a name: it stays without one, since a program may have it open.
    pub(super) fn unlink(&mut self, number: u64, time: i64) {
        let inode = self.inodes.get_mut(&number).expect("it had a name");
        inode.links = if inode.is_folder() { 0 } else { inode.links - 1 };
        inode.times.changed = time;
    }

    pub(super) fn rename(
        &mut self,
        (parent, name): (u64, &[u8]),
        (to_parent, to_name): (u64, &[u8]),
        exchange: bool,
        time: i64,
    ) -> Result<(), Errno> {
        let number = *self.entries(parent)?.get(name).ok_or(Errno::NOENT)?;
        let replaced = self.entries(to_parent)?.get(to_name).copied();
        self.expect_name(to_parent, to_name)?;
        let is_folder = self.inode(number)?.is_folder();
        if is_folder && self.is_within(to_parent, number)? {
            return Err(Errno::INVAL);
        }
        if replaced == Some(number) {
            // Two names of one inode: both stay.
            return Ok(());
        }
        if exchange {
            let other = replaced.ok_or(Errno::NOENT)?;
            if self.inode(other)?.is_folder() && self.is_within(parent, other)? {
                return Err(Errno::INVAL);
            }
            self.take_name(parent, name, time);
            self.take_name(to_parent, to_name, time);
            self.add_name(parent, name, other, time);
            self.add_name(to_parent, to_name, number, time);
            self.inodes.get_mut(&other).expect("it has a name").times.changed = time;
        } else {
            if let Some(replaced) = replaced {
                self.expect_removable(replaced, is_folder)?;
                self.take_name(to_parent, to_name, time);
                self.unlink(replaced, time);
            }
            self.take_name(parent, name, time);
            self.add_name(to_parent, to_name, number, time);
        }
        self.inodes.get_mut(&number).expect("it has a name").times.changed = time;
        Ok(())
    }

    /// Whether a folder is another one, or below it.
    fn is_within(&self, folder: u64, above: u64) -> Result<bool, Errno> {
        let mut folder = folder;
        loop {
            if folder == above {
                return Ok(true);
            }
            if folder == ROOT {
                return Ok(false);
            }
            folder = self.parent_of(folder)?;
        }
    }
}
