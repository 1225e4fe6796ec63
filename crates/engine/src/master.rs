//! The master: checks a flow, starts it, waits for it, and makes its output visible or removes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use euphrates_flow::check::{Checked, check};
use euphrates_flow::metrics::{InstanceMetrics, State};
use euphrates_flow::{Cancel, Document, Error, Kind, Perturbation, Registry, Result, Setup};
use euphrates_io::buffer::pool;
use euphrates_policy::distributed::Policy;
use euphrates_policy::memory;
use euphrates_policy::stall::StallWatch;
use serde_json::Value;

use crate::division;
use crate::machine;
use crate::perturb::Perturber;
use crate::progress::{Pace, Progress};
use crate::report::Report;
use crate::slowness::Slowness;
use crate::watch::Watch;
use crate::worker::{self, Resources, Worker};

/// After a cancel, instances have this long to come back; then they are left behind.
pub const CANCEL_GRACE: Duration = Duration::from_millis(1500);

/// How a flow is run. The default suits this machine.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Bytes of memory the flow may use; 70 % of the machine's or control group's by default.
    pub memory_bytes: Option<usize>,
    /// Instances of a module that does not say how many it wants; one a core by default.
    pub cores: Option<usize>,
    /// In-process workers that the instances are spread over; one by default.
    pub workers: Option<usize>,
    /// How distributed queues decide; by default the best for where their ends are.
    pub division: Option<Policy>,
    /// Values of the flow's variables.
    pub variables: BTreeMap<String, Value>,
    /// Where collections live; `$EUPHRATES_HOME` or `~/.euphrates` by default.
    pub home: Option<PathBuf>,
    /// Folders for what does not fit the memory; `$EUPHRATES_SCRATCH` or under the home by default.
    pub scratch: Vec<PathBuf>,
    /// What is done to the flow, to see how it bears it.
    pub perturbations: Vec<Perturbation>,
}

impl Options {
    fn cores(&self) -> usize {
        self.cores.unwrap_or_else(machine::cores).max(1)
    }

    fn home(&self) -> PathBuf {
        self.home.clone().unwrap_or_else(machine::home)
    }

    /// The memory budget in bytes.
    pub fn budget(&self) -> usize {
        self.memory_bytes.unwrap_or_else(|| memory::default_budget(machine::memory_bytes()))
    }
}

/// Binds the variables and checks the flow without starting it.
pub fn prepare(document: &Document, registry: &Registry, options: &Options) -> Result<Checked> {
    check(&document.bind(&options.variables)?, registry, options.cores(), &options.home())
}

/// Checks, starts and waits (River's `Go`).
pub fn go(document: &Document, registry: &Registry, options: &Options) -> Result<Report> {
    start(document, registry, options)?.wait()
}

/// Checks and starts; does not wait.
pub fn start(document: &Document, registry: &Registry, options: &Options) -> Result<Running> {
    let began = Instant::now();
    let flow = prepare(document, registry, options)?;
    let given = [
        ("threads", options.cores),
        ("memory", options.memory_bytes),
        ("workers", options.workers),
    ];
    if let Some((what, _)) = given.iter().find(|(_, number)| *number == Some(0)) {
        let error = Error::usage(format!("a flow cannot run with no {what}"));
        return Err(error.remedy("give at least 1, or leave it out"));
    }
    options.scratch.iter().try_for_each(|folder| check_scratch(folder))?;
    let (workers, home) = (options.workers.unwrap_or(1), options.home());
    let mut perturber = Perturber::new(&options.perturbations, &flow, workers, &home)?;
    let resources = resources(&flow, options);
    let cancel = resources.setup.cancel.clone();
    pool().keep_at_most(memory::slabs_bytes_max(options.budget()));
    // What is there from the start is there before the first batch.
    perturber.on_look(0);
    let started = worker::start(&flow, &resources, &perturber, began).and_then(|worker| {
        let watch = Watch::start(&flow, &worker, perturber, &home, began)?;
        Ok((worker, watch))
    });
    let (worker, watch) = started.inspect_err(|_| {
        cancel.cancel();
        flow.nodes.iter().for_each(|node| node.placed.abandon());
    })?;
    Ok(Running {
        flow,
        worker,
        watch: Some(watch),
        perturbations: options.perturbations.clone(),
        cancel,
        began,
        pace: Mutex::default(),
        failure: None,
        outcome: None,
        stall: StallWatch::default(),
    })
}

/// Better now than in the middle of a sort.
fn check_scratch(folder: &Path) -> Result<()> {
    let made = std::fs::create_dir_all(folder);
    made.map_err(|error| {
        Error::usage(format!("{} cannot hold scratch files: {error}", folder.display()))
            .remedy("name a folder that can be written to")
    })
}

fn resources(flow: &Checked, options: &Options) -> Resources {
    let hungry = flow.nodes.iter().filter(|node| node.spec.wants_memory);
    let hungry_instances = hungry.map(|node| node.count).sum();
    let queue_bytes = flow.edges.iter().map(|edge| edge.bytes_max).sum();
    let home = options.home();
    let scratch = match options.scratch.is_empty() {
        true => machine::scratch(&home),
        false => options.scratch.clone(),
    };
    let setup = Setup {
        instance: 0,
        instances: 1,
        is_divided: options.division.is_some_and(division::is_static),
        memory_bytes: 0,
        budget_bytes: options.budget(),
        scratch,
        home,
        run_id: machine::run_id(),
        cancel: Arc::new(Cancel::default()),
    };
    let share_bytes = memory::share(options.budget(), queue_bytes, hungry_instances);
    let (workers, division) = (options.workers.unwrap_or(1), options.division);
    Resources { share_bytes, setup, workers, division }
}

