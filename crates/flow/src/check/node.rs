//! Checks one module of a flow: schemas, number of instances, and the queues of its inputs.

use std::path::Path;

use super::checked::{CheckedEdge, CheckedNode, QueueUnit};
use super::configured::ConfiguredModule;
use super::edge::{check_edge, unit};
use super::graph::{Graph, Incoming};
use super::late_config::bytes_expected;
use super::{columns, key_paths, names};
use crate::document::Node;
use crate::error::{Error, Result};
use crate::module::{Inputs, Reads, RowCondition};
use crate::setup::cache_grant::CacheGrant;
use crate::shape::InputOrder;

/// Maximum instances of one module; no cluster has as many processors.
const INSTANCES_MAX: usize = 1 << 16;

/// The machine and the home folder for which a flow is checked.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The most instances that a parallel module gets when the document does not say.
    pub(super) cores: usize,
    /// The folder of collections and their catalog.
    pub(super) home: &'a Path,
    pub(super) cache: Option<CacheGrant>,
    pub(super) reads: Reads,
}

/// Checks a module whose producers have been checked: its schemas, its number of instances, and the
/// queues of its inputs. The consumer index of these queues is left 0.
pub(super) fn check_node(
    graph: &Graph,
    node: &Node,
    incoming: Vec<Incoming>,
    nodes: &[CheckedNode],
    scope: &Scope,
) -> Result<(CheckedNode, Vec<CheckedEdge>)> {
    let member = &graph.modules[&node.id];
    let interface = &member.interface;
    let schemas =
        incoming.iter().map(|edge| nodes[edge.producer].schema(edge.output)).collect::<Vec<_>>();
    let order = member.order();
    let in_runs = !incoming.is_empty()
        && incoming.iter().all(|edge| unit(edge, &nodes[edge.producer], order) == QueueUnit::Run);
    let keeps_runs = in_runs && incoming.len() == 1 && order != InputOrder::Any;
    let sorted_by = match in_runs {
        true => nodes[incoming[0].producer].bound.sorted_by.as_slice(),
        false => &[],
    };
    let bytes = &bytes_expected(&incoming, nodes);
    let Scope { home, cache, reads, .. } = *scope;
    let needed = graph.needed_of(node);
    let needed = needed.as_ref();
    let condition = match incoming.is_empty() {
        true => graph.condition_of(&node.id, 0),
        false => RowCondition::TRUE,
    };
    let condition = &condition;
    let matched_by = match incoming.is_empty() {
        true => key_paths::matched_by(graph, &node.id, nodes),
        false => vec![],
    };
    let (matched_by, key_filters) = (matched_by.as_slice(), graph.key_filters_of(&node.id));
    let schemas = schemas.as_slice();
    let inputs = Inputs {
        schemas,
        bytes,
        keeps_runs,
        sorted_by,
        needed,
        condition,
        matched_by,
        key_filters,
        home,
        cache,
        reads,
    };
    let bound = member.module.clone().bind(&inputs)?;
    bound.outputs.iter().try_for_each(|schema| columns::check(schema))?;
    bound.outputs.iter().try_for_each(|schema| names::unique(schema))?;
    if interface.is_keyed != bound.partitioned.is_some() {
        return Err(Error::failed(format!("`{}` and its partitions disagree", node.module)));
    }
    let count = instances(node, member, bound.instances_max, scope.cores)?;
    let edges: Vec<CheckedEdge> = incoming
        .iter()
        .zip(schemas)
        .map(|(edge, schema)| check_edge(edge, schema, &nodes[edge.producer], order, count))
        .collect::<Result<_>>()?;
    if interface.needs_runs && !in_runs {
        let remedy = "bring it in as a stream: order=True for `scan`, `read`, `from_arrow`, …";
        return Err(Error::usage("the input has no order to keep").remedy(remedy));
    }
    let ordered = bound.order.has_runs(keeps_runs);
    // Runs hold whole partitions if the input's runs are repeated, or if partitions were taken.
    let repeats = keeps_runs || (edges.len() == 1 && interface.partitioner.is_some());
    let groups = bound.keeps_equal_keys_together || (repeats && edges[0].keeps_equal_keys_together);
    let checked = CheckedNode {
        id: node.id.clone(),
        spec: member.spec,
        module: member.module.clone(),
        interface: interface.clone(),
        count,
        workers: node.workers.clone(),
        keeps_runs,
        keeps_equal_keys_together: groups,
        ordered,
        inputs: graph.names(node, false),
        outputs: graph.names(node, true),
        bound,
    };
    Ok((checked, edges))
}

fn instances(
    node: &Node,
    member: &ConfiguredModule,
    instances_max: Option<usize>,
    cores: usize,
) -> Result<usize> {
    let possible = member.is_parallel();
    if node.count.is_some() && node.per_worker.is_some() {
        return Err(Error::usage("both `count` and `per_worker` are given").remedy("give one"));
    }
    match node.count.or(node.per_worker) {
        Some(0) => Err(Error::usage("count is 0").remedy("give at least 1")),
        Some(count) if count > INSTANCES_MAX => {
            let error = Error::usage(format!("{count} instances are too many"));
            Err(error.remedy(format!("give at most {INSTANCES_MAX}")))
        }
        Some(count) if count > 1 && !possible => {
            let message = format!("`{}` cannot have {count} instances", node.module);
            Err(Error::usage(message).remedy("leave out count"))
        }
        Some(count) => Ok(count),
        None if possible => {
            let useful = instances_max.unwrap_or(cores);
            Ok(useful.clamp(1, cores.max(1)))
        }
        None => Ok(1),
    }
}
