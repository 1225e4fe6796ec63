//! The master's side of one attempt at a flow on several workers.
//!
//! The master sends each command to all workers and waits for their answers: prepare, connect,
//! start; and, when all instances have ended, sync all output. If a command fails on any worker,
//! the attempt fails. Outputs that only one worker can access are published by that worker. The
//! last command of every attempt, also of a failed one, is close.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_device::scratch;
use euphrates_flow::check::CheckedFlow;
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::row::RowTexts;
use euphrates_flow::{Cancel, Error, GatherName, Kind, Result};
use parking_lot::Mutex;

use super::control::{self, AttemptPlan, Closing, ControlEvent, MasterCommand, Outcome, Status};
use super::control_connection::{WorkerEvent, WorkerHandle};
use super::placed_flow::MemoryShare;
use crate::machine;
use crate::observe::sampler::{self, RemoteReports};
use crate::queue::dispatch::Dispatch;
use crate::queue::network::Network;
use crate::run::coordination::{CoordinationTable, GatherReply, GatheredValues};
use crate::run::placement::Placement;
use crate::run::running_part::{Ended, ModuleMetrics, OnEnded};

use self::draining::DrainingWorkers;

mod claims;
mod committing;
mod connecting;
mod draining;
mod observing;

/// How long a worker may take to prepare, connect or start.
const STEP_WAIT: Duration = Duration::from_secs(60);
/// How often the master checks workers that owe an answer for loss.
const LOSS_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the master waits for workers to forget a flow.
const CLOSE_WAIT: Duration = Duration::from_secs(3);

/// How long the other workers may take for a step that has failed at one.
const FAILED_WAIT: Duration = Duration::from_secs(5);

/// The number of a worker, and its answer to a step.
type WorkerAnswer = (usize, Result<Outcome>);

/// One attempt at a flow. When it is dropped, the workers forget the flow.
pub struct Attempt {
    handles: Vec<Arc<WorkerHandle>>,
    lost_after: Option<Duration>,
    id: (u64, u32),
    placement: Placement,
    answers: Mutex<Receiver<WorkerAnswer>>,
    /// The workers that have forgotten the flow.
    closed: Mutex<Receiver<usize>>,
    observed: Arc<Observed>,
    network: Arc<Network>,
    dispatch: Arc<Dispatch>,
    /// The folders in which workers stage and spill.
    scratch: Vec<PathBuf>,
    /// By module: the remark of each worker.
    remarks: Mutex<BTreeMap<usize, Vec<(usize, String)>>>,
    /// Scratch folders that workers have excluded.
    excluded: Mutex<Vec<String>>,
    state: Mutex<AttemptState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptState {
    Open,
    Cancelled,
    Closed,
}

/// The latest reports of the other processes.
struct Observed {
    answers: Sender<WorkerAnswer>,
    closed: Sender<usize>,
    table: Arc<CoordinationTable>,
    /// By module: the instances, here and elsewhere.
    metrics: Vec<Vec<Arc<InstanceMetrics>>>,
    /// By worker: its name, and its latest status.
    statuses: Mutex<Vec<(String, Option<Status>)>>,
    /// By queue and worker: the latest rows.
    rows: Mutex<BTreeMap<(usize, usize), Vec<RowTexts>>>,
    /// By module and instance: whether its end was reported.
    ended: Mutex<Vec<Vec<bool>>>,
    draining: Mutex<DrainingWorkers>,
    placement: Placement,
    on_ended: OnEnded,
    cancel: Arc<Cancel>,
    network: Arc<Network>,
}

/// What the master needs for its own instances.
pub struct MasterSide {
    /// Connections to the workers.
    pub network: Arc<Network>,
    /// Delivers frames of the workers.
    pub dispatch: Arc<Dispatch>,
    /// The coordination of all instances.
    pub table: Arc<CoordinationTable>,
}

impl Attempt {
    /// Tells all workers to prepare their parts of a flow; `prepared` waits for that. `plan` lacks
    /// the number of each worker.
    pub fn prepare(
        handles: Vec<Arc<WorkerHandle>>,
        (flow, plan, shares): (&CheckedFlow, &AttemptPlan, &[MemoryShare]),
        own: &MasterSide,
        (instances, on_ended): (&[ModuleMetrics], OnEnded),
        cancel: &Arc<Cancel>,
    ) -> Attempt {
        let ((answers, answered), (closing, closed)) = (channel(), channel());
        let id = own.network.attempt();
        let counts = || flow.nodes.iter().map(|node| node.count);
        let nothing = |handle: &Arc<WorkerHandle>| (handle.member().name.clone(), None);
        let observed = Arc::new(Observed {
            answers,
            closed: closing,
            table: own.table.clone(),
            metrics: instances.iter().map(|of| of.metrics.clone()).collect(),
            statuses: Mutex::new(handles.iter().map(nothing).collect()),
            rows: Mutex::default(),
            ended: Mutex::new(counts().map(|count| vec![false; count]).collect()),
            draining: Mutex::new(DrainingWorkers::new(&plan.placement, handles.len(), id)),
            placement: plan.placement.clone(),
            on_ended,
            cancel: cancel.clone(),
            network: own.network.clone(),
        });
        let attempt = Attempt {
            id,
            lost_after: plan.lost_after,
            placement: plan.placement.clone(),
            answers: Mutex::new(answered),
            closed: Mutex::new(closed),
            observed: observed.clone(),
            network: own.network.clone(),
            dispatch: own.dispatch.clone(),
            scratch: match plan.scratch.is_empty() {
                true => machine::scratch(&plan.home),
                false => plan.scratch.clone(),
            },
            remarks: Mutex::default(),
            excluded: Mutex::default(),
            state: Mutex::new(AttemptState::Open),
            handles,
        };
        for (worker, handle) in attempt.handles.iter().enumerate() {
            let (observed, there) = (observed.clone(), Arc::downgrade(handle));
            handle.listen(id.0, move |event| {
                if let Some(handle) = there.upgrade() {
                    observed.on_event(worker, &handle, id, event);
                }
            });
            let placement = Placement { me: worker, ..plan.placement.clone() };
            let MemoryShare { budget_bytes, cache_bytes } = shares[worker];
            let plan =
                AttemptPlan { placement, memory_bytes: budget_bytes, cache_bytes, ..plan.clone() };
            let body = vec![Buffer::from_vec(control::write(&plan))];
            handle.command(id, &MasterCommand::Prepare, body);
        }
        // A worker may have begun to drain before it had the plan.
        observed.draining.lock().hold_claims();
        attempt
    }

