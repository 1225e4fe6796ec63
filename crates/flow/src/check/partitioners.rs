//! Inserts the partitioner before each module that consumes partitions.

use serde_json::Value;

use super::configured::{ConfiguredModule, ConfiguredModules};
use crate::document::{Document, Edge, Node, QueueKind};
use crate::error::{Error, Result};
use crate::spec::Registry;

/// The flow with its partitioners: each module that takes partitions is preceded by the module that
/// makes them, with as many instances, on the same workers. A flow that has them is unchanged.
pub(super) fn insert_partitioners(
    document: &Document,
    registry: &Registry,
    modules: &mut ConfiguredModules,
) -> Result<Document> {
    let mut expanded = document.clone();
    for node in &document.modules {
        // The failure to configure a module has been reported already.
        let Some(member) = modules.get(&node.id) else { continue };
        let Some((module, mut config)) = member.interface.partitioner.clone() else { continue };
        if let Some(first) =
            first_rows(document, node, modules).filter(|_| member.interface.keeps_first)
        {
            config["first"] = first.into();
        }
        // Partitions of another module, by other keys or of other rows, are no more than rows here.
        let is_partitioner = |edge: &Edge| {
            document.node(&edge.from).is_some_and(|from| from.module == module)
                && modules.get(&edge.from).is_some_and(ConfiguredModule::is_keyed)
        };
        let mut feeds = document.queues.iter().filter(|edge| edge.to == node.id);
        if feeds.all(is_partitioner) {
            continue;
        }
        let before = insert_before(&mut expanded, node, module, config)?;
        let member = ConfiguredModule::new(&before, registry, None);
        let mut member = member.map_err(|error| error.at(format!("module {}", node.id)))?;
        member.part_of = Some(node.id.clone());
        modules.insert(before.id, member);
    }
    Ok(expanded)
}

/// How many first rows of a module's output its consumers read; `None` for all.
fn first_rows(document: &Document, node: &Node, modules: &ConfiguredModules) -> Option<u64> {
    let mut most = None;
    for edge in document.queues.iter().filter(|edge| edge.from == node.id) {
        most = most.max(Some(modules.get(&edge.to)?.interface.reads_first?));
    }
    most
}

/// Inserts a module before another, and makes it the only producer of that one.
fn insert_before(
    document: &mut Document,
    node: &Node,
    module: &str,
    config: Value,
) -> Result<Node> {
    let Value::Object(config) = config else {
        return Err(Error::failed(format!("the configuration of `{module}` is not an object")));
    };
    let id = format!("{}_{module}", node.id);
    if document.node(&id).is_some() {
        let error = Error::usage(format!("the id `{id}` is that of a part of `{}`", node.id));
        return Err(error.remedy("choose another id"));
    }
    let before = Node { id: id.clone(), module: module.into(), config, ..node.clone() };
    let position = document.modules.iter().position(|other| other.id == node.id);
    document.modules.insert(position.unwrap_or_default(), before.clone());
    for edge in document.queues.iter_mut().filter(|edge| edge.to == node.id) {
        edge.to = id.clone();
    }
    document.attach(&id, &node.id).queue = Some(QueueKind::Keyed);
    Ok(before)
}
