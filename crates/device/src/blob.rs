//! Positioned reads of an open input file: a local file, or an object of an object store.
//!
//! `read_at` checks every range against the length before it allocates, so that a corrupt offset or
//! length in a file costs an error and not the memory of the machine.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::buffer::Buffer;
use bytes::Bytes;
use euphrates_flow::{Error, Result};
use rustix::buffer::spare_capacity;
use rustix::fs::Advice;
use rustix::io::Errno;

use crate::buffer::{PooledBuffer, SLAB_BYTES_MAX, SLAB_BYTES_MIN, pool};
use crate::read_cache::RemoteReads;
use crate::regular;
use crate::remote::{Identity, RemoteObject};
use crate::striped::StripedBytes;

/// The part of a slab, as a divisor, that may be left over if its bytes are held for long.
const SLAB_WASTE_HELD: usize = 8;
const SLAB_WASTE_BRIEF: usize = 2;

/// An open file. Several threads may call `read_at` at once.
pub struct Blob {
    name: String,
    bytes: u64,
    device: BlobBackend,
}

enum BlobBackend {
    Local(File),
    /// A file that was downloaded, which others read, too.
    Whole(Arc<File>),
    Remote(RemoteFile),
    Striped(Arc<dyn StripedBytes>),
}

/// An object, and the reads that count and cache what is read of it.
struct RemoteFile {
    object: RemoteObject,
    identity: Identity,
    /// With the number of the object in the cache.
    reads: Option<(Arc<RemoteReads>, Option<u64>)>,
}

impl Blob {
    /// Opens a local file for reading from front to back.
    pub fn open_local(path: &Path) -> Result<Blob> {
        let file = regular::open(path)?;
        let meta = file.metadata().map_err(|error| Error::os("read", path, &error))?;
        // Advice only: a file system that ignores it reads as well.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Sequential);
        let name = path.display().to_string();
        Ok(Blob { name, bytes: meta.len(), device: BlobBackend::Local(file) })
    }

    /// Wraps an object that was looked up; sends no request.
    pub fn open_remote(
        object: RemoteObject,
        identity: Identity,
        reads: Option<&Arc<RemoteReads>>,
    ) -> Blob {
        let reads = reads.map(|reads| (reads.clone(), reads.open(object.version(&identity))));
        let (name, bytes) = (object.name(), identity.bytes);
        Blob { name, bytes, device: BlobBackend::Remote(RemoteFile { object, identity, reads }) }
    }

    /// Wraps a file that was downloaded.
    pub(crate) fn open_whole(name: &str, bytes: u64, file: &Arc<File>) -> Result<Blob> {
        let device = BlobBackend::Whole(file.clone());
        Ok(Blob { name: name.to_string(), bytes, device })
    }

    /// Wraps an open striped file.
    pub(crate) fn open_striped(name: &str, bytes: u64, file: Arc<dyn StripedBytes>) -> Blob {
        Blob { name: name.to_string(), bytes, device: BlobBackend::Striped(file) }
    }

    /// The path or URL, as errors show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The length in bytes when the file was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a read crosses a network or several disks, so that fewer and larger ones are better.
    pub fn is_remote(&self) -> bool {
        matches!(self.device, BlobBackend::Remote(_) | BlobBackend::Striped(_))
    }

