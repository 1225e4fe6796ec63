//! Starts a flow: in this process, or on a cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use euphrates_device::buffer::pool;
use euphrates_device::private;
use euphrates_flow::check::CheckedFlow;
use euphrates_flow::perturbation::Workers;
use euphrates_flow::sample_limit::limit_samples;
use euphrates_flow::{Cancel, DecisionRef, Document, Error, Registry, Result, Setup};
use euphrates_policy::memory;
use euphrates_store::dataset::KeptFiles;

use super::check::{check_flow, names};
use super::commit::{complete_dead_flows, decision_of};
use super::coordination::LocalCoordination;
use super::options::Options;
use super::perturber::Perturber;
use super::placement::Placement;
use super::resources::Resources;
use super::resume::{NoteFile, Remaining, explain_taken};
use super::running::{Deployment, Running};
use super::running_part::{self, OnEnded};
use super::unit_recovery::{Continued, continued_of};
use crate::observe::observer::FlowEvent;
use crate::observe::report::Report;
use crate::observe::sampler::Sampler;
use crate::queue::policies;
use crate::{allocator, cluster, machine};

/// Checks, starts and waits (River's `Go`).
///
/// ```
/// use euphrates_engine::{Options, go};
/// use euphrates_flow::{Document, Kind, Registry};
///
/// let options = Options { memory_bytes: Some(1000), ..Options::default() };
/// let refused = go(&Document::new("daily"), &Registry::default(), &options).err().unwrap();
/// assert_eq!(refused.kind(), Kind::Usage);
/// assert_eq!(refused.advice(), Some("give at least 4MiB, better 128MiB"));
/// ```
pub fn go(document: &Document, registry: &Registry, options: &Options) -> Result<Report> {
    start(document, registry, options)?.wait()
}

/// Checks and starts; does not wait.
pub fn start(document: &Document, registry: &Registry, options: &Options) -> Result<Running> {
    start_unless(document, registry, options, &|| false)
}

/// The same, but returns early once interrupted: to start on a cluster takes a while.
pub fn start_unless(
    document: &Document,
    registry: &Registry,
    options: &Options,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Running> {
    let started = start_unobserved(document, registry, options, is_interrupted);
    started
        .map(|mut running| {
            running.observe_by(&options.observers, document);
            running
        })
        .inspect_err(|error| {
            let event = FlowEvent::Failed(error);
            options.observers.iter().for_each(|observer| observer.on_event(&event));
        })
}

fn start_unobserved(
    document: &Document,
    registry: &Registry,
    options: &Options,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Running> {
    options.check()?;
    limit_samples(memory::sample_budget_bytes(options.budget()));
    options.scratch.iter().try_for_each(|folder| check_scratch(folder))?;
    let completed = complete_dead_flows(&options.home());
    let note_file = options.resume.then(|| NoteFile::of(document, options)).transpose()?;
    let left = note_file.as_ref().map(|note_file| note_file.left(document, registry, options));
    let mut running = match left.transpose().map_err(explain_taken)? {
        Some(Remaining::Nothing(made)) => {
            let (name, document) = (document.name.clone(), document.clone());
            let nothing = CheckedFlow { nodes: vec![], edges: vec![], name, document };
            let mut running = start_here(nothing, options, None)?;
            running.made_before = made;
            return Ok(running);
        }
        Some(Remaining::Flow(left)) => {
            let bound = Options { variables: BTreeMap::new(), ..options.clone() };
            start_attempt(&left, registry, &bound, is_interrupted).map_err(explain_taken)?
        }
        None => start_attempt(document, registry, options, is_interrupted)?,
    };
    running.note_file = note_file;
    running.losses.splice(0..0, completed);
    Ok(running)
}

fn start_attempt(
    document: &Document,
    registry: &Registry,
    options: &Options,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Running> {
    if let Some(cluster) = &options.cluster {
        return cluster::start::start(cluster, document, registry, options, is_interrupted);
    }
    let flow = check_flow(document, registry, options)?;
    match continued_of(document, &flow, options)? {
        None => start_here(flow, options, None),
        Some(continued) => {
            let remark = continued.remark();
            let Continued { document, kept, .. } = continued;
            let flow = check_flow(&document, registry, options)?;
            let mut running = start_here(flow, options, Some(kept))?;
            running.losses.extend(remark);
            Ok(running)
        }
    }
}

fn start_here(
    mut flow: CheckedFlow,
    options: &Options,
    kept: Option<KeptFiles>,
) -> Result<Running> {
    flow.fit_queues(options.budget());
    allocator::fit(options.budget());
    let began = Instant::now();
    let (workers, home) = (options.workers.unwrap_or(1), options.home());
    let turns: Vec<Vec<usize>> = flow
        .nodes
        .iter()
        .map(|node| (0..node.count).map(|instance| instance % workers).collect())
        .collect();
    let known = Workers { names: &names(workers), of: &turns };
    let mut perturber = Perturber::new(&options.perturbations, &flow, known, &home, None)?;
    let run_id = machine::run_id();
    let decision = decision_of(&flow, &home, &run_id)?;
    let resources = resources(&flow, options, (run_id, decision));
    let cancel = resources.setup.cancel.clone();
    pool().keep_at_most(memory::slabs_bytes_max(options.budget()));
    // Perturbations from the start take effect before the first batch.
    perturber.apply(0);
    let (sender, ended) = channel();
    let on_ended: OnEnded = Arc::new(move |end| drop(sender.send(end)));
    let prepared = running_part::prepare_part(&flow, &resources, &mut perturber, began);
    let started = prepared.and_then(|prepared| prepared.start(&cancel, on_ended));
    let started = started.and_then(|worker| {
        let sampler = Sampler::start(&flow, &worker, perturber, (&home, began), None)?;
        Ok((worker, sampler))
    });
    let (part, sampler) = started.inspect_err(|_| {
        cancel.cancel();
        flow.nodes.iter().for_each(|node| node.bound.abandon());
    })?;
    let placement = resources.placement;
    let perturbations = options.perturbations.clone();
    let Setup { run_id, is_statically_divided, decision, .. } = resources.setup;
    let (attempt, units) = (None, None);
    let deployment =
        Deployment { placement, attempt, run_id, is_statically_divided, decision, kept, units };
    Ok(Running::new(flow, (part, ended), deployment, Some(sampler), (perturbations, cancel, began)))
}

/// Fails early, rather than in the middle of a sort.
fn check_scratch(folder: &Path) -> Result<()> {
    let made = private::make_folders(folder);
    made.map_err(|error| {
        Error::usage(format!("{} cannot hold scratch files: {error}", folder.display()))
            .remedy("name a folder that can be written to")
    })
}

fn resources(
    flow: &CheckedFlow,
    options: &Options,
    (run_id, decision): (String, Option<DecisionRef>),
) -> Resources {
    let cancel = Arc::new(Cancel::default());
    let coordination = LocalCoordination::new(Arc::default(), cancel.clone());
    let setup = Setup {
        worker: "w0".to_string(),
        is_statically_divided: options.queue_policy.is_some_and(policies::is_statically_divided),
        budget_bytes: options.budget(),
        scratch: options.scratch(),
        home: options.home(),
        run_id,
        decision,
        ..Setup::alone(Arc::new(coordination), cancel)
    };
    let modules_bytes = memory::modules_bytes(options.budget(), flow.queue_bytes_max());
    let (workers, queue_policy) = (options.workers.unwrap_or(1), options.queue_policy);
    let placement = Placement::alone(flow);
    let (names, network) = (Arc::default(), None);
    Resources { modules_bytes, setup, workers, queue_policy, placement, names, network }
}
