//! Bookkeeping of a reader: claims at each copy, and the progress reported to the disks.

use alloc::collections::BTreeMap;

use super::super::claiming::Claiming;
use super::super::protocol::{ReadProgress, ToDisk};
use super::super::unclaimed::Room;
use super::state::{Asked, ClaimState, CopyClaim, NoCopy, SegmentReader, ToDisks};

impl SegmentReader {
    /// Claims blocks at all copies in turn, as long as they have room.
    pub(super) fn fill(&mut self, now_ns: u64, out: &mut ToDisks) {
        let mut claimed = true;
        while claimed {
            claimed = false;
            for copy in 0..self.copies.len() {
                if self.has_room(copy)
                    && let Some(block) = self.take_next(copy)
                {
                    self.claim(block, copy, false, now_ns, out);
                    claimed = true;
                }
            }
        }
    }

    fn has_room(&self, copy: usize) -> bool {
        let at = &self.copies[copy];
        !at.is_lost
            && match self.settings.claiming {
                Claiming::Room(requests_max) => at.waiting + at.begun < requests_max.max(1),
                _ => at.waiting + at.coming < at.claims_target,
            }
    }

    /// Takes the next unclaimed block for a copy.
    pub(super) fn take_next(&mut self, copy: usize) -> Option<u32> {
        if self.unclaimed.bytes() == 0 {
            return None;
        }
        let (window_bytes, held_bytes) = (self.settings.window_bytes_max, self.held_bytes());
        let room = match held_bytes {
            _ if self.settings.is_stream => self.unclaimed.within(self.next, window_bytes),
            0 => Room::Bytes(u64::MAX),
            _ => Room::Bytes(window_bytes.saturating_sub(held_bytes)),
        };
        let (bad, copies) = (&self.bad, &self.copies);
        let can = |block: u32| bad.get(&block).is_none_or(|mask| mask & 1 << copy == 0);
        self.unclaimed.take(copy, can, room, |copy| copies[copy].is_lost)
    }

    /// Claims a block at a copy; `is_speculative` if another copy has begun it.
    pub(super) fn claim(
        &mut self,
        block: u32,
        copy: usize,
        is_speculative: bool,
        now_ns: u64,
        out: &mut ToDisks,
    ) {
        let bytes = self.unclaimed.bytes_of(block);
        let claim = CopyClaim { copy, sent: self.sent, state: ClaimState::Waiting };
        self.sent += 1;
        let asked = self.asked.entry(block).or_default();
        if is_speculative {
            assert!(asked.second.replace(claim).is_none() && asked.first.is_some());
        } else {
            assert!(asked.first.replace(claim).is_none() && asked.second.is_none());
            self.waiting_bytes += bytes;
        }
        let at = &mut self.copies[copy];
        at.is_quick |= core::mem::replace(&mut at.is_idle, false);
        at.waiting += 1;
        if at.waiting == 1 {
            at.pace.on_wait(now_ns);
        }
        let progress = self.progress(copy);
        self.copies[copy].progress = progress;
        out.push((copy, ToDisk::Claim { block, bytes, is_speculative, progress }));
    }

    /// Removes a claim. Returns whether no other copy has a claim of the block.
    pub(super) fn forget(&mut self, block: u32, copy: usize) -> bool {
        let asked = self.asked.get_mut(&block).expect("a claim of this block");
        let again = asked.second.is_some_and(|claim| claim.copy == copy);
        let claim = if again { asked.second.take() } else { asked.first.take() };
        let gone = asked.first.is_none() && asked.second.is_none();
        let claim = claim.expect("a claim at this copy");
        assert_eq!(claim.copy, copy);
        if matches!(claim.state, ClaimState::Begun { .. }) {
            self.copies[copy].begun -= 1;
        } else {
            self.copies[copy].waiting -= 1;
            self.waiting_bytes -= if again { 0 } else { self.unclaimed.bytes_of(block) };
        }
        if let ClaimState::Leaving { to } = claim.state {
            self.copies[to].coming -= 1;
        }
        if gone {
            self.asked.remove(&block);
        }
        gone
    }

    /// Removes a claim that failed, and gives the block back unless another copy has a claim of it.
    pub(super) fn drop_claim(&mut self, block: u32, copy: usize) {
        if self.forget(block, copy) {
            self.unclaimed.give_back(block);
        }
    }

    pub(super) fn is_bad(&self, block: u32, copy: usize) -> bool {
        self.bad.get(&block).is_some_and(|mask| mask & 1 << copy != 0)
    }

    pub(super) fn expect_a_copy(&self, block: u32) -> Result<(), NoCopy> {
        let good = |&copy: &usize| !self.copies[copy].is_lost && !self.is_bad(block, copy);
        (0..self.copies.len()).find(good).map(|_| ()).ok_or(NoCopy { block })
    }

    /// Reports progress to disks whose last report is more than half a block old.
    pub(super) fn report_progress(&mut self, out: &mut ToDisks) {
        if !matches!(self.settings.claiming, Claiming::Late | Claiming::Room(_)) {
            return;
        }
        let step_bytes = self.bytes / u64::from(self.unclaimed.blocks().max(1)) / 2;
        for copy in 0..self.copies.len() {
            let (progress, before) = (self.progress(copy), self.copies[copy].progress);
            let moved = before.open_bytes.abs_diff(progress.open_bytes)
                + before.left_bytes.abs_diff(progress.left_bytes);
            if moved > step_bytes && self.copies[copy].waiting > 0 {
                self.copies[copy].progress = progress;
                out.push((copy, ToDisk::Progress(progress)));
            }
        }
    }

    fn progress(&self, copy: usize) -> ReadProgress {
        ReadProgress {
            left_bytes: self.left_bytes,
            open_bytes: self.open_bytes(),
            seen_bytes: self.copies[copy].seen_bytes,
        }
    }
}

/// The claim of a block at a copy; `None` without one.
pub(super) fn claim_at(
    asked: &mut BTreeMap<u32, Asked>,
    block: u32,
    copy: usize,
) -> Option<&mut CopyClaim> {
    let asked = asked.get_mut(&block)?;
    let claims = [asked.first.as_mut(), asked.second.as_mut()];
    claims.into_iter().flatten().find(|claim| claim.copy == copy)
}
