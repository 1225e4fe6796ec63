//! Decides what a configuration leaves open until it is known about how much comes in.

use serde_json::Value;

use super::{CheckedNode, Graph, Incoming, Member};
use crate::document::{Document, Node};
use crate::error::{Error, Result};
use crate::spec::Registry;

impl Graph<'_> {
    /// Configures a module anew that leaves something open; returns how.
    pub(super) fn decide(
        &mut self,
        node: &Node,
        registry: &Registry,
        incoming: &[Incoming],
        nodes: &[CheckedNode],
    ) -> Result<Option<Node>> {
        let expected = bytes_expected(incoming, nodes);
        let Some(config) = self.members[&node.id].placed.decided(&expected) else {
            return Ok(None);
        };
        let Value::Object(config) = config else {
            let message = format!("the configuration of `{}` is no object", node.module);
            return Err(Error::failed(message));
        };
        let node = Node { config, ..node.clone() };
        self.members.insert(node.id.clone(), Member::new(&node, registry, None)?);
        Ok(Some(node))
    }
}

/// About how many bytes come in at each input.
pub(super) fn bytes_expected(incoming: &[Incoming], nodes: &[CheckedNode]) -> Vec<Option<u64>> {
    incoming.iter().map(|edge| nodes[edge.producer].bytes_expected).collect()
}

/// The document with these modules as they have been decided.
pub(super) fn with(mut document: Document, decided: Vec<Node>) -> Document {
    for node in decided {
        let place = document.modules.iter().position(|other| other.id == node.id);
        document.modules[place.expect("it is one of them")] = node;
    }
    document
}
