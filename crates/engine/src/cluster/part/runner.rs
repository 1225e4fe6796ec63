//! The thread of a part: executes the master's commands one after the other, and reports the
//! status.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_device::buffer::pool;
use euphrates_device::disk::{DiskCounts, disk_counts};
use euphrates_device::scratch;
use euphrates_flow::check::{CheckedFlow, check_part};
use euphrates_flow::metrics::RemoteMetrics;
use euphrates_flow::perturbation::Workers;
use euphrates_flow::sample_limit::limit_samples;
use euphrates_flow::{CacheGrant, Cause, Error, Kind, Result, Setup, spawn_named};
use euphrates_policy::memory;
use euphrates_store::commit::{publish_decided, resolve_run};
use euphrates_wire::Lane;

use super::lending::borrowed;
use super::remote_coordination::RemoteCoordination;
use super::row_samples::RowSampler;
use super::{Part, PartEvent};
use crate::allocator;
use crate::cluster::control::{AttemptPlan, Closing, ControlEvent, MasterCommand, Outcome, Status};
use crate::cluster::sender::ControlSender;
use crate::cluster::worker_context::WorkerContext;
use crate::machine;
use crate::observe::processors::ProcessClock;
use crate::observe::running_totals::{modules, queues};
use crate::observe::totals::FlowTotals;
use crate::panics::panic_text;
use crate::queue::any_queue::AnyQueue;
use crate::queue::policies;
use crate::run::perturber::Perturber;
use crate::run::resources::Resources;
use crate::run::running_part::{self, CANCEL_GRACE, Ended, PreparedPart, RunningPart};

/// The interval between two status reports, if a report takes little of it.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);
/// The interval is at least this many times the duration of a report: where processors are scarce,
/// the flow needs them more.
const STATUS_COST_FACTOR: u32 = 20;
/// The longest interval, so that slow components are detected soon.
const STATUS_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// How many times a worker without its master tries to complete the commit.
const RESOLVE_TRIES: usize = 10;

/// Starts the thread of a part: it checks the flow, prepares what is here of it, and reports that.
pub(in crate::cluster) fn start(
    context: &Arc<WorkerContext>,
    plan: AttemptPlan,
    master: &Lane,
    part: Arc<Part>,
    events: Receiver<PartEvent>,
) -> Result<()> {
    let name = format!("flow {}", plan.document.name);
    let sender = ControlSender::of_attempt(master, part.network.attempt());
    let (context, at_work) = (context.clone(), context.busy.begin());
    let run = move || {
        Runner::new(&context, plan, sender, part).live(&events);
        drop(at_work);
    };
    spawn_named(name, run).map(drop)
}

/// The state of a part's thread.
pub(super) struct Runner {
    pub(super) context: Arc<WorkerContext>,
    pub(super) plan: AttemptPlan,
    pub(super) master: ControlSender<ControlEvent>,
    pub(super) part: Arc<Part>,
    coordination: Arc<RemoteCoordination>,
    pub(super) flow: Option<CheckedFlow>,
    prepared: Option<PreparedPart>,
    running: Option<RunningPart>,
    perturber: Perturber,
    row_sampler: RowSampler,
    began: Instant,
    /// Transfers of this process's disks before the part was made.
    disks_before: Vec<DiskCounts>,
    /// When the last connection was made, while some are missing.
    pub(super) connecting: Option<Instant>,
}

impl Runner {
    pub(super) fn new(
        context: &Arc<WorkerContext>,
        plan: AttemptPlan,
        master: ControlSender<ControlEvent>,
        part: Arc<Part>,
    ) -> Runner {
        let coordination = Arc::new(RemoteCoordination::new(master.clone(), part.cancel.clone()));
        let ran = Duration::try_from_secs_f64(plan.ran_seconds).unwrap_or_default();
        let now = Instant::now();
        Runner {
            context: context.clone(),
            plan,
            master,
            part,
            coordination,
            flow: None,
            prepared: None,
            running: None,
            perturber: Perturber::default(),
            row_sampler: RowSampler::default(),
            began: now.checked_sub(ran).unwrap_or(now),
            disks_before: disk_counts(),
            connecting: None,
        }
    }

