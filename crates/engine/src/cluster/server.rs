//! A worker's server: accepts masters and executes their commands; accepts other workers and passes
//! their connections to the flow they name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Refusals, Registry, Result};
use euphrates_launch::{KillFlow, LaunchRequest, MasterSession, Origin, ProgramTable, ToMaster};
use euphrates_wire::served::{FILE_REQUESTS, FILES, FileServer};
use euphrates_wire::{
    Address, Connection, Frame, FrameKind, Greeting, Header, Lane, Listener, Secret,
};
use parking_lot::Mutex;

use super::control::{self, AttemptPlan, ControlEvent, MasterCommand, WorkerNotice};
use super::identity::{check_name, greeting};
use super::part::lending::with_lent_memory;
use super::part::{Part, runner};
use super::sender::ControlSender;
use super::served::{ServeOptions, file_server};
use super::worker_context::{WorkerContext, WorkerSettings};
use crate::observe::totals::FlowTotals;
use crate::run::placement::WorkerProperties;

/// How long the parts of a worker may take to end.
const END_WAIT: Duration = Duration::from_secs(3);

/// A listening worker. Dropping it ends all its parts and programs.
pub struct WorkerServer {
    listener: Listener,
    state: Arc<WorkerState>,
}

/// Shared by all connections of a worker.
struct WorkerState {
    context: Arc<WorkerContext>,
    parts: Mutex<HashMap<u64, Arc<Part>>>,
    /// All that runs here.
    programs: Arc<ProgramTable>,
    masters: Mutex<Masters>,
    /// Callers with a valid secret that asked for what it does not allow.
    refusals: Refusals,
    on_alone: Box<dyn Fn() + Send + Sync>,
    /// Serves striped files and lent memory, if it was asked to.
    files: Option<FileServer>,
}

/// The connected masters.
#[derive(Default)]
struct Masters {
    entered: u64,
    lanes: BTreeMap<u64, Lane>,
    is_draining: bool,
}

impl Masters {
    /// Introduces this worker to a master; returns the master's number.
    fn enter(&mut self, lane: &Lane, member: &WorkerProperties) -> u64 {
        let sender = ControlSender::of_cluster(lane);
        if self.is_draining {
            sender.send(&WorkerNotice::Draining, vec![]);
        }
        sender.send(&WorkerNotice::Introduction(member.clone()), vec![]);
        self.entered += 1;
        self.lanes.insert(self.entered, lane.clone());
        self.entered
    }

    /// Reports to all masters that this worker drains, also to those that connect later.
    fn drain(&mut self) {
        self.is_draining = true;
        let senders = self.lanes.values().map(ControlSender::of_cluster);
        senders.for_each(|sender| sender.send(&WorkerNotice::Draining, vec![]));
    }
}

impl WorkerServer {
    /// Listens; `on_alone` is called whenever the last master disconnects.
    pub fn start(
        settings: WorkerSettings,
        registry: Registry,
        on_alone: impl Fn() + Send + Sync + 'static,
    ) -> Result<WorkerServer> {
        WorkerServer::start_serving(settings, registry, None, on_alone)
    }

    /// As `start`; serves disks to programs that use striped files as well.
    pub fn start_serving(
        settings: WorkerSettings,
        registry: Registry,
        files: Option<&ServeOptions>,
        on_alone: impl Fn() + Send + Sync + 'static,
    ) -> Result<WorkerServer> {
        check_name(&settings.member.name)?;
        let (name, lost_after) = (settings.member.name.clone(), settings.lost_after);
        let files = files.map(|files| file_server(files, &name, lost_after)).transpose()?;
        let files = with_lent_memory(files, &settings)?;
        let (address, security) = (settings.listen.clone(), settings.security);
        let me = greeting(&settings.member.name, "worker", (0, 0)).silent_for(settings.lost_after);
        let state = Arc::new(WorkerState {
            context: Arc::new(WorkerContext { registry, setting: settings, busy: Arc::default() }),
            parts: Mutex::default(),
            programs: Arc::new(ProgramTable::new(Secret::random()?.to_text())),
            masters: Mutex::default(),
            refusals: Refusals::default(),
            on_alone: Box::new(on_alone),
            files,
        });
        let (known, called) = (state.clone(), state.clone());
        let keys = Arc::new(move |flow: u64| match flow {
            0 => Some(known.context.setting.secret.clone()),
            flow => known.part(flow).map(|part| part.secret().clone()),
        });
        let on_call = move |connection| serve(&called, connection);
        let listener = Listener::bind(&address, me, keys, security, on_call)?;
        Ok(WorkerServer { listener, state })
    }

