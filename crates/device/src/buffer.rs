//! The buffer pool: aligned slabs that devices write to and Arrow reads from, recycled by a free
//! list.
//!
//! A fresh page costs a fault, which sums to a quarter of the time of a read from the page cache;
//! direct I/O needs aligned addresses. So slabs are aligned, have a few sizes, and return to a free
//! list when the last batch that points into them is dropped.

use std::ops::{Deref, DerefMut};
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::buffer::Buffer;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, PerProcess, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Every slab begins at a multiple of this, which satisfies direct I/O on every known device.
pub const SLAB_ALIGN_BYTES: usize = 4096;
/// The size of the smallest slab; smaller buffers get one of this size.
pub(crate) const SLAB_BYTES_MIN: usize = 64 << 10;
/// The size of the largest slab that the free list holds. A larger slab has exactly the requested
/// size and is unmapped after use.
pub const SLAB_BYTES_MAX: usize = 8 << 20;
/// The most bytes of free slabs that the pool of the process holds.
pub(crate) const HELD_BYTES_MAX: usize = 128 << 20;

/// Copies `length` bytes from `at` on to `to_at`, and some of the bytes after them where that is
/// faster: a copy of a size known to the compiler is a few instructions, one of any other size a
/// call. So a caller must write the bytes that belong behind them later.
///
/// ```
/// use euphrates_device::buffer::copy_freely;
///
/// let (from, mut to) = (*b"0123456789abcdefghij", [b'.'; 20]);
/// copy_freely(&from, 2, &mut to, 0, 3);
/// assert_eq!(&to[..3], b"234");
/// assert_eq!(to[3], b'5', "bytes behind it may be written too");
/// ```
#[inline(always)]
pub fn copy_freely(from: &[u8], at: usize, to: &mut [u8], to_at: usize, length: usize) {
    let room = (from.len() - at).min(to.len() - to_at);
    if length <= 16 && room >= 16 {
        copy_words::<2>(&from[at..at + 16], &mut to[to_at..to_at + 16]);
    } else if length <= 64 && room >= 64 {
        copy_words::<8>(&from[at..at + 64], &mut to[to_at..to_at + 64]);
    } else {
        to[to_at..to_at + length].copy_from_slice(&from[at..at + length]);
    }
}

/// Copies words one by one: the compiler would merge copies of constant sizes into one call with
/// the size as an argument.
#[inline(always)]
fn copy_words<const WORDS: usize>(from: &[u8], to: &mut [u8]) {
    let (from, to) = (from.as_chunks::<8>().0, to.as_chunks_mut::<8>().0);
    let words: [u64; WORDS] = std::array::from_fn(|at| u64::from_ne_bytes(from[at]));
    words.iter().zip(to).for_each(|(word, to)| *to = word.to_ne_bytes());
}

const CLASSES: usize = (SLAB_BYTES_MAX / SLAB_BYTES_MIN).ilog2() as usize + 1;

/// The one pool of this process, which accounts for the memory of the process.
pub fn pool() -> &'static Pool {
    static POOL: PerProcess<Pool> = PerProcess::new();
    POOL.get(|| Pool::new(HELD_BYTES_MAX))
}

/// A bounded free list of slabs. Clones share it.
///
/// ```
/// use euphrates_device::buffer::Pool;
///
/// let pool = Pool::new(64 << 20);
/// let mut buffer = pool.take(3 << 20)?;
/// buffer[..5].copy_from_slice(b"batch");
/// let column = buffer.into_arrow();
/// assert_eq!(&column[..5], b"batch");
/// drop(column);
/// assert!(pool.held_bytes() >= 3 << 20);
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    held_bytes_max: AtomicUsize,
    free: Mutex<Free>,
}

// No code that can panic runs while the lock is held.
impl RefUnwindSafe for Shared {}

#[derive(Debug, Default)]
struct Free {
    classes: [Vec<Slab>; CLASSES],
    held_bytes: usize,
}

