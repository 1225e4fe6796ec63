//! Maps modules and queues of a checked flow to those of its document. The check inserts a
//! partitioner before a module that consumes partitions; the document shows both as one module.

use euphrates_flow::Document;
use euphrates_flow::check::{CheckedEdge, CheckedNode};
use euphrates_flow::document::Port;

/// The id of the document's module that contains a checked module.
pub fn drawn_module<'a>(
    document: &Document,
    (nodes, edges): (&'a [CheckedNode], &'a [CheckedEdge]),
    at: usize,
) -> &'a str {
    if document.node(&nodes[at].id).is_some() {
        return &nodes[at].id;
    }
    let after = edges.iter().find(|edge| edge.from.0 == at);
    after.map_or(&nodes[at].id, |edge| &nodes[edge.to.0].id)
}

/// The checked queue of a queue of the document, both by position.
pub fn checked_queue(
    document: &Document,
    flow: (&[CheckedNode], &[CheckedEdge]),
    queue: usize,
) -> Option<usize> {
    let drawn = document.queues.get(queue)?;
    let (nodes, edges) = flow;
    let between = |edge: &CheckedEdge| {
        nodes[edge.from.0].id == drawn.from && drawn_module(document, flow, edge.to.0) == drawn.to
    };
    let is_at = |port: &Option<Port>, names: &[String], at: usize| match port {
        Some(Port::Position(position)) => *position == at,
        Some(Port::Name(name)) => names.get(at) == Some(name),
        None => true,
    };
    let fits = |edge: &CheckedEdge| {
        is_at(&drawn.output, &nodes[edge.from.0].outputs, edge.from.1)
            && is_at(&drawn.input, &nodes[edge.to.0].inputs, edge.to.1)
    };
    let has_same_ends = |other: &euphrates_flow::document::Edge| {
        (&other.from, &other.to, &other.output, &other.input)
            == (&drawn.from, &drawn.to, &drawn.output, &drawn.input)
    };
    // Several queues between the same modules without ports are matched in order.
    let nth = document.queues[..queue].iter().filter(|other| has_same_ends(other)).count();
    let fitting = (0..edges.len()).filter(|at| between(&edges[*at]) && fits(&edges[*at]));
    fitting.clone().nth(nth).or(fitting.clone().next())
}
