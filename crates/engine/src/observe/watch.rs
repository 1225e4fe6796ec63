//! Watches a running flow ten times a second: who does how much, who is slow; and perturbs it, if
//! it is to be. In a thread of its own, so that it looks regularly whoever waits for the flow.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use euphrates_flow::check::Checked;
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::{Error, Perturbation, Result};
use euphrates_io::disk::{DiskCounts, Disks, Moved, disk_counts};
use euphrates_policy::health::{Facts, Health, LOOK_NS, Spell};
use euphrates_policy::ideal::Step;
use parking_lot::Mutex;

use crate::machine;
use crate::observe::history::{History, Look};
use crate::observe::processors::{ProcessClock, Processors};
use crate::run::perturber::{Perturber, from_now};
use crate::run::worker::Worker;

/// The watch over one flow; it ends when this is dropped.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    ended: AtomicBool,
    state: Mutex<Watcher>,
}

/// What can be slow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Component {
    /// An instance: module (index into the flow's nodes) and number.
    Instance(usize, usize),
    /// A disk, read or written.
    Disk {
        /// The worker that uses it, if that is in another process.
        worker: Option<String>,
        /// The name.
        name: String,
        /// `false` if it is read.
        writes: bool,
    },
}

/// What has been seen.
pub(crate) struct Watcher {
    pub components: Vec<Component>,
    pub history: History,
    health: Health,
    /// Names of the modules, to speak of instances.
    ids: Vec<String>,
    instances: Vec<Watched>,
    /// By names and folders.
    disks: BTreeMap<DiskKey, WatchedDisk>,
    /// Folders of the disks that the flow's home names; those of other flows are not ours.
    named: Vec<PathBuf>,
    facts: Vec<Facts>,
    epoch: Instant,
    last: Instant,
    processors: Processors,
    /// In how many looks the flow was at work, whatever its instances say that they wait for.
    works: u64,
    elsewhere: Option<Elsewhere>,
    perturber: Perturber,
}

/// An instance, and how long it had been busy, had computed and had waited for a processor.
struct Watched {
    metrics: Arc<InstanceMetrics>,
    busy: Duration,
    times: Option<(Duration, Duration)>,
}

/// The worker that uses a disk, if it is another; the disk's name, and its folder if it is a named
/// one.
type DiskKey = (Option<String>, String, Option<PathBuf>);

/// What other processes of the flow have told last.
pub(crate) type Elsewhere = Box<dyn Fn() -> Vec<Seen> + Send>;

/// What one of them has told.
pub(crate) struct Seen {
    pub worker: String,
    pub clock: ProcessClock,
    pub disks: Vec<DiskCounts>,
}

/// A disk, what it had done, and the first of its two components: it has them once it moves
/// something.
struct WatchedDisk {
    read: Moved,
    written: Moved,
    component: Option<usize>,
}

impl Watch {
    /// Begins to watch a flow that started at `epoch`.
    pub fn start(
        flow: &Checked,
        worker: &Worker,
        perturber: Perturber,
        (home, epoch): (&Path, Instant),
        elsewhere: Option<Elsewhere>,
    ) -> Result<Watch> {
        let mut watcher = Watcher::new(flow, worker, perturber, epoch);
        watcher.elsewhere = elsewhere;
        watcher.named = Disks::of(home)?.named().iter().map(|disk| disk.folder.clone()).collect();
        let shared = Arc::new(Shared { ended: AtomicBool::new(false), state: Mutex::new(watcher) });
        let watched = shared.clone();
        let builder = std::thread::Builder::new().name("watch".into());
        let thread = builder.spawn(move || {
            while !watched.ended.load(Relaxed) {
                let next = Instant::now() + Duration::from_nanos(LOOK_NS);
                watched.state.lock().look();
                while !watched.ended.load(Relaxed) && Instant::now() < next {
                    std::thread::park_timeout(next - Instant::now());
                }
            }
        });
        let thread =
            thread.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        Ok(Watch { shared, thread: Some(thread) })
    }