impl Pool {
    /// A pool that holds at most `held_bytes_max` bytes of free slabs.
    pub fn new(held_bytes_max: usize) -> Pool {
        Pool(Arc::new(Shared { held_bytes_max: held_bytes_max.into(), free: Mutex::default() }))
    }

    /// A buffer of `len` bytes with unspecified content, aligned to [`SLAB_ALIGN_BYTES`]. Fails
    /// with a resource error when the system has no memory left.
    pub fn take(&self, len: usize) -> Result<PooledBuffer> {
        let class = class_of(len);
        let recycled = class.and_then(|class| self.0.free.lock().pop(class));
        let slab = match recycled {
            Some(slab) => slab,
            None => {
                let bytes = class.map(|class| SLAB_BYTES_MIN << class);
                let bytes = bytes.unwrap_or_else(|| len.next_multiple_of(SLAB_ALIGN_BYTES));
                let slab = Slab::map(bytes)?;
                slab.populate(len);
                slab
            }
        };
        Ok(PooledBuffer { home: Some(SlabHome { slab: Some(slab), pool: self.0.clone() }), len })
    }

    /// Changes the bound on free slabs, in bytes. If more are free now, all of them are unmapped.
    ///
    /// ```
    /// use euphrates_device::buffer::Pool;
    ///
    /// let pool = Pool::new(64 << 20);
    /// drop(pool.take(1 << 20)?);
    /// assert!(pool.held_bytes() > 0, "the slab is kept for the next buffer");
    /// pool.keep_at_most(0);
    /// assert_eq!(pool.held_bytes(), 0);
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn keep_at_most(&self, held_bytes_max: usize) {
        self.0.held_bytes_max.store(held_bytes_max, Relaxed);
        if self.held_bytes() > held_bytes_max {
            self.trim();
        }
    }

    /// The most bytes of free slabs that the pool holds.
    pub fn held_bytes_max(&self) -> usize {
        self.0.held_bytes_max.load(Relaxed)
    }

    /// Bytes of free slabs that the pool holds now.
    pub fn held_bytes(&self) -> usize {
        self.0.free.lock().held_bytes
    }

    /// Unmaps all free slabs.
    pub fn trim(&self) {
        let freed = std::mem::take(&mut *self.0.free.lock());
        drop(freed);
    }
}

impl Shared {
    fn recycle(&self, slab: Slab) {
        let Some(class) = class_of(slab.bytes) else { return };
        let mut free = self.free.lock();
        if free.held_bytes + slab.bytes <= self.held_bytes_max.load(Relaxed) {
            free.held_bytes += slab.bytes;
            free.classes[class].push(slab);
        }
    }
}

impl Free {
    fn pop(&mut self, class: usize) -> Option<Slab> {
        let slab = self.classes[class].pop()?;
        self.held_bytes -= slab.bytes;
        Some(slab)
    }
}

fn class_of(len: usize) -> Option<usize> {
    let bytes = len.max(SLAB_BYTES_MIN).checked_next_power_of_two()?;
    (bytes <= SLAB_BYTES_MAX).then(|| (bytes / SLAB_BYTES_MIN).ilog2() as usize)
}

/// A buffer with one owner, until it becomes a shared Arrow buffer.
///
/// ```
/// use euphrates_device::buffer::{Pool, SLAB_ALIGN_BYTES};
///
/// let buffer = Pool::new(0).take(100)?;
/// assert_eq!(buffer.len(), 100);
/// assert_eq!(buffer.as_ptr() as usize % SLAB_ALIGN_BYTES, 0, "fit for direct I/O");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Debug)]
pub struct PooledBuffer {
    home: Option<SlabHome>,
    len: usize,
}

impl PooledBuffer {
    /// An Arrow buffer over the same bytes; the slab returns to its pool when the last reference to
    /// it drops.
    pub fn into_arrow(mut self) -> Buffer {
        let home = self.home.take().expect("present until dropped");
        let start = home.slab.as_ref().expect("present until dropped").start;
        // SAFETY: the slab is mapped and initialised for all of its bytes, at most `len` of them
        // are exposed, and `home`, which unmaps or recycles it, lives as long as the buffer.
        unsafe { Buffer::from_custom_allocation(start, self.len, Arc::new(home)) }
    }

