//! The table of the programs and flows that run on a worker, for all its masters.
//!
//! The masters of a persistent cluster share its workers, so only a worker has a complete list of
//! its programs and flows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result, spawn_named};
use parking_lot::{Condvar, Mutex};

use crate::entry::{Id, LaunchOrder, Origin, ProgramEntry, ProgramState};
use crate::guard::WorkerGuard;
use crate::program::{Program, ProgramIdentity, Stop, ToMaster};
use crate::protocol::PROGRAMS_MAX;
use crate::spawn;
use crate::usage::usage_by_group;

/// How long to wait for killed programs.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// The programs and flows of a worker. Closing it ends all programs.
///
/// ```
/// use euphrates_launch::ProgramTable;
///
/// let table = ProgramTable::new("w0-1".into());
/// assert!(table.entries().is_empty());
/// table.close();
/// ```
pub struct ProgramTable {
    guard: WorkerGuard,
    sessions: AtomicU64,
    state: Mutex<Listed>,
    /// Notified when a program was removed.
    ended: Condvar,
}

#[derive(Default)]
struct Listed {
    programs: BTreeMap<Id, Arc<Program>>,
    flows: BTreeMap<u64, FlowEntry>,
    is_closed: bool,
}

/// Ends a flow everywhere, with an error that names the killer.
pub type KillFlow = Box<dyn Fn(&Origin) + Send>;

/// A flow with a part at this worker.
pub struct FlowEntry {
    /// Its name, shortened for a list.
    pub name: String,
    /// The process of its master.
    pub origin: Origin,
    /// When its part was started.
    pub began: Instant,
    /// The session of its master.
    pub master: u64,
    /// CPU time of its instances here.
    pub cpu_nanos: Arc<AtomicU64>,
    /// Ends it; absent if it has no instance here, by which that is done.
    pub kill: Option<KillFlow>,
}

impl FlowEntry {
    /// Its entry in a list.
    pub fn entry(&self, number: u64) -> ProgramEntry {
        ProgramEntry {
            id: Id { number, rank: None },
            worker: String::new(),
            is_flow: true,
            what: self.name.clone(),
            state: ProgramState::Running,
            origin: self.origin.clone(),
            pid: None,
            seconds: self.began.elapsed().as_secs_f64(),
            cpu_seconds: self.cpu_nanos.load(Relaxed) as f64 / 1e9,
            memory_bytes: None,
        }
    }
}

impl ProgramTable {
    /// An empty table. `word` must be unique to this worker.
    pub fn new(word: String) -> ProgramTable {
        ProgramTable {
            guard: WorkerGuard::new(word),
            sessions: AtomicU64::new(0),
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Ends all programs, of all masters.
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

    /// The entries of all programs and flows.
    pub fn entries(&self) -> Vec<ProgramEntry> {
        let usage = usage_by_group();
        let state = self.state.lock();
        let usage_of = |program: &Program| usage.get(&program.group_number()).copied();
        let programs = state.programs.values();
        let programs = programs.map(|program| program.entry(usage_of(program).unwrap_or_default()));
        let flows = state.flows.iter().map(|(number, flow)| flow.entry(*number));
        flows.chain(programs).collect()
    }

    /// Starts a program, and lists it.
    pub fn start(
        self: &Arc<Self>,
        order: &LaunchOrder,
        identity: ProgramIdentity,
        master: ToMaster,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Error::resource("the worker ends"));
        }
        if state.programs.len() >= PROGRAMS_MAX {
            let message = format!("{PROGRAMS_MAX} programs run here, and no more can");
            return Err(Error::resource(message)
                .remedy("wait for some of them, or end some: `euphrates ps`, `euphrates kill`"));
        }
        self.guard.ensure_running()?;
        let (program, mut pump) = spawn::start(order, identity, master)?;
        let (id, group) = (program.id, program.group_number());
        let programs = self.clone();
        let run = move || {
            pump.run(|| programs.guard.end(group));
            programs.state.lock().programs.remove(&id);
            pump.notify_exit();
            programs.ended.notify_all();
        };
        // Without a guard or a thread, the program ends with its pump.
        let guarded =
            self.guard.begin(group).and_then(|()| spawn_named(format!("launch {id}"), run));
        guarded.inspect_err(|_| self.guard.end(group))?;
        state.programs.insert(id, program);
        Ok(())
    }

    /// One program of a launch.
    pub fn program(&self, number: u64, rank: usize) -> Option<Arc<Program>> {
        self.state.lock().programs.get(&Id { number, rank: Some(rank) }).cloned()
    }

    /// All programs of a launch.
    pub fn launch(&self, number: u64) -> Vec<Arc<Program>> {
        let (from, to) = (Id { number, rank: None }, Id { number, rank: Some(usize::MAX) });
        self.state.lock().programs.range(from..=to).map(|(_, program)| program.clone()).collect()
    }

    /// The number of a new session.
    pub fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Relaxed)
    }

    /// The word that all programs started here have in their environment.
    pub fn word(&self) -> &str {
        self.guard.word()
    }

    /// Adds a flow to the list.
    pub fn add_flow(&self, number: u64, flow: FlowEntry) {
        self.state.lock().flows.insert(number, flow);
    }

    /// Removes a flow from the list.
    pub fn remove_flow(&self, number: u64) {
        self.state.lock().flows.remove(&number);
    }

    /// Removes the flows of a session, and stops its programs that are not detached.
    pub fn end_session(&self, session: u64) {
        let mut state = self.state.lock();
        let is_own = |program: &&Arc<Program>| program.master == session && !program.is_detached;
        state.programs.values().filter(is_own).for_each(|program| program.stop(Stop::Forget));
        state.flows.retain(|_, flow| flow.master != session);
    }

    /// The programs with these ids, and the entries of the flows, which are killed.
    pub fn kill(&self, ids: &[Id], by: &Origin) -> (Vec<Arc<Program>>, Vec<ProgramEntry>) {
        let state = self.state.lock();
        let programs = state.programs.iter().filter(|(id, _)| ids.contains(id));
        let programs = programs.map(|(_, program)| program.clone()).collect();
        let flows = state.flows.iter();
        let flows = flows.filter(|(number, _)| ids.contains(&Id { number: **number, rank: None }));
        let killed = flows.filter_map(|(number, flow)| {
            (flow.kill.as_ref()?)(by);
            Some(flow.entry(*number))
        });
        (programs, killed.collect())
    }
}