/// A flow that has been started. Dropping it cancels the flow.
pub struct Running {
    flow: Checked,
    worker: Worker,
    /// Until the end.
    watch: Option<Watch>,
    perturbations: Vec<Perturbation>,
    cancel: Arc<Cancel>,
    began: Instant,
    pace: Mutex<Pace>,
    /// The first failure that was not the echo of another.
    failure: Option<Error>,
    outcome: Option<f64>,
    stall: StallWatch,
}

impl Running {
    /// The flow as checked.
    pub fn flow(&self) -> &Checked {
        &self.flow
    }

    /// Where every module stands now.
    pub fn progress(&self) -> Progress {
        let mut pace = self.pace.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let slow = self.watch.as_ref().map(Watch::slow).unwrap_or_default();
        Progress::read(&self.flow, &self.worker, slow, self.began.elapsed(), &mut pace)
    }

    /// Stops the flow; `wait` will return `Interrupted`, and no output will appear.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// A switch that stops the flow, to be kept elsewhere.
    pub fn canceller(&self) -> Arc<Cancel> {
        self.cancel.clone()
    }

    /// Waits for the end, commits, and reports.
    pub fn wait(mut self) -> Result<Report> {
        while !self.wait_for(Duration::from_secs(3600)) {}
        self.finish()
    }

    /// Waits for the end of all instances, at most this long; `true` when `finish` will not wait.
    pub fn wait_for(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while self.worker.left > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            // A cancel may come while we listen: look again soon enough to keep its grace short.
            match self.worker.ended.recv_timeout(left.min(Duration::from_millis(20))) {
                Ok(result) => self.note(result),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => {
                    self.drain_cancelled();
                    return true;
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return false,
                Err(RecvTimeoutError::Timeout) => self.look(),
            }
        }
        self.outcome.get_or_insert(self.began.elapsed().as_secs_f64());
        true
    }

    /// Ends a flow whose modules wait for each other for ever.
    fn look(&mut self) {
        let instances = || self.worker.instances.iter().flat_map(|one| &one.metrics);
        let waits = |state| matches!(state, State::Starved | State::Blocked | State::Ended);
        let all_wait = instances().all(|one| waits(one.state()));
        let moved = instances().map(|one| one.moved()).fold(0, u64::wrapping_add);
        if self.failure.is_some() || !self.stall.on_look(all_wait, moved) {
            return;
        }
        let modules = self.flow.nodes.iter().zip(&self.worker.instances);
        let waiting = modules.flat_map(|(node, instances)| {
            let state = |one: &Arc<InstanceMetrics>| match one.state() {
                State::Starved => Some(format!("{} waits for input", node.id)),
                State::Blocked => Some(format!("{} waits for room in its output", node.id)),
                _ => None,
            };
            instances.metrics.iter().find_map(state)
        });
        let waiting: Vec<String> = waiting.collect();
        let message = format!("the flow stands still: {}", waiting.join(", "));
        let remedy = "let the module where branches meet read its inputs side by side (`select`), \
                      or give the queues into it more room (`bytes_max`)";
        self.failure = Some(Error::failed(message).remedy(remedy));
        self.cancel.cancel();
    }

    /// After a cancel: waits out the grace, then leaves behind what does not come back.
    fn drain_cancelled(&mut self) {
        let deadline = Instant::now() + CANCEL_GRACE;
        while self.worker.left > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.worker.ended.recv_timeout(left) {
                Ok(result) => self.note(result),
                Err(_) => break,
            }
        }
    }

    fn note(&mut self, result: Result<()>) {
        self.worker.left -= 1;
        let Err(error) = result else { return };
        let echo = error.kind() == Kind::Interrupted;
        if self.failure.as_ref().is_none_or(|first| first.kind() == Kind::Interrupted && !echo) {
            self.failure = Some(error);
        }
    }

    /// Commits if all went well, else abandons; to be called after `wait_for` said `true`.
    pub fn finish(mut self) -> Result<Report> {
        if self.worker.left == 0 {
            self.worker.threads.drain(..).for_each(|thread| {
                // Panics of modules are caught in the thread and told as failures.
                let _ = thread.join();
            });
        }
        let failure = self.failure.take();
        if let Some(error) = failure {
            return Err(error);
        }
        if self.cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        let nodes = || self.flow.nodes.iter();
        let placed = |node: &euphrates_flow::check::CheckedNode, error: Error| {
            error.at(format!("module {}", node.id))
        };
        for node in nodes() {
            node.placed.settle().map_err(|error| placed(node, error))?;
        }
        if self.cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        for node in nodes() {
            node.placed.commit().map_err(|error| placed(node, error))?;
        }
        let seconds = self.began.elapsed().as_secs_f64();
        self.outcome = Some(seconds);
        let slowness = self.watch.take().map(|watch| {
            let (flow, worker) = (&self.flow, &self.worker);
            watch.finish(|seen, spells| Slowness::new(flow, worker, seen, spells, seconds))
        });
        let perturbations = std::mem::take(&mut self.perturbations);
        let slowness = slowness.unwrap_or_default();
        Ok(Report::new(&self.flow, &self.worker, seconds, perturbations, slowness))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
        // `abandon` after `commit` finds nothing staged.
        self.flow.nodes.iter().for_each(|node| node.placed.abandon());
    }
}
