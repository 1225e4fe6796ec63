//! The reader's endpoint for striped files: which blocks of each stripe to read from which disks.
//!
//! Stripes are opened in order, up to a window. An open stripe has as many planned blocks as it
//! needs, at the disks that would read them first. Every disk has a few of its planned blocks
//! claimed, so that it can choose among its readers without a round trip.

use alloc::vec::Vec;

use super::StripeChoice;
use crate::disks::declustering::service_times::ServiceTimes;
use crate::disks::declustering::{ToDisk, ToReader};

mod balance;
mod blocks;
mod state;

use self::state::{BlockState, DiskView, OpenStripe};
pub use self::state::{
    CompleteStripe, StripeBlocks, StripeReader, StripeSettings, ToStripeDisks, TooFewBlocks,
};

/// The initial and least number of waiting claims per disk; it grows if a disk runs out of claims.
const CLAIMS_MIN: usize = 2;
/// Planned blocks that move to a disk when it begins one, at most. With several, a plan is mended
/// before disks whose pace was unknown have begun much of it.
const MOVES_MAX: usize = 16;

impl StripeReader {
    /// A reader of a file's stripes, which lie on `disks` disks.
    pub fn new(settings: StripeSettings, stripes: Vec<StripeBlocks>, disks: usize) -> StripeReader {
        for stripe in &stripes {
            assert!((1..=stripe.disks.len()).contains(&stripe.needed), "k blocks of n");
            assert!(stripe.disks.iter().all(|&disk| disk < disks), "a disk of this reader");
        }
        let bytes: u64 =
            stripes.iter().map(|stripe| stripe.block_bytes * stripe.needed as u64).sum();
        let claims_target = CLAIMS_MIN.min(settings.claims_max.max(1));
        StripeReader {
            settings,
            stripes,
            disks: alloc::vec![DiskView { claims_target, ..DiskView::default() }; disks],
            open: Default::default(),
            complete: Default::default(),
            unopened: 0,
            next: 0,
            left_bytes: bytes,
            open_bytes: bytes,
            unopened_bytes: bytes,
            again: 0,
            wake_ns: None,
            has_started: false,
        }
    }

    /// Sets the time in which a disk is expected to read a block, from its earlier reads: the first
    /// blocks are then planned well, too. Call it before `start`.
    pub fn on_pace(&mut self, disk: usize, block_ns: u64) {
        self.disks[disk].pace = ServiceTimes::expected(block_ns);
    }

    /// Sends the first claims. Call it when all disks know the reader: a disk ignores the claims of
    /// readers that it does not know, so nothing is sent before, whatever disks report.
    ///
    /// # Errors
    /// If a stripe has too few blocks on disks that are not lost.
    ///
    /// ```
    /// use euphrates_policy::declustering::ToReader;
    /// use euphrates_policy::striping::reader::{StripeBlocks, StripeReader, StripeSettings};
    ///
    /// let stripe = StripeBlocks { needed: 1, block_bytes: 100, disks: vec![0, 1] };
    /// let mut reader = StripeReader::new(StripeSettings::default(), vec![stripe], 2);
    /// let mut out = Vec::new();
    /// reader.on_message(0, ToReader::Idle, 0, &mut out)?;
    /// assert!(out.is_empty(), "disk 1 may not know the reader");
    /// reader.start(1, &mut out)?;
    /// assert_eq!(out.len(), 1, "a claim");
    /// # Ok::<(), euphrates_policy::striping::reader::TooFewBlocks>(())
    /// ```
    pub fn start(&mut self, now_ns: u64, out: &mut ToStripeDisks) -> Result<(), TooFewBlocks> {
        self.has_started = true;
        self.act(now_ns, out)
    }

    /// A disk sends a message; the number of a block is that of its stripe.
    ///
    /// # Errors
    /// If a stripe has too few blocks left.
    pub fn on_message(
        &mut self,
        disk: usize,
        message: ToReader,
        now_ns: u64,
        out: &mut ToStripeDisks,
    ) -> Result<(), TooFewBlocks> {
        if self.disks[disk].is_lost {
            return Ok(());
        }
        match message {
            ToReader::Begun { block, is_speculative, waiting } => {
                self.on_begun(disk, block, is_speculative, waiting as usize, now_ns);
            }
            ToReader::Returned { block } => self.on_returned(disk, block, now_ns, out)?,
            ToReader::Idle => self.disks[disk].is_idle = true,
        }
        self.act(now_ns, out)
    }

