//! What the instances of a `partition` bring together: sorted runs, cut into ranges of the keys
//! when everything has come in. They meet once, since a slow one makes all others wait for that.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use euphrates_flow::metrics::State;
use euphrates_flow::{Cancel, Ports, Result, Setup};
use euphrates_io::scratch::Scratch;
use euphrates_policy::sort::{kept_keys_bytes_max, range_bytes_max};

use super::council::{Council, Share};
use super::intake::Intake;
use super::keys::KeyEncoder;
use super::layout::Layout;
use super::owned::KeyKeeper;
use super::ranges::{Cutting, Ranges};
use super::runs::MemoryRuns;
use super::spill::DiskRun;

/// What all instances bring when they have nothing left to take in.
const SHARES: &str = "shares";

/// The runs of one process.
pub struct RangeStore {
    pub(super) layout: Arc<Layout>,
    pub(super) encoder: Arc<KeyEncoder>,
    pub(super) scratch: Scratch,
    /// Keeps keys of all instances here.
    pub(super) keeper: Mutex<KeyKeeper>,
    share_bytes: usize,
    range_bytes_max: usize,
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
            keeper: Mutex::new(KeyKeeper::new(kept_keys_bytes_max(
                setup.memory_bytes,
                setup.budget_bytes,
            ))),
            share_bytes: setup.memory_bytes,
            range_bytes_max: match cutting {
                Cutting::Anywhere => range_bytes_max(setup.budget_bytes, setup.instances_here),
                // A group is as large as it is.
                Cutting::BetweenKeys => range_bytes_max(setup.budget_bytes, 1),
            },
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
        let share = self.hand_in(held, disk, setup).unwrap_or_default();
        let all = {
            let _state = ports.metrics().enter(State::Starved);
            setup.gather(SHARES, share)?
        };
        let uncut = self.lock().uncut.take();
        if let Some((mut ranges, speaker)) = uncut {
            Council::of(&all)?.cut(&mut ranges, speaker, self.cutting);
            self.lock().ranges = Some(Arc::new(ranges));
            self.changed.notify_all();
        }
        Ok(())
    }

    /// How many ranges there are, when that is known.
    pub fn count(&self, setup: &Setup) -> Result<u64> {
        let count = match setup.instances_here {
            0 => Council::of(&setup.learn(SHARES)?)?.borders(self.cutting).len() + 1,
            _ => self.await_ranges()?.count(),
        };
        Ok(count as u64)
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

    /// The last to arrive says what all processes need to know of what is here.
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
        let ranges = self.uncut(memory, disk);
        // Its speaker's number is no other process's.
        let place = (setup.instance, setup.exchange.others().len() + 1);
        let share = Share::of(&ranges, (disk_runs, self.share_bytes), place, &self.keeper).write();
        shared.uncut = Some((ranges, setup.instance));
        Some(share)
    }

    fn uncut(&self, memory: Vec<MemoryRuns>, disk: Vec<DiskRun>) -> Ranges {
        let ranges = Ranges::uncut(self.encoder.clone(), self.layout.held().clone(), memory, disk);
        ranges.within(self.range_bytes_max)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
