//! What runs at a worker, whoever has started it: the programs and flows of all its masters.
//!
//! Masters of a kept cluster share its workers, and nobody else knows of all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_wire::Lane;
use parking_lot::{Condvar, Mutex};

use super::guard::{Guard, VARIABLE};
use super::program::{Place, Program, Stop, ToMaster};
use super::{Ask, Entry, Id, Order, Origin, PROGRAMS_MAX, State, Tell, shortened};
use crate::cluster::control;
use crate::cluster::sender::ControlSender;
use crate::cluster::server::beside;
use crate::machine;

/// How long programs that are killed are waited for: no longer than the system takes.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// The list. Closing it ends all programs.
pub struct ProgramTable {
    guard: Guard,
    sessions: AtomicU64,
    state: Mutex<Listed>,
    /// Somebody waits for it to be empty.
    ended: Condvar,
}

#[derive(Default)]
struct Listed {
    programs: BTreeMap<Id, Arc<Program>>,
    flows: BTreeMap<u64, Flow>,
    is_closed: bool,
}

/// A flow that has a part here.
struct Flow {
    name: String,
    origin: Origin,
    began: Instant,
    lane: Lane,
    master: u64,
    epoch: u32,
    /// An instance that is here, by which its master can be told that it has failed.
    instance: Option<(usize, usize)>,
    cpu_nanos: Arc<AtomicU64>,
}

impl ProgramTable {
    /// Nothing runs yet.
    pub fn new() -> Result<ProgramTable> {
        Ok(ProgramTable {
            guard: Guard::new()?,
            sessions: AtomicU64::new(0),
            state: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Ends all programs, whoever has started them.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.programs.values().for_each(|program| program.stop(Stop::Forget));
        let deadline = Instant::now() + CLOSE_WAIT;
        while !state.programs.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.ended.wait_for(&mut state, left);
        }
        drop(state);
        self.guard.close();
    }

    fn entries(&self) -> Vec<Entry> {
        let usage = machine::usage_by_group();
        let state = self.state.lock();
        let usage_of = |program: &Program| usage.get(&program.group_number()).copied();
        let programs = state.programs.values();
        let programs = programs.map(|program| program.entry(usage_of(program).unwrap_or_default()));
        let flows = state.flows.iter().map(|(number, flow)| flow.entry(*number));
        flows.chain(programs).collect()
    }

    /// Starts one; it is in the list from now on.
    fn start(self: &Arc<Self>, order: &Order, place: Place, master: ToMaster) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Error::resource("the worker ends"));
        }
        if state.programs.len() >= PROGRAMS_MAX {
            let message = format!("{PROGRAMS_MAX} programs run here, and no more can");
            return Err(Error::resource(message)
                .remedy("wait for some of them, or end some: `euphrates ps`, `euphrates kill`"));
        }
        self.guard.stand_by()?;
        let (program, mut pump) = Program::start(order, place, master)?;
        let (id, group) = (program.id, program.group_number());
        let programs = self.clone();
        let run = move || {
            pump.run(|| programs.guard.end(group));
            programs.state.lock().programs.remove(&id);
            pump.say_goodbye();
            programs.ended.notify_all();
        };
        // If nobody guards it, or no thread is there to carry, it ends with its pump.
        let guarded = self.guard.begin(group).and_then(|()| beside(format!("launch {id}"), run));
        guarded.inspect_err(|_| self.guard.end(group))?;
        state.programs.insert(id, program);
        Ok(())
    }

    fn program(&self, number: u64, rank: usize) -> Option<Arc<Program>> {
        self.state.lock().programs.get(&Id { number, rank: Some(rank) }).cloned()
    }

    /// The programs of a launch.
    fn launch(&self, number: u64) -> Vec<Arc<Program>> {
        let (from, to) = (Id { number, rank: None }, Id { number, rank: Some(usize::MAX) });
        self.state.lock().programs.range(from..=to).map(|(_, program)| program.clone()).collect()
    }
}

impl Flow {
    fn entry(&self, number: u64) -> Entry {
        Entry {
            id: Id { number, rank: None },
            worker: String::new(),
            is_flow: true,
            what: self.name.clone(),
            state: State::Running,
            origin: self.origin.clone(),
            pid: None,
            seconds: self.began.elapsed().as_secs_f64(),
            cpu_seconds: self.cpu_nanos.load(Relaxed) as f64 / 1e9,
            memory_bytes: None,
        }
    }

    /// Has its master hear that it has failed, and end it everywhere.
    fn kill(&self, number: u64, by: &Origin) -> bool {
        let Some(instance) = self.instance else { return false };
        let error = Error::failed(format!("the flow was killed by {by}"));
        let tell = control::Tell::Ended { instance, error: Some(error) };
        ControlSender::of_attempt(&self.lane, (number, self.epoch)).send(&tell, vec![]);
        true
    }
}

