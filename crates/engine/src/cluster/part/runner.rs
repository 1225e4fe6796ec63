//! What a part's thread does: one step after the other, as it is asked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::check::{Checked, check_part};
use euphrates_flow::metrics::Told;
use euphrates_flow::perturbation::Workers;
use euphrates_flow::{Cause, Error, Kind, NoExchange, Result, Setup};
use euphrates_io::buffer::pool;
use euphrates_io::commit::{keep_promises, resolve_run};
use euphrates_io::disk::{DiskCounts, disk_counts};
use euphrates_io::foreign::limit_samples;
use euphrates_io::scratch;
use euphrates_policy::memory;

use super::showing::Showing;
use super::{Event, Part};
use crate::allocator;
use crate::cluster::calls::Calls;
use crate::cluster::control::{Ask, Closing, Look, Outcome, Plan, Tell};
use crate::cluster::sender::ControlSender;
use crate::cluster::server::WorkerState;
use crate::machine;
use crate::observe::processors::ProcessClock;
use crate::queue::policies;
use crate::run::master::CANCEL_GRACE;
use crate::run::perturber::Perturber;
use crate::run::placement::Placement;
use crate::run::worker::{self, Ended, Prepared, Resources, Worker, panic_text};

/// How often a part tells how it goes, if that takes little of the time between.
const LOOK: Duration = Duration::from_millis(100);
/// The time between is so many times what telling takes: where a processor is scarce, the flow
/// needs it more.
const LOOK_PART: u32 = 20;
/// But who is slow is to be known soon.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// How often a worker without its master tries to complete the commit.
const RESOLVE_TRIES: usize = 10;

/// What runs on a part's thread.
pub(super) struct Runner {
    pub(super) state: Arc<WorkerState>,
    pub(super) plan: Plan,
    pub(super) master: ControlSender<Tell>,
    pub(super) part: Arc<Part>,
    calls: Arc<Calls>,
    pub(super) flow: Option<Checked>,
    prepared: Option<Prepared>,
    worker: Option<Worker>,
    perturber: Perturber,
    showing: Showing,
    began: Instant,
    /// What the disks of this process had done before.
    disks_before: Vec<DiskCounts>,
    /// Since when the others are being called.
    pub(super) connecting: Option<Instant>,
}

impl Runner {
    pub(super) fn new(
        state: &Arc<WorkerState>,
        plan: Plan,
        master: ControlSender<Tell>,
        part: Arc<Part>,
    ) -> Runner {
        let calls = Arc::new(Calls::new(master.clone(), part.cancel.clone()));
        let ran = Duration::try_from_secs_f64(plan.ran_seconds).unwrap_or_default();
        let now = Instant::now();
        Runner {
            state: state.clone(),
            plan,
            master,
            part,
            calls,
            flow: None,
            prepared: None,
            worker: None,
            perturber: Perturber::default(),
            showing: Showing::default(),
            began: now.checked_sub(ran).unwrap_or(now),
            disks_before: disk_counts(),
            connecting: None,
        }
    }

