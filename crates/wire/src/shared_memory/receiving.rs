//! The receiving end: maps slabs that are offered, and reads bodies in place.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, Release},
};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Owner, Result};
use euphrates_policy::extents::{EXTENT_ALIGN_BYTES, SHARED_SLAB_BYTES_MAX};

use super::SLABS_BYTES_MAX;
use super::announcement::{PlacedBody, malformed, read_offer};
use super::memory_file::{self, FileRefused, Mapping, ReceiverAccess, return_words_bytes};
use crate::frame::Caps;
use crate::link::Frame;

/// The slabs of one direction of a connection, at the receiver.
#[derive(Debug)]
pub(crate) struct SlabReceiver {
    caps: Caps,
    slabs: Vec<Arc<PeerSlab>>,
    slabs_bytes: u64,
}

/// A slab of the other end.
#[derive(Debug)]
struct PeerSlab {
    data: Mapping,
    return_words: Mapping,
    /// Pages before this have been used.
    used_bytes: AtomicUsize,
    owner: Owner,
}

impl SlabReceiver {
    /// No slabs yet; for a connection with these caps.
    pub fn new(caps: Caps) -> SlabReceiver {
        SlabReceiver { caps, slabs: vec![], slabs_bytes: 0 }
    }

    /// Accepts a slab that is offered with these files. One that this system cannot map, or whose
    /// files did not arrive, is not accepted, and the other end goes on without it; malformed
    /// offers are errors.
    pub fn accept(&mut self, offer: &Frame, files: Vec<OwnedFd>) -> Result<()> {
        let bytes = read_offer(&offer.meta)?;
        let total = self.slabs_bytes.saturating_add(bytes);
        if bytes == 0 || bytes > SHARED_SLAB_BYTES_MAX || total > SLABS_BYTES_MAX {
            return Err(Error::corrupt(format!("a shared slab of {bytes} bytes was offered")));
        }
        // The system drops files if this process has no descriptors left.
        let Ok([file, words_file]) = <[OwnedFd; 2]>::try_from(files) else { return Ok(()) };
        let opened = PeerSlab::open(bytes, &file, &words_file);
        let slab = match opened {
            Ok(slab) => slab,
            Err(FileRefused::System) => return Ok(()),
            Err(FileRefused::Unsealed) => {
                return Err(Error::corrupt("a shared slab was offered that could be resized"));
            }
        };
        slab.return_words.accepted_word().store(1, Release);
        self.slabs.push(Arc::new(slab));
        self.slabs_bytes = total;
        Ok(())
    }

    /// The frame with the body that it says is in a slab.
    pub fn resolve(&self, mut frame: Frame) -> Result<Frame> {
        let (meta, placed) = PlacedBody::read(&frame.meta)?;
        if placed.bytes > self.caps.body_bytes_max || !frame.body.is_empty() {
            return Err(malformed());
        }
        let meta_bytes = meta.len();
        let slab = self.slabs.get(placed.slab as usize).ok_or_else(malformed)?;
        frame.body = slab.body(&placed)?;
        frame.meta.truncate(meta_bytes);
        frame.header.kind = placed.kind;
        frame.header.meta_bytes = meta_bytes as u32;
        frame.header.body_bytes = placed.bytes;
        Ok(frame)
    }
}

impl PeerSlab {
    fn open(bytes: u64, file: &OwnedFd, words_file: &OwnedFd) -> Result<PeerSlab, FileRefused> {
        let data = memory_file::open(file, bytes as usize, ReceiverAccess::Read)?;
        let words_bytes = return_words_bytes(bytes);
        let return_words = memory_file::open(words_file, words_bytes, ReceiverAccess::Write)?;
        Ok(PeerSlab { data, return_words, used_bytes: 0.into(), owner: Owner::here() })
    }

    /// A body in this slab; fails unless all of it lies within.
    fn body(self: &Arc<PeerSlab>, placed: &PlacedBody) -> Result<Buffer> {
        let end = placed.offset.checked_add(placed.bytes).ok_or_else(malformed)?;
        let is_aligned = placed.offset.is_multiple_of(EXTENT_ALIGN_BYTES);
        if placed.bytes == 0 || end > self.data.bytes() as u64 || !is_aligned {
            return Err(malformed());
        }
        let (start, end) = (placed.offset as usize, end as usize);
        let pages = end.next_multiple_of(EXTENT_ALIGN_BYTES as usize);
        let used = self.used_bytes.fetch_max(pages, Relaxed);
        self.data.populate(used..pages, ReceiverAccess::Read);
        let lease = ExtentLease { slab: self.clone(), offset: start, ticket: placed.ticket };
        // SAFETY: the range lies in the mapping, which the lease keeps, and the file cannot shrink.
        // The sender writes nothing there before the lease is dropped; see the module.
        let body = unsafe {
            Buffer::from_custom_allocation(self.data.address(start), end - start, Arc::new(lease))
        };
        Ok(body)
    }
}

/// An extent that this end refers to; returned to the sender when dropped.
#[derive(Debug)]
struct ExtentLease {
    slab: Arc<PeerSlab>,
    offset: usize,
    ticket: u32,
}

impl Drop for ExtentLease {
    fn drop(&mut self) {
        // The parent of a forked child may still read it.
        if self.slab.owner.is_here() {
            let word = self.slab.return_words.return_word(self.offset as u64);
            word.store(self.ticket, Release);
        }
    }
}