    /// Who is slow now: `map_1.2 (4.1x)`.
    pub fn slow(&self) -> Vec<SlowNow> {
        let watcher = self.shared.state.lock();
        let slow = watcher.health.slow();
        // Whoever is as fast as others is only waiting to be told so.
        let slow = slow.filter(|(_, factor)| factor.is_none_or(|factor| factor > TOLD_MIN));
        slow.map(|(spell, factor)| SlowNow { name: watcher.name(spell.component), factor })
            .collect()
    }

    /// A number that changes while a process of the flow computes, or reads or writes a disk.
    pub fn works(&self) -> u64 {
        self.shared.state.lock().works
    }

    /// Every disk that has moved something: its name, and how long it has been busy.
    pub fn disks(&self) -> Vec<(String, Duration)> {
        let watcher = self.shared.state.lock();
        let disks = watcher.components.iter().zip(&watcher.facts).enumerate();
        let disk = |(at, (component, facts)): (usize, (&Component, &Facts))| match component {
            Component::Instance(..) => None,
            Component::Disk { .. } => Some((watcher.name(at), Duration::from_nanos(facts.busy_ns))),
        };
        disks.filter_map(disk).collect()
    }

    /// The names of the flow's workers, and by module and instance which of them it is at.
    pub fn workers(&self) -> (Vec<String>, Vec<Vec<usize>>) {
        self.shared.state.lock().perturber.workers()
    }

    /// What is made of all that has been seen so far.
    pub fn so_far<T>(&self, tell: impl FnOnce(&Watcher) -> T) -> T {
        tell(&self.shared.state.lock())
    }

    /// Does this to the flow from now on, besides what is done to it already. Says when that was.
    pub fn perturb(&self, list: &[Perturbation], flow: &Checked) -> Result<Vec<Perturbation>> {
        let mut watcher = self.shared.state.lock();
        let list = from_now(list, watcher.epoch.elapsed().as_secs_f64());
        watcher.perturber.add(&list, flow).map(|()| list)
    }

    /// Does nothing to it any more.
    pub fn unperturb(&self) {
        self.shared.state.lock().perturber.clear();
    }

    /// Looks once more and ends; what was seen, and all spells of slowness.
    pub fn finish<T>(mut self, tell: impl FnOnce(&Watcher, &[Spell]) -> T) -> T {
        self.end();
        let mut watcher = self.shared.state.lock();
        watcher.look();
        let health = std::mem::take(&mut watcher.health);
        let spells = health.finish(watcher.epoch.elapsed().as_nanos() as u64);
        tell(&watcher, &spells)
    }

    fn end(&mut self) {
        self.shared.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It looks at numbers and sleeps; it has nothing to fail with.
            let _ = thread.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
        // What is held must not be held for as long as somebody keeps the flow.
        self.shared.state.lock().perturber = Perturber::default();
    }
}

impl Shared {}

/// Whoever takes this many times as long stands still, with a step before and one after.
pub(crate) const STILL: f64 = 50.0;

/// Below this, somebody who has been slow is not said to be so at this moment.
const TOLD_MIN: f64 = 1.3;

/// A process that uses less of a processor than this does no more than look after itself.
const COMPUTES_MIN: f64 = 0.2;

/// Somebody who is slow at this moment.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SlowNow {
    /// The instance, or the disk.
    pub name: String,
    /// How many times as long it takes; `None` if it stands still.
    pub factor: Option<f64>,
}

/// `map_1.2 (4.1x)`.
impl fmt::Display for SlowNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.factor {
            Some(factor) if factor < STILL => write!(f, "{} ({factor:.1}x)", self.name),
            _ => write!(f, "{} (still)", self.name),
        }
    }
}

