//! One file of a disk, of this machine or at the worker that serves it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow::buffer::Buffer;
use euphrates_policy::io_path::IoPath;

use super::local_file::LocalFile;

/// An open file of a disk.
#[derive(Debug)]
pub struct DiskFile {
    path: PathBuf,
    opened: FileBacking,
}

#[derive(Debug)]
enum FileBacking {
    Local(LocalFile),
    Served(Box<dyn ServedFile>),
}

/// A segment at a worker that serves it.
pub trait ServedFile: fmt::Debug + Send + Sync {
    /// Fills the buffer from an offset on; fewer bytes only at the end of the file.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes at an offset. With `IoPath::Buffered` they stay in the worker's page cache;
    /// else the worker chooses the path.
    fn write(&self, path: IoPath, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// The length of the file.
    fn bytes(&self) -> io::Result<u64>;

    /// Gives the file the mode that any new file has.
    fn publish(&self) -> io::Result<()>;

    /// Returns when the device has all bytes.
    fn sync(&self) -> io::Result<()>;
}

impl DiskFile {
    /// Opens an existing file of this machine for reading.
    pub(crate) fn open(path: &Path) -> io::Result<DiskFile> {
        let opened = FileBacking::Local(LocalFile::open(path)?);
        Ok(DiskFile { path: path.into(), opened })
    }

    /// Creates a file that only its user can open; fails if there is one of this name.
    pub(crate) fn create(path: &Path) -> io::Result<DiskFile> {
        let opened = FileBacking::Local(LocalFile::create(path)?);
        Ok(DiskFile { path: path.into(), opened })
    }

    /// A file that a worker has opened; the path is for messages.
    pub fn served(path: PathBuf, file: Box<dyn ServedFile>) -> DiskFile {
        DiskFile { path, opened: FileBacking::Served(file) }
    }

    /// Whether a worker serves it, so that each request is a message.
    pub fn is_served(&self) -> bool {
        matches!(self.opened, FileBacking::Served(_))
    }

    /// Gives the file the mode that the umask leaves to any new file.
    pub fn publish(&self) -> io::Result<()> {
        match &self.opened {
            FileBacking::Local(file) => file.publish(),
            FileBacking::Served(file) => file.publish(),
        }
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The current length, as the file system has it.
    pub fn bytes(&self) -> io::Result<u64> {
        match &self.opened {
            FileBacking::Local(file) => file.bytes(),
            FileBacking::Served(file) => file.bytes(),
        }
    }

    /// Offsets and lengths of direct requests must be multiples of this; `None` if the file system
    /// has no direct I/O for this file. A worker takes any, and chooses the path itself.
    pub fn align_bytes(&self) -> Option<usize> {
        match &self.opened {
            FileBacking::Local(file) => file.align_bytes(),
            FileBacking::Served(_) => Some(1),
        }
    }

    /// Reads the cached part of this range without waiting for a device; `false` if that is not all
    /// of it.
    pub fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> bool {
        match &self.opened {
            FileBacking::Local(file) => file.read_cached(offset, buffer),
            FileBacking::Served(_) => false,
        }
    }

    /// Fills the buffer from `offset` on; returns fewer bytes only at the end of the file.
    ///
    /// ```
    /// use euphrates_device::disk::{Disk, Mode};
    /// use euphrates_policy::io_path::IoPath;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("block");
    /// std::fs::write(&path, "0123456789")?;
    /// let file = Disk::new("reads", folder.path(), Mode::default())?.open(&path)?;
    /// let mut buffer = [0; 8];
    /// assert_eq!(file.read(IoPath::Buffered, 4, &mut buffer)?, 6, "the file ends there");
    /// assert_eq!(&buffer[..6], b"456789");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(&self, path: IoPath, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.opened {
            FileBacking::Local(file) => file.read(path, offset, buffer),
            FileBacking::Served(file) => file.read(offset, buffer),
        }
    }

    /// Writes all of `bytes` at `offset`, or fails.
    ///
    /// ```
    /// use euphrates_device::disk::{Disk, Mode};
    /// use euphrates_policy::io_path::IoPath;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let disk = Disk::new("writes", folder.path(), Mode::default())?;
    /// let path = folder.path().join("new").join("segment");
    /// let file = disk.create(&path)?;
    /// file.write(IoPath::Buffered, 0, b"0123456789")?;
    /// file.sync()?;
    /// assert_eq!(file.bytes()?, 10);
    /// assert!(disk.create(&path).is_err(), "it exists");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(&self, path: IoPath, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.opened {
            FileBacking::Local(file) => file.write(path, offset, bytes),
            FileBacking::Served(file) => file.write(path, offset, bytes),
        }
    }

    /// Writes all parts consecutively through the cache, without a copy in between.
    pub fn write_parts(&self, mut offset: u64, parts: &[Buffer]) -> io::Result<()> {
        match &self.opened {
            FileBacking::Local(file) => file.write_parts(offset, parts),
            FileBacking::Served(file) => parts.iter().try_for_each(|part| {
                let at = offset;
                offset += part.len() as u64;
                file.write(IoPath::Buffered, at, part)
            }),
        }
    }

    /// Allocates the blocks of a range behind the end, which becomes the end of the file.
    pub(super) fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        match &self.opened {
            FileBacking::Local(file) => file.allocate(range),
            FileBacking::Served(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sets the length of the file.
    pub(super) fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        match &self.opened {
            FileBacking::Local(file) => file.set_bytes(bytes),
            FileBacking::Served(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Syncs the file: returns when the device has all its bytes.
    pub fn sync(&self) -> io::Result<()> {
        match &self.opened {
            FileBacking::Local(file) => file.sync(),
            FileBacking::Served(file) => file.sync(),
        }
    }
}