    /// Waits until all have prepared, unless interrupted. Returns the run and module of each
    /// output of a dead flow that was published.
    pub fn prepared(&self, is_interrupted: &dyn Fn() -> bool) -> Result<Vec<(String, String)>> {
        let outcomes = self.answers(STEP_WAIT, is_interrupted)?;
        Ok(outcomes.into_iter().flat_map(|outcome| outcome.kept).collect())
    }

    /// Starts the instances of all workers, unless interrupted.
    pub fn start(&self, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        self.command_all(|_| MasterCommand::Start);
        self.answers(STEP_WAIT, is_interrupted).map(drop)
    }

    /// Stops all instances. Their ends are reported as they come.
    pub fn cancel(&self) {
        let mut state = self.state.lock();
        if *state == AttemptState::Open {
            *state = AttemptState::Cancelled;
            self.command_all(|_| MasterCommand::Cancel);
        }
    }

    /// Tells the workers to forget the flow and remove what they have staged, except for the
    /// outputs that `closing` names.
    pub fn close(&self, closing: &Closing) {
        if std::mem::replace(&mut *self.state.lock(), AttemptState::Closed) == AttemptState::Closed
        {
            return;
        }
        self.command_all(|_| MasterCommand::Close(closing.clone()));
        self.await_closed();
        self.handles.iter().for_each(|handle| handle.forget(self.id.0));
        self.network.disconnect();
        if self.lost().is_some() {
            // Removes what lost workers have left, where this process reaches it; the rest is
            // removed by the next start there, or by `euphrates gc`.
            for folder in &self.scratch {
                scratch::reclaim(folder);
            }
        }
    }

    /// The failure of the master's own connections, if there is one; returned once.
    pub fn take_failure(&self) -> Option<Error> {
        self.network.take_failure()
    }

    /// The name and error of a lost worker of the attempt, if there is one.
    pub fn lost(&self) -> Option<(String, Error)> {
        self.handles.iter().find_map(|handle| handle.loss())
    }

