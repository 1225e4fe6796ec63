//! A worker's front door: masters call it and are served, other workers call it and are handed to
//! the flow they say they belong to.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Refusals, Registry, Result};
use euphrates_wire::{
    Address, Connection, Frame, Greeting, Header, Kind, Lane, Listener, Secret, Security,
};
use parking_lot::{Condvar, Mutex};

use super::control::{self, Ask, Plan, Tell};
use super::launch;
use super::launch::programs::{MasterSession, ProgramTable};
use super::part::Part;
use super::sender::ControlSender;
use super::{check_name, greeting};
use crate::run::placement::Member;

/// What the parts of a worker that ends may take to come to their end.
const END_WAIT: Duration = Duration::from_secs(3);

/// What a worker is started with.
pub struct Setting {
    /// What it is, and is called.
    pub member: Member,
    /// Where it listens.
    pub listen: Address,
    /// What masters must know.
    pub secret: Secret,
    /// How others are kept out.
    pub security: Security,
    /// The limit on silence of any end, if not the default.
    pub lost_after: Option<Duration>,
    /// Folders for what does not fit the memory.
    pub scratch: Vec<PathBuf>,
}

/// A worker that listens. Dropping it ends it and all it does.
pub struct Server {
    listener: Listener,
    state: Arc<WorkerState>,
}

/// What all connections of a worker share.
pub(super) struct WorkerState {
    pub registry: Registry,
    pub setting: Setting,
    parts: Mutex<HashMap<u64, Arc<Part>>>,
    /// Parts whose threads have not ended.
    pub busy: Arc<Busy>,
    /// What runs here, for whoever asks.
    programs: Arc<ProgramTable>,
    /// Masters that are there.
    masters: Mutex<usize>,
    /// Callers that knew a secret and asked for what it does not allow.
    refusals: Refusals,
    on_alone: Box<dyn Fn() + Send + Sync>,
}

impl Server {
    /// Listens; `on_alone` is called whenever the last master has gone.
    pub fn start(
        setting: Setting,
        registry: Registry,
        on_alone: impl Fn() + Send + Sync + 'static,
    ) -> Result<Server> {
        check_name(&setting.member.name)?;
        let (address, security) = (setting.listen.clone(), setting.security);
        let me = greeting(&setting.member.name, "worker", (0, 0)).silent_for(setting.lost_after);
        let state = Arc::new(WorkerState {
            registry,
            setting,
            parts: Mutex::default(),
            busy: Arc::default(),
            programs: Arc::new(ProgramTable::new()?),
            masters: Mutex::default(),
            refusals: Refusals::default(),
            on_alone: Box::new(on_alone),
        });
        let (known, called) = (state.clone(), state.clone());
        let keys = Arc::new(move |flow: u64| match flow {
            0 => Some(known.setting.secret.clone()),
            flow => known.part(flow).map(|part| part.secret().clone()),
        });
        let on_call = move |connection| serve(&called, connection);
        let listener = Listener::bind(&address, me, keys, security, on_call)?;
        Ok(Server { listener, state })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// What to log now of callers that were refused; see `Refusals::lines`.
    pub fn refusals(&self) -> Vec<String> {
        let mut lines = self.listener.lines();
        lines.extend(self.state.refusals.lines(SystemTime::now()));
        lines
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let parts: Vec<_> = self.state.parts.lock().drain().map(|(_, part)| part).collect();
        parts.iter().for_each(|part| part.lose());
        // What they have staged goes before the process does.
        self.state.busy.wait(END_WAIT);
        self.state.programs.close();
    }
}

/// Counts what is still at work.
#[derive(Default)]
pub(super) struct Busy {
    count: Mutex<usize>,
    changed: Condvar,
}

/// One that is at work until this is dropped.
pub(super) struct AtWork(Arc<Busy>);

impl Busy {
    pub fn begin(self: &Arc<Busy>) -> AtWork {
        *self.count.lock() += 1;
        AtWork(self.clone())
    }

    fn wait(&self, time: Duration) {
        self.changed.wait_while_for(&mut self.count.lock(), |count| *count > 0, time);
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.changed.notify_all();
    }
}

impl WorkerState {
    /// There is a part of a flow.
    pub fn know(&self, flow: u64, part: &Arc<Part>) {
        self.parts.lock().insert(flow, part.clone());
    }

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
        None => {
            refuse(&connection.peer, "its secret does not allow what it asked for");
            Ok(())
        }
    };
    // The caller sees that the connection is gone; there is nobody else to tell.
    drop(served);
}