    /// The address at which it listens.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// A function that returns the totals of the parts of flows that run here, each as old as its
    /// last report to its master; none once the server has ended.
    pub fn totals_reader(&self) -> impl Fn() -> Vec<FlowTotals> + Send + Sync + 'static {
        let state = Arc::downgrade(&self.state);
        move || {
            let Some(state) = state.upgrade() else { return vec![] };
            let parts: Vec<Arc<Part>> = state.parts.lock().values().cloned().collect();
            parts.iter().filter_map(|part| part.totals.lock().clone()).collect()
        }
    }

    /// Reports to all masters that this worker drains: flows that start later are placed on others.
    pub fn drain(&self) {
        self.state.masters.lock().drain();
    }

    /// Whether a flow has a part here.
    pub fn is_used(&self) -> bool {
        !self.state.parts.lock().is_empty() || self.state.context.busy.is_any()
    }

    /// Lines to log about refused callers; see `Refusals::lines`.
    pub fn refusals(&self) -> Vec<String> {
        let mut lines = self.listener.lines();
        lines.extend(self.state.refusals.lines(SystemTime::now()));
        lines
    }
}

impl Drop for WorkerServer {
    fn drop(&mut self) {
        let parts: Vec<_> = self.state.parts.lock().drain().map(|(_, part)| part).collect();
        parts.iter().for_each(|part| part.lose());
        self.state.files.iter().for_each(FileServer::close);
        // Staged output is removed before the process exits.
        self.state.context.busy.wait(END_WAIT);
        self.state.programs.close();
    }
}

impl WorkerState {
    fn part(&self, flow: u64) -> Option<Arc<Part>> {
        self.parts.lock().get(&flow).cloned()
    }
}

fn serve(state: &Arc<WorkerState>, connection: Connection) {
    let refuse = |caller: &Greeting, why: &str| state.refusals.add(&caller.name, why);
    let served = match purpose(&connection.peer) {
        Some(Purpose::Control) => serve_master(state, connection),
        Some(Purpose::Batches) => match state.part(connection.peer.flow) {
            Some(part) => part.on_call(connection),
            None => {
                refuse(&connection.peer, "its flow has ended here");
                Ok(())
            }
        },
        Some(Purpose::Files | Purpose::FileRequests) if state.files.is_none() => {
            refuse(&connection.peer, "no files are served here");
            Ok(())
        }
        Some(Purpose::Files) => {
            state.files.as_ref().map_or(Ok(()), |files| files.serve_session(connection))
        }
        Some(Purpose::FileRequests) => {
            state.files.as_ref().map_or(Ok(()), |files| files.serve_requests(connection))
        }
        None => {
            refuse(&connection.peer, "its secret does not allow what it asked for");
            Ok(())
        }
    };
    // The caller sees the end of its connection.
    drop(served);
}

/// The purpose of a call.
#[derive(Debug, PartialEq, Eq)]
enum Purpose {
    Control,
    Batches,
    /// The session of a client of striped files.
    Files,
    /// Requests of such a session.
    FileRequests,
}

/// The purpose that a caller's secret allows. A flow's secret allows only taking part in that
/// flow; commands need the cluster's secret.
fn purpose(caller: &Greeting) -> Option<Purpose> {
    match (caller.purpose.as_str(), caller.flow) {
        ("control", 0) => Some(Purpose::Control),
        ("batches", 1..) => Some(Purpose::Batches),
        (FILES, 0) => Some(Purpose::Files),
        (FILE_REQUESTS, 0) => Some(Purpose::FileRequests),
        _ => None,
    }
}

/// A message of a master, or its end.
enum FromMaster {
    Command(Header, MasterCommand, Buffer),
    /// A request about programs, with the number of the launch.
    Launch(u64, LaunchRequest, Buffer),
    Gone,
}

