//! Samples a running flow ten times a second: measures throughput, detects slow components, and
//! applies perturbations. It has a thread of its own, so that samples are regular.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use euphrates_device::disk::{DiskCounts, DiskTransfers, Disks, disk_counts};
use euphrates_flow::check::CheckedFlow;
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::{Perturbation, Result, spawn_named};
use euphrates_policy::ideal::IntervalCounters;
use euphrates_policy::straggler_detector::{
    ComponentCounters, SAMPLE_INTERVAL_NS, SlowEpisode, StragglerDetector,
};
use parking_lot::Mutex;

use crate::machine;
use crate::observe::history::{History, HistorySample};
use crate::observe::processors::{ProcessClock, Processors};
use crate::run::perturber::{Perturber, from_now};
use crate::run::running_part::RunningPart;

/// The sampling of one flow; ends when dropped.
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    ended: AtomicBool,
    state: Mutex<SamplerState>,
}

/// A component whose speed is measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Component {
    /// An instance: module (index into the flow's nodes) and number.
    Instance(usize, usize),
    /// The reads or the writes of a disk.
    Disk {
        /// The worker that uses the disk, if in another process.
        worker: Option<String>,
        /// The name of the disk or its device.
        name: String,
        /// Whether it is about writes; otherwise about reads.
        writes: bool,
    },
}

/// The state of the sampling.
pub(crate) struct SamplerState {
    pub components: Vec<Component>,
    pub history: History,
    stragglers: StragglerDetector,
    /// The names of the modules.
    ids: Vec<String>,
    instances: Vec<Watched>,
    /// By names and folders.
    disks: BTreeMap<DiskKey, WatchedDisk>,
    /// Folders of the disks named in the flow's home; named disks of other flows are ignored.
    named: Vec<PathBuf>,
    facts: Vec<ComponentCounters>,
    began: Instant,
    last: Instant,
    processors: Processors,
    /// The number of samples with CPU use or disk transfers, whatever the states of instances.
    works: u64,
    elsewhere: Option<RemoteReports>,
    perturber: Perturber,
}

/// An instance with its busy time, and the CPU time and scheduling delay of its thread, at the last
/// sample.
struct Watched {
    metrics: Arc<InstanceMetrics>,
    busy: Duration,
    times: Option<(Duration, Duration)>,
}

/// The worker, if in another process; the disk's name; and its folder, if it is a named disk.
type DiskKey = (Option<String>, String, Option<PathBuf>);

/// Reads the latest reports of the flow's other processes.
pub(crate) type RemoteReports = Box<dyn Fn() -> Vec<RemoteReport> + Send>;

/// The latest report of another process.
pub(crate) struct RemoteReport {
    pub worker: String,
    pub clock: ProcessClock,
    pub disks: Vec<DiskCounts>,
}

/// A disk, its transfers at the last sample, and the first of its two components: these are added
/// with its first transfer.
#[derive(Default)]
struct WatchedDisk {
    read: DiskTransfers,
    written: DiskTransfers,
    component: Option<usize>,
}

impl Sampler {
    /// Starts sampling a flow that started at `epoch`.
    pub fn start(
        flow: &CheckedFlow,
        part: &RunningPart,
        perturber: Perturber,
        (home, epoch): (&Path, Instant),
        elsewhere: Option<RemoteReports>,
    ) -> Result<Sampler> {
        let mut state = SamplerState::new(flow, part, perturber, epoch);
        state.elsewhere = elsewhere;
        state.named = Disks::of(home)?.named().iter().map(|disk| disk.folder.clone()).collect();
        let shared = Arc::new(Shared { ended: AtomicBool::new(false), state: Mutex::new(state) });
        let watched = shared.clone();
        let thread = spawn_named("sampler", move || {
            while !watched.ended.load(Relaxed) {
                let next = Instant::now() + Duration::from_nanos(SAMPLE_INTERVAL_NS);
                watched.state.lock().sample();
                while !watched.ended.load(Relaxed) && Instant::now() < next {
                    std::thread::park_timeout(next - Instant::now());
                }
            }
        })?;
        Ok(Sampler { shared, thread: Some(thread) })
    }

    /// The components that are slow now.
    pub fn slow(&self) -> Vec<SlowNow> {
        let state = self.shared.state.lock();
        let slow = state.stragglers.slow();
        // A component that has recovered only waits for that to be confirmed.
        let slow = slow.filter(|(_, factor)| factor.is_none_or(|factor| factor > LISTED_MIN));
        slow.map(|(episode, factor)| SlowNow { name: state.name(episode.component), factor })
            .collect()
    }

    /// A number that changes while a process of the flow computes, or reads or writes a disk.
    pub fn works(&self) -> u64 {
        self.shared.state.lock().works
    }

