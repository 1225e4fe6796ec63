//! Resolves configuration that depends on the estimated input size.

use std::path::Path;

use serde_json::Value;

use super::checked::CheckedNode;
use super::configured::ConfiguredModule;
use super::graph::{Graph, Incoming};
use crate::document::{Document, Node};
use crate::error::{Error, Result};
use crate::spec::Registry;

impl Graph<'_> {
    /// Asks a module to resolve its configuration, and configures it again; returns the node if it
    /// changed.
    pub(super) fn resolve_config(
        &mut self,
        node: &Node,
        (registry, home): (&Registry, &Path),
        incoming: &[Incoming],
        nodes: &[CheckedNode],
    ) -> Result<Option<Node>> {
        let expected = bytes_expected(incoming, nodes);
        let Some(config) = self.modules[&node.id].module.resolved(&expected, home)? else {
            return Ok(None);
        };
        let Value::Object(config) = config else {
            let message = format!("the configuration of `{}` is not an object", node.module);
            return Err(Error::failed(message));
        };
        let node = Node { config, ..node.clone() };
        self.modules.insert(node.id.clone(), ConfiguredModule::new(&node, registry, None)?);
        Ok(Some(node))
    }
}

/// Estimated bytes of each input.
pub(super) fn bytes_expected(incoming: &[Incoming], nodes: &[CheckedNode]) -> Vec<Option<u64>> {
    incoming.iter().map(|edge| nodes[edge.producer].bound.bytes_expected).collect()
}

/// Replaces the nodes whose configuration has been resolved.
pub(super) fn with_resolved_nodes(mut document: Document, decided: Vec<Node>) -> Document {
    for node in decided {
        let position = document.modules.iter().position(|other| other.id == node.id);
        document.modules[position.expect("it is one of them")] = node;
    }
    document
}