fn serve_master(state: &Arc<WorkerState>, connection: Connection) -> Result<()> {
    let (sender, received) = channel();
    let ended = sender.clone();
    let on_frame = move |frame: Frame| {
        // The session ends with the lane.
        let _ = sender.send(FromMaster::of(frame).unwrap_or(FromMaster::Gone));
    };
    let on_end = move |_| drop(ended.send(FromMaster::Gone));
    let name = format!("control {}", connection.peer.name);
    let lost_after = state.context.setting.lost_after;
    let lane = Lane::start_within(lost_after, connection, &name, on_frame, on_end)?;
    let number = state.masters.lock().enter(&lane, &state.context.setting.member);
    session(state, &lane, &received);
    let is_alone = {
        let mut masters = state.masters.lock();
        masters.lanes.remove(&number);
        masters.lanes.is_empty()
    };
    if is_alone {
        (state.on_alone)();
    }
    Ok(())
}

impl FromMaster {
    fn of(frame: Frame) -> Result<FromMaster> {
        let Frame { header, meta, body } = frame;
        Ok(match header.kind {
            FrameKind::Launch => FromMaster::Launch(header.flow, control::read(&meta)?, body),
            _ => FromMaster::Command(header, control::read(&meta)?, body),
        })
    }
}

/// Serves one master until it disconnects; its flows, and its programs that are not detached, end
/// with it.
fn session(state: &Arc<WorkerState>, lane: &Lane, received: &Receiver<FromMaster>) {
    let mut own: Vec<u64> = vec![];
    let launches = lane.clone();
    let to_master = move |number| {
        let sender = ControlSender::of_launch(&launches, number);
        ToMaster::new(move |notice, body| sender.send(notice, body))
    };
    let mut master = MasterSession::new(&state.programs, to_master);
    loop {
        let (header, command, body) = match received.recv() {
            Ok(FromMaster::Command(header, command, body)) => (header, command, body),
            Ok(FromMaster::Launch(number, command, body)) => {
                master.on_request(number, command, body);
                continue;
            }
            Ok(FromMaster::Gone) | Err(_) => break,
        };
        match command {
            MasterCommand::Prepare => {
                let attempt = (header.flow, header.epoch);
                own.push(header.flow);
                let begun = control::read::<AttemptPlan>(&body).and_then(|plan| {
                    let (name, here) = (plan.document.name.clone(), plan.placement.first_here());
                    let (part, events) = Part::new(attempt, &plan)?;
                    // Other workers may call as soon as the master learns of the part.
                    state.parts.lock().insert(attempt.0, part.clone());
                    runner::start(&state.context, plan, lane, part.clone(), events)?;
                    begin_flow(&master, attempt, (name, here), &part, lane);
                    Ok(())
                });
                if let Err(error) = begun {
                    state.parts.lock().remove(&header.flow);
                    let sender = ControlSender::of_attempt(lane, attempt);
                    sender.send(&ControlEvent::Failed { error }, vec![]);
                }
            }
            MasterCommand::Close(_) => {
                let part = state.parts.lock().remove(&header.flow);
                own.retain(|flow| *flow != header.flow);
                master.on_flow_end(header.flow);
                if let Some(part) = part {
                    part.command(command, body);
                }
            }
            command => {
                if let Some(part) = state.part(header.flow) {
                    part.command(command, body);
                }
            }
        }
    }
    for flow in own {
        let part = state.parts.lock().remove(&flow);
        part.iter().for_each(|part| part.lose());
    }
}

/// Lists a flow with the worker's programs. It can be killed here if it has an instance here, whose
/// failure ends the flow.
fn begin_flow(
    master: &MasterSession,
    attempt: (u64, u32),
    (name, instance): (String, Option<(usize, usize)>),
    part: &Part,
    lane: &Lane,
) {
    let kill = instance.map(|instance| {
        let sender = ControlSender::of_attempt(lane, attempt);
        let kill = move |by: &Origin| {
            let error = Some(Error::failed(format!("the flow was killed by {by}")));
            sender.send(&ControlEvent::Ended { instance, error }, vec![]);
        };
        Box::new(kill) as KillFlow
    });
    master.on_flow(attempt.0, &name, part.cpu.clone(), kill);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_need_the_secret_of_the_cluster() {
        let of = |what: &str, flow| purpose(&greeting("w1", what, (flow, 1)));
        assert_eq!(of("control", 0), Some(Purpose::Control));
        assert_eq!(of("control", 7), None);
        assert_eq!(of("batches", 7), Some(Purpose::Batches));
        assert_eq!(of("batches", 0), None);
        assert_eq!(of("worker", 0), None);
        assert_eq!(of(FILES, 0), Some(Purpose::Files));
        assert_eq!([of(FILES, 7), of(FILE_REQUESTS, 7)], [None, None]);
    }
}