    fn slab(&self) -> &Slab {
        let home = self.home.as_ref().expect("present until dropped");
        home.slab.as_ref().expect("present until dropped")
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped memory is initialised, and `len` never exceeds the slab.
        unsafe { std::slice::from_raw_parts(self.slab().start.as_ptr(), self.len) }
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the slab has only this owner.
        unsafe { std::slice::from_raw_parts_mut(self.slab().start.as_ptr(), self.len) }
    }
}

/// A slab, and the pool that it returns to when dropped.
#[derive(Debug)]
struct SlabHome {
    slab: Option<Slab>,
    pool: Arc<Shared>,
}

impl Drop for SlabHome {
    fn drop(&mut self) {
        self.pool.recycle(self.slab.take().expect("present until dropped"));
    }
}

/// An anonymous private memory mapping.
#[derive(Debug)]
struct Slab {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a slab owns its mapping; nothing about it belongs to a thread.
unsafe impl Send for Slab {}
// SAFETY: a shared slab is only read.
unsafe impl Sync for Slab {}

impl Slab {
    /// Maps fresh zero pages of the plain size. Huge pages were measured slower wherever a
    /// hypervisor has to provide memory, because the kernel hands out untouched ones and clears
    /// each whole.
    fn map(bytes: usize) -> Result<Slab> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address the system chooses touches nothing else.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
        let mapped = mapped.map_err(|error| {
            Error::resource(format!("cannot map {bytes} bytes of memory: {error}"))
                .remedy("lower the memory budget, or end other programs")
        })?;
        let start = NonNull::new(mapped.cast()).expect("a mapping is never at zero");
        Ok(Slab { start, bytes })
    }

    /// Faults in the pages that will be written with one call: separate faults cost more.
    fn populate(&self, len: usize) {
        let len = len.next_multiple_of(SLAB_ALIGN_BYTES).min(self.bytes);
        // SAFETY: the range lies in this slab, and its content stays. Where the system lacks this
        // advice, pages are faulted in one by one.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), len, Advice::LinuxPopulateWrite) };
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this slab, and no reference to it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_writable_and_of_the_requested_length() {
        let pool = Pool::new(HELD_BYTES_MAX);
        for len in [0, 1, 4097, SLAB_BYTES_MIN, 3 << 20, SLAB_BYTES_MAX, SLAB_BYTES_MAX + 1] {
            let mut buffer = pool.take(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().align_offset(SLAB_ALIGN_BYTES), 0);
            buffer.fill(7);
            let arrow = buffer.into_arrow();
            assert!(arrow.iter().all(|byte| *byte == 7));
            assert_eq!(arrow.len(), len);
        }
    }

    #[test]
    fn slab_is_recycled_when_the_last_reference_drops() {
        let pool = Pool::new(HELD_BYTES_MAX);
        let arrow = pool.take(100_000).unwrap().into_arrow();
        let (address, part) = (arrow.as_ptr(), arrow.slice(10));
        drop(arrow);
        assert_eq!(pool.held_bytes(), 0);
        drop(part);
        assert_eq!(pool.held_bytes(), 128 << 10);
        assert_eq!(pool.take(120_000).unwrap().as_ptr(), address);
        pool.trim();
        assert_eq!(pool.held_bytes(), 0);
    }

    #[test]
    fn pool_bounds_its_free_slabs() {
        let pool = Pool::new(1 << 20);
        let taken: Vec<_> = (0..40).map(|_| pool.take(SLAB_BYTES_MIN).unwrap()).collect();
        drop(taken);
        assert_eq!(pool.held_bytes(), 1 << 20);
    }

    #[test]
    fn oversized_buffer_is_a_resource_error() {
        let error = Pool::new(0).take(usize::MAX / 2).unwrap_err();
        assert_eq!(error.kind(), euphrates_flow::Kind::Resource);
    }
}
