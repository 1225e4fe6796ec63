//! The reader's end: which block to claim at which copy, what to withdraw, what to read again.
//!
//! It claims a few blocks at every copy, so that each disk can choose among its readers without
//! asking. Near the end, when nothing is left to claim, blocks that wait at one copy are withdrawn
//! for another that would begin them sooner, and the very last ones, begun at a slow disk, are read
//! again at one that is idle: the first answer wins.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::pace::Pace;
use super::unclaimed::Unclaimed;
use super::{COPIES_MAX, Claiming, ToDisk, ToReader, Told};

mod claims;
mod tail;

use claims::place_at;

/// How a segment is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where blocks are claimed.
    pub claiming: Claiming,
    /// Whether blocks are handed over in their order.
    pub is_stream: bool,
    /// Bytes claimed, being read or arrived, and not yet handed over. One block is always allowed.
    /// Of a stream, how far the last claim may lie behind the next block to hand over.
    pub window_bytes_max: u64,
    /// Claims that wait at one copy at most.
    pub claims_max: usize,
    /// Blocks of the segment that are read from two copies at most.
    pub again_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            claiming: Claiming::Late,
            is_stream: false,
            window_bytes_max: 64 << 20,
            claims_max: 16,
            again_max: 16,
        }
    }
}

/// No copy of a block can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCopy {
    /// Number of the block in its segment.
    pub block: u32,
}

/// Claims that wait at a copy at first; more if a disk runs out of them.
const CLAIMS_MIN: usize = 4;

/// The reader of one segment.
#[derive(Clone, Debug)]
pub struct Reader {
    settings: Settings,
    unclaimed: Unclaimed,
    copies: Vec<Copy>,
    /// What is claimed and has not arrived.
    asked: BTreeMap<u32, Asked>,
    /// What has arrived and has not been handed over.
    arrived: BTreeSet<u32>,
    /// The copies, as bits, at which a block could not be read.
    bad: BTreeMap<u32, u64>,
    /// Blocks handed over; of a stream, the next one.
    next: u32,
    bytes: u64,
    left_bytes: u64,
    waiting_bytes: u64,
    taken_bytes: u64,
    again: usize,
    sent: u64,
    wake_ns: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Copy {
    is_lost: bool,
    /// It told us that it has nothing to do, and we have found nothing since.
    is_idle: bool,
    /// It was idle when we claimed, and will begin at once.
    is_quick: bool,
    waiting: usize,
    begun: usize,
    /// Claims being withdrawn elsewhere for this copy.
    coming: usize,
    claims_target: usize,
    /// Times in a row that claims were left when the disk began one.
    plenty: u32,
    seen_bytes: u64,
    told: Told,
    pace: Pace,
}

/// A block that was claimed, at one or two copies.
#[derive(Clone, Debug, Default)]
struct Asked {
    first: Option<Place>,
    second: Option<Place>,
    /// It was withdrawn once; if that happened again and again, it could go round for ever.
    is_moved: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    copy: usize,
    /// Number of the claim.
    sent: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// Being withdrawn for another copy.
    Leaving {
        to: usize,
    },
    Begun {
        at_ns: u64,
    },
}

/// Messages to disks, by copy.
pub type Outbox = Vec<(usize, ToDisk)>;

impl Reader {
    /// A reader of blocks of these sizes, of which there are so many copies.
    pub fn new(settings: Settings, sizes: &[u64], copies: usize) -> Reader {
        assert!((1..=COPIES_MAX).contains(&copies), "a segment has 1 to {COPIES_MAX} copies");
        let bytes: u64 = sizes.iter().sum();
        let largest = sizes.iter().copied().max().unwrap_or(0).max(1);
        // A copy's stretch is a small part of a stream's window, or a slow copy would hold it up.
        let stretch = settings.window_bytes_max / largest / (4 * copies as u64);
        let stretch = settings.is_stream.then_some(stretch.clamp(1, 16) as u32);
        let claims_target = CLAIMS_MIN.min(settings.claims_max.max(1));
        let copy = Copy { claims_target, ..Copy::default() };
        Reader {
            settings,
            unclaimed: Unclaimed::new(sizes, copies, settings.claiming, stretch),
            copies: alloc::vec![copy; copies],
            asked: BTreeMap::new(),
            arrived: BTreeSet::new(),
            bad: BTreeMap::new(),
            next: 0,
            bytes,
            left_bytes: bytes,
            waiting_bytes: 0,
            taken_bytes: 0,
            again: 0,
            sent: 0,
            wake_ns: None,
        }
    }

