//! The master: checks a flow, starts it, waits for it, and makes its output visible or removes it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use euphrates_flow::check::{Checked, check};
use euphrates_flow::metrics::{InstanceMetrics, State};
use euphrates_flow::perturbation::Workers;
use euphrates_flow::{
    Cancel, DecisionRef, Document, Error, Kind, NoExchange, Perturbation, Registry, Result, Setup,
};
use euphrates_io::buffer::pool;
use euphrates_io::foreign::limit_samples;
use euphrates_io::private;
use euphrates_policy::memory;
use euphrates_policy::stall::StallWatch;
use parking_lot::Mutex;

use crate::allocator;
use crate::cluster;
use crate::cluster::attempt::Attempt;
use crate::cluster::control::Closing;
use crate::machine;
use crate::observe::live::{self, Lately, Live};
use crate::observe::progress::{Pace, Progress};
use crate::observe::report::Report;
use crate::observe::slowness::{self, HistoryReport, Slowness};
use crate::observe::watch::Watch;
use crate::queue::policies;
use crate::run::commit::{completed, decision_of};
use crate::run::coordination::Here;
use crate::run::options::Options;
use crate::run::perturber::Perturber;
use crate::run::placement::{self, Member, Placement};
use crate::run::recovery::Again;
use crate::run::resume::{Left, Notebook};
use crate::run::worker::{self, Ended, OnEnded, Resources, Worker};

/// After a cancel, instances have this long to come back; then they are left behind.
pub const CANCEL_GRACE: Duration = Duration::from_millis(1500);

/// How often a flow is looked at, at most.
const LOOK: Duration = Duration::from_millis(20);

/// Binds the variables and checks the flow without starting it.
pub fn prepare(document: &Document, registry: &Registry, options: &Options) -> Result<Checked> {
    limit_samples(memory::sample_bytes_max(options.budget()));
    if let Some(cluster) = &options.cluster {
        return cluster::start::prepare(cluster, document, registry, options)
            .map(|bound| bound.flow);
    }
    let workers = options.workers.unwrap_or(1);
    let mut bound = document.bind(&options.variables)?;
    let members: Vec<Member> = names(workers).into_iter().map(Member::called).collect();
    placement::settle_counts(&mut bound, &members)?;
    check(&bound, registry, options.cores(), &options.home())
}

/// The names of so many workers of one process.
pub(crate) fn names(workers: usize) -> Vec<String> {
    (0..workers).map(|number| format!("w{number}")).collect()
}

/// Checks, starts and waits (River's `Go`).
pub fn go(document: &Document, registry: &Registry, options: &Options) -> Result<Report> {
    start(document, registry, options)?.wait()
}

/// Checks and starts; does not wait.
pub fn start(document: &Document, registry: &Registry, options: &Options) -> Result<Running> {
    start_unless(document, registry, options, &|| false)
}

