//! The disk's endpoint: which claim to begin next, and how many requests to have in flight.
//!
//! A disk has copies of several segments and therefore several readers. A claim is binding only
//! when the disk begins it; until then its reader may withdraw it. A disk needs a few requests in
//! flight for its full bandwidth; the limit applies to all readers together.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::order::ServiceOrder;
use super::protocol::{ToDisk, ToReader};
use super::served::{Begun, ReaderAtDisk, WaitingClaim};

/// The longest expected wait of a request in the device. Requests that wait in a slow device delay
/// their readers, since no other copy can serve them.
const QUEUE_NS_MAX: u64 = 50_000_000;

/// The state of a disk and its readers.
///
/// ```
/// use euphrates_policy::declustering::disk::DiskPolicy;
/// use euphrates_policy::declustering::{LaggardIntegral, ReadProgress, ServiceOrder, ToDisk};
///
/// let mut disk = DiskPolicy::new(ServiceOrder::LaggardIntegral(LaggardIntegral::default()), 2);
/// let mut out = Vec::new();
/// for (reader, open_bytes) in [(1, 500), (2, 900)] {
///     disk.on_reader(reader, 0);
///     let progress = ReadProgress { left_bytes: open_bytes, open_bytes, seen_bytes: 0 };
///     let claim = ToDisk::Claim { block: 0, bytes: 100, is_speculative: false, progress };
///     disk.on_message(reader, claim, &mut out);
/// }
/// assert_eq!(disk.next(0, &mut out).map(|begin| begin.reader), Some(2), "the laggard first");
/// ```
#[derive(Clone, Debug)]
pub struct DiskPolicy {
    order: ServiceOrder,
    depth_max: usize,
    readers: BTreeMap<u32, ReaderAtDisk>,
    in_flight: usize,
    /// The recent time per request while any are in flight, in nanoseconds.
    interval_ns: u64,
    busy_from_ns: u64,
    arrivals: u64,
    /// The reader and block that were begun last.
    last: Option<(u32, u32)>,
}

/// A block to read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The reader that claimed it.
    pub reader: u32,
    /// The number of the block in the reader's segment.
    pub block: u32,
    /// The size of the block, in bytes.
    pub bytes: u64,
}

/// Messages to readers, in order.
pub type ToReaders = Vec<(u32, ToReader)>;

impl DiskPolicy {
    /// A disk with at most `depth_max` requests in flight.
    pub fn new(order: ServiceOrder, depth_max: usize) -> DiskPolicy {
        DiskPolicy {
            order,
            depth_max: depth_max.max(1),
            readers: BTreeMap::new(),
            in_flight: 0,
            interval_ns: 0,
            busy_from_ns: 0,
            arrivals: 0,
            last: None,
        }
    }

    /// Registers a reader, of whose segment this disk has copy `rank`.
    pub fn on_reader(&mut self, reader: u32, rank: usize) {
        self.readers.entry(reader).or_insert_with(|| ReaderAtDisk::new(rank));
    }

    /// A reader has ended, and its number will not be used again. Requests in flight for it still
    /// end with `on_done`; then it is forgotten.
    ///
    /// ```
    /// use euphrates_policy::declustering::disk::DiskPolicy;
    /// use euphrates_policy::declustering::{Arrival, ReadProgress, ServiceOrder, ToDisk};
    ///
    /// let mut disk = DiskPolicy::new(ServiceOrder::Arrival(Arrival), 1);
    /// let mut out = Vec::new();
    /// disk.on_reader(7, 0);
    /// let progress = ReadProgress::default();
    /// let claim = ToDisk::Claim { block: 0, bytes: 9, is_speculative: false, progress };
    /// disk.on_message(7, claim, &mut out);
    /// assert_eq!(disk.next(0, &mut out).map(|begin| begin.block), Some(0));
    /// disk.on_gone(7);
    /// assert!(!disk.on_done(7, 0, 10), "nobody wants the block");
    /// ```
    pub fn on_gone(&mut self, reader: u32) {
        if let Some(served) = self.readers.get_mut(&reader) {
            served.is_gone = true;
            served.claims.clear();
            served.begun.iter_mut().for_each(|begun| begun.is_wanted = false);
        }
        self.forget_gone(reader);
    }

    fn forget_gone(&mut self, reader: u32) {
        let is_over = |served: &ReaderAtDisk| served.is_gone && served.begun.is_empty();
        if self.readers.get(&reader).is_some_and(is_over) {
            self.readers.remove(&reader);
        }
    }