impl Watcher {
    fn new(flow: &Checked, worker: &Worker, perturber: Perturber, epoch: Instant) -> Watcher {
        let mut health = Health::default();
        let (mut components, mut instances) = (vec![], vec![]);
        for (node, of) in worker.instances.iter().enumerate() {
            for (number, metrics) in of.metrics.iter().enumerate() {
                health.add(node, true);
                components.push(Component::Instance(node, number));
                instances.push(Watched {
                    metrics: metrics.clone(),
                    busy: Duration::ZERO,
                    times: None,
                });
            }
        }
        let disk = |counts: DiskCounts| {
            let DiskCounts { name, folder, read, written } = counts;
            ((None, name, folder), WatchedDisk { read, written, component: None })
        };
        Watcher {
            facts: vec![Facts::default(); components.len()],
            components,
            history: History::default(),
            health,
            ids: flow.nodes.iter().map(|node| node.id.clone()).collect(),
            instances,
            disks: disk_counts().into_iter().map(disk).collect(),
            named: vec![],
            epoch,
            last: epoch,
            processors: Processors::default(),
            works: 0,
            elsewhere: None,
            perturber,
        }
    }

    /// `map_1.2`, `disk d1 (reading)`.
    pub fn name(&self, component: usize) -> String {
        match &self.components[component] {
            Component::Instance(node, number) => format!("{}.{number}", self.ids[*node]),
            Component::Disk { worker, name, writes } => {
                let doing = if *writes { "writing" } else { "reading" };
                let of = worker.as_ref().map_or(String::new(), |worker| format!(" of {worker}"));
                format!("disk {name}{of} ({doing})")
            }
        }
    }

    /// Seconds an instance has computed, if the system says.
    pub fn computed(&self, component: usize) -> Option<f64> {
        self.facts[component].cpu_ns.map(|ns| ns as f64 / 1e9)
    }

    fn look(&mut self) {
        let now = Instant::now();
        let now_ns = now.saturating_duration_since(self.epoch).as_nanos() as u64;
        self.perturber.on_look(now_ns);
        let wall = now.saturating_duration_since(self.last).as_secs_f64().max(1e-9);
        let elsewhere = self.elsewhere.as_ref().map(|ask| ask()).unwrap_or_default();
        let clocks = elsewhere.iter().map(|seen| (seen.worker.as_str(), &seen.clock));
        let had = self.processors.look(clocks, wall);
        let (asked, processes) = (self.asked(), 1 + elsewhere.len());
        let instances = self.instances.iter_mut().zip(&mut self.facts);
        let mut steps: Vec<Step> = instances.map(|(one, facts)| one.look(facts)).collect();
        let got = granted(asked, self.asked());
        self.look_at_disks(elsewhere, &mut steps);
        let computes = had.used_seconds > wall * COMPUTES_MIN * processes as f64;
        let disks = &steps[self.instances.len()..];
        self.works += u64::from(computes || disks.iter().any(|disk| disk.busy_ns > 0));
        self.history.push(&Look {
            wall_ns: (wall * 1e9) as u64,
            used_ns: (had.used_seconds * 1e9) as u64,
            // What others used while we asked for little would have been shared with us.
            available: (had.cores - had.others).max(had.cores * got).max(0.0),
            steps,
        });
        self.health.on_look(now_ns, &self.facts);
        self.last = now;
    }

