//! Names in generated code: a local variable for every module, and which ids are the default ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Document, Node};

/// A local name for every module: its id if that is an identifier, else a numbered name.
pub(super) fn local_names<'a>(
    document: &'a Document,
    reserved: &[&str],
) -> BTreeMap<&'a str, String> {
    let usable = |id: &str| {
        id.starts_with(|first: char| first.is_ascii_lowercase())
            && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !reserved.contains(&id)
    };
    let ids: BTreeSet<&str> = document.modules.iter().map(|node| node.id.as_str()).collect();
    let mut numbers = (1..).map(|n: usize| format!("module_{n}"));
    let mut name = |id: &str| match usable(id) {
        true => id.to_string(),
        false => numbers.find(|name| !ids.contains(name.as_str())).expect("numbers do not end"),
    };
    document.modules.iter().map(|node| (node.id.as_str(), name(&node.id))).collect()
}

/// The modules in order of placement, each with whether `place` would choose its id by itself.
pub(super) fn placements(document: &Document) -> impl Iterator<Item = (&Node, bool)> {
    let mut placed = BTreeSet::new();
    document.modules.iter().map(move |node| {
        let mut choices = (1..).map(|n: usize| format!("{}_{n}", node.module));
        let choice = choices.find(|id| !placed.contains(id.as_str())).expect("numbers do not end");
        placed.insert(node.id.as_str());
        (node, choice == node.id)
    })
}
