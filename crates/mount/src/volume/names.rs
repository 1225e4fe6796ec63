//! Requests of the kernel that make, move and remove names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use euphrates_volume::{InodeKind, NewInode};
use fuser::{Errno, Generation, INodeNo, RenameFlags, ReplyEntry, Request};

use super::attributes::to_fuse;
use super::{FOREVER, VolumeFilesystem, errno};

/// Bits of a mode that a new inode gets.
const PERMISSIONS: u32 = 0o7777;

impl VolumeFilesystem {
    /// Makes an inode and answers with it.
    pub(super) fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        (name, target): (&OsStr, &[u8]),
        mode: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let answer = self.deadlines.begin("create", reply);
        let owner = (request.uid(), request.gid());
        let new = NewInode { name: name.as_bytes(), mode, owner, device, target };
        let made = self.mounted.volume.create(parent.0, new).map_err(errno);
        let send = |reply: ReplyEntry, found| {
            reply.entry(&FOREVER, &to_fuse(&found), Generation(0));
        };
        answer.send_or(made, send, |found| self.mounted.volume.forget(found.number, 1));
    }

    pub(super) fn move_name(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let may_replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        let known = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
        if !(flags - known).is_empty() {
            return Err(Errno::EINVAL);
        }
        let (from, to) = ((from.0.0, from.1.as_bytes()), (to.0.0, to.1.as_bytes()));
        self.mounted.volume.rename(from, to, may_replace, exchange).map_err(errno)
    }
}

/// The mode of a new inode of a kind.
pub fn mode_of(kind: InodeKind, mode: u32) -> u32 {
    let bits = match kind {
        InodeKind::File => 0o100_000,
        InodeKind::Folder => 0o040_000,
        InodeKind::Symlink => 0o120_000,
        _ => 0,
    };
    bits | mode & PERMISSIONS
}
