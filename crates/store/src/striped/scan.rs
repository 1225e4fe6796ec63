//! A scan: stripes in order, each from whichever `k` of its blocks come first.
//!
//! `euphrates_policy::striping::reader` decides which blocks to claim from which disks, and moves
//! them to others until a disk begins one. The disks have the endpoints of mirrored reading
//! (`declustering/disk.rs`). The state of the scan is under one lock; its holder posts messages to
//! the disks, which never waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::sync::{Condvar, Mutex};
use euphrates_flow::{Error, Result};
use euphrates_policy::declustering::{BlocksInFlight, ToReader};
use euphrates_policy::striping::reader::{
    StripeBlocks, StripeReader, StripeSettings, ToStripeDisks, TooFewBlocks,
};

use super::blocks::restore;
use super::source::StripesOnDisk;
use super::version::StripedVersion;
use crate::declustering::{
    BlockRefused, DiskEndpoint, DiskMessage, DiskUse, ReaderState, Requester, next_reader_id,
};

/// Bytes of the file that a scan reads ahead and holds.
const WINDOW_BYTES: u64 = 128 << 20;
/// Stripes in the window, at least and at most.
const WINDOW_STRIPES: (u64, u64) = (8, 256);
/// Blocks of a disk that the device refuses in sequence until the scan does without the disk.
const REFUSALS_MAX: u32 = 8;

/// A scan of stripes in order. Dropping it withdraws what it has claimed.
#[derive(Debug)]
pub(super) struct StripeScan {
    shared: Arc<ScanShared>,
}

struct ScanShared {
    version: Arc<StripedVersion>,
    /// The stripes that have blocks, in order.
    stripes: Arc<Vec<usize>>,
    /// The scan's identifier at the disks.
    reader: u32,
    /// The disks' endpoints; `None` for a disk that is missing.
    ends: Vec<Option<Arc<DiskEndpoint>>>,
    began: Instant,
    state: Mutex<ScanState>,
    changed: Condvar,
}

impl std::fmt::Debug for ScanShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanShared").field("stripes", &self.stripes.len()).finish_non_exhaustive()
    }
}

struct ScanState {
    policy: StripeReader,
    arrived: BTreeMap<(u32, usize), Buffer>,
    refusals: Vec<u32>,
    failed: Option<TooFewBlocks>,
    is_given_up: bool,
}

/// Receives the answers of one disk.
struct ScanRequester {
    shared: Weak<ScanShared>,
    disk: usize,
}

/// A stripe of a scan: its number, and its data blocks.
pub(super) type ScannedStripe = (usize, Vec<Buffer>);

