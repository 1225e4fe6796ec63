//! Starts a flow on a cluster: the plan for the workers, and the master's own instances.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use euphrates_flow::check::{CheckedFlow, CheckedNode};
use euphrates_flow::perturbation::Workers;
use euphrates_flow::{Cancel, DecisionRef, Document, Error, Registry, Result, Setup};
use euphrates_policy::memory;
use euphrates_policy::recovery::Recovery;
use euphrates_store::commit;
use euphrates_wire::{Address, Secret};

use super::Cluster;
use super::attempt::{Attempt, MasterSide};
use super::control::{AttemptPlan, EncodedModule, PlannedLending, name_of};
use super::control_connection::loss_detection_time;
use super::identity::{MASTER, check_path};
use super::placed_flow::{MemoryShare, PlacedFlow, check_and_place};
use crate::machine;
use crate::observe::sampler::Sampler;
use crate::queue::dispatch::Dispatch;
use crate::queue::network::{Network, lanes};
use crate::queue::policies;
use crate::run::commit::decision_of;
use crate::run::coordination::LocalCoordination;
use crate::run::fault::{Retry, find_fault, given_up, is_repeatable};
use crate::run::options::Options;
use crate::run::perturber::{Perturber, applies_to_flow};
use crate::run::placement::{Placement, WorkerProperties};
use crate::run::resources::Resources;
use crate::run::running::{Deployment, Running};
use crate::run::running_part::{self, Ended, OnEnded};
use crate::run::unit_recovery::{Continued, continued_of};