    /// Reads `bytes` bytes from `offset` on; a range outside the file is `Corrupt`.
    ///
    /// ```
    /// use euphrates_device::blob::Blob;
    ///
    /// let file = tempfile::NamedTempFile::new()?;
    /// std::fs::write(file.path(), "0123456789")?;
    /// let blob = Blob::open_local(file.path())?;
    /// assert_eq!(blob.read_at(4, 3)?, "456");
    /// assert!(blob.read_at(8, 3).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_at(&self, offset: u64, bytes: usize) -> Result<Bytes> {
        // The caller may hold the bytes for long.
        self.read_into(offset, bytes, SLAB_WASTE_HELD)
    }

    /// Like `read_at`, for bytes that are soon dropped: they may occupy twice their length.
    pub fn read_briefly(&self, offset: u64, bytes: usize) -> Result<Bytes> {
        self.read_into(offset, bytes, SLAB_WASTE_BRIEF)
    }

    /// Reads into a slab if at most this part of it, as a divisor, is left over.
    fn read_into(&self, offset: u64, bytes: usize, waste: usize) -> Result<Bytes> {
        if offset.checked_add(bytes as u64).is_none_or(|end| end > self.bytes) {
            let message = format!(
                "bytes {offset}..+{bytes} are needed of a file that has {}: it is cut short or \
                 damaged",
                self.bytes
            );
            return Err(Error::corrupt(message).at(&self.name));
        }
        if bytes == 0 {
            return Ok(Bytes::new());
        }
        match &self.device {
            BlobBackend::Local(file) => self.read_local(file, offset, bytes, waste),
            BlobBackend::Whole(file) => self.read_local(file, offset, bytes, waste),
            BlobBackend::Remote(RemoteFile { object, identity, reads }) => match reads {
                Some((reads, number)) => {
                    let fetch = |offset, bytes| object.read_version(identity, offset, bytes);
                    reads.read(*number, (offset, bytes), &fetch)
                }
                None => object.read(offset, bytes),
            },
            BlobBackend::Striped(file) => {
                let fill = |to: &mut [u8]| match file.read_at(offset, to)? {
                    count if count == to.len() => Ok(()),
                    count => {
                        let message = format!("{bytes} bytes were asked for, {count} came");
                        Err(Error::corrupt(message).at(&self.name))
                    }
                };
                if let Some(mut slab) = slab(bytes, waste)? {
                    fill(&mut slab)?;
                    return Ok(Bytes::from_owner(Owned(slab.into_arrow())));
                }
                let mut read = vec![0; bytes];
                fill(&mut read)?;
                Ok(Bytes::from(read))
            }
        }
    }

    fn read_local(&self, file: &File, offset: u64, bytes: usize, waste: usize) -> Result<Bytes> {
        if let Some(mut buffer) = slab(bytes, waste)? {
            let mut read = 0;
            while read < bytes {
                let at = offset + read as u64;
                read += self.progress(rustix::io::pread(file, &mut buffer[read..], at))?;
            }
            return Ok(Bytes::from_owner(Owned(buffer.into_arrow())));
        }
        let mut read = Vec::with_capacity(bytes);
        while read.len() < bytes {
            let at = offset + read.len() as u64;
            self.progress(rustix::io::pread(file, spare_capacity(&mut read), at))?;
        }
        // The allocator may have reserved more than requested, and `pread` may have filled it.
        read.truncate(bytes);
        Ok(Bytes::from(read))
    }

    /// The bytes that a read returned; 0 if a signal interrupted it before any arrived.
    fn progress(&self, read: rustix::io::Result<usize>) -> Result<usize> {
        match read {
            Ok(0) => {
                let error = Error::corrupt("the file became shorter while it was read");
                Err(error.at(&self.name))
            }
            Ok(bytes) => Ok(bytes),
            Err(Errno::INTR) => Ok(0),
            Err(errno) => Err(Error::os("read", &self.name, &errno.into())),
        }
    }
}

/// A recycled slab, which costs no page faults, if at most this part of it would be left over.
fn slab(bytes: usize, waste: usize) -> Result<Option<PooledBuffer>> {
    let slab = bytes.next_power_of_two();
    let fits = (SLAB_BYTES_MIN..=SLAB_BYTES_MAX).contains(&slab) && slab - bytes <= slab / waste;
    fits.then(|| pool().take(bytes)).transpose()
}

/// Lets `Bytes` own an Arrow buffer without a copy.
///
/// ```
/// use arrow::buffer::Buffer;
/// use bytes::Bytes;
/// use euphrates_device::blob::Owned;
///
/// let buffer = Buffer::from(b"batch");
/// let bytes = Bytes::from_owner(Owned(buffer.clone()));
/// assert_eq!(bytes.as_ptr(), buffer.as_ptr());
/// ```
pub struct Owned(pub Buffer);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;

    #[test]
    fn out_of_range_read_is_corrupt_and_allocates_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ten");
        std::fs::write(&path, b"0123456789").unwrap();
        let blob = Blob::open_local(&path).unwrap();
        assert_eq!(&blob.read_at(3, 4).unwrap()[..], b"3456");
        for (offset, bytes) in [(0, 11), (10, 1), (u64::MAX, 2), (1, usize::MAX)] {
            assert_eq!(blob.read_at(offset, bytes).unwrap_err().kind(), Kind::Corrupt);
        }
    }

    #[test]
    fn opening_a_folder_or_a_missing_file_is_a_usage_error() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_path_buf(), folder.path().join("none")] {
            let error = Blob::open_local(&path).err().unwrap();
            assert_eq!(error.kind(), Kind::Usage, "{error}");
            assert!(error.advice().is_some());
        }
    }
}
