//! Checks that no two modules publish the same target.

use std::collections::BTreeMap;

use super::checked::CheckedNode;
use crate::{Error, Result};

/// Fails if two modules publish the same target.
pub(super) fn check(nodes: &[CheckedNode]) -> Result<()> {
    let mut makers: BTreeMap<String, &str> = BTreeMap::new();
    for node in nodes {
        let Some(target) = node.bound.sink.as_ref().map(|sink| sink.target()) else { continue };
        let message = format!("{target} is made by two modules");
        if let Some(other) = makers.insert(target, &node.id) {
            return Err(Error::usage(message)
                .at(format!("modules {other} and {}", node.id))
                .remedy("combine their inputs with a `union`, or give one of them another name"));
        }
    }
    Ok(())
}
