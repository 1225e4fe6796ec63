//! A master's side of one attempt at a flow on several workers.
//!
//! One step after the other, each on all workers at once: prepare, connect, start; then, when all
//! instances have ended, settle, commit, close. Whatever fails on the way fails the attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::check::Checked;
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::row::Texts;
use euphrates_flow::{Cancel, Error, Kind, Result};
use euphrates_io::scratch;
use parking_lot::Mutex;

use super::control::{self, Ask, Closing, Look, Outcome, Plan, Tell};
use super::handle::{Event, WorkerHandle};
use crate::machine;
use crate::observe::watch::{self, Elsewhere};
use crate::queue::dispatch::Dispatch;
use crate::queue::network::Network;
use crate::run::coordination::{Reply, Table};
use crate::run::placement::Placement;
use crate::run::worker::{Ended, Instances, OnEnded};

mod committing;
mod connecting;
mod seeing;

/// How long a worker may take to prepare, connect or start.
const STEP_WAIT: Duration = Duration::from_secs(60);
/// How often workers that owe an answer are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long the master waits for others to forget a flow.
const CLOSE_WAIT: Duration = Duration::from_secs(3);

/// How long the others may take when a step has failed at one worker.
const FAILED_WAIT: Duration = Duration::from_secs(5);

/// What workers answer to a step, with the number of each.
type Answer = (usize, Result<Outcome>);

/// The attempt. Dropping it has the workers forget the flow.
pub struct Attempt {
    handles: Vec<Arc<WorkerHandle>>,
    lost_after: Option<Duration>,
    id: (u64, u32),
    placement: Placement,
    answers: Mutex<Receiver<Answer>>,
    /// Who has forgotten the flow.
    closed: Mutex<Receiver<usize>>,
    seen: Arc<Seen>,
    network: Arc<Network>,
    dispatch: Arc<Dispatch>,
    /// Where workers stage, and spill.
    scratch: Vec<PathBuf>,
    /// By module: what each worker has to say of it.
    remarks: Mutex<BTreeMap<usize, Vec<(usize, String)>>>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Cancelled,
    Closed,
}

/// What is seen of the other processes.
struct Seen {
    answers: Sender<Answer>,
    closed: Sender<usize>,
    table: Arc<Table>,
    /// By module: the instances, here and elsewhere.
    metrics: Vec<Vec<Arc<InstanceMetrics>>>,
    /// By worker: its name, and what it has told last.
    looks: Mutex<Vec<(String, Option<Look>)>>,
    /// By queue and worker: the rows it has told last.
    rows: Mutex<BTreeMap<(usize, usize), Vec<Texts>>>,
    /// By module and instance: whether its end has been told.
    ended: Mutex<Vec<Vec<bool>>>,
    placement: Placement,
    on_ended: OnEnded,
    cancel: Arc<Cancel>,
    network: Arc<Network>,
}

/// What the master needs for its own part, if it has one.
pub struct MasterSide {
    /// The way to the workers.
    pub network: Arc<Network>,
    /// Where what they send goes.
    pub dispatch: Arc<Dispatch>,
    /// What the instances share.
    pub table: Arc<Table>,
}

