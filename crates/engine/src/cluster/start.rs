//! Starting a flow on a cluster: who does what, and the master's own part.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use euphrates_flow::check::{Checked, CheckedNode, check};
use euphrates_flow::perturbation::Workers;
use euphrates_flow::{Cancel, DecisionRef, Document, Error, NoExchange, Registry, Result, Setup};
use euphrates_io::commit;
use euphrates_policy::memory;
use euphrates_policy::recovery::Recovery;
use euphrates_wire::{Address, Secret};
use serde_json::Value;

use super::attempt::{Attempt, MasterSide};
use super::control::{FactsTold, Plan, name_of};
use super::handle::WorkerHandle;
use super::{Cluster, MASTER, check_path};
use crate::machine;
use crate::observe::watch::Watch;
use crate::queue::dispatch::Dispatch;
use crate::queue::network::{Network, lanes};
use crate::queue::policies;
use crate::run::commit::decision_of;
use crate::run::coordination::Here;
use crate::run::master::{Deployment, Running};
use crate::run::options::Options;
use crate::run::perturber::{Perturber, is_for_somebody};
use crate::run::placement::{Member, Placement, place, settle_counts};
use crate::run::recovery::{Again, find_fault, given_up, is_repeatable};
use crate::run::worker::{self, Ended, OnEnded, Resources};

/// How late the detection of a lost worker may be.
const LATE: Duration = Duration::from_millis(600);

/// A flow that has been checked for a cluster.
pub struct Bound {
    /// Its variables bound, and all its counts said.
    pub document: Document,
    /// As checked.
    pub flow: Checked,
    /// By module and instance: the worker; the master comes after all others.
    pub of: Vec<Vec<usize>>,
    handles: Vec<Arc<WorkerHandle>>,
    members: Vec<Member>,
    /// Workers excluded because they cannot connect to all others.
    left_out: Vec<String>,
}

/// Checks a flow, and says where its instances will be.
pub fn prepare(
    cluster: &Cluster,
    document: &Document,
    registry: &Registry,
    options: &Options,
) -> Result<Bound> {
    let (handles, left_out) = cluster.usable();
    let members: Vec<Member> = handles.iter().map(|handle| handle.member().clone()).collect();
    if members.is_empty() {
        return Err(Error::resource("all workers of the cluster are lost").remedy("open it again"));
    }
    let mut bound = document.bind(&options.variables)?;
    settle_counts(&mut bound, &members)?;
    let cores = members.iter().map(|member| member.cores.max(1)).sum();
    let mut flow = check(&bound, registry, options.cores.unwrap_or(cores), &options.home())?;
    flow.fit_queues(options.budget());
    let mut document = flow.document.clone();
    let folder = std::env::current_dir();
    let folder = folder.map_err(|error| Error::os("find", "the current folder", &error))?;
    for node in &mut document.modules {
        let checked = flow.nodes.iter().find(|checked| checked.id == node.id);
        node.count = checked.map(|checked| checked.count);
        let standing = checked.and_then(|checked| checked.placed.standing_at(&folder));
        if let Some(Value::Object(config)) = standing {
            node.config = config;
        }
    }
    let of = place(&flow, &members)?;
    Ok(Bound { document, flow, of, handles, members, left_out })
}