    /// How long all instances have computed, and have waited for a processor.
    fn asked(&self) -> (Duration, Duration) {
        let times = self.instances.iter().filter_map(|one| one.times);
        times.fold((Duration::ZERO, Duration::ZERO), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn look_at_disks(&mut self, elsewhere: Vec<Seen>, steps: &mut Vec<Step>) {
        steps.resize(self.components.len(), Step::default());
        let away = elsewhere.into_iter().flat_map(|Seen { worker, disks, .. }| {
            disks.into_iter().map(move |counts| (Some(worker.clone()), counts))
        });
        let here = disk_counts().into_iter().map(|counts| (None, counts));
        for (worker, counts) in here.chain(away).collect::<Vec<_>>() {
            let DiskCounts { name, folder, read, written } = counts;
            if folder.as_ref().is_some_and(|folder| !self.named.contains(folder)) {
                continue;
            }
            let is_named = folder.is_some();
            let nothing =
                WatchedDisk { read: Moved::default(), written: Moved::default(), component: None };
            let key = (worker.clone(), name.clone(), folder);
            let disk = self.disks.entry(key).or_insert(nothing);
            let (got, put) = (read.since(disk.read), written.since(disk.written));
            let ns = |moved: Moved| moved.busy.as_nanos() as u64;
            let both = [
                Step { work_in: got.bytes, busy_ns: ns(got), ..Step::default() },
                Step { work_out: put.bytes, busy_ns: ns(put), ..Step::default() },
            ];
            (disk.read, disk.written) = (read, written);
            if disk.component.is_none() && both.iter().all(|step| step.work() == 0.0) {
                continue;
            }
            let first = *disk.component.get_or_insert(self.components.len());
            if first == self.components.len() {
                for writes in [false, true] {
                    // Devices that nobody has named are not chosen by anybody either.
                    let group = self.ids.len() + usize::from(writes);
                    let alone = self.ids.len() + 2 + self.components.len();
                    self.health.add(if is_named { group } else { alone }, is_named);
                    let (worker, name) = (worker.clone(), name.clone());
                    self.components.push(Component::Disk { worker, name, writes });
                    self.facts.push(Facts::default());
                    steps.push(Step::default());
                }
            }
            for (lane, step) in both.into_iter().enumerate() {
                add(&mut self.facts[first + lane], &step, None);
                steps[first + lane] = step;
            }
        }
    }
}

impl Watched {
    /// What it has done since the last look, added to the facts.
    fn look(&mut self, facts: &mut Facts) -> Step {
        let counters = self.metrics.read();
        let busy = self.metrics.busy_so_far();
        let busy_more = busy.saturating_sub(self.busy);
        let times = match self.metrics.told() {
            Some(told) => told.times,
            None => self.metrics.thread().and_then(machine::thread_times),
        };
        let before = self.times.unwrap_or_default();
        let more = times.map(|(computed, queued)| {
            (computed.saturating_sub(before.0), queued.saturating_sub(before.1))
        });
        self.times = times.or(self.times);
        self.busy = busy.max(self.busy);
        // Whoever waits for a processor has not the means to work: that is nobody's slowness but
        // the machine's. Some of it was waited while there was nothing to do, so it is not taken
        // for more than leaves the time it computed.
        let (computed, queued) = more.unwrap_or_default();
        let busy_ns = busy_more.saturating_sub(queued).max(computed.min(busy_more));
        let step = Step {
            work_in: counters.bytes_in.saturating_sub(facts.work_in),
            work_out: counters.bytes_out.saturating_sub(facts.work_out),
            busy_ns: busy_ns.as_nanos() as u64,
            cpu_ns: computed.as_nanos() as u64,
        };
        let computed = self.times.is_some().then_some(computed.as_nanos() as u64);
        add(facts, &step, computed);
        step
    }
}

/// The part that was granted of the processors that were asked for between two looks.
fn granted(before: (Duration, Duration), now: (Duration, Duration)) -> f64 {
    let computed = now.0.saturating_sub(before.0).as_secs_f64();
    let queued = now.1.saturating_sub(before.1).as_secs_f64();
    if computed + queued > 0.0 { computed / (computed + queued) } else { 0.0 }
}

fn add(facts: &mut Facts, step: &Step, computed_ns: Option<u64>) {
    facts.work_in += step.work_in;
    facts.work_out += step.work_out;
    facts.busy_ns += step.busy_ns;
    facts.cpu_ns = computed_ns.map(|more| facts.cpu_ns.unwrap_or(0) + more).or(facts.cpu_ns);
}