    /// The remarks of a module's parts at the workers.
    pub fn remark(&self, module: usize) -> Option<String> {
        let remarks = self.remarks.lock();
        let all = remarks.get(&module)?;
        if let [(_, only)] = all.as_slice() {
            return Some(only.clone());
        }
        let texts = all
            .iter()
            .map(|(worker, remark)| format!("{}: {remark}", self.handles[*worker].member().name));
        Some(texts.collect::<Vec<_>>().join("; "))
    }

    /// A function that returns the latest reports of the workers.
    pub(crate) fn elsewhere(&self) -> RemoteReports {
        let observed = Arc::downgrade(&self.observed);
        Box::new(move || {
            let Some(observed) = observed.upgrade() else { return vec![] };
            let statuses = observed.statuses.lock();
            let reported = |(worker, status): &(String, Option<Status>)| {
                let Status { clock, disks, .. } = status.as_ref()?;
                let (worker, clock) = (worker.clone(), clock.clone()?);
                Some(sampler::RemoteReport { worker, clock, disks: disks.clone() })
            };
            statuses.iter().filter_map(reported).collect()
        })
    }

    fn command_all(&self, command: impl Fn(usize) -> MasterCommand) {
        self.handles.iter().enumerate().for_each(|(worker, handle)| {
            handle.command(self.id, &command(worker), vec![]);
        });
    }

    /// Waits until all workers have forgotten the flow. A worker that does not confirm is lost, or
    /// cleans up by itself.
    fn await_closed(&self) {
        let deadline = Instant::now() + CLOSE_WAIT;
        let mut left: BTreeSet<usize> = (0..self.handles.len()).collect();
        let closed = self.closed.lock();
        while !left.is_empty() && Instant::now() < deadline {
            if let Ok(worker) = closed.recv_timeout(LOSS_POLL_INTERVAL) {
                left.remove(&worker);
            }
            left.retain(|worker| self.handles[*worker].lost().is_none());
        }
    }

    fn answers(&self, wait: Duration, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<Outcome>> {
        self.answers_of(&(0..self.handles.len()).collect::<Vec<_>>(), wait, is_cancelled)
    }

    /// The answers of these workers to a step. If the step fails on one worker or is cancelled, the
    /// flow is cancelled on all workers, since they may wait for each other. Of several failures,
    /// one that does not follow from another is returned.
    fn answers_of(
        &self,
        workers: &[usize],
        wait: Duration,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Outcome>> {
        let mut deadline = Instant::now().checked_add(wait);
        let mut all: BTreeMap<usize, Result<Outcome>> = BTreeMap::new();
        let (answers, mut has_failed) = (self.answers.lock(), false);
        while let Some(missing) = workers.iter().find(|worker| !all.contains_key(worker)) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                if !has_failed {
                    let name = &self.handles[*missing].member().name;
                    return Err(Error::resource(format!("worker {name} does not answer")));
                }
                break;
            }
            match answers.recv_timeout(left.unwrap_or(LOSS_POLL_INTERVAL).min(LOSS_POLL_INTERVAL)) {
                Ok((worker, answer)) if workers.contains(&worker) => {
                    all.entry(worker).or_insert(answer);
                }
                Ok(_) => {}
                // A worker lost earlier sends no answer.
                Err(_) => workers.iter().for_each(|worker| {
                    if let Some(error) = self.handles[*worker].lost() {
                        all.entry(*worker).or_insert(Err(error));
                    }
                }),
            }
            if !has_failed && (is_cancelled() || all.values().any(Result::is_err)) {
                has_failed = true;
                self.cancel();
                let grace = Instant::now() + FAILED_WAIT;
                deadline = Some(deadline.map_or(grace, |deadline| deadline.min(grace)));
            }
        }
        let (done, failed): (Vec<_>, Vec<_>) = all.into_values().partition(Result::is_ok);
        let errors = failed.into_iter().filter_map(Result::err);
        // An interruption only follows from another failure.
        match errors.min_by_key(|error| error.kind() == Kind::Interrupted) {
            Some(error) => Err(error),
            None if is_cancelled() => Err(Error::interrupted()),
            None => Ok(done.into_iter().flatten().collect()),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.close(&Closing::default());
    }
}

impl Observed {
    fn on_event(
        &self,
        worker: usize,
        handle: &Arc<WorkerHandle>,
        id: (u64, u32),
        event: WorkerEvent,
    ) {
        match event {
            WorkerEvent::Message(event, body) => self.on_message(worker, handle, id, (event, body)),
            WorkerEvent::Draining => self.draining.lock().on_draining(worker, handle),
            WorkerEvent::Lost(error) => {
                let name = &handle.member().name;
                let lost = || {
                    let message = format!("worker {name} is lost: {}", error.message());
                    let remedy = "start it again; what it had not committed is gone";
                    Error::resource(message).remedy(error.advice().unwrap_or(remedy))
                };
                // The worker owes at most one answer, and the ends of its instances.
                let _ = self.answers.send((worker, Err(lost())));
                for (module, of) in self.placement.worker_of_instance.iter().enumerate() {
                    for (number, _) in of.iter().enumerate().filter(|(_, at)| **at == worker) {
                        self.on_end(Ended { instance: (module, number), result: Err(lost()) });
                    }
                }
                // Instances elsewhere may still need data that the worker holds.
                if self.ended.lock().iter().flatten().any(|has_ended| !has_ended) {
                    self.network.fail(lost());
                }
            }
        }
    }