    fn on_begun(&mut self, disk: usize, stripe: u32, is_again: bool, waiting: usize, now_ns: u64) {
        let bytes = self.stripes[stripe as usize].block_bytes;
        let claims_max = self.settings.claims_max.max(1);
        let view = &mut self.disks[disk];
        view.seen_bytes += if is_again { 0 } else { bytes };
        view.pace.on_begun(now_ns);
        view.plenty = if waiting < CLAIMS_MIN { 0 } else { view.plenty + 1 };
        if waiting == 0 {
            view.claims_target = (view.claims_target + 1).min(claims_max);
        } else if view.plenty >= 8 {
            view.claims_target = (view.claims_target - 1).max(CLAIMS_MIN.min(claims_max));
            view.plenty = 0;
        }
        let state = self.state(stripe, disk);
        if matches!(state, Some(BlockState::Waiting { .. } | BlockState::Leaving { .. })) {
            let place = self.place(stripe, disk).expect("a disk of the stripe");
            self.set(stripe, place, BlockState::Begun { at_ns: now_ns, is_again });
        }
        if self.settings.choice == StripeChoice::Late {
            let moved = (0..MOVES_MAX).take_while(|_| self.pull(disk, now_ns));
            moved.for_each(drop);
        }
    }

    fn on_returned(
        &mut self,
        disk: usize,
        stripe: u32,
        now_ns: u64,
        out: &mut ToStripeDisks,
    ) -> Result<(), TooFewBlocks> {
        let Some(BlockState::Leaving { to }) = self.state(stripe, disk) else { return Ok(()) };
        let place = self.place(stripe, disk).expect("a disk of the stripe");
        self.set(stripe, place, BlockState::Free);
        if self.state(stripe, to) == Some(BlockState::Free) {
            self.claim(stripe, to, false, now_ns, out);
        }
        self.open.entry(stripe).and_modify(|open| open.is_moved = true);
        self.plan_again(stripe, now_ns)
    }

    /// A block has arrived and is valid. Returns whether its stripe needs it.
    pub fn on_done(
        &mut self,
        disk: usize,
        stripe: u32,
        now_ns: u64,
        out: &mut ToStripeDisks,
    ) -> Result<bool, TooFewBlocks> {
        let Some(state) = self.state(stripe, disk) else { return Ok(false) };
        if matches!(state, BlockState::Arrived | BlockState::Bad | BlockState::Free) {
            return Ok(false);
        }
        if let BlockState::Begun { at_ns, .. } = state {
            self.disks[disk].pace.on_done(at_ns, now_ns);
        }
        let place = self.place(stripe, disk).expect("a disk of the stripe");
        self.set(stripe, place, BlockState::Arrived);
        let StripeBlocks { needed, block_bytes, .. } = self.stripes[stripe as usize];
        self.left_bytes -= block_bytes;
        let blocks = &self.open[&stripe].blocks;
        let arrived = (0..blocks.len()).filter(|&at| blocks[at] == BlockState::Arrived);
        let arrived: Vec<usize> = arrived.collect();
        if arrived.len() == needed {
            self.close(stripe, out);
            self.complete.insert(stripe, arrived);
        }
        self.act(now_ns, out)?;
        Ok(true)
    }

    /// Ends a stripe that is complete: whatever else is wanted of it is cancelled.
    fn close(&mut self, stripe: u32, out: &mut ToStripeDisks) {
        for place in 0..self.stripes[stripe as usize].disks.len() {
            let state = self.open[&stripe].blocks[place];
            let disk = self.stripes[stripe as usize].disks[place];
            if !matches!(
                state,
                BlockState::Free | BlockState::Planned | BlockState::Bad | BlockState::Arrived
            ) {
                out.push((disk, ToDisk::Cancel { block: stripe }));
            }
            if !matches!(state, BlockState::Bad | BlockState::Arrived) {
                self.set(stripe, place, BlockState::Free);
            }
        }
        self.open.remove(&stripe);
    }

