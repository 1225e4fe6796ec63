//! Attaches the sinks for rejected records of modules that have them.

use serde_json::Value;

use super::configured::{ConfiguredModule, ConfiguredModules};
use crate::document::{Document, Node, Port};
use crate::error::{Error, Result};
use crate::module::REJECTED;
use crate::spec::Registry;

/// The flow with the sinks of rejected rows: a module that has one gets it at its output
/// `rejected`, unless the flow attaches another. A flow that has them is unchanged.
pub(super) fn insert_side_sinks(
    document: &Document,
    registry: &Registry,
    modules: &mut ConfiguredModules,
) -> Result<Document> {
    let mut expanded = document.clone();
    for node in &document.modules {
        let Some(member) = modules.get(&node.id) else { continue };
        let Some((module, config)) = member.interface.rejects_to.clone() else { continue };
        let is_it = |port: &Port| match port {
            Port::Name(name) => name == REJECTED,
            Port::Position(position) => *position == 1,
        };
        let is_attached = document
            .queues
            .iter()
            .any(|edge| edge.from == node.id && edge.output.as_ref().is_some_and(is_it));
        if is_attached {
            continue;
        }
        let Value::Object(config) = config else {
            return Err(Error::failed(format!("the configuration of `{module}` is no object")));
        };
        let id = format!("{}_{REJECTED}", node.id);
        if document.node(&id).is_some() {
            let error = Error::usage(format!("the id `{id}` is that of a part of `{}`", node.id));
            return Err(error.remedy("choose another id"));
        }
        let sink = Node { id: id.clone(), module: module.into(), config, ..node.clone() };
        let member = ConfiguredModule::new(&sink, registry, None);
        let mut member = member.map_err(|error| error.at(format!("module {}", node.id)))?;
        member.part_of = Some(node.id.clone());
        modules.insert(id.clone(), member);
        let position = expanded.modules.iter().position(|other| other.id == node.id);
        expanded.modules.insert(position.unwrap_or_default(), sink);
        expanded.attach(&node.id, &id).output = Some(Port::Name(REJECTED.into()));
    }
    Ok(expanded)
}
