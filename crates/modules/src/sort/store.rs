//! What the instances of a `partition` bring together: sorted runs, cut into ranges of the keys
//! when everything has come in.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use euphrates_flow::metrics::State;
use euphrates_flow::{Cancel, Error, Ports, Result, Setup};
use euphrates_io::scratch::Scratch;
use euphrates_policy::sort::RangeSizes;

use super::council::{Council, Share};
use super::intake::Intake;
use super::keys::KeyEncoder;
use super::layout::Layout;
use super::ranges::{Cutting, Ranges};
use super::runs::MemoryRuns;
use super::spill::DiskRun;

/// What all instances bring when they have nothing left to take in.
const SHARES: &str = "shares";
/// How many ranges there are: brought by the first of them, for everybody.
const COUNT: &str = "count";

/// The runs of one process.
pub struct RangeStore {
    pub(super) layout: Arc<Layout>,
    pub(super) encoder: Arc<KeyEncoder>,
    pub(super) scratch: Scratch,
    share_bytes: usize,
    cancel: Arc<Cancel>,
    cutting: Cutting,
    shared: Mutex<Shared>,
    changed: Condvar,
}

#[derive(Default)]
struct Shared {
    arrived: usize,
    runs_written: usize,
    spilled_bytes: usize,
    memory: Vec<MemoryRuns>,
    disk: Vec<DiskRun>,
    /// All that is here, until all processes know where to cut, and who has spoken for it.
    uncut: Option<(Ranges, usize)>,
    ranges: Option<Arc<Ranges>>,
}

impl RangeStore {
    /// Of the instances that are in this process.
    pub fn new(
        layout: Arc<Layout>,
        encoder: Arc<KeyEncoder>,
        cutting: Cutting,
        setup: &Setup,
    ) -> RangeStore {
        let store = RangeStore {
            layout,
            encoder,
            scratch: Scratch::new(setup),
            share_bytes: setup.memory_bytes,
            cancel: setup.cancel.clone(),
            cutting,
            shared: Mutex::default(),
            changed: Condvar::new(),
        };
        if setup.instances_here == 0 {
            // Whoever takes from others merges what comes with nothing of its own.
            store.lock().ranges = Some(Arc::new(store.uncut(vec![], vec![])));
        }
        store
    }

    /// Hands in what an instance has, and waits until all have.
    pub fn meet(&self, held: MemoryRuns, disk: Vec<DiskRun>, ports: &Ports) -> Result<()> {
        let setup = ports.setup();
        let speaks = self.hand_in(held, disk, setup);
        let _state = ports.metrics().enter(State::Starved);
        if !setup.is_whole {
            let all = Council::of(&setup.gather(SHARES, speaks.unwrap_or_default())?)?;
            let mut shared = self.lock();
            if let Some((mut ranges, speaker)) = shared.uncut.take() {
                let sizes = self.range_sizes(setup, all.disk_runs());
                all.cut(&mut ranges, speaker, sizes, self.cutting);
                shared.ranges = Some(Arc::new(ranges));
                self.changed.notify_all();
            }
        }
        let count = match setup.instance {
            0 => (self.await_ranges()?.count() as u64).to_le_bytes().to_vec(),
            _ => vec![],
        };
        setup.gather(COUNT, count).map(drop)
    }

    /// How many ranges there are, when that is known.
    pub fn count(setup: &Setup) -> Result<u64> {
        let counts = setup.learn(COUNT)?;
        let count = counts.first().and_then(|count| count.as_slice().try_into().ok());
        count.map(u64::from_le_bytes).ok_or_else(|| Error::corrupt("a count that is no number"))
    }

    /// The ranges of what is here, when they are known.
    pub fn await_ranges(&self) -> Result<Arc<Ranges>> {
        let mut shared = self.lock();
        loop {
            if let Some(ranges) = &shared.ranges {
                return Ok(ranges.clone());
            }
            self.cancel.check()?;
            let woken = self.changed.wait_timeout(shared, Duration::from_millis(50));
            shared = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// An instance's own part, to take in with.
    pub fn intake(self: &Arc<Self>, setup: &Setup) -> Intake {
        Intake::new(self.clone(), setup)
    }

    /// How records are held.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// How often it went to disk, for people.
    pub fn remark(&self) -> String {
        let shared = self.lock();
        match shared.runs_written {
            0 => "one pass: everything fitted the memory".to_string(),
            runs => format!(
                "two passes: {runs} sorted runs, {:.1} MB went through scratch",
                shared.spilled_bytes as f64 / 1e6
            ),
        }
    }

    /// The last to arrive cuts the ranges, if all that there is is here; else it says what the
    /// others need to know of it.
    fn hand_in(&self, held: MemoryRuns, disk: Vec<DiskRun>, setup: &Setup) -> Option<Vec<u8>> {
        let mut shared = self.lock();
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
        let mut ranges = self.uncut(memory, disk);
        if setup.is_whole {
            ranges.cut(self.range_sizes(setup, disk_runs), self.cutting);
            shared.ranges = Some(Arc::new(ranges));
            self.changed.notify_all();
            return None;
        }
        let processes = setup.exchange.others().len() + 1;
        let share = Share::of(&ranges, disk_runs, processes).write();
        shared.uncut = Some((ranges, setup.instance));
        Some(share)
    }

    fn uncut(&self, memory: Vec<MemoryRuns>, disk: Vec<DiskRun>) -> Ranges {
        Ranges::uncut(self.encoder.clone(), self.layout.held().clone(), memory, disk)
    }

    /// Of ranges cut from so many runs on disk. As many take them as have brought what is in them.
    fn range_sizes(&self, setup: &Setup, disk_runs: usize) -> RangeSizes {
        RangeSizes::new(setup.instances, self.share_bytes, disk_runs)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
