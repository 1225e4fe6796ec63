//! The sorted runs of all instances of a `partition` in one process, which are cut into ranges of
//! keys when all input has been taken. One all-gather suffices; each further one would wait for the
//! slowest instance again.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use euphrates_device::scratch::Scratch;
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::{Cancel, Error, MemoryReservation, Ports, Result, Setup};
use euphrates_policy::sort::{kept_keys_bytes_max, range_bytes_max};
use parking_lot::{Condvar, Mutex};

use super::disk_run::DiskRun;
use super::gathered_samples::{GatheredSamples, LocalSamples};
use super::keys::key_encoder::KeyEncoder;
use super::keys::owned_keys::KeyInterner;
use super::memory_runs::MemoryRuns;
use super::ranges::SortedRuns;
use super::record_layout::RecordLayout;
use super::splitters::SplitPolicy;

/// Name of the all-gather of samples, when all input has been taken.
const SHARES: &str = "shares";

/// Name of the agreement on the layout of keys, when the first record has come.
const KEY_LAYOUT: &str = "key layout";

/// The sorted runs of one process.
pub(crate) struct RangeStore {
    pub(super) layout: Arc<RecordLayout>,
    pub(super) encoder: Arc<KeyEncoder>,
    pub(super) scratch: Scratch,
    /// Keeps the keys of all instances in this process.
    pub(super) interner: Mutex<KeyInterner>,
    range_bytes_max: usize,
    cancel: Arc<Cancel>,
    split_policy: SplitPolicy,
    shared: Mutex<Shared>,
    changed: Condvar,
}

#[derive(Default)]
struct Shared {
    arrived: usize,
    runs_written: usize,
    spilled_bytes: usize,
    /// What the instances hold.
    reservations: Vec<MemoryReservation>,
    memory: Vec<MemoryRuns>,
    disk: Vec<DiskRun>,
    /// All runs until the splitters are known, and the instance that contributed their samples.
    uncut: Option<(SortedRuns, usize)>,
    ranges: Option<Arc<SortedRuns>>,
    is_released: bool,
}

impl RangeStore {
    /// A store for the instances in this process.
    pub(crate) fn new(
        layout: Arc<RecordLayout>,
        encoder: Arc<KeyEncoder>,
        split_policy: SplitPolicy,
        setup: &Setup,
    ) -> RangeStore {
        let store = RangeStore {
            layout,
            encoder,
            scratch: Scratch::new(setup),
            interner: Mutex::new(KeyInterner::new(kept_keys_bytes_max(
                setup.memory.even_share_bytes(),
                setup.budget_bytes,
            ))),
            range_bytes_max: match split_policy {
                SplitPolicy::Anywhere => range_bytes_max(setup.budget_bytes, setup.instances_here),
                // A group is not split, however large it is.
                SplitPolicy::BetweenKeys => range_bytes_max(setup.budget_bytes, 1),
            },
            cancel: setup.cancel.clone(),
            split_policy,
            shared: Mutex::default(),
            changed: Condvar::new(),
        };
        if setup.instances_here == 0 {
            // A process without instances merges only what it fetches.
            store.shared.lock().ranges = Some(Arc::new(store.uncut(vec![], vec![])));
        }
        store
    }

    /// Chooses the layout of keys, if it is open: that of the process which proposes one first, by
    /// its first batch of held records.
    pub(crate) fn settle_keys(&self, batch: &RecordBatch, setup: &Setup) -> Result<()> {
        if self.encoder.is_open() {
            self.encoder.settle(&setup.agree(KEY_LAYOUT, || self.encoder.propose(batch))?)?;
        }
        Ok(())
    }

