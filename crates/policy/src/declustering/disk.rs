//! The disk's end: which claim to begin next, how many to have in flight.
//!
//! A disk holds copies of several segments and so has several readers. A claim is bound when the
//! disk begins it, not before: until then its reader may withdraw it. Real disks need a few
//! requests in flight for their bandwidth; their number is the disk's, whoever they are for.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::{Order, ToDisk, ToReader, Told};

/// A request is sent after another one only if it will not wait in the device much longer than
/// this: what a slow disk holds without reading it is what makes readers late.
const QUEUE_NS_MAX: u64 = 50_000_000;

/// The disk of several readers.
#[derive(Clone, Debug)]
pub struct Disk {
    order: Order,
    depth_max: usize,
    readers: BTreeMap<u32, Served>,
    in_flight: usize,
    /// From the end of one request to that of the next, while there are any.
    interval_ns: u64,
    busy_from_ns: u64,
    arrivals: u64,
    /// Reader and block that were begun last.
    last: Option<(u32, u32)>,
}

/// What a disk knows of one of its readers.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    /// Which copy of the reader's segment this is.
    pub rank: usize,
    /// What the order remembers of this reader.
    pub memory: i64,
    pub credit: i64,
    pub mark_bytes: u64,
    claims: VecDeque<Claim>,
    begun: Vec<Begun>,
    told: Told,
    begun_bytes: u64,
    knows_idle: bool,
    is_gone: bool,
    /// Whether he is at another machine.
    pub is_far: bool,
    /// What was read for him is still on its way.
    is_held_up: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub block: u32,
    pub bytes: u64,
    pub arrival: u64,
    again: bool,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    block: u32,
    is_wanted: bool,
}

impl Served {
    /// The claim that would be begun next for this reader.
    pub fn next(&self) -> Option<Claim> {
        self.claims.front().copied().filter(|_| !self.is_held_up)
    }

    pub fn told(&self) -> Told {
        self.told
    }

    /// Bytes of the segment that nobody has begun, as far as is known here.
    pub fn open_bytes(&self) -> u64 {
        self.told.open_bytes.saturating_sub(self.begun_bytes - self.told.seen_bytes)
    }

    fn drop_claim(&mut self, block: u32) -> bool {
        let at = self.claims.iter().position(|claim| claim.block == block);
        at.and_then(|at| self.claims.remove(at)).is_some()
    }

    fn on_told(&mut self, told: Told) {
        if self.mark_bytes == 0 {
            self.mark_bytes = told.left_bytes;
        }
        self.told = told;
    }
}

/// Read this now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// For whom.
    pub reader: u32,
    /// Number of the block in his segment.
    pub block: u32,
    /// Its size.
    pub bytes: u64,
}

/// Messages to readers.
pub type Outbox = Vec<(u32, ToReader)>;

impl Disk {
    /// A disk with so many requests in flight at most.
    pub fn new(order: Order, depth_max: usize) -> Disk {
        Disk {
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

    /// A reader will claim here, for whom this disk holds copy `rank` of his segment.
    pub fn on_reader(&mut self, reader: u32, rank: usize) {
        self.readers.entry(reader).or_insert(Served { rank, ..Served::default() });
    }

    /// A reader is done, or gone, and its number will not come back. What is in flight for it is
    /// still answered with `on_done`; then it is forgotten.
    pub fn on_gone(&mut self, reader: u32) {
        if let Some(served) = self.readers.get_mut(&reader) {
            served.is_gone = true;
            served.claims.clear();
            served.begun.iter_mut().for_each(|begun| begun.is_wanted = false);
        }
        self.forget_gone(reader);
    }

    fn forget_gone(&mut self, reader: u32) {
        let is_over = |served: &Served| served.is_gone && served.begun.is_empty();
        if self.readers.get(&reader).is_some_and(is_over) {
            self.readers.remove(&reader);
        }
    }

    /// A reader is at another machine: of readers that lag alike, others are served first.
    pub fn on_far(&mut self, reader: u32) {
        if let Some(served) = self.readers.get_mut(&reader) {
            served.is_far = true;
        }
    }

    /// Whether what was read for a reader is still on its way to him, over a slow link: then no
    /// more is begun for him, and what he has claimed waits for a copy that reaches him sooner.
    pub fn on_way(&mut self, reader: u32, is_held_up: bool) {
        if let Some(served) = self.readers.get_mut(&reader) {
            served.is_held_up = is_held_up;
        }
    }

    /// A reader says something. What comes from one that is not known is not listened to.
    pub fn on_message(&mut self, reader: u32, message: ToDisk, out: &mut Outbox) {
        let known = self.readers.get_mut(&reader);
        let Some(served) = known.filter(|served| !served.is_gone) else { return };
        match message {
            ToDisk::Claim { block, bytes, again, told } => {
                let arrival = self.arrivals;
                self.arrivals += 1;
                served.claims.push_back(Claim { block, bytes, arrival, again });
                served.knows_idle = false;
                served.on_told(told);
            }
            ToDisk::Progress(told) => served.on_told(told),
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

    /// The next block to read, if there is one and the disk can take it. Ask until there is none.
    pub fn next(&mut self, now_ns: u64, out: &mut Outbox) -> Option<Begin> {
        let queue_ns = self.interval_ns.saturating_mul(self.in_flight as u64);
        if self.in_flight == self.depth_max || queue_ns > QUEUE_NS_MAX {
            return None;
        }
        let Some(reader) = self.choose() else {
            self.tell_idle(out);
            return None;
        };
        let served = self.readers.get_mut(&reader)?;
        let Claim { block, bytes, again, .. } = served.claims.pop_front()?;
        served.begun_bytes += if again { 0 } else { bytes };
        served.begun.push(Begun { block, is_wanted: true });
        let waiting = served.claims.len() as u32;
        out.push((reader, ToReader::Begun { block, again, waiting }));
        if self.in_flight == 0 {
            self.busy_from_ns = now_ns;
        }
        self.in_flight += 1;
        self.last = Some((reader, block));
        self.check();
        Some(Begin { reader, block, bytes })
    }

    fn choose(&mut self) -> Option<u32> {
        let readers = self.readers.iter_mut();
        match &mut self.order {
            Order::Arrival(order) => order.choose(readers),
            Order::Laggard(order) => order.choose(readers),
            Order::Shares(order) => order.choose(readers),
            Order::Graduated(order) => order.choose(readers, self.last),
        }
    }

    fn tell_idle(&mut self, out: &mut Outbox) {
        for (&reader, served) in &mut self.readers {
            let may_claim = !served.is_gone && !served.is_held_up;
            if may_claim && !core::mem::replace(&mut served.knows_idle, true) {
                out.push((reader, ToReader::Idle));
            }
        }
    }

    /// A block was read, or could not be. Returns whether the reader still wants to hear of it.
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

    /// Readers that are not gone, or for whom something is in flight.
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Requests in flight.
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