/// Checks and starts; does not wait.
pub fn start(
    cluster: &Arc<Cluster>,
    document: &Document,
    registry: &Registry,
    options: &Options,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Running> {
    let began = Instant::now();
    let revived = cluster.revive().into_iter();
    let mut losses: Vec<String> =
        revived.map(|name| format!("worker {name} had been lost and was restarted")).collect();
    let mut again = Again {
        cluster: Arc::downgrade(cluster),
        document: document.clone(),
        registry: registry.clone(),
        options: Options { cluster: None, ..options.clone() },
        recovery: Recovery::default(),
    };
    let (started, cancel) = attempt(&mut again, began, &mut losses, is_interrupted)?;
    let Started { flow, parts, deployment, watch } = started;
    let switches = (options.perturbations.clone(), Arc::new(Cancel::default()), began);
    let running = Running::new(flow, parts, deployment, Some(watch), switches);
    let mut running = running.repeatable(cancel, again);
    running.losses = losses;
    Ok(running)
}

/// Begins an attempt with the workers that are there, and another without those that are lost
/// before it is under way, unless it is interrupted. Gives the attempt and its switch.
pub(crate) fn attempt(
    again: &mut Again,
    began: Instant,
    losses: &mut Vec<String>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(Started, Arc<Cancel>)> {
    let closed = || Error::resource("the cluster has been closed");
    let mut last_loss = None;
    loop {
        let cluster = &again.cluster.upgrade().ok_or_else(closed)?;
        let bound = prepare(cluster, &again.document, &again.registry, &again.options);
        // If nobody is left, why is what counts.
        let bound = bound.map_err(|error| match last_loss.take() {
            Some(loss) => error.at(loss),
            None => error,
        })?;
        if again.recovery.attempt() > 1 {
            let workers = Workers { names: &names(&bound.members), of: &bound.of };
            let home = again.options.home();
            let is_for_any = |one: &_| is_for_somebody(one, &bound.flow, workers, &home);
            again.options.perturbations.retain(is_for_any);
        }
        for name in &bound.left_out {
            let told = format!(
                "worker {name} cannot connect to all other workers; the flow runs without it"
            );
            if !losses.contains(&told) {
                losses.push(told);
            }
        }
        let cancel = &Arc::new(Cancel::default());
        let starting = Starting {
            cluster,
            options: &again.options,
            epoch: again.recovery.attempt(),
            bound: &bound,
            cancel,
            began,
            is_interrupted,
        };
        let error = match starting.start() {
            Ok((parts, deployment, watch)) => {
                let started = Started { flow: bound.flow, parts, deployment, watch };
                return Ok((started, cancel.clone()));
            }
            Err(error) => error,
        };
        cancel.cancel();
        bound.flow.nodes.iter().for_each(|node| {
            node.placed.abandon();
            node.placed.reclaim();
        });
        if is_interrupted() {
            return Err(error);
        }
        let lost = || bound.handles.iter().find_map(|handle| handle.loss());
        let silence = silence(&bound.handles);
        let found = find_fault(&error, lost, silence, is_interrupted);
        let Some(found) = found else { return Err(error) };
        match again.may_be(&found, is_repeatable(&bound.flow)) {
            Ok(true) => {}
            Ok(false) => return Err(error),
            Err(verdict) => return Err(given_up(error, verdict)),
        }
        losses.push(format!("{}; the flow began {}", found.told, found.how()));
        last_loss = Some(found.told);
    }
}

/// How long it takes to detect the loss of any of these workers.
pub(crate) fn silence(handles: &[Arc<WorkerHandle>]) -> Duration {
    let longest = handles.iter().map(|handle| handle.silence()).max();
    longest.unwrap_or_default() + LATE
}

struct Starting<'a> {
    epoch: u32,
    cluster: &'a Arc<Cluster>,
    options: &'a Options,
    bound: &'a Bound,
    cancel: &'a Arc<Cancel>,
    began: Instant,
    is_interrupted: &'a dyn Fn() -> bool,
}

/// The instances, and where their ends are told.
type Parts = (worker::Worker, Receiver<Ended>);

/// An attempt that has begun.
pub(crate) struct Started {
    pub flow: Checked,
    pub parts: Parts,
    pub deployment: Deployment,
    pub watch: Watch,
}

impl Starting<'_> {
    fn start(&self) -> Result<(Parts, Deployment, Watch)> {
        let Bound { flow, of, handles, .. } = self.bound;
        let secret = Secret::random()?;
        let id = (self.cluster.next_flow(), self.epoch);
        let placement = Placement { me: handles.len(), of: of.clone() };
        let run_id = machine::run_id();
        let home = self.options.home();
        let decision = decision_of(flow, &home, &run_id)?;
        let plan = self.plan(&placement, &secret, (&run_id, decision.as_ref()))?;
        let processes = (handles.len() + 1, plan.lanes);
        let network = Network::new(id, placement.me, processes, self.cancel.clone());
        let dispatch = Dispatch::new(network.clone());
        let own = MasterSide { network, dispatch, table: Arc::default() };
        let known = Workers { names: &plan.names, of };
        let list = &self.options.perturbations;
        let mut perturber = Perturber::of_part(list, flow, known, &home, &own.network)?;
        let resources = self.resources(&placement, &own, (&run_id, decision.as_ref()));
        let prepared = worker::prepare(flow, &resources, &mut perturber, self.began)?;
        own.dispatch.set(flow, &prepared);
        let (tell, ended) = channel();
        let on_ended: OnEnded = Arc::new(move |end| drop(tell.send(end)));
        let watched = (prepared.instances(), on_ended.clone());
        let members = &self.bound.members;
        let budget = |worker| budget(self.options, members, worker);
        let budgets: Vec<usize> = (0..members.len()).map(budget).collect();
        let planned = (flow, &plan, budgets.as_slice());
        let attempt = Attempt::prepare(handles.clone(), planned, &own, watched, self.cancel);
        for (run_id, module) in attempt.prepared(self.is_interrupted)? {
            commit::mark_kept(&home, &run_id, &module)?;
        }
        if !plan.promised.is_empty() {
            commit::resolve(&home);
        }
        let failing = own.network.clone();
        attempt.connect(self.cluster, flow, &secret, move |error| failing.fail(error))?;
        attempt.connected(self.is_interrupted)?;
        perturber.on_look(0);
        let mut worker = prepared.start(self.cancel, on_ended)?;
        worker.left = flow.nodes.iter().map(|node| node.count).sum();
        let seen = Some(attempt.elsewhere());
        let watch = Watch::start(flow, &worker, perturber, (&home, self.began), seen)?;
        attempt.start(self.is_interrupted)?;
        let is_static = self.options.division.is_some_and(policies::is_static);
        let attempt = Some(attempt);
        let deployment = Deployment { placement, attempt, run_id, is_static, decision };
        Ok(((worker, ended), deployment, watch))
    }

    fn plan(
        &self,
        placement: &Placement,
        secret: &Secret,
        (run_id, decision): (&str, Option<&DecisionRef>),
    ) -> Result<Plan> {
        let Bound { document, flow, handles, members, .. } = self.bound;
        let facts =
            flow.nodes.iter().map(|node| Ok((node.id.clone(), FactsTold::of(node.facts())?)));
        let sees = |node: &CheckedNode| Some((node.id.clone(), node.placed.sees()?));
        let addresses: Vec<Address> =
            handles.iter().map(|handle| handle.address().clone()).collect();
        let scratch = self.options.scratch.iter().map(|folder| absolute(folder));
        Ok(Plan {
            document: document.clone(),
            order: flow.nodes.iter().map(|node| node.id.clone()).collect(),
            facts: facts.collect::<Result<_>>()?,
            sees: flow.nodes.iter().filter_map(sees).collect(),
            placement: placement.clone(),
            names: names(members).to_vec(),
            addresses,
            lanes: lanes(members.iter().map(|member| member.cores).min().unwrap_or(1)),
            secret: secret.to_text(),
            memory_bytes: 0,
            queues: name_of(self.options.division),
            home: absolute(&self.options.home())?,
            scratch: scratch.collect::<Result<_>>()?,
            run_id: run_id.to_string(),
            decision: decision.cloned(),
            promised: commit::out_of_reach(&self.options.home()),
            perturbations: self.options.perturbations.clone(),
            ran_seconds: self.began.elapsed().as_secs_f64(),
            lost_after: self.cluster.lost_after(),
        })
    }

    /// What the master's own instances get: they keep what the program is to have, and no more.
    fn resources(
        &self,
        placement: &Placement,
        own: &MasterSide,
        (run_id, decision): (&str, Option<&DecisionRef>),
    ) -> Resources {
        let Options { division, scratch, .. } = self.options;
        let home = self.options.home();
        let budget_bytes = self.options.budget();
        let commons = Here::new(own.table.clone(), self.cancel.clone());
        let setup = Setup {
            module: String::new(),
            worker: MASTER.to_string(),
            instance: 0,
            instances: 1,
            is_divided: division.is_some_and(policies::is_static),
            memory_bytes: 0,
            budget_bytes,
            row_bytes_max: usize::MAX,
            scratch: if scratch.is_empty() { machine::scratch(&home) } else { scratch.clone() },
            home,
            run_id: run_id.to_string(),
            decision: decision.cloned(),
            cancel: self.cancel.clone(),
            commons: Arc::new(commons),
            exchange: Arc::new(NoExchange),
            is_whole: true,
            instances_here: 1,
        };
        let queue_bytes = self.bound.flow.edges.iter().map(|edge| edge.bytes_max).sum();
        Resources {
            workers: self.bound.members.len(),
            division: *division,
            share_bytes: memory::share(budget_bytes, queue_bytes, 1),
            setup,
            placement: placement.clone(),
            names: names(&self.bound.members),
            network: Some(own.network.clone()),
        }
    }
}

/// Of the processes, by number: the master comes last.
fn names(members: &[Member]) -> Arc<[String]> {
    members.iter().map(|member| member.name.clone()).chain([MASTER.to_string()]).collect()
}

/// As processes find it that stand elsewhere.
fn absolute(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    check_path(&path).map(|()| path)
}

/// What a worker may hold: what was said for each machine, or what suits it, shared with the other
/// workers of that machine.
pub fn budget(options: &Options, members: &[Member], worker: usize) -> usize {
    let member = &members[worker];
    let neighbours = members.iter().filter(|other| other.host == member.host).count();
    let all = options.memory_bytes;
    all.unwrap_or_else(|| memory::default_budget(member.memory_bytes)) / neighbours.max(1)
}
