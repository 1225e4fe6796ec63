//! Bookkeeping of a reader of stripes: every change of a block's state, and its claims.

use crate::disks::declustering::{ReadProgress, ToDisk};

use super::state::{BlockState, StripeReader, ToStripeDisks, TooFewBlocks};

/// The assumed time of a block before any has been read.
const GAP_FIRST_NS: u64 = 10_000_000;

impl BlockState {
    /// Whether the block is wanted in the first place, and no disk has begun it.
    pub(super) fn is_unbegun(self) -> bool {
        matches!(self, Self::Planned | Self::Waiting { is_again: false } | Self::Leaving { .. })
    }

    fn is_live(self) -> bool {
        !matches!(self, Self::Free | Self::Bad)
    }
}

impl StripeReader {
    /// The place of a disk's block in an open stripe.
    pub(super) fn place(&self, stripe: u32, disk: usize) -> Option<usize> {
        self.open.get(&stripe)?.places[disk].map(|place| place as usize)
    }

    /// The state of a disk's block in an open stripe.
    pub(super) fn state(&self, stripe: u32, disk: usize) -> Option<BlockState> {
        let open = self.open.get(&stripe)?;
        open.places[disk].map(|place| open.blocks[place as usize])
    }

    /// Changes the state of a block of an open stripe, and every count that follows from it.
    pub(super) fn set(&mut self, stripe: u32, place: usize, new: BlockState) {
        let blocks = &self.stripes[stripe as usize];
        let (disk, bytes) = (blocks.disks[place], blocks.block_bytes);
        let open = self.open.get_mut(&stripe).expect("an open stripe");
        let old = core::mem::replace(&mut open.blocks[place], new);
        self.open_bytes += if new.is_unbegun() { bytes } else { 0 };
        self.open_bytes -= if old.is_unbegun() { bytes } else { 0 };
        if let BlockState::Leaving { to } = old {
            self.disks[to].coming -= 1;
        }
        if let BlockState::Leaving { to } = new {
            self.disks[to].coming += 1;
        }
        let is_claimed =
            |state| matches!(state, BlockState::Waiting { .. } | BlockState::Leaving { .. });
        let view = &mut self.disks[disk];
        match (is_claimed(old), is_claimed(new)) {
            (true, false) => view.claimed.retain(|&at| at != stripe),
            (false, true) => view.claimed.push(stripe),
            _ => {}
        }
        if old == BlockState::Planned {
            view.planned.remove(&stripe);
        }
        if new == BlockState::Planned {
            view.planned.insert(stripe);
        }
        if matches!(old, BlockState::Begun { .. }) {
            view.begun.retain(|&at| at != stripe);
        }
        if matches!(new, BlockState::Begun { .. }) {
            view.begun.push(stripe);
        }
    }

    /// Claims a block at its disk.
    pub(super) fn claim(
        &mut self,
        stripe: u32,
        disk: usize,
        is_again: bool,
        now_ns: u64,
        out: &mut ToStripeDisks,
    ) {
        let place = self.place(stripe, disk).expect("a disk of the stripe");
        self.set(stripe, place, BlockState::Waiting { is_again });
        let progress = self.progress(disk);
        let view = &mut self.disks[disk];
        view.is_idle = false;
        view.progress = progress;
        if view.claimed.len() == 1 {
            view.pace.on_wait(now_ns);
        }
        let bytes = self.stripes[stripe as usize].block_bytes;
        let claim = ToDisk::Claim { block: stripe, bytes, is_speculative: is_again, progress };
        out.push((disk, claim));
    }

    /// Plans other blocks of a stripe in place of those that are no longer wanted.
    ///
    /// # Errors
    /// If the stripe has too few blocks left.
    pub(super) fn plan_again(&mut self, stripe: u32, now_ns: u64) -> Result<(), TooFewBlocks> {
        let needed = self.stripes[stripe as usize].needed;
        loop {
            let Some(open) = self.open.get(&stripe) else { return Ok(()) };
            if open.blocks.iter().filter(|state| state.is_live()).count() >= needed {
                return Ok(());
            }
            let free = (0..open.blocks.len()).filter(|&at| open.blocks[at] == BlockState::Free);
            let best = free.min_by_key(|&at| (self.rank(stripe, at, now_ns), at));
            let place = best.ok_or(TooFewBlocks { stripe })?;
            self.set(stripe, place, BlockState::Planned);
        }
    }

    /// The order in which the blocks of a stripe are planned: by the time at which their disks
    /// would have read them, then in turn.
    pub(super) fn rank(&self, stripe: u32, place: usize, now_ns: u64) -> (u64, usize) {
        let disks = &self.stripes[stripe as usize].disks;
        let turn = (place + disks.len() - stripe as usize % disks.len()) % disks.len();
        (self.load_ns(disks[place], 1, now_ns), turn)
    }

    /// The expected time until a disk has read what is planned there, and `more` blocks.
    pub(super) fn load_ns(&self, disk: usize, more: usize, now_ns: u64) -> u64 {
        let blocks = self.planned_at(disk, 1) + (self.disks[disk].begun.len() + more) as u64;
        self.gap_ns(disk, now_ns).saturating_mul(blocks)
    }

    /// Blocks planned at a disk that it has not begun, times `unit`. Stripes that are not open
    /// count as if they were planned like those that are.
    fn planned_at(&self, disk: usize, unit: u64) -> u64 {
        let view = &self.disks[disk];
        let blocks = (view.planned.len() + view.claimed.len() + view.coming) as u64 * unit;
        let opened_bytes = self.open_bytes - self.unopened_bytes;
        if opened_bytes == 0 {
            return blocks;
        }
        let scaled = u128::from(blocks) * u128::from(self.open_bytes) / u128::from(opened_bytes);
        scaled as u64
    }

    /// The expected time of a block at a disk, between blocks of this reader.
    pub(super) fn gap_ns(&self, disk: usize, now_ns: u64) -> u64 {
        let pace = &self.disks[disk].pace;
        if pace.gap_ns().is_none() {
            return GAP_FIRST_NS;
        }
        let is_waiting = !self.disks[disk].claimed.is_empty();
        let gap_ns = if is_waiting { pace.gap_now_ns(now_ns) } else { pace.gap_ns().unwrap_or(0) };
        gap_ns.max(1)
    }

    /// Reports progress to disks whose last report is more than half a stripe old.
    pub(super) fn report_progress(&mut self, out: &mut ToStripeDisks) {
        for disk in 0..self.disks.len() {
            let (progress, before) = (self.progress(disk), self.disks[disk].progress);
            let moved = before.open_bytes.abs_diff(progress.open_bytes)
                + before.left_bytes.abs_diff(progress.left_bytes);
            let needed = self.stripes.first().map_or(0, |one| one.block_bytes * one.needed as u64);
            if moved > needed / 2 && !self.disks[disk].claimed.is_empty() {
                self.disks[disk].progress = progress;
                out.push((disk, ToDisk::Progress(progress)));
            }
        }
    }

    /// The bytes left that are reported to a disk: those planned there, not those of the whole
    /// file.
    fn progress(&self, disk: usize) -> ReadProgress {
        let block_bytes = self.stripes.first().map_or(0, |stripe| stripe.block_bytes);
        ReadProgress {
            left_bytes: self.left_bytes,
            open_bytes: self.planned_at(disk, block_bytes),
            seen_bytes: self.disks[disk].seen_bytes,
        }
    }
}