impl Attempt {
    /// Has all workers prepare their parts of a flow; to be waited for with `prepared`. `plan` says
    /// all but who the worker is.
    pub fn prepare(
        handles: Vec<Arc<WorkerHandle>>,
        (flow, plan, budgets): (&Checked, &Plan, &[usize]),
        own: &MasterSide,
        (instances, on_ended): (&[Instances], OnEnded),
        cancel: &Arc<Cancel>,
    ) -> Attempt {
        let ((answers, answered), (closing, closed)) = (channel(), channel());
        let id = own.network.attempt();
        let counts = || flow.nodes.iter().map(|node| node.count);
        let nothing = |handle: &Arc<WorkerHandle>| (handle.member().name.clone(), None);
        let seen = Arc::new(Seen {
            answers,
            closed: closing,
            table: own.table.clone(),
            metrics: instances.iter().map(|of| of.metrics.clone()).collect(),
            looks: Mutex::new(handles.iter().map(nothing).collect()),
            rows: Mutex::default(),
            ended: Mutex::new(counts().map(|count| vec![false; count]).collect()),
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
            seen: seen.clone(),
            network: own.network.clone(),
            dispatch: own.dispatch.clone(),
            scratch: match plan.scratch.is_empty() {
                true => machine::scratch(&plan.home),
                false => plan.scratch.clone(),
            },
            remarks: Mutex::default(),
            state: Mutex::new(State::Open),
            handles,
        };
        for (worker, handle) in attempt.handles.iter().enumerate() {
            let (seen, there) = (seen.clone(), Arc::downgrade(handle));
            handle.listen(id.0, move |event| {
                if let Some(handle) = there.upgrade() {
                    seen.on_event(worker, &handle, id, event);
                }
            });
            let placement = Placement { me: worker, ..plan.placement.clone() };
            let plan = Plan { placement, memory_bytes: budgets[worker], ..plan.clone() };
            handle.ask(id, &Ask::Prepare, vec![Buffer::from_vec(control::write(&plan))]);
        }
        attempt
    }

    /// Waits until all have prepared, unless that is interrupted. Returns which promises of dead
    /// flows they have kept, by run and module.
    pub fn prepared(&self, is_interrupted: &dyn Fn() -> bool) -> Result<Vec<(String, String)>> {
        let outcomes = self.answers(STEP_WAIT, is_interrupted)?;
        Ok(outcomes.into_iter().flat_map(|outcome| outcome.kept).collect())
    }

    /// Sets all workers going, unless that is interrupted.
    pub fn start(&self, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        self.ask_all(|_| Ask::Start);
        self.answers(STEP_WAIT, is_interrupted).map(drop)
    }

    /// Has all instances stop. Their ends are told as they come.
    pub fn cancel(&self) {
        let mut state = self.state.lock();
        if *state == State::Open {
            *state = State::Cancelled;
            self.ask_all(|_| Ask::Cancel);
        }
    }

    /// Has the workers forget the flow, and what they have staged, but for what `closing` names.
    pub fn close(&self, closing: &Closing) {
        if std::mem::replace(&mut *self.state.lock(), State::Closed) == State::Closed {
            return;
        }
        self.ask_all(|_| Ask::Close(closing.clone()));
        self.await_closed();
        self.handles.iter().for_each(|handle| handle.forget(self.id.0));
        self.network.disconnect();
        if self.lost().is_some() {
            // What the dead have left where it can be reached; the rest is found by the next start
            // there, or by `euphrates gc`.
            for folder in &self.scratch {
                scratch::reclaim(folder);
            }
        }
    }

    /// What the master's own connections failed with, if they did; told once.
    pub fn take_failure(&self) -> Option<Error> {
        self.network.take_failure()
    }

    /// A worker of the attempt that is lost.
    pub fn lost(&self) -> Option<(String, Error)> {
        self.handles.iter().find_map(|handle| handle.loss())
    }

    /// What a module has to say, of those that are elsewhere.
    pub fn remark(&self, module: usize) -> Option<String> {
        let remarks = self.remarks.lock();
        let all = remarks.get(&module)?;
        if let [(_, only)] = all.as_slice() {
            return Some(only.clone());
        }
        let told = all
            .iter()
            .map(|(worker, remark)| format!("{}: {remark}", self.handles[*worker].member().name));
        Some(told.collect::<Vec<_>>().join("; "))
    }

    /// Asks what the workers have told last of their machines.
    pub(crate) fn elsewhere(&self) -> Elsewhere {
        let seen = Arc::downgrade(&self.seen);
        Box::new(move || {
            let Some(seen) = seen.upgrade() else { return vec![] };
            let looks = seen.looks.lock();
            let told = |(worker, look): &(String, Option<Look>)| {
                let Look { clock, disks, .. } = look.as_ref()?;
                let (worker, clock) = (worker.clone(), clock.clone()?);
                Some(watch::Seen { worker, clock, disks: disks.clone() })
            };
            looks.iter().filter_map(told).collect()
        })
    }

    fn ask_all(&self, ask: impl Fn(usize) -> Ask) {
        self.handles.iter().enumerate().for_each(|(worker, handle)| {
            handle.ask(self.id, &ask(worker), vec![]);
        });
    }

    /// Waits until everybody has forgotten the flow. Who does not say so is lost, or will clean up
    /// by itself.
    fn await_closed(&self) {
        let deadline = Instant::now() + CLOSE_WAIT;
        let mut left: BTreeSet<usize> = (0..self.handles.len()).collect();
        let closed = self.closed.lock();
        while !left.is_empty() && Instant::now() < deadline {
            if let Ok(worker) = closed.recv_timeout(LOOK) {
                left.remove(&worker);
            }
            left.retain(|worker| self.handles[*worker].lost().is_none());
        }
    }

    fn answers(&self, wait: Duration, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<Outcome>> {
        self.answers_of(&(0..self.handles.len()).collect::<Vec<_>>(), wait, is_cancelled)
    }

    /// What these workers answer to a step. When it fails at one, or is to end, the flow is
    /// cancelled at all: they may wait for each other. Of several failures the one that is not the
    /// echo of another is told.
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
            match answers.recv_timeout(left.unwrap_or(LOOK).min(LOOK)) {
                Ok((worker, answer)) if workers.contains(&worker) => {
                    all.entry(worker).or_insert(answer);
                }
                Ok(_) => {}
                // Who has been lost for long says nothing more.
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
        match errors.min_by_key(echo) {
            Some(error) => Err(error),
            None if is_cancelled() => Err(Error::interrupted()),
            None => Ok(done.into_iter().flatten().collect()),
        }
    }
}

/// How likely a failure only follows from another.
fn echo(error: &Error) -> u8 {
    match error.kind() {
        Kind::Interrupted => 1,
        _ => 0,
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.close(&Closing::default());
    }
}

impl Seen {
    fn on_event(&self, worker: usize, handle: &Arc<WorkerHandle>, id: (u64, u32), event: Event) {
        match event {
            Event::Told(tell, body) => self.on_tell(worker, handle, id, (tell, body)),
            Event::Lost(error) => {
                let name = &handle.member().name;
                let lost = || {
                    let message = format!("worker {name} is lost: {}", error.message());
                    let remedy = "start it again; what it had not committed is gone";
                    Error::resource(message).remedy(error.advice().unwrap_or(remedy))
                };
                // It owes one answer at most, and the ends of its instances.
                let _ = self.answers.send((worker, Err(lost())));
                for (module, of) in self.placement.of.iter().enumerate() {
                    for (number, _) in of.iter().enumerate().filter(|(_, at)| **at == worker) {
                        self.on_end(Ended { instance: (module, number), result: Err(lost()) });
                    }
                }
                // Though all that it had to do has ended, others may wait for what it keeps.
                if self.ended.lock().iter().flatten().any(|has_ended| !has_ended) {
                    self.network.fail(lost());
                }
            }
        }
    }

    fn on_tell(
        &self,
        worker: usize,
        handle: &Arc<WorkerHandle>,
        id: (u64, u32),
        (tell, body): (Tell, Buffer),
    ) {
        match tell {
            Tell::Done => {
                // Who waits for answers may have gone.
                let _ = self.answers.send((worker, Outcome::read(&body)));
            }
            Tell::Closed => drop(self.closed.send(worker)),
            Tell::Broken { error } => handle.lose(&error),
            Tell::Failed { error } => {
                let place = |error: Error| error.at(format!("worker {}", handle.member().name));
                let _ = self.answers.send((worker, Err(place(error))));
            }
            Tell::Ended { instance, error } => {
                let place = |error: Error| error.at(format!("worker {}", handle.member().name));
                self.on_end(Ended { instance, result: error.map_or(Ok(()), |e| Err(place(e))) });
            }
            Tell::Look(look) => self.on_look(worker, look),
            Tell::Rows { edge } => self.on_rows(worker, edge, &body),
            Tell::Next { call, name } => {
                let number = self.table.next(&name);
                handle.ask(id, &Ask::Number { call, number }, vec![]);
            }
            Tell::Given { call, name } => {
                let number = self.table.given(&name);
                handle.ask(id, &Ask::Number { call, number }, vec![]);
            }
            Tell::Bring { call, name, member } => {
                let reply = reply(handle.clone(), id, call);
                if let Err(error) = self.table.bring(&name, member, body.to_vec(), reply) {
                    self.network.fail(error);
                }
            }
            Tell::Learn { call, name } => self.table.learn(&name, reply(handle.clone(), id, call)),
        }
    }

    fn on_look(&self, worker: usize, look: Look) {
        for (module, number, told) in &look.instances {
            if let Some(metrics) = self.metrics.get(*module).and_then(|of| of.get(*number)) {
                metrics.tell(*told);
            }
        }
        self.looks.lock()[worker].1 = Some(look);
    }

    /// Every end counts once, whoever tells it.
    fn on_end(&self, ended: Ended) {
        let (module, number) = ended.instance;
        let first = self
            .ended
            .lock()
            .get_mut(module)
            .and_then(|of| of.get_mut(number))
            .is_some_and(|told| !std::mem::replace(told, true));
        if first {
            // One that fails ends it for all.
            let failed = ended.result.is_err();
            (self.on_ended)(ended);
            if failed {
                self.cancel.cancel();
            }
        }
    }
}

/// Gets the values of a gathering to a worker who has called for them.
fn reply(asker: Arc<WorkerHandle>, id: (u64, u32), call: u64) -> Reply {
    Box::new(move |values: Vec<Vec<u8>>| {
        let lengths = values.iter().map(Vec::len).collect();
        asker.ask(id, &Ask::Gathered { call, lengths }, vec![Buffer::from_vec(values.concat())]);
    })
}