    /// A block cannot be read, or is damaged.
    ///
    /// # Errors
    /// If its stripe has too few blocks left.
    pub fn on_failed(
        &mut self,
        disk: usize,
        stripe: u32,
        now_ns: u64,
        out: &mut ToStripeDisks,
    ) -> Result<(), TooFewBlocks> {
        match self.state(stripe, disk) {
            None | Some(BlockState::Arrived) => return Ok(()),
            Some(_) => {}
        }
        let place = self.place(stripe, disk).expect("a disk of the stripe");
        self.set(stripe, place, BlockState::Bad);
        self.plan_again(stripe, now_ns)?;
        self.act(now_ns, out)
    }

    /// A disk is lost, also before `start`; later messages from it are ignored.
    ///
    /// # Errors
    /// If an open stripe has too few blocks left.
    pub fn on_lost(
        &mut self,
        disk: usize,
        now_ns: u64,
        out: &mut ToStripeDisks,
    ) -> Result<(), TooFewBlocks> {
        if core::mem::replace(&mut self.disks[disk].is_lost, true) {
            return Ok(());
        }
        let open: Vec<u32> = self.open.keys().copied().collect();
        for stripe in open {
            let Some(place) = self.place(stripe, disk) else { continue };
            if self.open[&stripe].blocks[place] != BlockState::Arrived {
                self.set(stripe, place, BlockState::Bad);
                self.plan_again(stripe, now_ns)?;
            }
        }
        self.act(now_ns, out)
    }

    /// The next stripe to deliver, if one is complete; of a stream in order.
    ///
    /// # Errors
    /// If a stripe that is opened in its place has too few blocks left.
    pub fn take(
        &mut self,
        now_ns: u64,
        out: &mut ToStripeDisks,
    ) -> Result<Option<CompleteStripe>, TooFewBlocks> {
        let first = self.complete.keys().next().copied();
        let stripe = if self.settings.is_stream { Some(self.next) } else { first };
        let Some((stripe, places)) = stripe.and_then(|at| self.complete.remove_entry(&at)) else {
            return Ok(None);
        };
        self.next += 1;
        self.act(now_ns, out)?;
        Ok(Some(CompleteStripe { stripe, places }))
    }

    /// When `on_wake` must be called, unless something else happens before.
    pub fn wake_at_ns(&self) -> Option<u64> {
        self.wake_ns
    }

    /// The requested wake-up time has been reached.
    ///
    /// # Errors
    /// If a stripe has too few blocks left.
    pub fn on_wake(&mut self, now_ns: u64, out: &mut ToStripeDisks) -> Result<(), TooFewBlocks> {
        self.act(now_ns, out)
    }

    /// Whether all stripes have been delivered.
    pub fn is_done(&self) -> bool {
        self.next as usize == self.stripes.len()
    }

    /// Blocks that were read in place of late ones.
    pub fn again(&self) -> usize {
        self.again
    }

    fn act(&mut self, now_ns: u64, out: &mut ToStripeDisks) -> Result<(), TooFewBlocks> {
        if !self.has_started {
            return Ok(());
        }
        self.open_stripes(now_ns)?;
        self.fill(now_ns, out);
        self.wake_ns = None;
        if self.settings.choice == StripeChoice::Late {
            self.withdraw(now_ns, out);
            self.read_again(now_ns, out);
        }
        self.report_progress(out);
        self.check();
        Ok(())
    }

    fn open_stripes(&mut self, now_ns: u64) -> Result<(), TooFewBlocks> {
        let window = self.settings.window_stripes_max.max(1);
        while (self.unopened as usize) < self.stripes.len() {
            let held = match self.settings.is_stream {
                true => self.unopened - self.next,
                false => (self.open.len() + self.complete.len()) as u32,
            };
            if held >= window {
                break;
            }
            let stripe = self.unopened;
            self.unopened += 1;
            self.open_stripe(stripe, now_ns)?;
        }
        Ok(())
    }

