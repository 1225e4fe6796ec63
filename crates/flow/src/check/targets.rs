//! What the modules of a flow make visible at its end: each something of its own.

use std::collections::BTreeMap;

use super::CheckedNode;
use crate::{Error, Result};

/// Fails if two modules make the same.
pub(super) fn check(nodes: &[CheckedNode]) -> Result<()> {
    let mut makers: BTreeMap<String, &str> = BTreeMap::new();
    for node in nodes {
        let Some(target) = node.placed.target() else { continue };
        let message = format!("{target} is made by two modules");
        if let Some(other) = makers.insert(target, &node.id) {
            return Err(Error::usage(message)
                .at(format!("modules {other} and {}", node.id))
                .remedy("unite what they are fed (`union`), or give one of them another name"));
        }
    }
    Ok(())
}