    /// Serves until the flow is forgotten. A panic is reported to the master, which continues
    /// without this worker, since the state of its part is unknown.
    pub(super) fn live(mut self, events: &Receiver<PartEvent>) {
        let run = || self.run(events);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(closing) => self.close(closing.as_ref()),
            Err(panic) => {
                let text = format!("panicked: {}", panic_text(panic.as_ref()));
                let error = Error::failed(text).at(format!("flow {}", self.plan.document.name));
                self.master.send(&ControlEvent::Broken { error }, vec![]);
                self.close(None);
            }
        }
    }

    /// Serves until the flow is to be forgotten; returns what becomes of its outputs, if the master
    /// says so.
    fn run(&mut self, events: &Receiver<PartEvent>) -> Option<Closing> {
        // Outputs of dead flows may be in the way of what is prepared now.
        let kept = publish_decided(&self.plan.decided);
        let prepared = self.prepare();
        self.answer(prepared.map(|()| Outcome { kept, ..Outcome::default() }));
        let mut next = Instant::now() + STATUS_INTERVAL;
        loop {
            // The status is reported in time, however many events there are.
            let now = Instant::now();
            if now >= next {
                self.check_connections();
                self.report_status();
                next = now
                    + (now.elapsed() * STATUS_COST_FACTOR)
                        .clamp(STATUS_INTERVAL, STATUS_INTERVAL_MAX);
            }
            match events.recv_timeout(next.saturating_duration_since(now)) {
                Ok(PartEvent::Command(MasterCommand::Close(closing), _)) => return Some(closing),
                Ok(PartEvent::MasterGone) | Err(RecvTimeoutError::Disconnected) => return None,
                Ok(PartEvent::Command(command, body)) => self.on_command(command, &body),
                Ok(PartEvent::Ended(ended)) => self.on_ended(ended),
                Ok(PartEvent::Connected) => self.on_connected(),
                Ok(PartEvent::Lost(name, error)) => self.on_lost(&name, error),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn prepare(&mut self) -> Result<()> {
        let AttemptPlan { document, home, placement, .. } = &self.plan;
        let elsewhere = self.plan.elsewhere()?;
        let registry = &self.context.registry;
        limit_samples(memory::sample_budget_bytes(self.plan.memory_bytes));
        let cache = self.plan.cache_bytes.map(|bytes| CacheGrant::new(bytes as u64));
        let cores = machine::cores();
        let mut flow = check_part(document, registry, cores, (home, cache), &elsewhere)?;
        flow.fit_queues(self.plan.memory_bytes);
        allocator::fit(self.plan.memory_bytes);
        let workers = Workers { names: &self.plan.names, of: &placement.worker_of_instance };
        self.compare(&flow)?;
        let list = &self.plan.perturbations;
        let network = Some(self.part.network.clone());
        self.perturber = Perturber::new(list, &flow, workers, home, network)?;
        let resources = self.resources(&flow)?;
        pool().keep_at_most(memory::slabs_bytes_max(self.plan.memory_bytes));
        let prepared =
            running_part::prepare_part(&flow, &resources, &mut self.perturber, self.began)?;
        prepared.register(&flow, &self.part.dispatch);
        (self.flow, self.prepared) = (Some(flow), Some(prepared));
        Ok(())
    }

    /// Fails if a module would read another version of its input here than at the master.
    fn compare(&self, flow: &CheckedFlow) -> Result<()> {
        for node in &flow.nodes {
            let there = self.plan.sees.get(&node.id);
            let here = node.bound.source.as_ref().map(|source| source.identity());
            if let (Some(here), Some(there)) = (here, there)
                && here != *there
            {
                let message = format!("it sees {here}; the program saw {there}");
                return Err(Error::usage(message)
                    .at(format!("module {}", node.id))
                    .remedy("have all workers see the same, which nobody changes meanwhile"));
            }
        }
        Ok(())
    }

    fn resources(&self, flow: &CheckedFlow) -> Result<Resources> {
        let AttemptPlan { placement, home, memory_bytes, queues, .. } = &self.plan;
        scratch::borrow_memory(&self.run_id(), borrowed(&self.plan, &self.context.setting)?);
        let queue_policy = queues.as_deref().map(policies::named).transpose()?;
        let setup = Setup {
            worker: self.plan.names[placement.me].clone(),
            is_statically_divided: queue_policy.is_some_and(policies::is_statically_divided),
            budget_bytes: *memory_bytes,
            scratch: self.scratch(),
            home: home.clone(),
            run_id: self.run_id(),
            decision: self.plan.decision.clone(),
            ..Setup::alone(self.coordination.clone(), self.part.cancel.clone())
        };
        Ok(Resources {
            workers: self.plan.addresses.len(),
            queue_policy,
            modules_bytes: memory::modules_bytes(*memory_bytes, flow.queue_bytes_max()),
            setup,
            placement: placement.clone(),
            names: self.plan.names.as_slice().into(),
            network: Some(self.part.network.clone()),
        })
    }

    /// The folders of this process for spilled data.
    fn scratch(&self) -> Vec<PathBuf> {
        let said = [&self.plan.scratch, &self.context.setting.scratch];
        let said = said.into_iter().find(|folders| !folders.is_empty()).cloned();
        said.unwrap_or_else(|| machine::scratch(&self.plan.home))
    }

    /// The run's name here, unique among attempts and workers.
    fn run_id(&self) -> String {
        let AttemptPlan { run_id, names, placement, .. } = &self.plan;
        format!("{run_id}-{}-{}", names[placement.me], self.part.network.attempt().1)
    }

    /// Reports the outcome of the last command.
    pub(super) fn answer(&self, done: Result<Outcome>) {
        match done {
            Ok(outcome) => self.master.send(&ControlEvent::Done, outcome.write()),
            Err(error) => self.master.send(&ControlEvent::Failed { error }, vec![]),
        }
    }

    fn on_command(&mut self, command: MasterCommand, body: &Buffer) {
        match command {
            MasterCommand::Connect => {
                self.connecting = Some(Instant::now());
                if let Err(error) = self.call_others() {
                    self.connecting = None;
                    self.answer(Err(error));
                }
                self.check_connections();
            }
            MasterCommand::Start => {
                let started = self.start();
                self.answer(started.map(|()| Outcome::default()));
            }
            MasterCommand::Perturb { list } => {
                // The master has checked them against the same flow.
                let _ = self.flow.as_ref().map(|flow| self.perturber.add(&list, flow));
            }
            MasterCommand::Unperturb => self.perturber.clear(),
            MasterCommand::KeepRows { edge, is_kept } => {
                let taps = self.running.as_ref().map(|part| part.taps.as_slice());
                self.row_sampler.keep(taps.unwrap_or_default(), edge, is_kept);
            }
            MasterCommand::Cancel => self.part.cancel.cancel(),
            MasterCommand::PrepareOutputs => {
                let prepared = self.prepare_outputs();
                self.answer(prepared);
            }
            MasterCommand::Publish { outputs } => {
                let published =
                    outputs.iter().try_for_each(|output| output.publish()?.durable(&output.name()));
                self.answer(published.map(|()| Outcome::default()));
            }
            MasterCommand::Number { call, number } => {
                self.coordination.answer(call, Some(vec![number.to_le_bytes().into()]))
            }
            MasterCommand::Gathered { call, lengths } => {
                let mut rest = body.as_slice();
                let mut value = |length: usize| {
                    let (value, behind) = rest.split_at(rest.len().min(length));
                    rest = behind;
                    value.to_vec()
                };
                let values = lengths.map(|all| all.into_iter().map(&mut value).collect());
                self.coordination.answer(call, values);
            }
            MasterCommand::Prepare | MasterCommand::Hold { .. } | MasterCommand::Close(_) => {}
        }
    }

    fn start(&mut self) -> Result<()> {
        let prepared = self.prepared.take();
        let prepared = prepared.ok_or_else(|| Error::failed("nothing stands ready"))?;
        let part = self.part.clone();
        let on_ended = Arc::new(move |ended| part.post(PartEvent::Ended(ended)));
        self.running = Some(prepared.start(&self.part.cancel, on_ended)?);
        Ok(())
    }

    fn on_ended(&mut self, Ended { instance, result }: Ended) {
        if let Some(part) = &mut self.running {
            part.left -= 1;
        }
        // An interruption is reported as the network failure that caused it.
        let error = result.err().map(|error| match error.kind() {
            Kind::Interrupted => self.part.network.take_failure().unwrap_or(error),
            _ => error,
        });
        if self.running.as_ref().is_some_and(|part| part.left == 0) {
            self.report_status();
        }
        self.master.send(&ControlEvent::Ended { instance, error }, vec![]);
    }

    fn on_lost(&mut self, name: &str, error: Error) {
        let is_done = self.running.as_ref().is_some_and(|part| part.left == 0);
        if !is_done {
            let me = &self.plan.names[self.plan.placement.me];
            let lost = Error::resource(format!("worker {name} is lost: {}", error.message()));
            self.part.network.fail(lost.because(Cause::link(me, name, false)));
        }
    }

    /// Sends the status of the part to the master.
    fn report_status(&mut self) {
        let Some(part) = &self.running else { return };
        self.perturber.apply(self.began.elapsed().as_nanos() as u64);
        let placement = &self.plan.placement;
        let disks = disk_counts().into_iter().map(|disk| disk.since(&self.disks_before)).collect();
        let clock = Some(ProcessClock::read());
        let (mut status, mut cpu) = (Status { clock, disks, ..Status::default() }, Duration::ZERO);
        for (node, of) in part.metrics.iter().enumerate() {
            for instance in placement.here(node) {
                let metrics = &of.metrics[instance];
                let reported = RemoteMetrics {
                    counters: metrics.read(),
                    state: metrics.state(),
                    busy: metrics.busy_so_far(),
                    times: metrics.thread().and_then(machine::thread_times),
                };
                cpu += reported.times.map_or(reported.busy, |(computed, _)| computed);
                status.instances.push((node, instance, reported));
            }
        }
        self.part.cpu.fetch_max(cpu.as_nanos() as u64, Relaxed);
        let waiting = |queues: &Vec<AnyQueue>| queues.iter().map(|queue| queue.fill().0).sum();
        status.passed = part.taps.iter().map(|tap| tap.counts()).collect();
        status.waiting_bytes = part.queues.iter().map(waiting).collect();
        status.memory = part.memory();
        self.part.totals.lock().replace(self.totals(part, &status));
        self.master.send(&ControlEvent::Status(status), vec![]);
        self.row_sampler.send(&part.taps, &self.master);
    }

    /// The totals of the part, as this worker's own metrics show them.
    fn totals(&self, part: &RunningPart, status: &Status) -> FlowTotals {
        let AttemptPlan { placement, run_id, names, .. } = &self.plan;
        let mut totals = FlowTotals {
            flow: self.plan.document.name.clone(),
            run: run_id.clone(),
            attempt: self.part.network.attempt().1,
            seconds: self.began.elapsed().as_secs_f64(),
            memory: status.memory,
            workers: vec![names[placement.me].clone()],
            ..FlowTotals::default()
        };
        if let Some(flow) = &self.flow {
            let is_here = |node, at| placement.here(node).any(|here| here == at);
            totals.modules = modules(flow, &part.metrics, is_here);
            totals.modules.retain(|module| module.count > 0);
            totals.queues = queues(flow, part, |_| 0, |_| (0, 0));
        }
        totals
    }

    fn prepare_outputs(&self) -> Result<Outcome> {
        let flow = self.flow.as_ref().ok_or_else(|| Error::failed("it is not prepared"))?;
        let (mut staged, mut remarks) = (vec![], vec![]);
        for (number, node) in flow.nodes.iter().enumerate() {
            if self.plan.placement.here(number).next().is_none() {
                continue;
            }
            let place = |error: Error| error.at(format!("module {}", node.id));
            if let Some(sink) = &node.bound.sink {
                sink.sync().map_err(place)?;
                staged.push((number, sink.staged().map_err(place)?));
            }
            remarks.extend(node.bound.remark().map(|remark| (number, remark)));
        }
        let excluded = scratch::take_excluded(&self.run_id());
        Ok(Outcome { staged, remarks, excluded, ..Outcome::default() })
    }

    /// After the master's death, completes what it has decided, as far as this worker can see.
    /// Another worker may do the same.
    fn resolve(&self) {
        let Some(decision) = &self.plan.decision else { return };
        for _ in 0..RESOLVE_TRIES {
            if resolve_run(decision).is_some() {
                break;
            }
            std::thread::sleep(STATUS_INTERVAL);
        }
    }

    /// Forgets the flow. Threads that do not return are abandoned. Staged output is removed unless
    /// it is published or is to be; without the master, only the record of its decision says which.
    fn close(mut self, closing: Option<&Closing>) {
        self.part.cancel.cancel();
        self.part.network.disconnect();
        let deadline = Instant::now() + CANCEL_GRACE;
        if let Some(worker) = &mut self.running {
            while worker.threads.iter().any(|thread| !thread.is_finished()) {
                if Instant::now() > deadline {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for (number, node) in self.flow.iter().flat_map(|flow| &flow.nodes).enumerate() {
            match closing {
                Some(closing) if closing.published.contains(&number) => node.bound.committed(),
                Some(closing) if !closing.orphaned.contains(&number) => node.bound.abandon(),
                _ => node.bound.orphan(),
            }
        }
        if closing.is_none() {
            self.resolve();
        }
        // The process may exit as soon as the master has received this.
        scratch::forget(&self.scratch(), &self.run_id());
        self.master.send(&ControlEvent::Closed, vec![]);
    }
}