    /// The first claims.
    pub fn start(&mut self, now_ns: u64, out: &mut Outbox) {
        self.act(now_ns, out);
    }

    /// A disk says something.
    pub fn on_message(&mut self, copy: usize, message: ToReader, now_ns: u64, out: &mut Outbox) {
        if self.copies[copy].is_lost {
            return;
        }
        match message {
            ToReader::Begun { block, again, waiting } => {
                self.on_begun(copy, block, again, waiting, now_ns);
            }
            ToReader::Returned { block } => self.on_returned(copy, block, now_ns, out),
            ToReader::Idle => self.copies[copy].is_idle = true,
        }
        self.act(now_ns, out);
    }

    fn on_begun(&mut self, copy: usize, block: u32, again: bool, waiting: u32, now_ns: u64) {
        let bytes = self.unclaimed.bytes_of(block);
        self.adapt(copy, waiting);
        let at = &mut self.copies[copy];
        at.seen_bytes += if again { 0 } else { bytes };
        at.pace.on_begun(now_ns);
        at.is_quick = false;
        let Some(place) = place_at(&mut self.asked, block, copy) else { return };
        if let Stage::Leaving { to } = place.stage {
            self.copies[to].coming -= 1;
        }
        place.stage = Stage::Begun { at_ns: now_ns };
        self.copies[copy].waiting -= 1;
        self.copies[copy].begun += 1;
        self.waiting_bytes -= if again { 0 } else { bytes };
    }

    /// As many claims wait as the disk begins while we hear of it, and one to choose.
    fn adapt(&mut self, copy: usize, waiting: u32) {
        let at = &mut self.copies[copy];
        at.plenty = if waiting < 4 { 0 } else { at.plenty + 1 };
        if waiting == 0 {
            at.claims_target = (at.claims_target + 1).min(self.settings.claims_max.max(1));
        } else if at.plenty >= 8 {
            at.claims_target = (at.claims_target - 1).max(CLAIMS_MIN.min(at.claims_target));
            at.plenty = 0;
        }
    }

    fn on_returned(&mut self, copy: usize, block: u32, now_ns: u64, out: &mut Outbox) {
        let place = place_at(&mut self.asked, block, copy).copied();
        let Some(Place { stage: Stage::Leaving { to }, .. }) = place else { return };
        if self.forget(block, copy) {
            if self.copies[to].is_lost || self.is_bad(block, to) {
                self.unclaimed.give_back(block);
            } else {
                self.claim(block, to, false, now_ns, out);
                self.asked.entry(block).and_modify(|asked| asked.is_moved = true);
            }
        }
    }

    /// A block arrived, whole and right. Returns whether it is the first time.
    pub fn on_done(&mut self, copy: usize, block: u32, now_ns: u64, out: &mut Outbox) -> bool {
        let Some(asked) = self.asked.get(&block) else { return false };
        let places = [asked.first, asked.second];
        for place in places.into_iter().flatten() {
            match place.stage {
                Stage::Begun { at_ns } if place.copy == copy => {
                    self.copies[copy].pace.on_done(at_ns, now_ns);
                }
                _ if place.copy == copy => {}
                _ => out.push((place.copy, ToDisk::Cancel { block })),
            }
            self.forget(block, place.copy);
        }
        self.bad.remove(&block);
        self.left_bytes -= self.unclaimed.bytes_of(block);
        let fresh = self.arrived.insert(block);
        assert!(fresh, "block {block} arrived twice");
        self.act(now_ns, out);
        true
    }

    /// A copy of a block cannot be read, or is not what it should be.
    ///
    /// # Errors
    /// If no copy of the block is left.
    pub fn on_failed(
        &mut self,
        copy: usize,
        block: u32,
        now_ns: u64,
        out: &mut Outbox,
    ) -> Result<(), NoCopy> {
        if place_at(&mut self.asked, block, copy).is_none() {
            return Ok(());
        }
        *self.bad.entry(block).or_default() |= 1 << copy;
        self.drop_claim(block, copy);
        self.expect_a_copy(block)?;
        self.act(now_ns, out);
        Ok(())
    }

