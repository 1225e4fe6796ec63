//! The requests of the kernel for a volume, and the replies.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use euphrates_volume::InodeKind;
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::attributes::{absent, change_of, kind_of, to_fuse};
use super::names::mode_of;
use super::{FOREVER, VolumeFilesystem, errno};

/// The kernel splits larger requests.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

thread_local! {
    /// Where this thread reads to.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Filesystem for VolumeFilesystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.add_capabilities(InitFlags::FUSE_CACHE_SYMLINKS);
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let answer = self.deadlines.begin("lookup", reply);
        let found = match self.mounted.volume.look_up(parent.0, name.as_bytes()) {
            Ok(found) => Ok(to_fuse(&found)),
            Err(euphrates_volume::Errno::NOENT) => Ok(absent()),
            Err(error) => Err(errno(error)),
        };
        let send = |reply: ReplyEntry, found| reply.entry(&FOREVER, &found, Generation(0));
        answer.send_or(found, send, |found| self.mounted.volume.forget(found.ino.0, 1));
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.mounted.volume.forget(number.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let answer = self.deadlines.begin("stat", reply);
        let found = self.mounted.volume.attributes(ino.0).map_err(errno);
        answer.send(found, |reply, found| reply.attr(&FOREVER, &to_fuse(&found)));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let answer = self.deadlines.begin("change", reply);
        let change = change_of(mode, (uid, gid), atime, mtime);
        let changed = self.mounted.volume.change(ino.0, change, size).map_err(errno);
        answer.send(changed, |reply, found| reply.attr(&FOREVER, &to_fuse(&found)));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let answer = self.deadlines.begin("readlink", reply);
        let target = self.mounted.volume.target(ino.0).map_err(errno);
        answer.send(target, |reply, target| reply.data(&target));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.make(request, parent, (name, b""), mode, rdev, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.make(request, parent, (name, b""), mode_of(InodeKind::Folder, mode), 0, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (target, mode) = (target.as_os_str().as_bytes(), mode_of(InodeKind::Symlink, 0o777));
        self.make(request, parent, (link_name, target), mode, 0, reply);
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let answer = self.deadlines.begin("link", reply);
        let linked = self.mounted.volume.link(ino.0, newparent.0, newname.as_bytes());
        let send = |reply: ReplyEntry, found| {
            reply.entry(&FOREVER, &to_fuse(&found), Generation(0));
        };
        let forget = |found: euphrates_volume::Attributes| {
            self.mounted.volume.forget(found.number, 1);
        };
        answer.send_or(linked.map_err(errno), send, forget);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let answer = self.deadlines.begin("unlink", reply);
        let removed = self.mounted.volume.remove(parent.0, name.as_bytes(), false);
        answer.send(removed.map_err(errno), |reply, ()| reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let answer = self.deadlines.begin("rmdir", reply);
        let removed = self.mounted.volume.remove(parent.0, name.as_bytes(), true);
        answer.send(removed.map_err(errno), |reply, ()| reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let answer = self.deadlines.begin("rename", reply);
        let renamed = self.move_name((parent, name), (newparent, newname), flags);
        answer.send(renamed, |reply, ()| reply.ok());
    }

    fn open(&self, _: &Request, _ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.mounted.open_file(flags.0);
        reply.opened(FileHandle(0), cached());
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let answer = self.deadlines.begin("create", reply);
        let (name, owner) = (name.as_bytes(), (request.uid(), request.gid()));
        let mode = mode_of(InodeKind::File, mode);
        let new = euphrates_volume::NewInode { name, mode, owner, device: 0, target: b"" };
        let made = self.mounted.volume.create(parent.0, new).map_err(errno);
        let send = |reply: ReplyCreate, found| {
            self.mounted.open_file(flags);
            let (handle, generation) = (FileHandle(0), Generation(0));
            reply.created(&FOREVER, &to_fuse(&found), generation, handle, cached());
        };
        answer.send_or(made, send, |found| self.mounted.volume.forget(found.number, 1));
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let answer = self.deadlines.begin("read", reply);
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                buffer.resize(size as usize, 0);
            }
            let read = self.mounted.volume.read(ino.0, offset, &mut buffer[..size as usize]);
            answer.send(read.map_err(errno), |reply, count| reply.data(&buffer[..count]));
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let answer = self.deadlines.begin("write", reply);
        let written = self.mounted.volume.write(ino.0, Some(offset), data).map_err(errno);
        answer.send(written, |reply, ()| reply.written(data.len() as u32));
    }

    /// Writes are in the log already, and become durable by `fsync`.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.mounted.close_file(flags.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let answer = self.deadlines.begin("fsync", reply);
        answer.send(self.mounted.volume.sync().map_err(errno), |reply, ()| reply.ok());
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
        const ZERO_KEEP: i32 = ZERO | KEEP;
        let answer = self.deadlines.begin("fallocate", reply);
        let volume = &self.mounted.volume;
        let done = match mode {
            0 => volume.extend(ino.0, offset.saturating_add(length)),
            // Space is not reserved.
            KEEP => Ok(()),
            PUNCH | ZERO_KEEP => volume.zero(ino.0, offset, length, false),
            ZERO => volume.zero(ino.0, offset, length, true),
            _ => Err(euphrates_volume::Errno::OPNOTSUPP),
        };
        answer.send(done.map_err(errno), |reply, ()| reply.ok());
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let answer = self.deadlines.begin("seek", reply);
        let sought = match (u64::try_from(offset), whence) {
            (Ok(offset), libc::SEEK_DATA) => self.mounted.volume.seek(ino.0, offset, false),
            (Ok(offset), libc::SEEK_HOLE) => self.mounted.volume.seek(ino.0, offset, true),
            _ => Err(euphrates_volume::Errno::INVAL),
        };
        answer.send(sought.map_err(errno), |reply, offset| reply.offset(offset as i64));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let answer = self.deadlines.begin("opendir", reply);
        let found = self.mounted.volume.attributes(ino.0).map_err(errno);
        answer.send(found, |reply: ReplyOpen, _| {
            let handle = self.mounted.next.fetch_add(1, Relaxed);
            self.mounted.folders.lock().insert(handle, vec![]);
            reply.opened(FileHandle(handle), FopenFlags::empty());
        });
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut folders = self.mounted.folders.lock();
        let Some(entries) = folders.get_mut(&fh.0) else { return reply.error(Errno::EBADF) };
        // The first read lists the folder, and so does each after `rewinddir`, which shows what has
        // changed.
        if offset == 0
            && let Ok(listed) = self.mounted.volume.list(ino.0)
        {
            *entries = listed;
        }
        for (at, entry) in entries.iter().enumerate().skip(offset as usize) {
            let name = OsStr::from_bytes(&entry.name);
            if reply.add(INodeNo(entry.number), at as u64 + 1, kind_of(entry.kind), name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.mounted.folders.lock().remove(&fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let answer = self.deadlines.begin("fsync", reply);
        answer.send(self.mounted.volume.sync().map_err(errno), |reply, ()| reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        const BLOCK_BYTES: u64 = 4096;
        let (space, inodes) = self.mounted.volume.space();
        let (all, free) = (space.all / BLOCK_BYTES, space.free / BLOCK_BYTES);
        let (block, inodes_free) = (BLOCK_BYTES as u32, free);
        reply.statfs(all, free, free, inodes + inodes_free, inodes_free, block, 255, block);
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let answer = self.deadlines.begin("setxattr", reply);
        let exists = match flags {
            libc::XATTR_CREATE => Some(false),
            libc::XATTR_REPLACE => Some(true),
            _ => None,
        };
        let set = self.mounted.volume.set_attribute(ino.0, name.as_bytes(), value, exists);
        answer.send(set.map_err(errno), |reply, ()| reply.ok());
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let answer = self.deadlines.begin("getxattr", reply);
        let value = self.mounted.volume.attribute(ino.0, name.as_bytes()).map_err(errno);
        answer.send(value, |reply, value| send_attribute(reply, size, &value));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let answer = self.deadlines.begin("listxattr", reply);
        let names = self.mounted.volume.attribute_names(ino.0).map_err(errno);
        answer.send(names, |reply, names| send_attribute(reply, size, &names));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let answer = self.deadlines.begin("removexattr", reply);
        let removed = self.mounted.volume.remove_attribute(ino.0, name.as_bytes());
        answer.send(removed.map_err(errno), |reply, ()| reply.ok());
    }
}

/// The kernel keeps pages and does not ask for `flush`.
fn cached() -> FopenFlags {
    FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH
}

/// A request of length 0 asks for the length.
fn send_attribute(reply: ReplyXattr, size: u32, value: &[u8]) {
    match size {
        0 => reply.size(value.len() as u32),
        _ if value.len() > size as usize => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
