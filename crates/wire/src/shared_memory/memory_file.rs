//! Memory files (`memfd_create`) of a slab and of its return words, sealed and mapped.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::{fmt, io};

use euphrates_policy::extents::{EXTENT_BYTES_MIN, SHARED_SLAB_BYTES_MAX, extent_index};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// The index of the return word with which the receiver accepts a slab; those of extents follow.
const ACCEPTED_WORD: usize = 0;

/// What the receiver of a file may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiverAccess {
    /// It may only read: the file of a slab.
    Read,
    /// It writes words: the file of return words.
    Write,
}

impl ReceiverAccess {
    fn seals(self) -> SealFlags {
        // A file that shrinks would kill the processes that have mapped it.
        let fixed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        if self == ReceiverAccess::Read { fixed | SealFlags::FUTURE_WRITE } else { fixed }
    }
}

/// A reason not to map a file of the other end.
#[derive(Debug)]
pub(super) enum FileRefused {
    /// It has another size than was announced, or can be resized, or is no memory file.
    Unsealed,
    /// The system refuses to map it.
    System,
}

/// Bytes of the file with the return words of a slab of this size.
pub(super) fn return_words_bytes(slab_bytes: u64) -> usize {
    let extents = slab_bytes.div_ceil(EXTENT_BYTES_MIN) as usize;
    ((1 + extents) * size_of::<AtomicU32>()).next_multiple_of(4096)
}

/// Creates a file, maps it to be written, and seals it.
pub(super) fn create(bytes: usize, receiver: ReceiverAccess) -> io::Result<(OwnedFd, Mapping)> {
    let file = memfd_create("euphrates-batches", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes as u64)?;
    let mapping = Mapping::new(&file, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
    fcntl_add_seals(&file, receiver.seals())?;
    Ok((file, mapping))
}

/// Maps a file of the other end.
pub(super) fn open(
    file: &OwnedFd,
    bytes: usize,
    access: ReceiverAccess,
) -> Result<Mapping, FileRefused> {
    let seals = fcntl_get_seals(file).map_err(|_| FileRefused::Unsealed)?;
    // Only a sealed file keeps the size that is compared here.
    let size = fstat(file).map_err(|_| FileRefused::Unsealed)?.st_size;
    if !seals.contains(access.seals()) || usize::try_from(size) != Ok(bytes) {
        return Err(FileRefused::Unsealed);
    }
    let protection = match access {
        ReceiverAccess::Read => ProtFlags::READ,
        ReceiverAccess::Write => ProtFlags::READ | ProtFlags::WRITE,
    };
    Mapping::new(file, bytes, protection).map_err(|_| FileRefused::System)
}

/// Fails if this system has no memory files with the seals that slabs need.
pub(super) fn probe() -> io::Result<()> {
    let (file, _mapping) = create(4096, ReceiverAccess::Read)?;
    open(&file, 4096, ReceiverAccess::Read).map(drop).map_err(|_| io::ErrorKind::Unsupported.into())
}

/// A mapped memory file, for as long as this exists.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process; nothing about it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared references read, write atomic words, or copy to extents that have one owner.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: impl AsFd, bytes: usize, protection: ProtFlags) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address the system chooses touches nothing else.
        let mapped =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)? };
        let start = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Mapping { start, bytes })
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a byte, which must be within.
    pub fn address(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.bytes, "an address beyond the mapping");
        // SAFETY: the offset is within the mapping.
        unsafe { self.start.add(offset) }
    }

    /// The word with which the receiver accepts the slab.
    pub fn accepted_word(&self) -> &AtomicU32 {
        self.word(ACCEPTED_WORD)
    }

    /// The return word of the extent at this offset of the slab.
    pub fn return_word(&self, offset: u64) -> &AtomicU32 {
        debug_assert!(offset < SHARED_SLAB_BYTES_MAX);
        self.word(1 + extent_index(offset))
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.bytes / size_of::<AtomicU32>(), "a word beyond the mapping");
        // SAFETY: the word is within the mapping, which is aligned to pages, and all processes use
        // it as an atomic.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().cast::<u32>().add(index)) }
    }

    /// Faults in pages with one call: separate faults cost more. Where the system lacks this
    /// advice, pages are faulted in one by one.
    pub fn populate(&self, pages: Range<usize>, receiver: ReceiverAccess) {
        let end = pages.end.min(self.bytes);
        if pages.start >= end {
            return;
        }
        let advice = match receiver {
            ReceiverAccess::Read => Advice::LinuxPopulateRead,
            ReceiverAccess::Write => Advice::LinuxPopulateWrite,
        };
        let start = self.address(pages.start).as_ptr().cast();
        // SAFETY: the range lies in this mapping, and its content stays.
        let _ = unsafe { madvise(start, end - pages.start, advice) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no reference to it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({} bytes)", self.bytes)
    }
}
