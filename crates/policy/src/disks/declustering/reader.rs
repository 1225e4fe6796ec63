//! The reader's endpoint: which blocks to claim at which copy, to withdraw, and to read again.
//!
//! It keeps a few claims queued at every copy, so that each disk can choose among its readers
//! without a round trip. Near the end of a segment, claims that wait at one copy are withdrawn for
//! another that would begin them sooner. The last blocks that a slow disk has begun are also read
//! from an idle one; the first answer wins (hedged requests).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::claiming::Claiming;
use super::protocol::{COPIES_MAX, ToDisk, ToReader};
use super::unclaimed::Unclaimed;

mod claims;
mod state;
mod tail;

use self::claims::claim_at;
use self::state::{ClaimState, CopyClaim, CopyState};
pub use self::state::{NoCopy, ReaderSettings, SegmentReader, ToDisks};

/// The initial and least number of waiting claims per copy; it grows if a disk runs out of claims.
const CLAIMS_MIN: usize = 4;

impl SegmentReader {
    /// A reader of blocks of these sizes, with `copies` of each.
    pub fn new(settings: ReaderSettings, sizes: &[u64], copies: usize) -> SegmentReader {
        assert!((1..=COPIES_MAX).contains(&copies), "a segment has 1 to {COPIES_MAX} copies");
        let bytes: u64 = sizes.iter().sum();
        let largest = sizes.iter().copied().max().unwrap_or(0).max(1);
        // A stretch is a small part of a stream's window, or a slow copy would stop the window.
        let stretch = settings.window_bytes_max / largest / (4 * copies as u64);
        let stretch = settings.is_stream.then_some(stretch.clamp(1, 16) as u32);
        let claims_target = CLAIMS_MIN.min(settings.claims_max.max(1));
        let copy = CopyState { claims_target, ..CopyState::default() };
        SegmentReader {
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
            speculative: 0,
            sent: 0,
            wake_ns: None,
        }
    }

    /// Sends the first claims.
    pub fn start(&mut self, now_ns: u64, out: &mut ToDisks) {
        self.act(now_ns, out);
    }

    /// A disk sends a message.
    pub fn on_message(&mut self, copy: usize, message: ToReader, now_ns: u64, out: &mut ToDisks) {
        if self.copies[copy].is_lost {
            return;
        }
        match message {
            ToReader::Begun { block, is_speculative: again, waiting } => {
                self.on_begun(copy, block, again, waiting, now_ns);
            }
            ToReader::Returned { block } => self.on_returned(copy, block, now_ns, out),
            ToReader::Idle => self.copies[copy].is_idle = true,
        }
        self.act(now_ns, out);
    }

    fn on_begun(
        &mut self,
        copy: usize,
        block: u32,
        is_speculative: bool,
        waiting: u32,
        now_ns: u64,
    ) {
        let bytes = self.unclaimed.bytes_of(block);
        self.adapt_claims_target(copy, waiting);
        let at = &mut self.copies[copy];
        at.seen_bytes += if is_speculative { 0 } else { bytes };
        at.pace.on_begun(now_ns);
        at.is_quick = false;
        let Some(claim) = claim_at(&mut self.asked, block, copy) else { return };
        if let ClaimState::Leaving { to } = claim.state {
            self.copies[to].coming -= 1;
        }
        claim.state = ClaimState::Begun { at_ns: now_ns };
        self.copies[copy].waiting -= 1;
        self.copies[copy].begun += 1;
        self.waiting_bytes -= if is_speculative { 0 } else { bytes };
    }

    /// Adapts the target of waiting claims: one more when the disk has run out of them, one fewer
    /// after eight blocks in a row that left at least `CLAIMS_MIN`.
    fn adapt_claims_target(&mut self, copy: usize, waiting: u32) {
        let at = &mut self.copies[copy];
        at.plenty = if (waiting as usize) < CLAIMS_MIN { 0 } else { at.plenty + 1 };
        if waiting == 0 {
            at.claims_target = (at.claims_target + 1).min(self.settings.claims_max.max(1));
        } else if at.plenty >= 8 {
            at.claims_target = (at.claims_target - 1).max(CLAIMS_MIN.min(at.claims_target));
            at.plenty = 0;
        }
    }

    fn on_returned(&mut self, copy: usize, block: u32, now_ns: u64, out: &mut ToDisks) {
        let claim = claim_at(&mut self.asked, block, copy).copied();
        let Some(CopyClaim { state: ClaimState::Leaving { to }, .. }) = claim else { return };
        if self.forget(block, copy) {
            if self.copies[to].is_lost || self.is_bad(block, to) {
                self.unclaimed.give_back(block);
            } else {
                self.claim(block, to, false, now_ns, out);
                self.asked.entry(block).and_modify(|asked| asked.is_moved = true);
            }
        }
    }

