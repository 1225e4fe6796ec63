//! The books of a reader: what is claimed where, and what the disks have been told.

use alloc::collections::BTreeMap;

use super::{Asked, NoCopy, Outbox, Place, Reader, Stage};
use crate::declustering::unclaimed::Room;
use crate::declustering::{Claiming, ToDisk, Told};

impl Reader {
    /// Claims at every copy what it has room for, in turns.
    pub(super) fn fill(&mut self, now_ns: u64, out: &mut Outbox) {
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

    /// Takes the next block for a copy from those that are not claimed.
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

    /// Claims a block at a copy; `again` if another one has begun it.
    pub(super) fn claim(
        &mut self,
        block: u32,
        copy: usize,
        again: bool,
        now_ns: u64,
        out: &mut Outbox,
    ) {
        let bytes = self.unclaimed.bytes_of(block);
        let place = Place { copy, sent: self.sent, stage: Stage::Waiting };
        self.sent += 1;
        let asked = self.asked.entry(block).or_default();
        if again {
            assert!(asked.second.replace(place).is_none() && asked.first.is_some());
        } else {
            assert!(asked.first.replace(place).is_none() && asked.second.is_none());
            self.waiting_bytes += bytes;
        }
        let at = &mut self.copies[copy];
        at.is_quick |= core::mem::replace(&mut at.is_idle, false);
        at.waiting += 1;
        if at.waiting == 1 {
            at.pace.on_wait(now_ns);
        }
        let told = self.told(copy);
        self.copies[copy].told = told;
        out.push((copy, ToDisk::Claim { block, bytes, again, told }));
    }

    /// A claim is over. Returns whether nobody else has one of this block, which is then in
    /// nobody's books.
    pub(super) fn forget(&mut self, block: u32, copy: usize) -> bool {
        let asked = self.asked.get_mut(&block).expect("a claim of this block");
        let again = asked.second.is_some_and(|place| place.copy == copy);
        let place = if again { asked.second.take() } else { asked.first.take() };
        let gone = asked.first.is_none() && asked.second.is_none();
        let place = place.expect("a claim at this copy");
        assert_eq!(place.copy, copy);
        if matches!(place.stage, Stage::Begun { .. }) {
            self.copies[copy].begun -= 1;
        } else {
            self.copies[copy].waiting -= 1;
            self.waiting_bytes -= if again { 0 } else { self.unclaimed.bytes_of(block) };
        }
        if let Stage::Leaving { to } = place.stage {
            self.copies[to].coming -= 1;
        }
        if gone {
            self.asked.remove(&block);
        }
        gone
    }

    /// A claim came to nothing; somebody else must read the block, or already does.
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

    /// Tells disks that have not heard of us while we moved on by half a block.
    pub(super) fn tell(&mut self, out: &mut Outbox) {
        if !matches!(self.settings.claiming, Claiming::Late | Claiming::Room(_)) {
            return;
        }
        let step_bytes = self.bytes / u64::from(self.unclaimed.blocks().max(1)) / 2;
        for copy in 0..self.copies.len() {
            let (told, before) = (self.told(copy), self.copies[copy].told);
            let moved = before.open_bytes.abs_diff(told.open_bytes)
                + before.left_bytes.abs_diff(told.left_bytes);
            if moved > step_bytes && self.copies[copy].waiting > 0 {
                self.copies[copy].told = told;
                out.push((copy, ToDisk::Progress(told)));
            }
        }
    }

    fn told(&self, copy: usize) -> Told {
        Told {
            left_bytes: self.left_bytes,
            open_bytes: self.open_bytes(),
            seen_bytes: self.copies[copy].seen_bytes,
        }
    }
}

/// The claim of a block at a copy, if there is one.
pub(super) fn place_at(
    asked: &mut BTreeMap<u32, Asked>,
    block: u32,
    copy: usize,
) -> Option<&mut Place> {
    let asked = asked.get_mut(&block)?;
    let places = [asked.first.as_mut(), asked.second.as_mut()];
    places.into_iter().flatten().find(|place| place.copy == copy)
}