/// What somebody has called for.
#[derive(Debug, PartialEq, Eq)]
enum Purpose {
    Control,
    Batches,
}

/// What a caller may do here. Whoever has but the secret of a flow takes part in that flow, and
/// commands nobody: to do so takes the cluster's own.
fn purpose(caller: &Greeting) -> Option<Purpose> {
    match (caller.purpose.as_str(), caller.flow) {
        ("control", 0) => Some(Purpose::Control),
        ("batches", 1..) => Some(Purpose::Batches),
        _ => None,
    }
}

/// What comes from a master.
enum Heard {
    Asked(Header, Ask, Buffer),
    /// Something about programs, with the number of the launch.
    Launch(u64, launch::Ask, Buffer),
    Gone,
}

fn serve_master(state: &Arc<WorkerState>, connection: Connection) -> Result<()> {
    let (hear, heard) = channel();
    let ended = hear.clone();
    let on_frame = move |frame: Frame| {
        // The session lives as long as the lane.
        let _ = hear.send(Heard::of(frame).unwrap_or(Heard::Gone));
    };
    let on_end = move |_| drop(ended.send(Heard::Gone));
    let name = format!("control {}", connection.peer.name);
    let lost_after = state.setting.lost_after;
    let lane = Lane::start_within(lost_after, connection, &name, on_frame, on_end)?;
    ControlSender::of_cluster(&lane).send(&state.setting.member, vec![]);
    *state.masters.lock() += 1;
    session(state, &lane, &heard);
    let left = {
        let mut masters = state.masters.lock();
        *masters -= 1;
        *masters
    };
    if left == 0 {
        (state.on_alone)();
    }
    Ok(())
}

impl Heard {
    fn of(frame: Frame) -> Result<Heard> {
        let Frame { header, meta, body } = frame;
        Ok(match header.kind {
            Kind::Launch => Heard::Launch(header.flow, control::read(&meta)?, body),
            _ => Heard::Asked(header, control::read(&meta)?, body),
        })
    }
}

/// Serves one master until it is gone; its flows and programs go with it.
fn session(state: &Arc<WorkerState>, lane: &Lane, heard: &Receiver<Heard>) {
    let mut own: Vec<u64> = vec![];
    let mut master = MasterSession::new(&state.programs, lane.clone());
    loop {
        let (header, ask, body) = match heard.recv() {
            Ok(Heard::Asked(header, ask, body)) => (header, ask, body),
            Ok(Heard::Launch(number, ask, body)) => {
                master.on_ask(number, ask, body);
                continue;
            }
            Ok(Heard::Gone) | Err(_) => break,
        };
        match ask {
            Ask::Prepare => {
                let attempt = (header.flow, header.epoch);
                own.push(header.flow);
                let begun = control::read::<Plan>(&body).and_then(|plan| {
                    let (name, here) = (plan.document.name.clone(), plan.placement.first_here());
                    let part = Part::start(state, attempt, plan, lane.clone())?;
                    master.on_flow(attempt, name, here, part.cpu.clone());
                    Ok(())
                });
                match begun {
                    Ok(()) => {}
                    Err(error) => {
                        state.parts.lock().remove(&header.flow);
                        let sender = ControlSender::of_attempt(lane, attempt);
                        sender.send(&Tell::Failed { error }, vec![]);
                    }
                }
            }
            Ask::Close(_) => {
                let part = state.parts.lock().remove(&header.flow);
                own.retain(|flow| *flow != header.flow);
                master.on_flow_end(header.flow);
                if let Some(part) = part {
                    part.ask(ask, body);
                }
            }
            ask => {
                if let Some(part) = state.part(header.flow) {
                    part.ask(ask, body);
                }
            }
        }
    }
    for flow in own {
        let part = state.parts.lock().remove(&flow);
        part.iter().for_each(|part| part.lose());
    }
}

/// Runs something beside the connections.
pub(super) fn beside(name: String, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().name(name).spawn(run);
    let failed = |error| Error::resource(format!("cannot start a thread: {error}"));
    spawned.map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_secret_of_the_cluster_commands_a_worker() {
        let of = |what: &str, flow| purpose(&greeting("w1", what, (flow, 1)));
        assert_eq!(of("control", 0), Some(Purpose::Control));
        assert_eq!(of("control", 7), None);
        assert_eq!(of("batches", 7), Some(Purpose::Batches));
        assert_eq!(of("batches", 0), None);
        assert_eq!(of("worker", 0), None);
    }
}