/// Checks and starts; does not wait.
pub fn start(
    cluster: &Arc<Cluster>,
    document: &Document,
    registry: &Registry,
    options: &Options,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Running> {
    let began = Instant::now();
    cluster.admit_newcomers();
    let revived = cluster.revive().into_iter();
    let mut losses: Vec<String> =
        revived.map(|name| format!("worker {name} had been lost and was restarted")).collect();
    let mut retry = Retry {
        cluster: Arc::downgrade(cluster),
        document: document.clone(),
        registry: registry.clone(),
        options: Options { cluster: None, ..options.clone() },
        recovery: Recovery::default(),
        kept_rows: 0,
    };
    let (started, cancel) = attempt(&mut retry, began, &mut losses, is_interrupted)?;
    let Started { flow, parts, deployment, sampler } = started;
    let switches = (options.perturbations.clone(), Arc::new(Cancel::default()), began);
    let running = Running::new(flow, parts, deployment, Some(sampler), switches);
    let mut running = running.repeatable(cancel, retry);
    running.losses = losses;
    running.follow_newcomers(began.elapsed());
    Ok(running)
}

/// Starts an attempt with the living workers; if one of them is lost before the attempt runs,
/// starts another without it, unless interrupted. Returns the attempt and its cancel switch.
pub(crate) fn attempt(
    retry: &mut Retry,
    began: Instant,
    losses: &mut Vec<String>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(Started, Arc<Cancel>)> {
    let closed = || Error::resource("the cluster has been closed");
    let mut last_loss = None;
    loop {
        let cluster = &retry.cluster.upgrade().ok_or_else(closed)?;
        let bound = check_and_place(cluster, &retry.document, &retry.registry, &retry.options);
        // With no worker left, the reason for the last loss counts.
        let mut bound = bound.map_err(|error| match last_loss.take() {
            Some(loss) => error.at(loss),
            None => error,
        })?;
        let (mut kept, mut units) = (None, None);
        let continued = continued_of(&retry.document, &bound.flow, &retry.options)?;
        if let Some(continued) = continued {
            losses.extend(continued.remark());
            let Continued { document, kept: files, units: of_attempt } = continued;
            if files.ledger.rows() > std::mem::replace(&mut retry.kept_rows, files.ledger.rows()) {
                retry.recovery.on_progress();
            }
            bound = check_and_place(cluster, &document, &retry.registry, &retry.options)?;
            (kept, units) = (Some(files), Some(of_attempt));
        }
        if retry.recovery.attempt() > 1 {
            let workers = Workers { names: &bound.names(), of: &bound.worker_of_instance };
            let home = retry.options.home();
            let is_for_any = |one: &_| applies_to_flow(one, &bound.flow, workers, &home);
            retry.options.perturbations.retain(is_for_any);
        }
        for name in &bound.left_out {
            let text = format!(
                "worker {name} cannot connect to all other workers; the flow runs without it"
            );
            if !losses.contains(&text) {
                losses.push(text);
            }
        }
        let cancel = &Arc::new(Cancel::default());
        let starting = Starting {
            cluster,
            options: &retry.options,
            epoch: retry.recovery.attempt(),
            bound: &bound,
            cancel,
            began,
            is_interrupted,
        };
        let error = match starting.start() {
            Ok((parts, mut deployment, sampler)) => {
                (deployment.kept, deployment.units) = (kept, units);
                let started = Started { flow: bound.flow, parts, deployment, sampler };
                return Ok((started, cancel.clone()));
            }
            Err(error) => error,
        };
        cancel.cancel();
        bound.flow.nodes.iter().for_each(|node| {
            node.bound.abandon();
            node.bound.reclaim();
        });
        if is_interrupted() {
            return Err(error);
        }
        let lost = || bound.handles.iter().find_map(|handle| handle.loss());
        let silence = loss_detection_time(&bound.handles);
        let found = find_fault(&error, lost, silence, is_interrupted);
        let Some(found) = found else { return Err(error) };
        match retry.may_retry(&found, is_repeatable(&bound.flow)) {
            Ok(true) => {}
            Ok(false) => return Err(error),
            Err(verdict) => return Err(given_up(error, verdict)),
        }
        losses.push(format!("{}; the flow began {}", found.text, found.how()));
        last_loss = Some(found.text);
    }
}

struct Starting<'a> {
    epoch: u32,
    cluster: &'a Arc<Cluster>,
    options: &'a Options,
    bound: &'a PlacedFlow,
    cancel: &'a Arc<Cancel>,
    began: Instant,
    is_interrupted: &'a dyn Fn() -> bool,
}

/// The instances, and the channel of their ends.
type StartedInstances = (running_part::RunningPart, Receiver<Ended>);

/// An attempt whose instances run.
pub(crate) struct Started {
    pub flow: CheckedFlow,
    pub parts: StartedInstances,
    pub deployment: Deployment,
    pub sampler: Sampler,
}

impl Starting<'_> {
    fn start(&self) -> Result<(StartedInstances, Deployment, Sampler)> {
        let PlacedFlow { flow, worker_of_instance: of, handles, .. } = self.bound;
        let secret = Secret::random()?;
        let id = (self.cluster.next_flow(), self.epoch);
        let placement = Placement { me: handles.len(), worker_of_instance: of.clone() };
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
        let network = Some(own.network.clone());
        let mut perturber = Perturber::new(list, flow, known, &home, network)?;
        let resources = self.resources(&placement, &own, (&run_id, decision.as_ref()));
        let prepared = running_part::prepare_part(flow, &resources, &mut perturber, self.began)?;
        prepared.register(flow, &own.dispatch);
        let (sender, ended) = channel();
        let on_ended: OnEnded = Arc::new(move |end| drop(sender.send(end)));
        let watched = (prepared.metrics(), on_ended.clone());
        let shares: Vec<MemoryShare> =
            (0..handles.len()).map(|worker| self.bound.share(self.options, worker)).collect();
        let planned = (flow, &plan, shares.as_slice());
        let attempt = Attempt::prepare(handles.clone(), planned, &own, watched, self.cancel);
        for (run_id, module) in attempt.prepared(self.is_interrupted)? {
            commit::mark_published(&home, &run_id, &module)?;
        }
        if !plan.decided.is_empty() {
            commit::resolve(&home);
        }
        let failing = own.network.clone();
        attempt.connect(self.cluster, flow, &secret, move |error| failing.fail(error))?;
        attempt.connected(self.is_interrupted)?;
        perturber.apply(0);
        let mut part = prepared.start(self.cancel, on_ended)?;
        part.left = flow.nodes.iter().map(|node| node.count).sum();
        let seen = Some(attempt.elsewhere());
        let sampler = Sampler::start(flow, &part, perturber, (&home, self.began), seen)?;
        attempt.start(self.is_interrupted)?;
        let is_statically_divided =
            self.options.queue_policy.is_some_and(policies::is_statically_divided);
        let attempt = Some(attempt);
        let (kept, units) = (None, None);
        let deployment =
            Deployment { placement, attempt, run_id, is_statically_divided, decision, kept, units };
        Ok(((part, ended), deployment, sampler))
    }

    fn plan(
        &self,
        placement: &Placement,
        secret: &Secret,
        (run_id, decision): (&str, Option<&DecisionRef>),
    ) -> Result<AttemptPlan> {
        let PlacedFlow { document, flow, handles, members, .. } = self.bound;
        let facts = flow
            .nodes
            .iter()
            .map(|node| Ok((node.id.clone(), EncodedModule::encode(node.remote())?)));
        let sees =
            |node: &CheckedNode| Some((node.id.clone(), node.bound.source.as_ref()?.identity()));
        let addresses: Vec<Address> =
            handles.iter().map(|handle| handle.address().clone()).collect();
        let scratch = self.options.scratch.iter().map(|folder| absolute(folder));
        Ok(AttemptPlan {
            document: document.clone(),
            order: flow.nodes.iter().map(|node| node.id.clone()).collect(),
            facts: facts.collect::<Result<_>>()?,
            sees: flow.nodes.iter().filter_map(sees).collect(),
            placement: placement.clone(),
            names: self.bound.names().to_vec(),
            addresses,
            lending: members.iter().map(lending).collect(),
            lanes: lanes(members.iter().map(|member| member.cores).min().unwrap_or(1)),
            secret: secret.to_text(),
            memory_bytes: 0,
            cache_bytes: None,
            queues: name_of(self.options.queue_policy),
            home: absolute(&self.options.home())?,
            scratch: scratch.collect::<Result<_>>()?,
            run_id: run_id.to_string(),
            decision: decision.cloned(),
            decided: commit::out_of_reach(&self.options.home()),
            perturbations: self.options.perturbations.clone(),
            ran_seconds: self.began.elapsed().as_secs_f64(),
            lost_after: self.cluster.lost_after,
        })
    }

    /// The resources of the master's own instances: these hold what the program is to receive, and
    /// nothing else.
    fn resources(
        &self,
        placement: &Placement,
        own: &MasterSide,
        (run_id, decision): (&str, Option<&DecisionRef>),
    ) -> Resources {
        let queue_policy = self.options.queue_policy;
        let budget_bytes = self.options.budget();
        let coordination = LocalCoordination::new(own.table.clone(), self.cancel.clone());
        let setup = Setup {
            worker: MASTER.to_string(),
            is_statically_divided: queue_policy.is_some_and(policies::is_statically_divided),
            budget_bytes,
            scratch: self.options.scratch(),
            home: self.options.home(),
            run_id: run_id.to_string(),
            decision: decision.cloned(),
            ..Setup::alone(Arc::new(coordination), self.cancel.clone())
        };
        Resources {
            workers: self.bound.members.len(),
            queue_policy,
            modules_bytes: memory::modules_bytes(budget_bytes, self.bound.flow.queue_bytes_max()),
            setup,
            placement: placement.clone(),
            names: self.bound.names(),
            network: Some(own.network.clone()),
        }
    }
}

fn lending(member: &WorkerProperties) -> PlannedLending {
    PlannedLending { host: member.host.clone(), bytes: member.lent_bytes }
}

/// The path in absolute form, as other processes find it.
fn absolute(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    check_path(&path).map(|()| path)
}