    fn open_stripe(&mut self, stripe: u32, now_ns: u64) -> Result<(), TooFewBlocks> {
        let StripeBlocks { needed, block_bytes, ref disks } = self.stripes[stripe as usize];
        let state = |&disk: &usize| match self.disks[disk].is_lost {
            true => BlockState::Bad,
            false => BlockState::Free,
        };
        let blocks: Vec<BlockState> = disks.iter().map(state).collect();
        let mut places = alloc::vec![None; self.disks.len()];
        for (place, &disk) in disks.iter().enumerate() {
            places[disk] = Some(place as u32);
        }
        let mut free: Vec<usize> =
            (0..disks.len()).filter(|&place| blocks[place] == BlockState::Free).collect();
        let wanted = match self.settings.choice {
            StripeChoice::Late => {
                free.sort_by_cached_key(|&place| self.rank(stripe, place, now_ns));
                needed
            }
            StripeChoice::DataOnly => needed,
            StripeChoice::Extra(more) => {
                let turn = stripe as usize % disks.len();
                free.sort_by_key(|&place| (place + disks.len() - turn) % disks.len());
                needed + more
            }
        };
        // `set` counts the planned blocks as unbegun; until now all that are needed were.
        self.open_bytes -= block_bytes * needed as u64;
        self.unopened_bytes -= block_bytes * needed as u64;
        self.open.insert(stripe, OpenStripe { blocks, places, is_moved: false });
        for place in free.into_iter().take(wanted) {
            self.set(stripe, place, BlockState::Planned);
        }
        self.plan_again(stripe, now_ns)
    }

    /// Claims planned blocks at all disks, as long as they have room.
    fn fill(&mut self, now_ns: u64, out: &mut ToStripeDisks) {
        for disk in 0..self.disks.len() {
            loop {
                let view = &self.disks[disk];
                let is_full = view.claimed.len() + view.coming >= view.claims_target;
                if view.is_lost || is_full {
                    break;
                }
                match view.planned.first().copied() {
                    Some(stripe) => self.claim(stripe, disk, false, now_ns, out),
                    None if self.settings.choice != StripeChoice::Late => break,
                    None if self.pull(disk, now_ns) => {}
                    None => break,
                }
            }
        }
    }

    fn check(&self) {
        let held = self.complete.len() + self.open.len();
        assert!(held <= self.settings.window_stripes_max.max(1) as usize, "the window holds");
        assert!(self.again <= self.settings.again_max);
    }

    /// All invariants, in time that grows with the open stripes; for tests and simulations.
    pub fn check_all(&self) {
        self.check();
        let bytes =
            |stripe: u32, blocks: usize| self.stripes[stripe as usize].block_bytes * blocks as u64;
        let end = self.stripes.len() as u32;
        let needed = |stripe: u32| self.stripes[stripe as usize].needed;
        let unopened: u64 = (self.unopened..end).map(|at| bytes(at, needed(at))).sum();
        let (mut unbegun, mut left) = (0, 0);
        for (&stripe, open) in &self.open {
            let count = |is: &dyn Fn(BlockState) -> bool| {
                open.blocks.iter().filter(|&&state| is(state)).count()
            };
            let live = count(&|state| !matches!(state, BlockState::Free | BlockState::Bad));
            assert!(live >= needed(stripe), "stripe {stripe} would never end");
            unbegun += bytes(stripe, count(&BlockState::is_unbegun));
            left += bytes(stripe, needed(stripe) - count(&|state| state == BlockState::Arrived));
        }
        assert_eq!((self.open_bytes, self.left_bytes), (unopened + unbegun, unopened + left));
        assert_eq!(self.unopened_bytes, unopened);
        let coming: usize = self.disks.iter().map(|view| view.coming).sum();
        let leaving = |state: &&BlockState| matches!(state, BlockState::Leaving { .. });
        let states = self.open.values().flat_map(|open| &open.blocks);
        assert_eq!(coming, states.filter(leaving).count());
    }
}