    /// A disk is gone. Messages that still come from it are not listened to.
    ///
    /// # Errors
    /// If no copy is left of a block that has not arrived.
    pub fn on_lost(&mut self, copy: usize, now_ns: u64, out: &mut Outbox) -> Result<(), NoCopy> {
        if core::mem::replace(&mut self.copies[copy].is_lost, true) {
            return Ok(());
        }
        let blocks: Vec<u32> = self.asked.keys().copied().collect();
        for block in blocks {
            if place_at(&mut self.asked, block, copy).is_some() {
                self.drop_claim(block, copy);
            }
        }
        if self.copies.iter().all(|copy| copy.is_lost) && self.left_bytes > 0 {
            let mut blocks = 0..self.unclaimed.blocks();
            let open = |&block: &u32| block >= self.next && !self.arrived.contains(&block);
            return Err(NoCopy { block: blocks.find(open).unwrap_or(self.next) });
        }
        let bad: Vec<u32> = self.bad.keys().copied().collect();
        bad.into_iter().try_for_each(|block| self.expect_a_copy(block))?;
        self.act(now_ns, out);
        Ok(())
    }

    /// The next block to hand over, if there is one; of a stream in its order.
    pub fn take(&mut self, now_ns: u64, out: &mut Outbox) -> Option<u32> {
        let block = if self.settings.is_stream { self.next } else { *self.arrived.first()? };
        if !self.arrived.remove(&block) {
            return None;
        }
        self.next += 1;
        self.taken_bytes += self.unclaimed.bytes_of(block);
        self.act(now_ns, out);
        Some(block)
    }

    /// When `on_wake` must be called, unless something else happens before.
    pub fn wake_at_ns(&self) -> Option<u64> {
        self.wake_ns
    }

    /// The time asked for has come.
    pub fn on_wake(&mut self, now_ns: u64, out: &mut Outbox) {
        self.act(now_ns, out);
    }

    /// Whether all blocks have been handed over.
    pub fn is_done(&self) -> bool {
        self.next == self.unclaimed.blocks()
    }

    /// Blocks that were asked of a second copy while a first one was reading them.
    pub fn again(&self) -> usize {
        self.again
    }

    /// Bytes claimed, being read, or arrived and not handed over.
    pub fn held_bytes(&self) -> u64 {
        self.bytes - self.unclaimed.fresh_bytes() - self.taken_bytes
    }

    fn act(&mut self, now_ns: u64, out: &mut Outbox) {
        self.fill(now_ns, out);
        self.wake_ns = None;
        if self.settings.claiming == Claiming::Late {
            self.rebalance(now_ns, out);
            self.read_again(now_ns, out);
        }
        self.tell(out);
        self.check();
    }

    /// Bytes that no disk is known to have begun.
    fn open_bytes(&self) -> u64 {
        self.unclaimed.bytes() + self.waiting_bytes
    }

    fn check(&self) {
        let open_bytes = self.open_bytes();
        assert!(open_bytes <= self.left_bytes, "open bytes are bytes that are left");
        assert!(self.again <= self.settings.again_max);
        let claims_max = self.settings.claims_max.max(1);
        assert!(self.copies.iter().all(|copy| copy.claims_target <= claims_max));
        assert!(self.held_bytes() >= self.left_bytes - self.unclaimed.fresh_bytes());
    }

    /// All invariants, in time that grows with the segment; for tests and simulations.
    pub fn check_all(&self) {
        self.check();
        assert_eq!(self.unclaimed.bytes(), self.unclaimed.bytes_counted());
        let bytes = |block: &u32| self.unclaimed.bytes_of(*block);
        let asked: u64 = self.asked.keys().map(bytes).sum();
        assert_eq!(self.left_bytes, asked + self.unclaimed.bytes(), "a block is lost or doubled");
        let arrived: u64 = self.arrived.iter().map(bytes).sum();
        assert_eq!(self.held_bytes(), self.left_bytes - self.unclaimed.fresh_bytes() + arrived);
        for (at, copy) in self.copies.iter().enumerate() {
            let here = || self.places().filter(|place| place.copy == at);
            let begun = here().filter(|place| matches!(place.stage, Stage::Begun { .. })).count();
            let to_here = |place: &Place| place.stage == Stage::Leaving { to: at };
            assert_eq!((copy.waiting, copy.begun), (here().count() - begun, begun));
            assert_eq!(copy.coming, self.places().filter(to_here).count());
            let has_none = copy.waiting + copy.coming + copy.begun == 0;
            let starves = self.sent > 0 && !copy.is_lost && has_none;
            assert!(!starves || self.clone().take_next(at).is_none(), "copy {at} could claim more");
        }
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.asked.values().flat_map(|asked| [asked.first, asked.second]).flatten()
    }
}
