//! Checks one module of a flow: schemas, number of instances, and the queues of its inputs.

use super::checked::{CheckedEdge, CheckedNode, Unit};
use super::configured::ConfiguredModule;
use super::edge::check_edge;
use super::graph::{Graph, Incoming};
use super::late_config::bytes_expected;
use super::{columns, names};
use crate::document::Node;
use crate::error::{Error, Result};
use crate::shape::Order;

/// Maximum instances of one module; no cluster has as many processors.
const INSTANCES_MAX: usize = 1 << 16;

/// Checks a module whose producers have been checked: its schemas, its number of instances, and the
/// queues of its inputs. The consumer index of these queues is left 0.
pub(super) fn check_node(
    graph: &Graph,
    node: &Node,
    incoming: Vec<Incoming>,
    nodes: &[CheckedNode],
    cores: usize,
) -> Result<(CheckedNode, Vec<CheckedEdge>)> {
    let member = &graph.modules[&node.id];
    let placed = member.placed.clone();
    let schemas =
        incoming.iter().map(|edge| nodes[edge.producer].schema(edge.output)).collect::<Vec<_>>();
    let output_schemas = placed.schemas(&schemas)?;
    output_schemas.iter().try_for_each(|schema| columns::check(schema))?;
    output_schemas.iter().try_for_each(|schema| names::unique(schema))?;
    let count = instances(node, member, cores)?;
    let order = if placed.needs_runs() { Order::Keeps } else { member.order() };
    let edges: Vec<CheckedEdge> = incoming
        .iter()
        .zip(&schemas)
        .map(|(edge, schema)| check_edge(edge, schema, &nodes[edge.producer], order, count))
        .collect::<Result<_>>()?;
    let in_runs = !edges.is_empty() && edges.iter().all(|edge| edge.unit == Unit::Run);
    if placed.needs_runs() && !in_runs {
        let remedy = "bring it in as a stream: order=True for `scan`, `read`, `from_arrow`, …";
        return Err(Error::usage("the input has no order to keep").remedy(remedy));
    }
    let keeps_runs = in_runs && edges.len() == 1 && order != Order::Any;
    let sorted_by = match in_runs {
        true => nodes[incoming[0].producer].sorted_by.as_slice(),
        false => &[],
    };
    // Runs hold whole partitions if the input's runs are repeated, or if partitions were taken.
    let repeats = keeps_runs || (edges.len() == 1 && placed.partitioner().is_some());
    let groups = placed.groups() || (repeats && edges[0].groups);
    let checked = CheckedNode {
        id: node.id.clone(),
        spec: member.spec,
        count,
        workers: node.workers.clone(),
        keeps_runs,
        groups,
        ordered: placed.is_ordered(in_runs, keeps_runs),
        sorted_by: placed.sorted_by(sorted_by),
        bytes_expected: placed.bytes_expected(&bytes_expected(&incoming, nodes)),
        inputs: graph.names(node, false),
        outputs: graph.names(node, true),
        schemas: output_schemas,
        placed,
    };
    Ok((checked, edges))
}

fn instances(node: &Node, member: &ConfiguredModule, cores: usize) -> Result<usize> {
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
            let useful = member.placed.instances_max().unwrap_or(cores);
            Ok(useful.clamp(1, cores.max(1)))
        }
        None => Ok(1),
    }
}
