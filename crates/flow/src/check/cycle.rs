//! The error for a flow with a cycle.

use crate::document::{Edge, Node};
use crate::error::Error;

/// Names the modules on the cycle. `left` holds those that topological sorting could not order;
/// modules that only come after the cycle are dropped.
pub(super) fn cycle(left: &[&Node], queues: &[Edge]) -> Error {
    let mut left = left.to_vec();
    let feeds = |node: &Node, left: &[&Node]| {
        let mut fed = queues.iter().filter(|edge| edge.from == node.id);
        fed.any(|edge| left.iter().any(|other| other.id == edge.to))
    };
    while let Some(last) = left.iter().position(|node| !feeds(node, &left)) {
        left.remove(last);
    }
    let ids: Vec<_> = left.iter().map(|node| node.id.as_str()).collect();
    let message = format!("the flow has a cycle through {}", ids.join(", "));
    Error::usage(message).remedy("remove one of the queues between them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[test]
    fn modules_after_cycle_are_not_named() {
        let mut flow = Document::new("x");
        for id in ["a", "b", "c", "d"] {
            flow.place_as(id, "filter", serde_json::json!({}), None);
        }
        for (from, to) in [("a", "b"), ("b", "a"), ("b", "c"), ("c", "d")] {
            flow.attach(from, to);
        }
        let left: Vec<&Node> = flow.modules.iter().collect();
        let error = cycle(&left, &flow.queues).to_string();
        assert!(error.starts_with("the flow has a cycle through a, b\n"), "{error}");
    }
}