/// The same, unless it is interrupted before it is under way: on a cluster that takes its time.
pub fn start_unless(
    document: &Document,
    registry: &Registry,
    options: &Options,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Running> {
    options.check()?;
    limit_samples(memory::sample_bytes_max(options.budget()));
    options.scratch.iter().try_for_each(|folder| check_scratch(folder))?;
    let completed = completed(&options.home());
    let notebook = options.resume.then(|| Notebook::of(document, options)).transpose()?;
    let left = notebook.as_ref().map(|notebook| notebook.left(document, registry, options));
    let mut running = match (left.transpose()?, &options.cluster) {
        (Some(Left::Nothing(made)), _) => {
            let (name, document) = (document.name.clone(), document.clone());
            let nothing = Checked { nodes: vec![], edges: vec![], name, document };
            let mut running = start_here(nothing, options)?;
            running.made_before = made;
            return Ok(running);
        }
        (Some(Left::Flow(left)), _) => {
            let again = Options { resume: false, variables: BTreeMap::new(), ..options.clone() };
            start_unless(&left, registry, &again, is_interrupted)?
        }
        (None, Some(cluster)) => {
            cluster::start::start(cluster, document, registry, options, is_interrupted)?
        }
        (None, None) => start_here(prepare(document, registry, options)?, options)?,
    };
    if notebook.is_some() {
        running.notebook = notebook;
    }
    running.losses.splice(0..0, completed);
    Ok(running)
}

fn start_here(mut flow: Checked, options: &Options) -> Result<Running> {
    flow.fit_queues(options.budget());
    allocator::fit(options.budget());
    let began = Instant::now();
    let (workers, home) = (options.workers.unwrap_or(1), options.home());
    let turns: Vec<Vec<usize>> = flow
        .nodes
        .iter()
        .map(|node| (0..node.count).map(|instance| instance % workers).collect())
        .collect();
    let known = Workers { names: &names(workers), of: &turns };
    let mut perturber = Perturber::new(&options.perturbations, &flow, known, &home)?;
    let run_id = machine::run_id();
    let decision = decision_of(&flow, &home, &run_id)?;
    let resources = resources(&flow, options, (run_id, decision));
    let cancel = resources.setup.cancel.clone();
    pool().keep_at_most(memory::slabs_bytes_max(options.budget()));
    // What is there from the start is there before the first batch.
    perturber.on_look(0);
    let (tell, ended) = channel();
    let on_ended: OnEnded = Arc::new(move |end| drop(tell.send(end)));
    let prepared = worker::prepare(&flow, &resources, &mut perturber, began);
    let started = prepared.and_then(|prepared| prepared.start(&cancel, on_ended));
    let started = started.and_then(|worker| {
        let watch = Watch::start(&flow, &worker, perturber, (&home, began), None)?;
        Ok((worker, watch))
    });
    let (worker, watch) = started.inspect_err(|_| {
        cancel.cancel();
        flow.nodes.iter().for_each(|node| node.placed.abandon());
    })?;
    let placement = resources.placement;
    let perturbations = options.perturbations.clone();
    let Setup { run_id, is_divided: is_static, decision, .. } = resources.setup;
    let deployment = Deployment { placement, attempt: None, run_id, is_static, decision };
    Ok(Running::new(flow, (worker, ended), deployment, Some(watch), (perturbations, cancel, began)))
}

/// Better now than in the middle of a sort.
fn check_scratch(folder: &Path) -> Result<()> {
    let made = private::make_folders(folder);
    made.map_err(|error| {
        Error::usage(format!("{} cannot hold scratch files: {error}", folder.display()))
            .remedy("name a folder that can be written to")
    })
}

fn resources(
    flow: &Checked,
    options: &Options,
    (run_id, decision): (String, Option<DecisionRef>),
) -> Resources {
    let hungry = flow.nodes.iter().filter(|node| node.spec.wants_memory);
    let hungry_instances = hungry.map(|node| node.count).sum();
    let queue_bytes = flow.edges.iter().map(|edge| edge.bytes_max).sum();
    let home = options.home();
    let scratch = match options.scratch.is_empty() {
        true => machine::scratch(&home),
        false => options.scratch.clone(),
    };
    let cancel = Arc::new(Cancel::default());
    let setup = Setup {
        module: String::new(),
        worker: "w0".to_string(),
        instance: 0,
        instances: 1,
        is_divided: options.division.is_some_and(policies::is_static),
        memory_bytes: 0,
        budget_bytes: options.budget(),
        row_bytes_max: usize::MAX,
        scratch,
        home,
        run_id,
        decision,
        commons: Arc::new(Here::new(Arc::default(), cancel.clone())),
        exchange: Arc::new(NoExchange),
        is_whole: true,
        instances_here: 1,
        cancel,
    };
    let share_bytes = memory::share(options.budget(), queue_bytes, hungry_instances);
    let (workers, division) = (options.workers.unwrap_or(1), options.division);
    let placement = Placement::alone(flow);
    let (names, network) = (Arc::default(), None);
    Resources { share_bytes, setup, workers, division, placement, names, network }
}

/// Where the instances of a flow are, and who else runs some.
pub(crate) struct Deployment {
    pub placement: Placement,
    /// What runs in other processes.
    pub attempt: Option<Attempt>,
    pub run_id: String,
    /// Whether work is divided statically.
    pub is_static: bool,
    /// What decides whether outputs are published, if there are several.
    pub decision: Option<DecisionRef>,
}

/// A flow that has been started. Dropping it cancels the flow.
pub struct Running {
    pub(crate) flow: Checked,
    pub(crate) worker: Worker,
    pub(crate) ended: Receiver<Ended>,
    pub(crate) deployment: Deployment,
    /// Until the end.
    pub(crate) watch: Option<Watch>,
    pub(crate) perturbations: Vec<Perturbation>,
    /// The user's switch.
    pub(crate) cancel: Arc<Cancel>,
    /// That of this attempt: another attempt has another.
    pub(crate) attempt_cancel: Arc<Cancel>,
    /// How to begin again, if that is possible.
    pub(crate) again: Option<Again>,
    /// What was lost on the way, and did not stop the flow.
    pub(crate) losses: Vec<String>,
    /// Where it is noted what it makes, if it is to be resumed.
    pub(crate) notebook: Option<Notebook>,
    /// Outputs that need not be made again.
    pub(crate) made_before: Vec<String>,
    pub(crate) began: Instant,
    pub(crate) pace: Mutex<Pace>,
    pub(crate) lately: Mutex<Lately>,
    /// The first failure that was not the echo of another.
    pub(crate) failure: Option<Error>,
    pub(crate) outcome: Option<f64>,
    pub(crate) stall: StallWatch,
}

impl Running {
    pub(crate) fn new(
        flow: Checked,
        (worker, ended): (Worker, Receiver<Ended>),
        deployment: Deployment,
        watch: Option<Watch>,
        (perturbations, cancel, began): (Vec<Perturbation>, Arc<Cancel>, Instant),
    ) -> Running {
        Running {
            flow,
            worker,
            ended,
            deployment,
            watch,
            perturbations,
            attempt_cancel: cancel.clone(),
            cancel,
            again: None,
            losses: vec![],
            notebook: None,
            made_before: vec![],
            began,
            pace: Mutex::default(),
            lately: Mutex::default(),
            failure: None,
            outcome: None,
            stall: StallWatch::default(),
        }
    }

    /// The same, where it may begin again.
    pub(crate) fn repeatable(mut self, attempt_cancel: Arc<Cancel>, again: Again) -> Running {
        (self.attempt_cancel, self.again) = (attempt_cancel, Some(again));
        self
    }

    /// The flow as checked.
    pub fn flow(&self) -> &Checked {
        &self.flow
    }

    /// Where every module stands now.
    pub fn progress(&self) -> Progress {
        let mut pace = self.pace.lock();
        let slow = self.watch.as_ref().map(Watch::slow).unwrap_or_default();
        let attempt = self.deployment.attempt.as_ref();
        let elsewhere = |edge| attempt.map_or(0, |attempt| attempt.waiting_bytes(edge));
        let instances = (&self.worker, &elsewhere as &dyn Fn(usize) -> i64);
        Progress::read(&self.flow, instances, slow, self.began.elapsed(), &mut pace)
    }

    /// How all of it goes at this moment, in detail.
    pub fn live(&self) -> Live {
        let mut lately = self.lately.lock();
        live::read(self, &mut lately)
    }

    /// What instances and disks have done so far.
    pub fn history(&self) -> HistoryReport {
        let history = |watch: &Watch| watch.so_far(|seen| slowness::history(&self.flow, seen));
        self.watch.as_ref().map(history).unwrap_or_default()
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
        while self.worker.left > 0 || self.failure.is_some() && self.begin_again() {
            let left = deadline.saturating_duration_since(Instant::now());
            // A cancel may come while we listen: look again soon enough to keep its grace short.
            match self.ended.recv_timeout(left.min(LOOK)) {
                Ok(ended) => self.note(ended),
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "an instance has ended without a word";
                    self.failure.get_or_insert_with(|| Error::failed(message));
                    break;
                }
                Err(RecvTimeoutError::Timeout) if self.is_cancelled() => {
                    self.drain_cancelled();
                    if !self.begin_again() {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return false,
                Err(RecvTimeoutError::Timeout) => self.look(),
            }
        }
        self.outcome.get_or_insert(self.began.elapsed().as_secs_f64());
        true
    }

    /// Why it ends without output, if it does.
    fn end(&mut self) -> Option<Error> {
        if self.worker.left == 0 {
            self.worker.threads.drain(..).for_each(|thread| {
                // Panics of modules are caught in the thread and told as failures.
                let _ = thread.join();
            });
        }
        self.take_network_failure();
        let failure = self.failure.take();
        failure.or_else(|| self.is_cancelled().then(Error::interrupted))
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.attempt_cancel.is_cancelled()
    }

    /// Ends a flow whose modules wait for each other for ever.
    fn look(&mut self) {
        let instances = || self.worker.instances.iter().flat_map(|one| &one.metrics);
        let waits = |state| matches!(state, State::Starved | State::Blocked | State::Ended);
        let all_wait = instances().all(|one| waits(one.state()));
        // A flow whose processes compute is not deadlocked, even if all instances wait.
        let works = self.watch.as_ref().map_or(0, Watch::works);
        let moved = instances().map(|one| one.moved()).fold(works, u64::wrapping_add);
        // A silent connection between its workers is given up after so long.
        let silence = self.deployment.attempt.as_ref().map_or(Duration::ZERO, Attempt::patience);
        let now = self.began.elapsed();
        if self.failure.is_some() || !self.stall.on_look(now, all_wait, moved, silence) {
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
        self.attempt_cancel.cancel();
    }

    /// After a cancel: waits out the grace, then leaves behind what does not come back.
    fn drain_cancelled(&mut self) {
        self.attempt_cancel.cancel();
        self.deployment.attempt.iter().for_each(Attempt::cancel);
        let deadline = Instant::now() + CANCEL_GRACE;
        while self.worker.left > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.ended.recv_timeout(left) {
                Ok(ended) => self.note(ended),
                Err(_) => break,
            }
        }
    }

    fn note(&mut self, ended: Ended) {
        self.worker.left -= 1;
        let Err(error) = ended.result.map_err(Error::while_running) else { return };
        let echo = error.kind() == Kind::Interrupted;
        if self.failure.as_ref().is_none_or(|first| first.kind() == Kind::Interrupted && !echo) {
            self.failure = Some(error);
        }
    }

    /// Commits if all went well, else abandons; to be called after `wait_for` said `true`.
    pub fn finish(mut self) -> Result<Report> {
        let prepared = loop {
            match self.end().map_or_else(|| self.settle(), Err) {
                Ok(prepared) => break prepared,
                Err(error) => self.failure = Some(error),
            }
            // Nothing is visible yet: a worker that was lost now costs no more than one before.
            if !self.begin_again() {
                return Err(self.failure.take().unwrap_or_else(Error::interrupted));
            }
            while !self.wait_for(Duration::from_secs(3600)) {}
        };
        let note = |notebook: &Notebook| notebook.write(&self.flow, prepared.promises());
        let _note = self.notebook.as_ref().map(note).transpose()?;
        self.publish(prepared)?;
        let seconds = self.began.elapsed().as_secs_f64();
        self.outcome = Some(seconds);
        let slowness = self.watch.take().map(|watch| {
            let (flow, worker) = (&self.flow, &self.worker);
            let run = (seconds, self.deployment.is_static);
            watch.finish(|seen, spells| Slowness::new(flow, worker, seen, spells, run))
        });
        let perturbations = std::mem::take(&mut self.perturbations);
        let slowness = slowness.unwrap_or_default();
        let remark = |node: usize| match &self.deployment.attempt {
            Some(attempt) if !self.deployment.placement.is_whole(node) => attempt.remark(node),
            _ => self.flow.nodes[node].placed.remark(),
        };
        let losses = std::mem::take(&mut self.losses);
        let told = (perturbations, losses, slowness);
        let report = Report::new(&self.flow, &self.worker, &remark, seconds, told);
        Ok(Report { made_before: std::mem::take(&mut self.made_before), ..report })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.attempt_cancel.cancel();
        self.close_attempt(&Closing::default());
        // Of what has been published, or left to the decision, `abandon` removes nothing.
        self.flow.nodes.iter().for_each(|node| node.placed.abandon());
    }
}
