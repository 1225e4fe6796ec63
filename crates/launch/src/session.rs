//! The session of one master at a worker: serves its requests about programs.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use arrow::buffer::Buffer;
use euphrates_flow::Result;

use crate::entry::{Id, LaunchOrder, Origin, shortened};
use crate::guard::VARIABLE;
use crate::program::{ProgramIdentity, Stop, ToMaster};
use crate::protocol::{LaunchRequest, Notice};
use crate::table::{FlowEntry, KillFlow, ProgramTable};

/// Makes the sender of notices about a launch, by its number.
type MakeSender = Box<dyn Fn(u64) -> ToMaster + Send>;

/// A connected master. Dropping it stops the programs it has started, except detached ones.
pub struct MasterSession {
    programs: Arc<ProgramTable>,
    number: u64,
    origin: Origin,
    to_master: MakeSender,
}

impl MasterSession {
    /// The session of a master that has just connected.
    pub fn new(
        programs: &Arc<ProgramTable>,
        to_master: impl Fn(u64) -> ToMaster + Send + 'static,
    ) -> MasterSession {
        let (programs, number) = (programs.clone(), programs.next_session());
        let (origin, to_master) = (Origin::default(), Box::new(to_master));
        MasterSession { programs, number, origin, to_master }
    }

    /// Handles a request about a launch.
    pub fn on_request(&mut self, number: u64, request: LaunchRequest, body: Buffer) {
        let master = (self.to_master)(number);
        match request {
            LaunchRequest::Introduce { origin } => self.origin = origin,
            LaunchRequest::Launch { order, worker, ranks, size } => {
                let started = self.launch(number, &order, (&worker, &ranks, size), &master);
                let notice =
                    started.map_or_else(|error| Notice::Refused { error }, |()| Notice::Started);
                master.send(&notice, vec![]);
            }
            LaunchRequest::Allow { rank, bytes } => {
                self.programs.program(number, rank).iter().for_each(|program| program.allow(bytes));
            }
            LaunchRequest::Feed { rank } => {
                let program = self.programs.program(number, rank);
                program.into_iter().for_each(|program| program.feed(body.clone()));
            }
            LaunchRequest::Stop { at_once } => {
                let programs = self.programs.launch(number);
                programs.iter().for_each(|program| program.stop(stop_mode(at_once)));
            }
            LaunchRequest::List => {
                master.send(&Notice::Listed { entries: self.programs.entries() }, vec![])
            }
            LaunchRequest::Kill { ids, at_once } => self.kill(&ids, stop_mode(at_once), &master),
        }
    }

    /// The master has started a part of a flow. `kill` ends the flow, if it can be ended from here.
    pub fn on_flow(
        &self,
        flow: u64,
        name: &str,
        cpu_nanos: Arc<AtomicU64>,
        kill: Option<KillFlow>,
    ) {
        let entry = FlowEntry {
            name: shortened(name),
            origin: self.origin.clone(),
            began: Instant::now(),
            master: self.number,
            cpu_nanos,
            kill,
        };
        self.programs.add_flow(flow, entry);
    }

    /// A flow of the master has ended.
    pub fn on_flow_end(&self, flow: u64) {
        self.programs.remove_flow(flow);
    }

    /// Starts all programs of an order, or none.
    fn launch(
        &self,
        number: u64,
        order: &LaunchOrder,
        (worker, ranks, (programs, workers)): (&str, &[usize], (usize, usize)),
        master: &ToMaster,
    ) -> Result<()> {
        let start = |rank: &usize| {
            let env = vec![
                ("EUPHRATES_WORKER", worker.to_string()),
                ("EUPHRATES_WORKERS", workers.to_string()),
                ("EUPHRATES_RANK", rank.to_string()),
                ("EUPHRATES_RANKS", programs.to_string()),
                (VARIABLE, self.programs.word().to_string()),
            ];
            let id = Id { number, rank: Some(*rank) };
            let identity = ProgramIdentity { id, master: self.number, origin: &self.origin, env };
            self.programs.start(order, identity, master.clone())
        };
        let started = ranks.iter().try_for_each(start);
        started.inspect_err(|_| {
            self.programs.launch(number).iter().for_each(|program| program.stop(Stop::Forget));
        })
    }

    fn kill(&self, ids: &[Id], how: Stop, master: &ToMaster) {
        let (programs, flows) = self.programs.kill(ids, &self.origin);
        let hit = programs.iter().filter(|program| program.kill(how, master.clone())).count();
        master.send(&Notice::Killing { count: hit + flows.len() }, vec![]);
        for flow in flows {
            master.send(&Notice::Killed { entry: Box::new(flow), end: None }, vec![]);
        }
    }
}

impl Drop for MasterSession {
    fn drop(&mut self) {
        self.programs.end_session(self.number);
    }
}

fn stop_mode(at_once: bool) -> Stop {
    if at_once { Stop::Kill } else { Stop::Interrupt }
}
