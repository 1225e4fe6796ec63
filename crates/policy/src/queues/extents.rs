//! Extents of shared memory: where in which slab the body of a frame is copied, and when another
//! slab is worth its memory.
//!
//! A sender owns slabs that its receiver reads in place. An extent is out from when a body is
//! copied until the receiver has dropped the last reference to it. A receiver may hold extents for
//! long: if none is free, the body takes another way, so nothing waits for them. Of the free ones
//! the first in the lowest slab is taken, since its pages are likely in use already.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Extents begin at a multiple of this: a page.
pub const EXTENT_ALIGN_BYTES: u64 = 4 << 10;
/// The least length of an extent, so that each has an index of its own within its slab.
pub const EXTENT_BYTES_MIN: u64 = 16 << 10;
/// The size of the largest slab, which also bounds the bodies that are copied to slabs.
pub const SHARED_SLAB_BYTES_MAX: u64 = 32 << 20;
/// The size of the first slab; each further one is twice as large.
const FIRST_SLAB_BYTES: u64 = 8 << 20;
/// The size of a slab when memory is short.
const SLAB_BYTES_MIN: u64 = 1 << 20;
/// Extents that are asked for at a time, at most, before one is taken.
const ASKED_MAX: usize = 32;

/// A part of a slab that a body is copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabExtent {
    /// The number of the slab.
    pub slab: usize,
    /// Where it begins in the slab, in bytes.
    pub offset: u64,
    /// Its length, at least that of the body.
    pub bytes: u64,
    /// Tells it from earlier extents at the same place; never 0.
    pub ticket: u32,
}

impl SlabExtent {
    /// Its index within the slab, of which no other extent that is out has the same.
    pub fn index(&self) -> usize {
        extent_index(self.offset)
    }
}

/// The index of an extent at this offset of its slab.
///
/// ```
/// use euphrates_policy::extents::{EXTENT_BYTES_MIN, extent_index};
///
/// assert_eq!([0, EXTENT_BYTES_MIN, 5 * EXTENT_BYTES_MIN].map(extent_index), [0, 1, 5]);
/// ```
pub fn extent_index(offset: u64) -> usize {
    (offset / EXTENT_BYTES_MIN) as usize
}

/// The extents of the slabs of one sender.
///
/// ```
/// use euphrates_policy::extents::Extents;
///
/// let mut extents = Extents::new(64 << 20);
/// assert_eq!(extents.place(1 << 20, |_| false), None, "no slab yet");
/// let bytes = extents.next_slab_bytes(1 << 20).expect("room for one");
/// extents.on_offered(bytes);
/// assert_eq!(extents.next_slab_bytes(1 << 20), None, "one at a time");
/// extents.on_accepted();
/// let extent = extents.place(1 << 20, |_| false).expect("room in the slab");
/// assert_eq!((extent.slab, extent.offset, extent.bytes), (0, 0, 1 << 20));
/// let next = extents.place(1 << 20, |out| *out == extent).expect("the first one is back");
/// assert_eq!((next.offset, extents.out_bytes()), (0, 1 << 20));
/// ```
#[derive(Debug)]
pub struct Extents {
    slabs_bytes_max: u64,
    slabs: Vec<FreeRanges>,
    /// The size of a slab that the receiver has not accepted yet.
    offered: Option<u64>,
    /// Extents that are out, those that were asked for longest ago first.
    out: VecDeque<SlabExtent>,
    out_bytes: u64,
    last_ticket: u32,
}

impl Extents {
    /// No slabs; they may have `slabs_bytes_max` in all.
    pub fn new(slabs_bytes_max: u64) -> Extents {
        let (slabs, out) = (Vec::new(), VecDeque::new());
        Extents { slabs_bytes_max, slabs, offered: None, out, out_bytes: 0, last_ticket: 0 }
    }