    fn on_message(
        &self,
        worker: usize,
        handle: &Arc<WorkerHandle>,
        id: (u64, u32),
        (event, body): (ControlEvent, Buffer),
    ) {
        match event {
            ControlEvent::Done => {
                // The receiver is gone if the attempt is.
                let _ = self.answers.send((worker, Outcome::read(&body)));
            }
            ControlEvent::Closed => drop(self.closed.send(worker)),
            ControlEvent::Broken { error } => handle.lose(&error),
            ControlEvent::Failed { error } => {
                let place = |error: Error| error.at(format!("worker {}", handle.member().name));
                let _ = self.answers.send((worker, Err(place(error))));
            }
            ControlEvent::Ended { instance, error } => {
                let place = |error: Error| error.at(format!("worker {}", handle.member().name));
                self.on_end(Ended { instance, result: error.map_or(Ok(()), |e| Err(place(e))) });
            }
            ControlEvent::Status(status) => self.on_status(worker, status),
            ControlEvent::Rows { edge } => self.on_rows(worker, edge, &body),
            ControlEvent::FetchAdd { call, name } => {
                let number = self.table.fetch_add(&name);
                handle.command(id, &MasterCommand::Number { call, number }, vec![]);
            }
            ControlEvent::Load { call, name } => {
                let number = self.table.load(&name);
                handle.command(id, &MasterCommand::Number { call, number }, vec![]);
            }
            ControlEvent::Contribute { call, module, name, member } => {
                let gather = GatherName { module: &module, name: &name };
                let reply = reply(handle.clone(), id, call);
                if let Err(error) = self.table.contribute(gather, member, body.to_vec(), reply) {
                    self.network.fail(error);
                }
            }
            ControlEvent::Observe { call, module, name } => {
                let gather = GatherName { module: &module, name: &name };
                self.table.observe(gather, reply(handle.clone(), id, call))
            }
            ControlEvent::LeaveGathers { module } => self.table.leave_gathers(&module),
        }
    }

    /// Reports the end of an instance, once.
    fn on_end(&self, ended: Ended) {
        let (module, number) = ended.instance;
        let first = self
            .ended
            .lock()
            .get_mut(module)
            .and_then(|of| of.get_mut(number))
            .is_some_and(|has_ended| !std::mem::replace(has_ended, true));
        if first {
            self.draining.lock().on_ended(ended.instance);
            // A failed instance cancels the flow.
            let failed = ended.result.is_err();
            (self.on_ended)(ended);
            if failed {
                self.cancel.cancel();
            }
        }
    }
}

/// Sends gathered values, or that there will be none, to the worker that has asked for them.
fn reply(requester: Arc<WorkerHandle>, id: (u64, u32), call: u64) -> GatherReply {
    Box::new(move |values: GatheredValues| {
        let lengths = values.as_ref().map(|values| values.iter().map(Vec::len).collect());
        let body = vec![Buffer::from_vec(values.unwrap_or_default().concat())];
        requester.command(id, &MasterCommand::Gathered { call, lengths }, body);
    })
}
