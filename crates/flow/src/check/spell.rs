//! Spells a flow out: before a module that takes partitions comes the one that makes them.

use serde_json::Value;

use super::{Member, Members};
use crate::document::{Document, Edge, Node, QueueKind};
use crate::error::{Error, Result};
use crate::spec::Registry;

/// The flow as it runs: each module that takes partitions has the one before it that makes them,
/// as many, at the same workers. What is spelled out already stays as it is.
pub(super) fn spell_out(
    document: &Document,
    registry: &Registry,
    members: &mut Members,
) -> Result<Document> {
    let mut spelled = document.clone();
    for node in &document.modules {
        // One that could not be placed has been told of already.
        let Some(member) = members.get(&node.id) else { continue };
        let Some((module, config)) = member.placed.partitioner() else { continue };
        let is_keyed = |edge: &Edge| members.get(&edge.from).is_some_and(Member::is_keyed);
        let mut feeds = document.queues.iter().filter(|edge| edge.to == node.id);
        if feeds.all(is_keyed) {
            continue;
        }
        let before = insert_before(&mut spelled, node, module, config)?;
        let member = Member::new(&before, registry, None);
        let mut member = member.map_err(|error| error.at(format!("module {}", node.id)))?;
        member.part_of = Some(node.id.clone());
        members.insert(before.id, member);
    }
    Ok(spelled)
}

/// Places a module before another, which from then on is fed by it alone.
fn insert_before(
    document: &mut Document,
    node: &Node,
    module: &str,
    config: Value,
) -> Result<Node> {
    let Value::Object(config) = config else {
        return Err(Error::failed(format!("the configuration of `{module}` is no object")));
    };
    let id = format!("{}_{module}", node.id);
    if document.node(&id).is_some() {
        let error = Error::usage(format!("the id `{id}` is that of a part of `{}`", node.id));
        return Err(error.remedy("choose another id"));
    }
    let before = Node { id: id.clone(), module: module.into(), config, ..node.clone() };
    let place = document.modules.iter().position(|other| other.id == node.id);
    document.modules.insert(place.unwrap_or_default(), before.clone());
    for edge in document.queues.iter_mut().filter(|edge| edge.to == node.id) {
        edge.to = id.clone();
    }
    document.attach(&id, &node.id).queue = Some(QueueKind::Keyed);
    Ok(before)
}