    /// An extent for a body of this length, if there is one. `is_back` tells whether the receiver
    /// has returned an extent; a few are asked for, and all if there is no room otherwise.
    pub fn place(
        &mut self,
        bytes: u64,
        is_back: impl Fn(&SlabExtent) -> bool,
    ) -> Option<SlabExtent> {
        if bytes == 0 || bytes > SHARED_SLAB_BYTES_MAX || self.slabs.is_empty() {
            return None;
        }
        let bytes = bytes.max(EXTENT_BYTES_MIN).next_multiple_of(EXTENT_ALIGN_BYTES);
        self.take_back(ASKED_MAX, &is_back);
        let found = self.take_free(bytes).or_else(|| {
            self.take_back(self.out.len(), &is_back);
            self.take_free(bytes)
        });
        let (slab, offset) = found?;
        // A ticket of 0 would equal memory that nobody has written.
        self.last_ticket = self.last_ticket.checked_add(1).unwrap_or(1);
        let extent = SlabExtent { slab, offset, bytes, ticket: self.last_ticket };
        self.out.push_back(extent);
        self.out_bytes += bytes;
        self.check();
        Some(extent)
    }

    /// The size of another slab with room for such a body; `None` if the receiver has not accepted
    /// the last one yet, or the limit is reached.
    pub fn next_slab_bytes(&self, bytes: u64) -> Option<u64> {
        let left = self.slabs_bytes_max.saturating_sub(self.slabs_bytes());
        let planned = (FIRST_SLAB_BYTES << self.slabs.len().min(8)).min(SHARED_SLAB_BYTES_MAX);
        let needed = bytes.checked_next_multiple_of(SLAB_BYTES_MIN)?;
        // If little is left, a smaller one.
        let size = planned.min(left / SLAB_BYTES_MIN * SLAB_BYTES_MIN).max(needed);
        let fits = size <= left && size <= SHARED_SLAB_BYTES_MAX && bytes > 0;
        (self.offered.is_none() && fits).then_some(size)
    }

    /// A slab of this size has been offered to the receiver.
    pub fn on_offered(&mut self, bytes: u64) {
        assert!(self.offered.is_none(), "a slab is offered already");
        assert!(self.slabs_bytes() + bytes <= self.slabs_bytes_max, "a slab beyond the limit");
        self.offered = Some(bytes);
    }

    /// The receiver has accepted the slab that was offered; it gets the next number.
    pub fn on_accepted(&mut self) {
        let bytes = self.offered.take().expect("a slab that was offered");
        self.slabs.push(FreeRanges::whole(bytes));
    }

    /// Whether the receiver has not accepted the last slab yet.
    pub fn is_offering(&self) -> bool {
        self.offered.is_some()
    }

    /// Bytes of all extents that are out.
    pub fn out_bytes(&self) -> u64 {
        self.out_bytes
    }

    fn slabs_bytes(&self) -> u64 {
        self.slabs.iter().map(|slab| slab.bytes).sum()
    }

    /// Takes back what has been returned of the `count` extents that were asked for longest ago.
    fn take_back(&mut self, count: usize, is_back: impl Fn(&SlabExtent) -> bool) {
        for _ in 0..count.min(self.out.len()) {
            let Some(extent) = self.out.pop_front() else { return };
            if is_back(&extent) {
                self.out_bytes -= extent.bytes;
                self.slabs[extent.slab].add(extent.offset, extent.bytes);
            } else {
                self.out.push_back(extent);
            }
        }
    }

    fn take_free(&mut self, bytes: u64) -> Option<(usize, u64)> {
        let slabs = self.slabs.iter_mut().enumerate();
        slabs.filter_map(|(slab, free)| Some((slab, free.take(bytes)?))).next()
    }

    fn check(&self) {
        let free: u64 = self.slabs.iter().map(FreeRanges::free_bytes).sum();
        assert!(free + self.out_bytes == self.slabs_bytes(), "an extent is lost, or given twice");
    }
}

/// The free ranges of a slab, by offset; no two of them touch.
#[derive(Debug)]
struct FreeRanges {
    bytes: u64,
    ranges: Vec<(u64, u64)>,
    free_bytes: u64,
}

impl FreeRanges {
    fn whole(bytes: u64) -> FreeRanges {
        FreeRanges { bytes, ranges: alloc::vec![(0, bytes)], free_bytes: bytes }
    }

    fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Takes the beginning of the first range that is large enough; returns its offset.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let found = self.ranges.iter().position(|(_, length)| *length >= bytes)?;
        let (offset, length) = self.ranges[found];
        if length == bytes {
            self.ranges.remove(found);
        } else {
            self.ranges[found] = (offset + bytes, length - bytes);
        }
        self.free_bytes -= bytes;
        Some(offset)
    }

    /// Adds a range, merged with those that it touches.
    fn add(&mut self, offset: u64, bytes: u64) {
        self.free_bytes += bytes;
        let after = self.ranges.partition_point(|(other, _)| *other < offset);
        let touches_next = self.ranges.get(after).is_some_and(|next| next.0 == offset + bytes);
        let touches_last = after > 0 && {
            let (start, length) = self.ranges[after - 1];
            assert!(start + length <= offset, "a range that is free already");
            start + length == offset
        };
        match (touches_last, touches_next) {
            (true, true) => {
                self.ranges[after - 1].1 += bytes + self.ranges[after].1;
                self.ranges.remove(after);
            }
            (true, false) => self.ranges[after - 1].1 += bytes,
            (false, true) => self.ranges[after] = (offset, bytes + self.ranges[after].1),
            (false, false) => self.ranges.insert(after, (offset, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::dice::Dice;
    use core::cell::RefCell;

    fn with_slabs(slabs: usize) -> Extents {
        let mut extents = Extents::new(1 << 30);
        for _ in 0..slabs {
            let bytes = extents.next_slab_bytes(1).unwrap();
            extents.on_offered(bytes);
            extents.on_accepted();
        }
        extents
    }

    #[test]
    fn extents_never_overlap_and_all_come_back() {
        for seed in 0..200 {
            let mut dice = Dice(seed);
            let mut extents = with_slabs(1 + dice.below(2) as usize);
            let whole = extents.slabs_bytes();
            let held: RefCell<Vec<SlabExtent>> = RefCell::default();
            let is_back = |extent: &SlabExtent| !held.borrow().contains(extent);
            for _ in 0..500 {
                let bytes = u64::from(1 + dice.below(3 << 20));
                if let Some(placed) = extents.place(bytes, is_back) {
                    assert!(placed.bytes >= bytes && placed.offset % EXTENT_ALIGN_BYTES == 0);
                    for other in held.borrow().iter().filter(|it| it.slab == placed.slab) {
                        let apart = placed.offset + placed.bytes <= other.offset
                            || other.offset + other.bytes <= placed.offset;
                        assert!(apart && placed.index() != other.index());
                    }
                    held.borrow_mut().push(placed);
                }
                let mut held = held.borrow_mut();
                if !held.is_empty() && dice.below(3) > 0 {
                    let at = dice.below(held.len() as u32) as usize;
                    held.swap_remove(at);
                }
            }
            held.borrow_mut().clear();
            extents.take_back(usize::MAX, |_| true);
            assert_eq!(extents.out_bytes(), 0);
            assert!(extents.slabs.iter().all(|slab| slab.ranges == [(0, slab.bytes)]));
            assert_eq!(extents.slabs_bytes(), whole);
        }
    }

    #[test]
    fn extents_that_stay_out_leave_no_room_and_block_nothing() {
        let mut extents = with_slabs(1);
        let mut count = 0;
        while extents.place(1 << 20, |_| false).is_some() {
            count += 1;
        }
        assert_eq!(count, FIRST_SLAB_BYTES >> 20);
        assert_eq!(extents.place(EXTENT_BYTES_MIN, |_| false), None);
        let back = extents.place(1 << 20, |extent| extent.offset == 3 << 20).unwrap();
        assert_eq!(back.offset, 3 << 20);
    }

    #[test]
    fn slabs_grow_up_to_the_limit_and_fit_large_bodies() {
        let mut extents = Extents::new(27 << 20);
        let mut sizes = Vec::new();
        while let Some(bytes) = extents.next_slab_bytes(100_000) {
            extents.on_offered(bytes);
            extents.on_accepted();
            sizes.push(bytes >> 20);
        }
        assert_eq!(sizes, [8, 16, 3]);
        let large = Extents::new(1 << 30);
        assert_eq!(large.next_slab_bytes(20 << 20), Some(20 << 20));
        assert_eq!(large.next_slab_bytes(SHARED_SLAB_BYTES_MAX + 1), None);
        assert_eq!(Extents::new(0).next_slab_bytes(1), None);
    }

    #[test]
    fn tickets_are_never_zero() {
        let mut extents = with_slabs(1);
        extents.last_ticket = u32::MAX;
        assert_eq!(extents.place(1, |_| false).unwrap().ticket, 1);
    }
}