    /// A reader is on another machine. The graduated order serves it before a local one only if it
    /// lags two blocks more; the other orders make no difference.
    pub fn on_far(&mut self, reader: u32) {
        if let Some(served) = self.readers.get_mut(&reader) {
            served.is_far = true;
        }
    }

    /// Sets whether a reader is held up by blocks in flight over a slow link. Nothing is begun for
    /// it meanwhile, and its claims wait for a copy that can deliver sooner.
    pub fn on_held_up(&mut self, reader: u32, is_held_up: bool) {
        if let Some(served) = self.readers.get_mut(&reader) {
            served.is_held_up = is_held_up;
        }
    }

    /// A reader sends a message. Messages of unknown readers are ignored.
    pub fn on_message(&mut self, reader: u32, message: ToDisk, out: &mut ToReaders) {
        let known = self.readers.get_mut(&reader);
        let Some(served) = known.filter(|served| !served.is_gone) else { return };
        match message {
            ToDisk::Claim { block, bytes, is_speculative: again, progress } => {
                let arrival = self.arrivals;
                self.arrivals += 1;
                served.claims.push_back(WaitingClaim {
                    block,
                    bytes,
                    arrival,
                    is_speculative: again,
                });
                served.knows_idle = false;
                served.on_progress(progress);
            }
            ToDisk::Progress(progress) => served.on_progress(progress),
            ToDisk::Withdraw { block } => {
                if served.drop_claim(block) {
                    out.push((reader, ToReader::Returned { block }));
                }
            }
            ToDisk::Cancel { block } => {
                served.drop_claim(block);
                let begun = served.begun.iter_mut().find(|begun| begun.block == block);
                begun.into_iter().for_each(|begun| begun.is_wanted = false);
            }
        }
        self.check();
    }

    /// The next block to read, if there is a claim and the disk can take it. Call until `None`.
    pub fn next(&mut self, now_ns: u64, out: &mut ToReaders) -> Option<Begin> {
        let queue_ns = self.interval_ns.saturating_mul(self.in_flight as u64);
        if self.in_flight == self.depth_max || queue_ns > QUEUE_NS_MAX {
            return None;
        }
        let Some(reader) = self.order.choose(self.readers.iter_mut(), self.last) else {
            self.send_idle(out);
            return None;
        };
        let served = self.readers.get_mut(&reader)?;
        let WaitingClaim { block, bytes, is_speculative: again, .. } = served.claims.pop_front()?;
        served.begun_bytes += if again { 0 } else { bytes };
        served.begun.push(Begun { block, is_wanted: true });
        let waiting = served.claims.len() as u32;
        out.push((reader, ToReader::Begun { block, is_speculative: again, waiting }));
        if self.in_flight == 0 {
            self.busy_from_ns = now_ns;
        }
        self.in_flight += 1;
        self.last = Some((reader, block));
        self.check();
        Some(Begin { reader, block, bytes })
    }

    fn send_idle(&mut self, out: &mut ToReaders) {
        for (&reader, served) in &mut self.readers {
            let may_claim = !served.is_gone && !served.is_held_up;
            if may_claim && !core::mem::replace(&mut served.knows_idle, true) {
                out.push((reader, ToReader::Idle));
            }
        }
    }

    /// A request has ended, with or without an error. Returns whether the reader still wants the
    /// block.
    pub fn on_done(&mut self, reader: u32, block: u32, now_ns: u64) -> bool {
        let served = self.readers.get_mut(&reader).expect("a reader of this disk");
        let at = served.begun.iter().position(|begun| begun.block == block);
        let begun = served.begun.swap_remove(at.expect("a block that was begun"));
        self.in_flight -= 1;
        let interval_ns = now_ns.saturating_sub(self.busy_from_ns);
        self.interval_ns = self.interval_ns / 2 + interval_ns / 2;
        self.busy_from_ns = now_ns;
        self.forget_gone(reader);
        self.check();
        begun.is_wanted
    }

    /// Readers that have not ended, or have requests in flight.
    #[cfg(test)]
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Requests in flight, of all readers.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn check(&self) {
        assert!(self.in_flight <= self.depth_max, "more requests in flight than allowed");
        debug_assert_eq!(
            self.in_flight,
            self.readers.values().map(|served| served.begun.len()).sum::<usize>()
        );
    }
}
