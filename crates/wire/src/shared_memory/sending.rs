//! The sending end: makes slabs, offers them, and copies bodies to extents.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed},
};
use std::{io, ptr};

use arrow::buffer::Buffer;
use euphrates_device::buffer::pool;
use euphrates_policy::extents::{Extents, SlabExtent};
use parking_lot::Mutex;

use super::announcement::{PLACED_BYTES, PlacedBody, write_offer};
use super::memory_file::{self, Mapping, ReceiverAccess, return_words_bytes};
use super::{PLACED_BYTES_MIN, SLABS_BYTES_MAX};
use crate::frame::{Caps, FrameKind, Header};
use crate::link::{Outgoing, SharedPart};

/// Bytes of all slabs that this process has made.
static MADE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The slabs of one direction of a connection, at the sender.
#[derive(Debug)]
pub(crate) struct SlabSender {
    caps: Caps,
    slabs: Mutex<OwnSlabs>,
    placed_bytes: AtomicU64,
}

#[derive(Debug)]
struct OwnSlabs {
    extents: Extents,
    /// By number; the last one may not be accepted yet.
    slabs: Vec<Arc<OwnSlab>>,
    /// Whether the system has refused a slab; no other is made.
    is_refused: bool,
}

/// A slab that this end has made.
#[derive(Debug)]
struct OwnSlab {
    data: Mapping,
    return_words: Mapping,
    /// Pages before this have been used.
    used_bytes: AtomicUsize,
    _share: MadeBytes,
}

impl SlabSender {
    /// No slabs yet; for a connection with these caps.
    pub fn new(caps: Caps) -> SlabSender {
        let extents = Extents::new(SLABS_BYTES_MAX);
        let slabs = OwnSlabs { extents, slabs: vec![], is_refused: false };
        SlabSender { caps, slabs: Mutex::new(slabs), placed_bytes: 0.into() }
    }

    /// Bytes of bodies that were copied to slabs so far.
    pub fn placed_bytes(&self) -> u64 {
        self.placed_bytes.load(Relaxed)
    }

    /// The frames to send for a frame: itself, with its body in a slab if one has room, and before
    /// it the offer of another slab if that is worth it.
    pub fn place(&self, frame: Outgoing) -> (Option<Outgoing>, Outgoing) {
        let bytes: usize = frame.body.iter().map(Buffer::len).sum();
        let has_room = frame.meta.len() + PLACED_BYTES <= self.caps.meta_bytes_max as usize;
        let kinds = [FrameKind::Message, FrameKind::Batch, FrameKind::Active];
        if !kinds.contains(&frame.header.kind)
            || bytes < PLACED_BYTES_MIN
            || bytes as u64 > self.caps.body_bytes_max
            || !has_room
        {
            return (None, frame);
        }
        let mut slabs = self.slabs.lock();
        match slabs.place(bytes as u64) {
            Some((extent, slab)) => {
                drop(slabs);
                slab.copy(&extent, &frame.body);
                self.placed_bytes.fetch_add(bytes as u64, Relaxed);
                (None, placed(frame, &extent, bytes))
            }
            None => (slabs.offer(bytes as u64), frame),
        }
    }
}

/// A frame whose body has been copied to an extent.
fn placed(frame: Outgoing, extent: &SlabExtent, bytes: usize) -> Outgoing {
    let Outgoing { header, mut meta, .. } = frame;
    let placed = PlacedBody {
        kind: header.kind,
        slab: extent.slab as u32,
        offset: extent.offset,
        bytes: bytes as u64,
        ticket: extent.ticket,
    };
    placed.write(&mut meta);
    let header = Header { kind: FrameKind::Placed, ..header };
    Outgoing { header, meta, body: vec![], shared: Some(SharedPart::Body { bytes }) }
}

impl OwnSlabs {
    fn place(&mut self, bytes: u64) -> Option<(SlabExtent, Arc<OwnSlab>)> {
        let last = self.slabs.last()?;
        if self.extents.is_offering() && last.return_words.accepted_word().load(Acquire) != 0 {
            self.extents.on_accepted();
        }
        let slabs = &self.slabs;
        let is_back = |extent: &SlabExtent| {
            let word = slabs[extent.slab].return_words.return_word(extent.offset);
            word.load(Acquire) == extent.ticket
        };
        let extent = self.extents.place(bytes, is_back)?;
        Some((extent, self.slabs[extent.slab].clone()))
    }

    /// Makes another slab with room for such a body, and the frame that offers it.
    fn offer(&mut self, bytes: u64) -> Option<Outgoing> {
        let size = self.extents.next_slab_bytes(bytes).filter(|_| !self.is_refused)?;
        let share = MadeBytes::take(size as usize)?;
        let Ok((slab, files)) = OwnSlab::create(size, share) else {
            self.is_refused = true;
            return None;
        };
        self.extents.on_offered(size);
        self.slabs.push(Arc::new(slab));
        let shared = Some(SharedPart::Slab(files));
        let header = Header::of(FrameKind::Slab);
        Some(Outgoing { header, meta: write_offer(size), body: vec![], shared })
    }
}

impl OwnSlab {
    fn create(size: u64, share: MadeBytes) -> io::Result<(OwnSlab, [OwnedFd; 2])> {
        let (file, data) = memory_file::create(size as usize, ReceiverAccess::Read)?;
        let (words_file, return_words) =
            memory_file::create(return_words_bytes(size), ReceiverAccess::Write)?;
        let slab = OwnSlab { data, return_words, used_bytes: 0.into(), _share: share };
        Ok((slab, [file, words_file]))
    }

    /// Copies a body to an extent that this thread has just been given.
    fn copy(&self, extent: &SlabExtent, body: &[Buffer]) {
        let (start, end) = (extent.offset as usize, (extent.offset + extent.bytes) as usize);
        let used = self.used_bytes.fetch_max(end, Relaxed);
        self.data.populate(used..end, ReceiverAccess::Write);
        let mut at = start;
        for part in body.iter().filter(|part| !part.is_empty()) {
            assert!(at + part.len() <= end && end <= self.data.bytes(), "a body beyond its extent");
            // SAFETY: the extent lies in the mapping, and nothing else at this end refers to it.
            unsafe {
                let to = self.data.address(at).as_ptr();
                ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
            at += part.len();
        }
    }
}

/// A share of the memory for slabs of this process, which is as much as the pool of buffers may
/// hold: both keep free memory for batches.
#[derive(Debug)]
struct MadeBytes(usize);

impl MadeBytes {
    fn take(bytes: usize) -> Option<MadeBytes> {
        let share = MadeBytes(bytes);
        let made = MADE_BYTES.fetch_add(bytes, Relaxed) + bytes;
        (made <= pool().held_bytes_max()).then_some(share)
    }
}

impl Drop for MadeBytes {
    fn drop(&mut self) {
        MADE_BYTES.fetch_sub(self.0, Relaxed);
    }
}