    /// Adds the runs of an instance; when all processes have contributed samples, cuts the runs at
    /// the splitters.
    pub(crate) fn add_and_cut(
        &self,
        held: MemoryRuns,
        disk: Vec<DiskRun>,
        reservation: MemoryReservation,
        ports: &Ports,
    ) -> Result<()> {
        let setup = ports.setup();
        self.shared.lock().reservations.push(reservation);
        let share = self.add_runs(held, disk, setup).unwrap_or_default();
        let all = {
            let _state = ports.metrics().enter(InstanceState::Starved);
            setup.all_gather(SHARES, share)?
        };
        let uncut = self.shared.lock().uncut.take();
        if let Some((mut ranges, contributor)) = uncut {
            let samples = GatheredSamples::of(&all)?;
            self.settle_as_others(&samples)?;
            samples.cut(&mut ranges, contributor, self.split_policy);
            self.shared.lock().ranges = Some(Arc::new(ranges));
            self.changed.notify_all();
        }
        Ok(())
    }

    /// The number of ranges; blocks until it is known.
    pub(crate) fn count(&self, setup: &Setup) -> Result<u64> {
        let count = match setup.instances_here {
            0 => {
                let samples = GatheredSamples::of(&setup.observe(SHARES)?)?;
                self.settle_as_others(&samples)?;
                samples.splitters(self.split_policy).len() + 1
            }
            _ => self.await_ranges()?.count(),
        };
        Ok(count as u64)
    }

    /// Chooses the layout that others have chosen, in a process without records.
    fn settle_as_others(&self, samples: &GatheredSamples) -> Result<()> {
        samples.key_layout().map_or(Ok(()), |layout| self.encoder.settle(layout))
    }

    /// The ranges of this process; blocks until they are known.
    pub(crate) fn await_ranges(&self) -> Result<Arc<SortedRuns>> {
        let mut shared = self.shared.lock();
        loop {
            if let Some(ranges) = &shared.ranges {
                return Ok(ranges.clone());
            }
            if shared.is_released {
                return Err(Error::corrupt("the records of a partition have been released"));
            }
            self.cancel.wait(&self.changed, &mut shared)?;
        }
    }

    /// Drops all records, which nothing reads any more.
    pub(crate) fn release(&self) {
        let mut shared = self.shared.lock();
        shared.is_released = true;
        (shared.ranges, shared.reservations) = (None, vec![]);
    }

    /// The layout of held records.
    pub(crate) fn layout(&self) -> &Arc<RecordLayout> {
        &self.layout
    }

    /// A remark on the passes, for the report.
    pub(crate) fn remark(&self) -> String {
        let shared = self.shared.lock();
        match shared.runs_written {
            0 => "one pass: everything fitted the memory".to_string(),
            runs => format!(
                "two passes: {runs} sorted runs, {:.1} MB went through scratch",
                shared.spilled_bytes as f64 / 1e6
            ),
        }
    }

    /// Adds the runs of an instance. The last one returns the encoded samples of the process.
    fn add_runs(&self, held: MemoryRuns, disk: Vec<DiskRun>, setup: &Setup) -> Option<Vec<u8>> {
        let mut shared = self.shared.lock();
        shared.arrived += 1;
        shared.runs_written += disk.len();
        shared.spilled_bytes += disk.iter().map(DiskRun::bytes).sum::<usize>();
        shared.memory.push(held);
        shared.disk.extend(disk);
        if shared.arrived < setup.instances_here {
            return None;
        }
        let (memory, disk) = (std::mem::take(&mut shared.memory), std::mem::take(&mut shared.disk));
        let disk_runs = disk.len();
        let ranges = self.uncut(memory, disk);
        // The contributing instance identifies the process.
        let member = (setup.instance, setup.exchange.others().len() + 1);
        let share = LocalSamples::of(
            &ranges,
            (disk_runs, setup.memory.share_bytes()),
            member,
            &self.interner,
        )
        .with_key_layout(self.encoder.settled())
        .encode();
        shared.uncut = Some((ranges, setup.instance));
        Some(share)
    }

    fn uncut(&self, memory: Vec<MemoryRuns>, disk: Vec<DiskRun>) -> SortedRuns {
        let ranges =
            SortedRuns::uncut(self.encoder.clone(), self.layout.held().clone(), memory, disk);
        ranges.within(self.range_bytes_max)
    }
}
