//! Finds the joins whose keys can filter a source (runtime filters): downstream of it, through
//! modules that pass the key on.
//!
//! A source that waits for the filters cannot cause a deadlock, provided that no output of a module
//! waits for another output of it. A source waits for the build sides of joins that it reaches as a
//! probe side, and the sources of these wait only for joins further downstream. A path ends at a
//! module with several outputs, so sources before it wait only for joins before it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::checked::CheckedNode;
use super::configured::ConfiguredModule;
use super::graph::Graph;
use crate::document::{Edge, Node};
use crate::module::{KeyFilterSlot, MatchedBy, NeededRows};

/// Maximum number of modules downstream of a source that are searched.
const DEPTH_MAX: usize = 64;

/// A module on the way from a source, and the input by which the rows come.
struct PathStep<'a> {
    module: &'a ConfiguredModule,
    input: usize,
    /// The schemas of the inputs that are known so far.
    schemas: Vec<Option<SchemaRef>>,
    /// Whether rows reach it, and leave it, with their columns as they are: it passes all on, or
    /// the condition that is pushed down to the source includes its own.
    passes_columns: bool,
}

/// The filters that restrict the rows of a source, nearest first. `nodes` are the modules that have
/// been checked so far.
pub(super) fn matched_by(graph: &Graph, source: &str, nodes: &[CheckedNode]) -> Vec<MatchedBy> {
    let (mut path, mut found): (Vec<PathStep>, _) = (vec![], vec![]);
    let (mut id, mut is_awaited, mut is_pushed) = (source, true, true);
    while path.len() < DEPTH_MAX {
        let mut consumers = graph.document.queues.iter().filter(|edge| edge.from == id);
        let (Some(edge), None) = (consumers.next(), consumers.next()) else { break };
        // In an editor, a module may be unknown, or its configuration wrong.
        let to = graph.document.node(&edge.to).zip(graph.modules.get(&edge.to));
        let Some((to, module)) = to else { break };
        let names = graph.names(to, false);
        let position = graph.port(edge.input.as_ref(), &names, false, to, &mut 0);
        let Ok(input) = position else { break };
        let passes_rows =
            matches!(module.interface.rows, NeededRows::PassedOn | NeededRows::Where(_));
        is_pushed &= passes_rows;
        if let Some(slots) = graph.key_filters_of(&to.id).get(input) {
            found.extend(traced_slots(&path, slots, source, is_awaited));
            is_awaited &= !graph.has_tied_outputs;
        }
        // Rows that are held, but not reduced, are better read while the join takes its other side.
        is_awaited &= !(passes_rows && module.interface.is_keyed);
        let schemas = schemas(graph, to, &names, nodes);
        let passes_columns = is_pushed || matches!(module.interface.rows, NeededRows::PassedOn);
        path.push(PathStep { module, input, schemas, passes_columns });
        id = &edge.to;
    }
    found
}

/// The filters of a join whose columns come from the source: that by all keys, which leaves out the
/// most rows, or else those by single keys. A name may trace to a column that the source turns out
/// not to have.
fn traced_slots(
    path: &[PathStep],
    slots: &[Arc<KeyFilterSlot>],
    source: &str,
    is_awaited: bool,
) -> Vec<MatchedBy> {
    let of_source = |slot: &Arc<KeyFilterSlot>| {
        let (slot, columns) = (slot.clone(), traced(path, slot.columns())?);
        Some(MatchedBy { slot, source: source.into(), columns, is_awaited, single: vec![] })
    };
    let Some((of_all, of_single)) = slots.split_first() else { return vec![] };
    let single: Vec<MatchedBy> = of_single.iter().filter_map(of_source).collect();
    match of_source(of_all) {
        Some(of_all) => vec![MatchedBy { single, ..of_all }],
        None => single,
    }
}

/// The columns of the source from which these come; `None` if there are none, or one is computed.
fn traced(path: &[PathStep], columns: &[String]) -> Option<Vec<String>> {
    let of_source = |column: &String| {
        path.iter().rev().try_fold(column.clone(), |column, step| match step.passes_columns {
            true => Some(column),
            false => step.module.module.key_source(&column, step.input, &step.schemas),
        })
    };
    let columns: Option<Vec<String>> = columns.iter().map(of_source).collect();
    columns.filter(|columns| !columns.is_empty())
}

/// The schemas of a module's inputs, as far as their producers have been checked.
fn schemas(
    graph: &Graph,
    to: &Node,
    names: &[String],
    nodes: &[CheckedNode],
) -> Vec<Option<SchemaRef>> {
    let mut schemas = vec![None; names.len()];
    let mut next = 0;
    for edge in graph.document.queues.iter().filter(|edge| edge.to == to.id) {
        let input = graph.port(edge.input.as_ref(), names, false, to, &mut next);
        let producer = nodes.iter().find(|node| node.id == edge.from);
        let schema = producer.and_then(|producer| schema_of(graph, producer, edge));
        if let Some(known) = input.ok().and_then(|input| schemas.get_mut(input)) {
            *known = schema;
        }
    }
    schemas
}

/// The schema of what a queue carries.
fn schema_of(graph: &Graph, producer: &CheckedNode, edge: &Edge) -> Option<SchemaRef> {
    let from = graph.document.node(&producer.id)?;
    let names = graph.names(from, true);
    // Of a module with an output for each queue, all have one schema.
    let output = graph.port(edge.output.as_ref(), &names, true, from, &mut 0).ok()?;
    Some(producer.schema(output))
}