/// A master that is there; what it has started, and not detached, goes with it.
pub struct MasterSession {
    programs: Arc<ProgramTable>,
    number: u64,
    origin: Origin,
    lane: Lane,
}

impl MasterSession {
    /// One has come.
    pub fn new(programs: &Arc<ProgramTable>, lane: Lane) -> MasterSession {
        let number = programs.sessions.fetch_add(1, Relaxed);
        MasterSession { programs: programs.clone(), number, origin: Origin::default(), lane }
    }

    /// It wants something.
    pub fn on_ask(&mut self, number: u64, ask: Ask, body: Buffer) {
        let master = ToMaster::of_launch(&self.lane, number);
        match ask {
            Ask::Introduce { origin } => self.origin = origin,
            Ask::Launch { order, worker, ranks, size } => {
                let started = self.launch(number, &order, (&worker, &ranks, size), &master);
                let tell = started.map_or_else(|error| Tell::Refused { error }, |()| Tell::Started);
                master.send(&tell, vec![]);
            }
            Ask::Allow { rank, bytes } => {
                self.programs.program(number, rank).iter().for_each(|program| program.allow(bytes));
            }
            Ask::Feed { rank } => {
                let program = self.programs.program(number, rank);
                program.into_iter().for_each(|program| program.feed(body.clone()));
            }
            Ask::Stop { at_once } => {
                let programs = self.programs.launch(number);
                programs.iter().for_each(|program| program.stop(way(at_once)));
            }
            Ask::List => master.send(&Tell::Listed { entries: self.programs.entries() }, vec![]),
            Ask::Kill { ids, at_once } => self.kill(&ids, way(at_once), &master),
        }
    }

    /// It has begun a flow, in which these are instances here.
    pub fn on_flow(
        &self,
        (flow, epoch): (u64, u32),
        name: String,
        instance: Option<(usize, usize)>,
        cpu_nanos: Arc<AtomicU64>,
    ) {
        let flow_here = Flow {
            name: shortened(&name),
            origin: self.origin.clone(),
            began: Instant::now(),
            lane: self.lane.clone(),
            master: self.number,
            epoch,
            instance,
            cpu_nanos,
        };
        self.programs.state.lock().flows.insert(flow, flow_here);
    }

    /// A flow is over.
    pub fn on_flow_end(&self, flow: u64) {
        self.programs.state.lock().flows.remove(&flow);
    }

    /// Starts all of them, or none.
    fn launch(
        &self,
        number: u64,
        order: &Order,
        (worker, ranks, (programs, workers)): (&str, &[usize], (usize, usize)),
        master: &ToMaster,
    ) -> Result<()> {
        let start = |rank: &usize| {
            let env = vec![
                ("EUPHRATES_WORKER", worker.to_string()),
                ("EUPHRATES_WORKERS", workers.to_string()),
                ("EUPHRATES_RANK", rank.to_string()),
                ("EUPHRATES_RANKS", programs.to_string()),
                (VARIABLE, self.programs.guard.word().to_string()),
            ];
            let id = Id { number, rank: Some(*rank) };
            let place = Place { id, master: self.number, origin: &self.origin, env };
            self.programs.start(order, place, master.clone())
        };
        let started = ranks.iter().try_for_each(start);
        started.inspect_err(|_| {
            self.programs.launch(number).iter().for_each(|program| program.stop(Stop::Forget));
        })
    }

    fn kill(&self, ids: &[Id], how: Stop, master: &ToMaster) {
        let is_meant = |id: &Id| ids.contains(id);
        let (programs, flows) = {
            let state = self.programs.state.lock();
            let programs = state.programs.iter().filter(|(id, _)| is_meant(id));
            let programs: Vec<_> = programs.map(|(_, program)| program.clone()).collect();
            let flows = state.flows.iter();
            let flows = flows.filter(|(number, _)| is_meant(&Id { number: **number, rank: None }));
            let killed = flows.filter(|(number, flow)| flow.kill(**number, &self.origin));
            let flows: Vec<_> = killed.map(|(number, flow)| flow.entry(*number)).collect();
            (programs, flows)
        };
        let hit = programs.iter().filter(|program| program.kill(how, master.clone())).count();
        master.send(&Tell::Killing { count: hit + flows.len() }, vec![]);
        for flow in flows {
            master.send(&Tell::Killed { entry: Box::new(flow), end: None }, vec![]);
        }
    }
}

impl Drop for MasterSession {
    fn drop(&mut self) {
        let mut state = self.programs.state.lock();
        let is_own =
            |program: &&Arc<Program>| program.master == self.number && !program.is_detached;
        state.programs.values().filter(is_own).for_each(|program| program.stop(Stop::Forget));
        state.flows.retain(|_, flow| flow.master != self.number);
    }
}

fn way(at_once: bool) -> Stop {
    if at_once { Stop::Kill } else { Stop::Word }
}
