//! Assigns the instances of a flow to workers.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::iter;

use euphrates_flow::check::{CheckedFlow, CheckedNode};
use euphrates_flow::error::unknown;
use euphrates_flow::{Document, Error, PlacementConstraint, QueueKind, Result};

use crate::queue::network::Location;

/// A worker's properties that placement uses.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct WorkerProperties {
    /// The unique name of the worker.
    pub name: String,
    /// Properties given by the user: `gpu`, `zone=a`.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Processors it may use.
    pub cores: usize,
    /// Memory it may use, in bytes.
    pub memory_bytes: u64,
    /// Identifies the machine: equal for workers of one machine.
    pub host: String,
    /// Memory that it lends to flows on other machines, in bytes.
    #[serde(default)]
    pub lent_bytes: u64,
}

impl WorkerProperties {
    /// Properties of a worker of which only the name is known.
    pub fn named(name: String) -> WorkerProperties {
        WorkerProperties { name, ..WorkerProperties::default() }
    }

    fn answers_to(&self, word: &str) -> bool {
        self.name == word || self.labels.iter().any(|label| label == word)
    }
}

/// The worker of every instance, seen from one of the processes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Placement {
    /// The number of this worker. The master, if it has instances, is numbered after the workers.
    pub me: usize,
    /// By module and instance: the number of its worker.
    pub worker_of_instance: Vec<Vec<usize>>,
}

impl Placement {
    /// All instances in this process.
    pub fn alone(flow: &CheckedFlow) -> Placement {
        Placement {
            me: 0,
            worker_of_instance: flow.nodes.iter().map(|node| vec![0; node.count]).collect(),
        }
    }

    /// Whether an instance is in this process.
    pub fn is_here(&self, node: usize, instance: usize) -> bool {
        self.worker_of_instance[node][instance] == self.me
    }

    /// The number of instances here, plus all edges of the flow: an upper bound of what holds a
    /// batch in this process.
    pub fn holders(&self, flow: &CheckedFlow) -> usize {
        let instances = (0..flow.nodes.len()).map(|node| self.here(node).count());
        instances.sum::<usize>() + flow.edges.len()
    }

    /// The first instance in this process, if there is one.
    pub fn first_here(&self) -> Option<(usize, usize)> {
        (0..self.worker_of_instance.len()).find_map(|node| Some((node, self.here(node).next()?)))
    }

    /// The instances of a module that are in this process.
    pub fn here(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.worker_of_instance[node].len())
            .filter(move |instance| self.is_here(node, *instance))
    }

    /// Whether all of a module is in this process.
    pub fn is_whole(&self, node: usize) -> bool {
        self.worker_of_instance[node].iter().all(|worker| *worker == self.me)
    }

    /// The other processes that have instances of a module.
    pub fn others(&self, node: usize) -> Vec<usize> {
        let others: BTreeSet<usize> = self.worker_of_instance[node].iter().copied().collect();
        others.into_iter().filter(|worker| *worker != self.me).collect()
    }

    /// The processes of a module's partition consumers.
    pub fn partition_consumers<'a>(
        &'a self,
        flow: &'a CheckedFlow,
        node: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let edges = flow.edges.iter().filter(move |edge| edge.from.0 == node);
        let keyed = edges.filter(|edge| edge.kind == QueueKind::Keyed);
        keyed.flat_map(|edge| self.worker_of_instance[edge.to.0].iter().copied())
    }

    /// Whether this process needs a module: it has instances of it, or consumers of its partitions.
    pub fn is_needed(&self, flow: &CheckedFlow, node: usize) -> bool {
        self.here(node).next().is_some()
            || self.partition_consumers(flow, node).any(|at| at == self.me)
    }

    /// The locations of a module's instances.
    pub fn locations(&self, node: usize) -> Vec<Location<()>> {
        self.worker_of_instance[node].iter().map(|worker| self.location(*worker)).collect()
    }

    /// The location of an instance at this worker.
    pub fn location(&self, worker: usize) -> Location<()> {
        if worker == self.me { Location::Here(()) } else { Location::There(worker) }
    }
}