    /// A block has arrived and is valid. Returns whether it is the first time.
    pub fn on_done(&mut self, copy: usize, block: u32, now_ns: u64, out: &mut ToDisks) -> bool {
        let Some(asked) = self.asked.get(&block) else { return false };
        let claims = [asked.first, asked.second];
        for claim in claims.into_iter().flatten() {
            match claim.state {
                ClaimState::Begun { at_ns } if claim.copy == copy => {
                    self.copies[copy].pace.on_done(at_ns, now_ns);
                }
                _ if claim.copy == copy => {}
                _ => out.push((claim.copy, ToDisk::Cancel { block })),
            }
            self.forget(block, claim.copy);
        }
        self.bad.remove(&block);
        self.left_bytes -= self.unclaimed.bytes_of(block);
        let fresh = self.arrived.insert(block);
        assert!(fresh, "block {block} arrived twice");
        self.act(now_ns, out);
        true
    }

    /// A copy of a block cannot be read, or is damaged.
    ///
    /// # Errors
    /// If no copy of the block is left.
    pub fn on_failed(
        &mut self,
        copy: usize,
        block: u32,
        now_ns: u64,
        out: &mut ToDisks,
    ) -> Result<(), NoCopy> {
        if claim_at(&mut self.asked, block, copy).is_none() {
            return Ok(());
        }
        *self.bad.entry(block).or_default() |= 1 << copy;
        self.drop_claim(block, copy);
        self.expect_a_copy(block)?;
        self.act(now_ns, out);
        Ok(())
    }

    /// A disk is lost; later messages from it are ignored.
    ///
    /// # Errors
    /// If no copy is left of a block that has not arrived.
    pub fn on_lost(&mut self, copy: usize, now_ns: u64, out: &mut ToDisks) -> Result<(), NoCopy> {
        if core::mem::replace(&mut self.copies[copy].is_lost, true) {
            return Ok(());
        }
        let blocks: Vec<u32> = self.asked.keys().copied().collect();
        for block in blocks {
            if claim_at(&mut self.asked, block, copy).is_some() {
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

    /// The next block to deliver, if there is one; of a stream in order.
    pub fn take(&mut self, now_ns: u64, out: &mut ToDisks) -> Option<u32> {
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

    /// The requested wake-up time has been reached.
    pub fn on_wake(&mut self, now_ns: u64, out: &mut ToDisks) {
        self.act(now_ns, out);
    }

    /// Whether all blocks have been delivered.
    pub fn is_done(&self) -> bool {
        self.next == self.unclaimed.blocks()
    }

    /// Blocks that were requested from a second copy while a first one read them.
    pub fn again(&self) -> usize {
        self.speculative
    }

    /// Bytes claimed and not delivered.
    pub fn held_bytes(&self) -> u64 {
        self.bytes - self.unclaimed.fresh_bytes() - self.taken_bytes
    }

    fn act(&mut self, now_ns: u64, out: &mut ToDisks) {
        self.fill(now_ns, out);
        self.wake_ns = None;
        if self.settings.claiming == Claiming::Late {
            self.rebalance(now_ns, out);
            self.read_again(now_ns, out);
        }
        self.report_progress(out);
        self.check();
    }

    /// Bytes that no disk is known to have begun.
    fn open_bytes(&self) -> u64 {
        self.unclaimed.bytes() + self.waiting_bytes
    }

    fn check(&self) {
        let open_bytes = self.open_bytes();
        assert!(open_bytes <= self.left_bytes, "open bytes are bytes that are left");
        assert!(self.speculative <= self.settings.again_max);
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
            let here = || self.claims().filter(|claim| claim.copy == at);
            let begun =
                here().filter(|claim| matches!(claim.state, ClaimState::Begun { .. })).count();
            let to_here = |claim: &CopyClaim| claim.state == ClaimState::Leaving { to: at };
            assert_eq!((copy.waiting, copy.begun), (here().count() - begun, begun));
            assert_eq!(copy.coming, self.claims().filter(to_here).count());
            let has_none = copy.waiting + copy.coming + copy.begun == 0;
            let starves = self.sent > 0 && !copy.is_lost && has_none;
            assert!(!starves || self.clone().take_next(at).is_none(), "copy {at} could claim more");
        }
    }

    fn claims(&self) -> impl Iterator<Item = CopyClaim> {
        self.asked.values().flat_map(|asked| [asked.first, asked.second]).flatten()
    }
}
