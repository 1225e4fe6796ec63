//! Has sources deliver their rows in order where a consumer reads only the first ones.
//!
//! "The first 10 rows of a file" are those at its beginning to whoever asks, while a source without
//! an order delivers those that were decoded first.

use serde_json::Value;

use super::configured::{ConfiguredModule, ConfiguredModules};
use crate::document::{Document, Node};
use crate::error::Result;
use crate::shape::InputOrder;
use crate::spec::Registry;

/// The flow in which a source is read in order if a module that reads only its first rows is behind
/// it, with nothing between them that loses an order. A flow that says this itself is unchanged.
pub(super) fn order_sources(
    document: &Document,
    registry: &Registry,
    modules: &mut ConfiguredModules,
) -> Result<Document> {
    let mut ordered = document.clone();
    for node in &document.modules {
        let Some(source) = source_of_first_rows(document, node, modules) else { continue };
        let Some(Value::Object(config)) = modules[&source].interface.in_order.clone() else {
            continue;
        };
        let Some(place) = ordered.modules.iter_mut().find(|other| other.id == source) else {
            continue;
        };
        place.config = config;
        let member = ConfiguredModule::new(place, registry, None);
        modules.insert(source, member.map_err(|error| error.at(format!("module {}", place.id)))?);
    }
    Ok(ordered)
}

/// The id of the source whose first rows a module reads; none if it reads all, or no order would
/// reach it.
fn source_of_first_rows(
    document: &Document,
    node: &Node,
    modules: &ConfiguredModules,
) -> Option<String> {
    modules.get(&node.id)?.interface.reads_first?;
    let mut id = &node.id;
    // A cycle is reported later; it is not followed for ever.
    for _ in &document.modules {
        let mut feeds = document.queues.iter().filter(|edge| &edge.to == id);
        match (feeds.next(), feeds.next()) {
            (None, _) => return Some(id.clone()),
            (Some(edge), None) => id = &edge.from,
            (Some(_), Some(_)) => return None,
        }
        let is_source = !document.queues.iter().any(|edge| &edge.to == id);
        if !is_source && modules.get(id)?.order() != InputOrder::Keeps {
            return None;
        }
    }
    None
}