    /// The reads and the writes of every disk with transfers, as two entries: name and busy time.
    pub fn disks(&self) -> Vec<(String, Duration)> {
        let state = self.shared.state.lock();
        let disks = state.components.iter().zip(&state.facts).enumerate();
        let disk =
            |(at, (component, facts)): (usize, (&Component, &ComponentCounters))| match component {
                Component::Instance(..) => None,
                Component::Disk { .. } => {
                    Some((state.name(at), Duration::from_nanos(facts.busy_ns)))
                }
            };
        disks.filter_map(disk).collect()
    }

    /// Bytes moved, in and out, and the busy time of every component.
    pub fn worked(&self) -> Vec<(Component, u64, Duration)> {
        let state = self.shared.state.lock();
        let worked = |(component, facts): (&Component, &ComponentCounters)| {
            let busy = Duration::from_nanos(facts.busy_ns);
            (component.clone(), facts.work_in + facts.work_out, busy)
        };
        state.components.iter().zip(&state.facts).map(worked).collect()
    }

    /// The names of the flow's workers, and by module and instance the number of its worker.
    pub fn workers(&self) -> (Vec<String>, Vec<Vec<usize>>) {
        self.shared.state.lock().perturber.workers()
    }

    /// Reads the state so far.
    pub fn so_far<T>(&self, read: impl FnOnce(&SamplerState) -> T) -> T {
        read(&self.shared.state.lock())
    }

    /// Adds perturbations, whose times count from now; returns them with times from the flow's
    /// start.
    pub fn perturb(&self, list: &[Perturbation], flow: &CheckedFlow) -> Result<Vec<Perturbation>> {
        let mut state = self.shared.state.lock();
        let list = from_now(list, state.began.elapsed().as_secs_f64());
        state.perturber.add(&list, flow).map(|()| list)
    }

    /// Removes all perturbations at once.
    pub fn clear_perturbations(&self) {
        self.shared.state.lock().perturber.clear();
    }

    /// Takes a last sample and ends; reads the state and all slow episodes.
    pub fn finish<T>(mut self, read: impl FnOnce(&SamplerState, &[SlowEpisode]) -> T) -> T {
        self.end();
        let mut state = self.shared.state.lock();
        state.sample();
        let stragglers = std::mem::take(&mut state.stragglers);
        let episodes = stragglers.finish(state.began.elapsed().as_nanos() as u64);
        read(&state, &episodes)
    }

    fn end(&mut self) {
        self.shared.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread samples and sleeps; it cannot fail.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
        // Disks and memory outlive the flow's instances, so their perturbations end here.
        self.shared.state.lock().perturber = Perturber::default();
    }
}

/// From this slowdown on, a component is shown as standing still: one step of progress in the whole
/// window is noise.
pub(crate) const STILL: f64 = 50.0;

/// Below this slowdown, a component that has been slow is not listed as slow now.
const LISTED_MIN: f64 = 1.3;

/// Below this part of a processor, a process only does its own housekeeping.
const COMPUTES_MIN: f64 = 0.2;

/// A component that is slow now.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SlowNow {
    /// The instance or disk.
    pub name: String,
    /// The slowdown; `None` if it makes no progress.
    pub factor: Option<f64>,
}

/// The name and the slowdown: `map_1.2 (4.1x)`.
impl fmt::Display for SlowNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.factor {
            Some(factor) if factor < STILL => write!(f, "{} ({factor:.1}x)", self.name),
            _ => write!(f, "{} (still)", self.name),
        }
    }
}

