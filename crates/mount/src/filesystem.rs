//! The requests of the kernel, and the replies.
//!
//! Files are read and written past the kernel's page cache: a cache of the kernel would belong to a
//! name, not to a version, and the reader's scan reads ahead. Nothing that was looked up is cached
//! either, because other programs change the home. Memory maps go through the page cache.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

use super::deadlines::Deadlines;
use super::operations::{HowToOpen, Mounted, OpenHandle};

/// How long the kernel may use names and attributes again.
const NOT_AT_ALL: Duration = Duration::ZERO;
/// The kernel splits larger requests.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// The mounted files as a file system of `fuser`.
pub struct StripedFilesystem {
    pub mounted: Arc<Mounted>,
    pub deadlines: Arc<Deadlines>,
}

thread_local! {
    /// Where this thread reads to.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Filesystem for StripedFilesystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it `open` would not know that a file is to be replaced.
        let truncates = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        truncates.map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
        // Older kernels have no shared memory maps of these files, and no parallel lookups.
        let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let answer = self.deadlines.begin("lookup", reply);
        let found = self.mounted.child(parent.0, name).and_then(|name| self.mounted.look_up(&name));
        answer.send(found, |reply, found| reply.entry(&NOT_AT_ALL, &found, Generation(0)));
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.mounted.tree.lock().forget(number.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let answer = self.deadlines.begin("stat", reply);
        let found = self.mounted.attributes_of(ino.0);
        answer.send(found, |reply, found| reply.attr(&NOT_AT_ALL, &found));
    }

    /// Changes the length. Modes, owners and times cannot be changed; asking for it is no error,
    /// so that `tar` and `cp -p` work.
    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let answer = self.deadlines.begin("truncate", reply);
        let cut = size.map_or(Ok(()), |bytes| self.mounted.truncate(ino.0, bytes));
        let found = cut.and_then(|()| self.mounted.attributes_of(ino.0));
        answer.send(found, |reply, found| reply.attr(&NOT_AT_ALL, &found));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let answer = self.deadlines.begin("mkdir", reply);
        let made = self.mounted.child(parent.0, name);
        let made = made.and_then(|name| self.mounted.make_folder(&name));
        answer.send(made, |reply, made| reply.entry(&NOT_AT_ALL, &made, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let answer = self.deadlines.begin("unlink", reply);
        let name = self.mounted.child(parent.0, name);
        answer.send(name.and_then(|name| self.mounted.remove(&name)), |reply, ()| reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let answer = self.deadlines.begin("rmdir", reply);
        let name = self.mounted.child(parent.0, name);
        answer
            .send(name.and_then(|name| self.mounted.remove_folder(&name)), |reply, ()| reply.ok());
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
        let may_replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let renamed = match (flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            false => Err(Errno::EINVAL),
            true => self.mounted.child(parent.0, name).and_then(|from| {
                let to = self.mounted.child(newparent.0, newname)?;
                self.mounted.rename(&from, &to, may_replace)
            }),
        };
        answer.send(renamed, |reply, ()| reply.ok());
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let answer = self.deadlines.begin("open", reply);
        let opened = self.mounted.open(ino.0, HowToOpen::of(flags.0));
        let send = |reply: ReplyOpen, at| reply.opened(FileHandle(at), past_the_cache());
        answer.send_or(opened, send, |handle| self.drop_handle(handle));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let answer = self.deadlines.begin("create", reply);
        let name = self.mounted.child(parent.0, name);
        let created = name.and_then(|name| self.mounted.create(&name, HowToOpen::of(flags)));
        let send = |reply: ReplyCreate, (found, handle)| {
            let (handle, generation) = (FileHandle(handle), Generation(0));
            reply.created(&NOT_AT_ALL, &found, generation, handle, past_the_cache());
        };
        answer.send_or(created, send, |(_, handle)| self.drop_handle(handle));
    }

    fn read(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
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
            let read = self.read_into(fh.0, offset, &mut buffer[..size as usize]);
            answer.send(read, |reply, count| reply.data(&buffer[..count]));
        });
    }

    fn write(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let answer = self.deadlines.begin("write", reply);
        // Another mount may have made the file longer than the kernel knows.
        let offset = Some(offset).filter(|_| flags.0 & libc::O_APPEND == 0);
        let written = self.mounted.handle(fh.0).and_then(|open| match &*open {
            OpenHandle::Live(_, live, _) => live.write(&self.mounted.home, offset, data),
            _ => Err(Errno::EBADF),
        });
        answer.send(written, |reply, ()| reply.written(data.len() as u32));
    }

    fn flush(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let answer = self.deadlines.begin("close", reply);
        let closed = self.mounted.handle(fh.0).and_then(|open| match &*open {
            OpenHandle::Live(_, live, true) => live.close(&self.mounted.home),
            _ => Ok(()),
        });
        answer.send(closed, |reply, ()| reply.ok());
    }

    fn release(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let answer = self.deadlines.begin("close", reply);
        answer.send(self.mounted.release(fh.0), |reply, ()| reply.ok());
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        let answer = self.deadlines.begin("fsync", reply);
        let synced = self.mounted.handle(fh.0).and_then(|open| match &*open {
            OpenHandle::Live(_, live, true) => live.publish(&self.mounted.home),
            _ => Ok(()),
        });
        answer.send(synced, |reply, ()| reply.ok());
    }

    /// Makes a file longer; space is not reserved.
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
        let answer = self.deadlines.begin("fallocate", reply);
        let grown = match mode {
            0 => self.mounted.attributes_of(ino.0).and_then(|found| {
                match offset.saturating_add(length) {
                    end if end > found.size => self.mounted.truncate(ino.0, end),
                    _ => Ok(()),
                }
            }),
            _ => Err(Errno::EOPNOTSUPP),
        };
        answer.send(grown, |reply, ()| reply.ok());
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let answer = self.deadlines.begin("opendir", reply);
        let opened = self.mounted.open_folder(ino.0);
        let send = |reply: ReplyOpen, at| reply.opened(FileHandle(at), FopenFlags::empty());
        answer.send_or(opened, send, |handle| self.drop_handle(handle));
    }

    fn readdir(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Ok(open) = self.mounted.handle(fh.0) else { return reply.error(Errno::EBADF) };
        let OpenHandle::Folder(entries) = &*open else { return reply.error(Errno::ENOTDIR) };
        for (at, entry) in entries.iter().enumerate().skip(offset as usize) {
            let name = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&entry.name);
            if reply.add(INodeNo(entry.number), at as u64 + 1, entry.kind, name) {
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
        let _ = self.mounted.release(fh.0);
        reply.ok();
    }

    /// Names are durable when the call that has changed them returns.
    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        const BLOCK_BYTES: u64 = 4096;
        let answer = self.deadlines.begin("statfs", reply);
        let space = self.mounted.home.check().and_then(|()| self.mounted.home.space());
        answer.send(space, |reply, space| {
            let (all, free) = (space.all / BLOCK_BYTES, space.free / BLOCK_BYTES);
            let block = BLOCK_BYTES as u32;
            reply.statfs(all, free, free, 0, 0, block, NAME_BYTES_MAX, block);
        });
    }
}

/// The longest name of a file, its folders included.
const NAME_BYTES_MAX: u32 = 200;

fn past_the_cache() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
}

impl StripedFilesystem {
    /// Releases what no program has, since its `open` was refused meanwhile.
    fn drop_handle(&self, handle: u64) {
        // The error was told, and there is nobody to get it.
        let _ = self.mounted.release(handle);
    }

    fn read_into(&self, handle: u64, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        match &*self.mounted.handle(handle)? {
            OpenHandle::Version(_, reader) => {
                reader.read_at(offset, to).map_err(|error| self.mounted.home.errno("read", &error))
            }
            OpenHandle::Live(_, live, _) => live.read(&self.mounted.home, offset, to),
            OpenHandle::Folder(_) => Err(Errno::EISDIR),
        }
    }
}