impl StripeScan {
    /// Begins to read these stripes, which must be in ascending order, and at most
    /// `window_stripes` ahead if that is given.
    pub fn begin(
        version: &Arc<StripedVersion>,
        stripes: impl Iterator<Item = usize>,
        window_stripes: Option<u32>,
    ) -> Result<StripeScan> {
        let has_blocks = |&stripe: &usize| !version.map.stripes[stripe].blocks.is_empty();
        let stripes: Arc<Vec<usize>> = Arc::new(stripes.filter(has_blocks).collect());
        let blocks = stripes.iter().map(|&stripe| {
            let entry = &version.map.stripes[stripe];
            StripeBlocks {
                needed: version.layout.data,
                block_bytes: entry.block_bytes.into(),
                disks: version.disks_of(entry),
            }
        });
        let window = WINDOW_BYTES / version.stripe_bytes();
        let window = window.clamp(WINDOW_STRIPES.0, WINDOW_STRIPES.1) as u32;
        let window = window_stripes.unwrap_or(window);
        let settings =
            StripeSettings { is_stream: true, window_stripes_max: window, ..Default::default() };
        let disks = version.disks.len();
        let policy = StripeReader::new(settings, blocks.collect(), disks);
        // A disk without any segment left would refuse each of its blocks.
        let has_file = |at: usize| {
            version.segments.iter().any(|segment| segment.disk == at && segment.file.is_some())
        };
        let end = |at: usize| {
            let disk = version.disks[at].disk.as_ref().filter(|_| has_file(at));
            disk.map(|disk| DiskEndpoint::of(disk, DiskUse::Stripes)).transpose()
        };
        let ends = (0..disks).map(end).collect::<Result<_>>()?;
        let state = ScanState {
            policy,
            arrived: BTreeMap::new(),
            refusals: vec![0; disks],
            failed: None,
            is_given_up: false,
        };
        let shared = Arc::new(ScanShared {
            version: version.clone(),
            stripes,
            reader: next_reader_id(),
            ends,
            began: Instant::now(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        shared.join();
        Ok(StripeScan { shared })
    }

    /// Waits for the next stripe; `None` after the last.
    pub fn next(&self) -> Result<Option<ScannedStripe>> {
        let shared = &self.shared;
        let version = &shared.version;
        let mut state = shared.state.lock();
        loop {
            if let Some(TooFewBlocks { stripe }) = state.failed {
                return Err(version.too_few_error(shared.stripes[stripe as usize]));
            }
            if state.is_given_up {
                return Err(Error::failed("a disk's thread has panicked"));
            }
            if state.policy.is_done() {
                return Ok(None);
            }
            let mut complete = None;
            shared.with(&mut state, |policy, now_ns, out| {
                complete = policy.take(now_ns, out)?;
                Ok(())
            });
            if let Some(complete) = complete {
                let take = |place: &usize| {
                    let bytes = state.arrived.remove(&(complete.stripe, *place));
                    (*place, bytes.expect("the policy has been told"))
                };
                let left: Vec<(usize, Buffer)> = complete.places.iter().map(take).collect();
                drop(state);
                let wanted: Vec<usize> = (0..version.layout.data).collect();
                let blocks = restore(&version.code, &left, &wanted)?;
                return Ok(Some((shared.stripes[complete.stripe as usize], blocks)));
            }
            if state.failed.is_some() {
                continue;
            }
            let wake_ns = state.policy.wake_at_ns();
            let wait = wake_ns.map(|at| Duration::from_nanos(at.saturating_sub(shared.now_ns())));
            match wait {
                None => shared.changed.wait(&mut state),
                Some(wait) if shared.changed.wait_for(&mut state, wait).timed_out() => {
                    shared.with(&mut state, |policy, now_ns, out| policy.on_wake(now_ns, out));
                }
                Some(_) => {}
            }
        }
    }
}

impl Drop for StripeScan {
    fn drop(&mut self) {
        for end in self.shared.ends.iter().flatten() {
            end.post(DiskMessage::Leave { reader: self.shared.reader });
        }
    }
}

impl ScanShared {
    /// Announces the scan to the disks, and then makes the first claims. A disk may answer before
    /// the next one has been told; the policy is silent until it starts.
    fn join(self: &Arc<ScanShared>) {
        for (disk, end) in self.ends.iter().enumerate() {
            let Some(end) = end else { continue };
            let (version, stripes) = (self.version.clone(), self.stripes.clone());
            let reader_state = ReaderState {
                requester: Box::new(ScanRequester { shared: Arc::downgrade(self), disk }),
                is_remote: false,
                copy: 0,
                source: Box::new(StripesOnDisk { version, stripes, disk }),
                in_flight: BlocksInFlight::default(),
            };
            end.post(DiskMessage::Join { reader: self.reader, reader_state });
        }
        let mut state = self.state.lock();
        self.with(&mut state, |policy, now_ns, out| {
            let missing = (0..self.ends.len()).filter(|&disk| self.ends[disk].is_none());
            missing.into_iter().try_for_each(|disk| policy.on_lost(disk, now_ns, out))?;
            policy.start(now_ns, out)
        });
    }

    /// Calls the policy, and posts the messages that it returns.
    fn with(
        &self,
        state: &mut ScanState,
        ask: impl FnOnce(&mut StripeReader, u64, &mut ToStripeDisks) -> Result<(), TooFewBlocks>,
    ) {
        if state.failed.is_some() {
            return;
        }
        let mut out = ToStripeDisks::new();
        if let Err(too_few) = ask(&mut state.policy, self.now_ns(), &mut out) {
            state.failed = Some(too_few);
            return;
        }
        for (disk, message) in out {
            if let Some(end) = &self.ends[disk] {
                end.post(DiskMessage::FromReader { reader: self.reader, message });
            }
        }
    }

    fn on_read(&self, disk: usize, block: u32, read: Result<Buffer, BlockRefused>) {
        let stripe = self.stripes[block as usize];
        let disks = self.version.disks_of(&self.version.map.stripes[stripe]);
        let Some(place) = disks.iter().position(|&at| at == disk) else { return };
        let mut state = self.state.lock();
        match read {
            Ok(bytes) => {
                state.refusals[disk] = 0;
                let mut is_needed = false;
                self.with(&mut state, |policy, now_ns, out| {
                    is_needed = policy.on_done(disk, block, now_ns, out)?;
                    Ok(())
                });
                if is_needed {
                    state.arrived.insert((block, place), bytes);
                }
            }
            Err(BlockRefused { what, is_damaged }) => {
                self.version.on_damage(self.version.block_damage(stripe, place, what));
                state.refusals[disk] += u32::from(!is_damaged);
                let is_lost = state.refusals[disk] >= REFUSALS_MAX;
                self.with(&mut state, |policy, now_ns, out| match is_lost {
                    true => policy.on_lost(disk, now_ns, out),
                    false => policy.on_failed(disk, block, now_ns, out),
                });
            }
        }
        self.changed.notify_all();
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

impl Requester for ScanRequester {
    fn on_disk_message(&self, message: ToReader) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = shared.state.lock();
        shared.with(&mut state, |policy, now_ns, out| {
            policy.on_message(self.disk, message, now_ns, out)
        });
        if state.failed.is_some() || state.policy.wake_at_ns().is_some() {
            shared.changed.notify_all();
        }
    }

    fn on_read(&self, block: u32, read: Result<Buffer, BlockRefused>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.on_read(self.disk, block, read);
        }
    }

    fn give_up(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.state.lock().is_given_up = true;
            shared.changed.notify_all();
        }
    }
}