/// Replaces counts per worker by total counts.
pub fn resolve_counts(document: &mut Document, members: &[WorkerProperties]) -> Result<()> {
    for node in &mut document.modules {
        let place = |error: Error| error.at(format!("module {}", node.id));
        let may = select_workers(&node.workers, members).map_err(place)?;
        if let (Some(each), None) = (node.per_worker, node.count) {
            node.per_worker = None;
            node.count = Some(each * may.len());
        }
    }
    Ok(())
}

/// The numbers of the workers with one of these names or labels; all if `words` is empty.
pub fn select_workers(
    words: &[String],
    members: &[impl Borrow<WorkerProperties>],
) -> Result<Vec<usize>> {
    let members: Vec<&WorkerProperties> = members.iter().map(Borrow::borrow).collect();
    for word in words {
        if !members.iter().any(|member| member.answers_to(word)) {
            let all =
                members.iter().flat_map(|member| iter::once(&member.name).chain(&member.labels));
            let known: BTreeSet<&str> = all.map(String::as_str).collect();
            return Err(unknown("worker or label", word, known.iter().copied()));
        }
    }
    let fits = |member: &WorkerProperties| {
        words.is_empty() || words.iter().any(|word| member.answers_to(word))
    };
    Ok((0..members.len()).filter(|at| fits(members[*at])).collect())
}

/// Assigns the instances of each module to the workers it may run on, in turn. `Together`: all to
/// the first of these. `Home`: all to the master. `Beside`: to the named workers, or to the first
/// allowed one if none is available. `AtEach`: to all named workers; fails if one is missing.
/// Otherwise a module with fewer instances than workers begins where the last such one ended, so
/// that these modules spread over all workers.
pub fn place(flow: &CheckedFlow, members: &[WorkerProperties]) -> Result<Vec<Vec<usize>>> {
    let home = members.len();
    let mut turn = 0;
    let each = flow.nodes.iter().map(|node| {
        let may = select_workers(&node.workers, members);
        let may = may.map_err(|error| error.at(format!("module {}", node.id)))?;
        Ok(match node.bound.spread.clone() {
            PlacementConstraint::Home => vec![home; node.count],
            PlacementConstraint::Together => vec![may[0]; node.count],
            PlacementConstraint::Beside(names) => {
                let near = of_names(&names, &may, members);
                let near = if near.is_empty() { vec![may[0]] } else { near };
                in_turn(node.count, &near, 0)
            }
            PlacementConstraint::AtEach(names) => {
                let near = of_names(&names, &may, members);
                if near.len() < names.len() {
                    return Err(not_there(node, &names, &near, members));
                }
                if node.count < near.len() {
                    return Err(too_few(node, near.len()));
                }
                in_turn(node.count, &near, 0)
            }
            PlacementConstraint::Anywhere if node.count >= may.len() => {
                in_turn(node.count, &may, 0)
            }
            PlacementConstraint::Anywhere => {
                let first = turn;
                turn += node.count;
                in_turn(node.count, &may, first)
            }
        })
    });
    each.collect()
}

/// The candidates that have one of these names.
fn of_names(names: &BTreeSet<String>, may: &[usize], members: &[WorkerProperties]) -> Vec<usize> {
    may.iter().copied().filter(|worker| names.contains(&members[*worker].name)).collect()
}

fn not_there(
    node: &CheckedNode,
    names: &BTreeSet<String>,
    near: &[usize],
    members: &[WorkerProperties],
) -> Error {
    let is_there = |name: &str| near.iter().any(|worker| members[*worker].name == name);
    let missing: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !is_there(name)).collect();
    let missing = missing.join(", ");
    Error::resource(format!("it needs disks of {missing}, which it cannot be at"))
        .remedy("name disks of workers that are there: see `worker` in disks.json")
        .at(format!("module {}", node.id))
}

fn too_few(node: &CheckedNode, workers: usize) -> Error {
    let CheckedNode { id, count, .. } = node;
    Error::usage(format!("it needs disks of {workers} workers, and its count is {count}"))
        .remedy("give it `per_worker=1`, or leave out the count")
        .at(format!("module {id}"))
}

fn in_turn(count: usize, workers: &[usize], first: usize) -> Vec<usize> {
    (first..first + count).map(|instance| workers[instance % workers.len()]).collect()
}