impl SamplerState {
    fn new(
        flow: &CheckedFlow,
        part: &RunningPart,
        perturber: Perturber,
        began: Instant,
    ) -> SamplerState {
        let mut stragglers = StragglerDetector::default();
        let (mut components, mut instances) = (vec![], vec![]);
        for (node, of) in part.metrics.iter().enumerate() {
            for (number, metrics) in of.metrics.iter().enumerate() {
                stragglers.add(node, true);
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
        SamplerState {
            facts: vec![ComponentCounters::default(); components.len()],
            components,
            history: History::default(),
            stragglers,
            ids: flow.nodes.iter().map(|node| node.id.clone()).collect(),
            instances,
            disks: disk_counts().into_iter().map(disk).collect(),
            named: vec![],
            began,
            last: began,
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

    /// CPU seconds of an instance, if the system reports them.
    pub fn computed(&self, component: usize) -> Option<f64> {
        self.facts[component].cpu_ns.map(|ns| ns as f64 / 1e9)
    }

    fn sample(&mut self) {
        let now = Instant::now();
        let now_ns = now.saturating_duration_since(self.began).as_nanos() as u64;
        self.perturber.apply(now_ns);
        let wall = now.saturating_duration_since(self.last).as_secs_f64().max(1e-9);
        let elsewhere = self.elsewhere.as_ref().map(|ask| ask()).unwrap_or_default();
        let clocks = elsewhere.iter().map(|seen| (seen.worker.as_str(), &seen.clock));
        let had = self.processors.sample(clocks, wall);
        let (asked, processes) = (self.asked(), 1 + elsewhere.len());
        let instances = self.instances.iter_mut().zip(&mut self.facts);
        let mut steps: Vec<IntervalCounters> =
            instances.map(|(one, facts)| one.sample(facts)).collect();
        let got = granted(asked, self.asked());
        self.sample_disks(elsewhere, &mut steps);
        let computes = had.used_seconds > wall * COMPUTES_MIN * processes as f64;
        let disks = &steps[self.instances.len()..];
        self.works += u64::from(computes || disks.iter().any(|disk| disk.busy_ns > 0));
        self.history.push(&HistorySample {
            wall_ns: (wall * 1e9) as u64,
            used_ns: (had.used_seconds * 1e9) as u64,
            // Other programs would have shared the processors that they used, so the flow could
            // have had at least its granted share of all.
            available: (had.cores - had.others).max(had.cores * got).max(0.0),
            steps,
        });
        self.stragglers.on_sample(now_ns, &self.facts);
        self.last = now;
    }

    /// CPU time and scheduling delay of all instances.
    fn asked(&self) -> (Duration, Duration) {
        let times = self.instances.iter().filter_map(|one| one.times);
        times.fold((Duration::ZERO, Duration::ZERO), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn sample_disks(&mut self, elsewhere: Vec<RemoteReport>, steps: &mut Vec<IntervalCounters>) {
        steps.resize(self.components.len(), IntervalCounters::default());
        let away = elsewhere.into_iter().flat_map(|RemoteReport { worker, disks, .. }| {
            disks.into_iter().map(move |counts| (Some(worker.clone()), counts))
        });
        let here = disk_counts().into_iter().map(|counts| (None, counts));
        for (worker, counts) in here.chain(away).collect::<Vec<_>>() {
            let DiskCounts { name, folder, read, written } = counts;
            if folder.as_ref().is_some_and(|folder| !self.named.contains(folder)) {
                continue;
            }
            let is_named = folder.is_some();
            let key = (worker.clone(), name.clone(), folder);
            let disk = self.disks.entry(key).or_default();
            let (got, put) = (read.since(disk.read), written.since(disk.written));
            let ns = |moved: DiskTransfers| moved.busy.as_nanos() as u64;
            let nothing = IntervalCounters::default();
            let both = [
                IntervalCounters { work_in: got.bytes, busy_ns: ns(got), ..nothing },
                IntervalCounters { work_out: put.bytes, busy_ns: ns(put), ..nothing },
            ];
            (disk.read, disk.written) = (read, written);
            if disk.component.is_none() && both.iter().all(|step| step.work() == 0.0) {
                continue;
            }
            let first = *disk.component.get_or_insert(self.components.len());
            if first == self.components.len() {
                for writes in [false, true] {
                    // Unnamed devices are no alternatives to each other, so each is compared with
                    // itself.
                    let group = self.ids.len() + usize::from(writes);
                    let alone = self.ids.len() + 2 + self.components.len();
                    self.stragglers.add(if is_named { group } else { alone }, is_named);
                    let (worker, name) = (worker.clone(), name.clone());
                    self.components.push(Component::Disk { worker, name, writes });
                    self.facts.push(ComponentCounters::default());
                    steps.push(IntervalCounters::default());
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
    /// The work since the last sample, which is added to the facts.
    fn sample(&mut self, facts: &mut ComponentCounters) -> IntervalCounters {
        let counters = self.metrics.read();
        let busy = self.metrics.busy_so_far();
        let busy_more = busy.saturating_sub(self.busy);
        let times = match self.metrics.remote() {
            Some(told) => told.times,
            None => self.metrics.thread().and_then(machine::thread_times),
        };
        let before = self.times.unwrap_or_default();
        let more = times.map(|(computed, queued)| {
            (computed.saturating_sub(before.0), queued.saturating_sub(before.1))
        });
        self.times = times.or(self.times);
        self.busy = busy.max(self.busy);
        // An instance that waits for a processor cannot work: that is the machine's slowness, not
        // its own. Part of the delay may lie in idle time, so at most the time beyond the CPU time
        // is subtracted.
        let (computed, queued) = more.unwrap_or_default();
        let busy_ns = busy_more.saturating_sub(queued).max(computed.min(busy_more));
        let step = IntervalCounters {
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

/// The share granted of the processor time asked for between two samples.
fn granted(before: (Duration, Duration), now: (Duration, Duration)) -> f64 {
    let computed = now.0.saturating_sub(before.0).as_secs_f64();
    let queued = now.1.saturating_sub(before.1).as_secs_f64();
    if computed + queued > 0.0 { computed / (computed + queued) } else { 0.0 }
}

fn add(facts: &mut ComponentCounters, step: &IntervalCounters, computed_ns: Option<u64>) {
    facts.work_in += step.work_in;
    facts.work_out += step.work_out;
    facts.busy_ns += step.busy_ns;
    facts.cpu_ns = computed_ns.map(|more| facts.cpu_ns.unwrap_or(0) + more).or(facts.cpu_ns);
}
