//! A file of a disk of this machine, open through the page cache and, where the file system
//! supports it, for direct I/O.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow::buffer::Buffer;
use euphrates_policy::io_path::IoPath;
use rustix::fs::{AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::buffer::SLAB_ALIGN_BYTES;
use crate::private;

/// The most parts that one system call takes.
const PARTS_MAX: usize = 1024;

/// An open file of a disk of this machine.
#[derive(Debug)]
pub(super) struct LocalFile {
    path: PathBuf,
    buffered: File,
    writable: bool,
    direct: OnceLock<Option<Direct>>,
    direct_failed: AtomicBool,
}

#[derive(Debug)]
struct Direct {
    file: File,
    align_bytes: usize,
}

impl LocalFile {
    /// Opens an existing file for reading.
    pub fn open(path: &Path) -> io::Result<LocalFile> {
        let file = File::open(path)?;
        // The readers read ahead themselves, with requests of the right size; the kernel's
        // read-ahead, which sees the interleaved requests of several threads, would halve the rate.
        // The advice may be refused.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        Ok(LocalFile::over(path, file, false))
    }

    /// Creates a file that only its user can open; fails if there is one of this name.
    pub fn create(path: &Path) -> io::Result<LocalFile> {
        let file = private::options().read(true).write(true).create_new(true).open(path)?;
        Ok(LocalFile::over(path, file, true))
    }

    fn over(path: &Path, buffered: File, writable: bool) -> LocalFile {
        let direct_failed = AtomicBool::new(false);
        LocalFile { path: path.into(), buffered, writable, direct: OnceLock::new(), direct_failed }
    }

    /// Gives the file the mode that the umask leaves to any new file.
    pub fn publish(&self) -> io::Result<()> {
        private::publish(&self.buffered)
    }

    /// The current length, as the file system has it.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.buffered.metadata()?.len())
    }

    /// Offsets and lengths of direct requests must be multiples of this; `None` if the file system
    /// has no direct I/O for this file.
    pub fn align_bytes(&self) -> Option<usize> {
        if self.direct_failed.load(Relaxed) {
            return None;
        }
        let direct = self.direct.get_or_init(|| Direct::open(&self.path, self.writable));
        direct.as_ref().map(|direct| direct.align_bytes)
    }

    /// Reads the cached part of this range without waiting for a device; `false` if that is not all
    /// of it.
    pub fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < buffer.len() {
            let mut rest = [IoSliceMut::new(&mut buffer[filled..])];
            let at = offset + filled as u64;
            match rustix::io::preadv2(&self.buffered, &mut rest, at, ReadWriteFlags::NOWAIT) {
                Ok(0) => return false,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Fills the buffer from `offset` on; returns fewer bytes only at the end of the file.
    pub fn read(&self, path: IoPath, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(direct) = self.direct_for(path) {
            match read_fully(direct, offset, buffer, SLAB_ALIGN_BYTES) {
                Err(error) if is_refusal(&error) => self.direct_failed.store(true, Relaxed),
                other => return other,
            }
        }
        read_fully(&self.buffered, offset, buffer, 1)
    }

    /// Writes all of `bytes` at `offset`, or fails.
    pub fn write(&self, path: IoPath, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(direct) = self.direct_for(path) {
            match write_fully(direct, offset, bytes) {
                Err(error) if is_refusal(&error) => self.direct_failed.store(true, Relaxed),
                other => return other,
            }
        }
        write_fully(&self.buffered, offset, bytes)
    }

    /// Writes all parts consecutively through the cache, without a copy in between.
    pub fn write_parts(&self, mut offset: u64, parts: &[Buffer]) -> io::Result<()> {
        let parts: Vec<&[u8]> =
            parts.iter().map(Buffer::as_slice).filter(|part| !part.is_empty()).collect();
        for group in parts.chunks(PARTS_MAX) {
            let mut slices: Vec<IoSlice> = group.iter().map(|part| IoSlice::new(part)).collect();
            let mut rest = &mut slices[..];
            while !rest.is_empty() {
                match rustix::io::pwritev(&self.buffered, rest, offset) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        offset += written as u64;
                        IoSlice::advance_slices(&mut rest, written);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Allocates the blocks of a range behind the end, which becomes the end of the file.
    pub fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        let bytes = range.end - range.start;
        let flags = FallocateFlags::empty();
        Ok(rustix::fs::fallocate(&self.buffered, flags, range.start, bytes)?)
    }

    /// Sets the length of the file.
    pub fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.buffered.set_len(bytes)
    }

    /// Syncs the file: returns when the device has all its bytes.
    pub fn sync(&self) -> io::Result<()> {
        self.buffered.sync_data()
    }

    fn direct_for(&self, path: IoPath) -> Option<&File> {
        if path != IoPath::Direct {
            return None;
        }
        self.align_bytes()?;
        self.direct.get()?.as_ref().map(|direct| &direct.file)
    }
}

impl Direct {
    /// Asks the file system for its alignment and opens the file for direct I/O.
    fn open(path: &Path, writable: bool) -> Option<Direct> {
        let flags = OFlags::DIRECT.bits() as i32;
        let file =
            File::options().read(true).write(writable).custom_flags(flags).open(path).ok()?;
        let align_bytes =
            match rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
                Ok(facts)
                    if StatxFlags::from_bits_retain(facts.stx_mask)
                        .contains(StatxFlags::DIOALIGN) =>
                {
                    let memory = facts.stx_dio_mem_align as usize;
                    let offset = facts.stx_dio_offset_align as usize;
                    // Zero means that there is no direct I/O; a slab cannot meet a larger alignment
                    // than its own.
                    if memory == 0 || offset == 0 || memory > SLAB_ALIGN_BYTES {
                        return None;
                    }
                    offset
                }
                _ => SLAB_ALIGN_BYTES,
            };
        Some(Direct { file, align_bytes: align_bytes.max(SLAB_ALIGN_BYTES) })
    }
}

/// Whether the error means that direct I/O is not supported, rather than that a device failed.
fn is_refusal(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::INVAL.raw_os_error()) || code == Some(Errno::OPNOTSUPP.raw_os_error())
}

/// Reads to the end of the buffer or the file. A count that is not a multiple of `step` can only
/// mean the end of the file, and direct I/O could not continue from there.
fn read_fully(file: &File, offset: u64, buffer: &mut [u8], step: usize) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !filled.is_multiple_of(step) {
            break;
        }
    }
    Ok(filled)
}

fn write_fully(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::pwrite(file, &bytes[written..], offset + written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