    /// Serves until the flow is forgotten. If it breaks down, its master hears of it, and does
    /// without this worker: what it has here nobody can tell.
    pub(super) fn live(mut self, heard: &Receiver<Event>) {
        let run = || self.run(heard);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(closing) => self.close(closing.as_ref()),
            Err(panic) => {
                let text = format!("panicked: {}", panic_text(panic.as_ref()));
                let error = Error::failed(text).at(format!("flow {}", self.plan.document.name));
                self.master.send(&Tell::Broken { error }, vec![]);
                self.close(None);
            }
        }
    }

    /// Until the flow is to be forgotten: what becomes of its outputs, if the master says so.
    fn run(&mut self, heard: &Receiver<Event>) -> Option<Closing> {
        // They may be in the way of what is prepared now.
        let kept = keep_promises(&self.plan.promised);
        let prepared = self.prepare();
        self.answer(prepared.map(|()| Outcome { kept, ..Outcome::default() }));
        let mut next = Instant::now() + LOOK;
        loop {
            // However much is heard, how it goes is told in time.
            let now = Instant::now();
            if now >= next {
                self.look_at_connections();
                self.look();
                next = now + (now.elapsed() * LOOK_PART).clamp(LOOK, LOOK_MAX);
            }
            match heard.recv_timeout(next.saturating_duration_since(now)) {
                Ok(Event::Asked(Ask::Close(closing), _)) => return Some(closing),
                Ok(Event::Alone) | Err(RecvTimeoutError::Disconnected) => return None,
                Ok(Event::Asked(ask, body)) => self.on_ask(ask, &body),
                Ok(Event::Ended(ended)) => self.on_ended(ended),
                Ok(Event::Connected) => self.on_connected(),
                Ok(Event::Lost(name, error)) => self.on_lost(&name, error),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn prepare(&mut self) -> Result<()> {
        let Plan { document, home, placement, .. } = &self.plan;
        let elsewhere = self.plan.elsewhere()?;
        let registry = &self.state.registry;
        limit_samples(memory::sample_bytes_max(self.plan.memory_bytes));
        let mut flow = check_part(document, registry, machine::cores(), home, &elsewhere)?;
        flow.fit_queues(self.plan.memory_bytes);
        allocator::fit(self.plan.memory_bytes);
        let workers = Workers { names: &self.plan.names, of: &placement.of };
        self.compare(&flow)?;
        let list = &self.plan.perturbations;
        let network = &self.part.network;
        self.perturber = Perturber::of_part(list, &flow, workers, home, network)?;
        let resources = self.resources(&flow)?;
        pool().keep_at_most(memory::slabs_bytes_max(self.plan.memory_bytes));
        let prepared = worker::prepare(&flow, &resources, &mut self.perturber, self.began)?;
        self.part.dispatch.set(&flow, &prepared);
        (self.flow, self.prepared) = (Some(flow), Some(prepared));
        Ok(())
    }

    /// Fails if a module would read another table here than elsewhere.
    fn compare(&self, flow: &Checked) -> Result<()> {
        for node in &flow.nodes {
            let there = self.plan.sees.get(&node.id);
            if let (Some(here), Some(there)) = (node.placed.sees(), there)
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

    fn resources(&self, flow: &Checked) -> Result<Resources> {
        let Plan { placement, home, memory_bytes, queues, .. } = &self.plan;
        let division = queues.as_deref().map(policies::named).transpose()?;
        let worker = self.plan.names[placement.me].clone();
        let setup = Setup {
            module: String::new(),
            worker: worker.clone(),
            instance: 0,
            instances: 1,
            is_divided: division.is_some_and(policies::is_static),
            memory_bytes: 0,
            budget_bytes: *memory_bytes,
            row_bytes_max: usize::MAX,
            scratch: self.scratch(),
            home: home.clone(),
            run_id: self.run_id(),
            decision: self.plan.decision.clone(),
            cancel: self.part.cancel.clone(),
            commons: self.calls.clone(),
            exchange: Arc::new(NoExchange),
            is_whole: true,
            instances_here: 1,
        };
        Ok(Resources {
            workers: self.plan.addresses.len(),
            division,
            share_bytes: share(flow, placement, *memory_bytes),
            setup,
            placement: placement.clone(),
            names: self.plan.names.as_slice().into(),
            network: Some(self.part.network.clone()),
        })
    }

    /// Where this process has its scratch.
    fn scratch(&self) -> Vec<PathBuf> {
        let said = [&self.plan.scratch, &self.state.setting.scratch];
        let said = said.into_iter().find(|folders| !folders.is_empty()).cloned();
        said.unwrap_or_else(|| machine::scratch(&self.plan.home))
    }

    /// The run's name here: no two attempts or workers have the same.
    fn run_id(&self) -> String {
        let Plan { run_id, names, placement, .. } = &self.plan;
        format!("{run_id}-{}-{}", names[placement.me], self.part.network.attempt().1)
    }

    /// What was asked for is done, or not.
    pub(super) fn answer(&self, done: Result<Outcome>) {
        match done {
            Ok(outcome) => self.master.send(&Tell::Done, outcome.write()),
            Err(error) => self.master.send(&Tell::Failed { error }, vec![]),
        }
    }

    fn on_ask(&mut self, ask: Ask, body: &Buffer) {
        match ask {
            Ask::Connect => {
                self.connecting = Some(Instant::now());
                if let Err(error) = self.call_others() {
                    self.connecting = None;
                    self.answer(Err(error));
                }
                self.look_at_connections();
            }
            Ask::Start => {
                let started = self.start();
                self.answer(started.map(|()| Outcome::default()));
            }
            Ask::Perturb { list } => {
                // The master has checked them against the same flow.
                let _ = self.flow.as_ref().map(|flow| self.perturber.add(&list, flow));
            }
            Ask::Unperturb => self.perturber.clear(),
            Ask::KeepRows { edge, is_kept } => {
                let taps = self.worker.as_ref().map(|worker| worker.taps.as_slice());
                self.showing.keep(taps.unwrap_or_default(), edge, is_kept);
            }
            Ask::Cancel => self.part.cancel.cancel(),
            Ask::Settle => {
                let settled = self.settle();
                self.answer(settled);
            }
            Ask::Publish { outputs } => {
                let published =
                    outputs.iter().try_for_each(|output| output.publish()?.durable(&output.name()));
                self.answer(published.map(|()| Outcome::default()));
            }
            Ask::Number { call, number } => {
                self.calls.answer(call, vec![number.to_le_bytes().into()])
            }
            Ask::Gathered { call, lengths } => {
                let mut rest = body.as_slice();
                let values = lengths.iter().map(|length| {
                    let (value, behind) = rest.split_at(rest.len().min(*length));
                    rest = behind;
                    value.to_vec()
                });
                self.calls.answer(call, values.collect());
            }
            Ask::Prepare | Ask::Close(_) => {}
        }
    }

    fn start(&mut self) -> Result<()> {
        let prepared = self.prepared.take();
        let prepared = prepared.ok_or_else(|| Error::failed("nothing stands ready"))?;
        let part = self.part.clone();
        let tell = Arc::new(move |ended| part.tell(Event::Ended(ended)));
        self.worker = Some(prepared.start(&self.part.cancel, tell)?);
        Ok(())
    }

    fn on_ended(&mut self, Ended { instance, result }: Ended) {
        if let Some(worker) = &mut self.worker {
            worker.left -= 1;
        }
        // What the network failed with is the cause of what was interrupted.
        let error = result.err().map(|error| match error.kind() {
            Kind::Interrupted => self.part.network.take_failure().unwrap_or(error),
            _ => error,
        });
        if self.worker.as_ref().is_some_and(|worker| worker.left == 0) {
            self.look();
        }
        self.master.send(&Tell::Ended { instance, error }, vec![]);
    }

    fn on_lost(&mut self, name: &str, error: Error) {
        let is_done = self.worker.as_ref().is_some_and(|worker| worker.left == 0);
        if !is_done {
            let me = &self.plan.names[self.plan.placement.me];
            let lost = Error::resource(format!("worker {name} is lost: {}", error.message()));
            self.part.network.fail(lost.because(Cause::link(me, name, false)));
        }
    }

    /// Tells how it goes.
    fn look(&mut self) {
        let Some(worker) = &self.worker else { return };
        self.perturber.on_look(self.began.elapsed().as_nanos() as u64);
        let placement = &self.plan.placement;
        let disks = disk_counts().into_iter().map(|disk| disk.since(&self.disks_before)).collect();
        let clock = Some(ProcessClock::read());
        let (mut look, mut cpu) = (Look { clock, disks, ..Look::default() }, Duration::ZERO);
        for (node, of) in worker.instances.iter().enumerate() {
            for instance in placement.here(node) {
                let metrics = &of.metrics[instance];
                let told = Told {
                    counters: metrics.read(),
                    state: metrics.state(),
                    busy: metrics.busy_so_far(),
                    times: metrics.thread().and_then(machine::thread_times),
                };
                cpu += told.times.map_or(told.busy, |(computed, _)| computed);
                look.instances.push((node, instance, told));
            }
        }
        self.part.cpu.fetch_max(cpu.as_nanos() as u64, Relaxed);
        let waiting = |queues: &Vec<worker::Queue>| queues.iter().map(|queue| queue.fill().0).sum();
        look.passed = worker.taps.iter().map(|tap| tap.counts()).collect();
        look.waiting_bytes = worker.queues.iter().map(waiting).collect();
        self.master.send(&Tell::Look(look), vec![]);
        self.showing.tell(&worker.taps, &self.master);
    }

    fn settle(&self) -> Result<Outcome> {
        let flow = self.flow.as_ref().ok_or_else(|| Error::failed("it is not prepared"))?;
        let (mut staged, mut remarks) = (vec![], vec![]);
        for (number, node) in flow.nodes.iter().enumerate() {
            if self.plan.placement.here(number).next().is_none() {
                continue;
            }
            let place = |error: Error| error.at(format!("module {}", node.id));
            node.placed.settle().map_err(place)?;
            staged.push((number, node.placed.staged().map_err(place)?));
            remarks.extend(node.placed.remark().map(|remark| (number, remark)));
        }
        Ok(Outcome { staged, remarks, ..Outcome::default() })
    }

    /// If the master has died, completes what it had decided, as far as that can be seen from here.
    /// Another worker may be at it.
    fn resolve(&self) {
        let Some(decision) = &self.plan.decision else { return };
        for _ in 0..RESOLVE_TRIES {
            if resolve_run(decision).is_some() {
                break;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Forgets the flow. Instances that do not come back are left behind. What was staged goes, but
    /// for what has been published or is to be; if the master is gone, only the record of its
    /// decision says which.
    fn close(mut self, closing: Option<&Closing>) {
        self.part.cancel.cancel();
        self.part.network.disconnect();
        let deadline = Instant::now() + CANCEL_GRACE;
        if let Some(worker) = &mut self.worker {
            while worker.threads.iter().any(|thread| !thread.is_finished()) {
                if Instant::now() > deadline {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for (number, node) in self.flow.iter().flat_map(|flow| &flow.nodes).enumerate() {
            match closing {
                Some(closing) if closing.shown.contains(&number) => node.placed.on_committed(),
                Some(closing) if !closing.left.contains(&number) => node.placed.abandon(),
                _ => node.placed.on_orphaned(),
            }
        }
        if closing.is_none() {
            self.resolve();
        }
        // Before anybody hears that it is over: then this process may be ended.
        scratch::forget(&self.scratch(), &self.run_id());
        self.master.send(&Tell::Closed, vec![]);
    }
}

/// What an instance that can use memory may hold, of what its worker may.
fn share(flow: &Checked, placement: &Placement, memory_bytes: usize) -> usize {
    let here = |node: &usize| placement.here(*node).count();
    let hungry = (0..flow.nodes.len()).filter(|node| flow.nodes[*node].spec.wants_memory);
    let queue_bytes = flow.edges.iter().map(|edge| edge.bytes_max).sum();
    memory::share(memory_bytes, queue_bytes, hungry.map(|node| here(&node)).sum())
}
