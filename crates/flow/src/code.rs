//! A flow as a program: what was drawn or loaded, as the Python or Rust that makes the same
//! document again. Reading a document and writing code of it runs nothing and imports nothing.
//!
//! Invariant: executing the code gives the document back. Whatever a document holds reaches the
//! code as a literal only, never as a name or a comment.

mod expr;
mod python;
mod rust;

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Document, Node};
use crate::error::{Error, Result};
use crate::spec::Registry;

/// A Python script that makes this document and runs it. Modules the registry does not know are
/// written out in full. Fails if two modules have the same id.
pub fn python(document: &Document, registry: &Registry) -> Result<String> {
    check_ids(document)?;
    Ok(python::write(document, registry))
}

/// A Rust program that makes this document and runs it. Fails if two modules have the same id.
pub fn rust(document: &Document) -> Result<String> {
    check_ids(document)?;
    Ok(rust::write(document))
}

fn check_ids(document: &Document) -> Result<()> {
    let mut ids = BTreeSet::new();
    match document.modules.iter().find(|node| !ids.insert(&node.id)) {
        Some(twice) => Err(Error::usage(format!("two modules have the id `{}`", twice.id))),
        None => Ok(()),
    }
}

/// A local name for every module: its id where that can be a name, else a number.
fn local_names<'a>(document: &'a Document, reserved: &[&str]) -> BTreeMap<&'a str, String> {
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

/// Modules in the order of placement, each with whether `place` would choose its id itself.
fn placements(document: &Document) -> impl Iterator<Item = (&Node, bool)> {
    let mut placed = BTreeSet::new();
    document.modules.iter().map(move |node| {
        let mut choices = (1..).map(|n: usize| format!("{}_{n}", node.module));
        let choice = choices.find(|id| !placed.contains(id.as_str())).expect("numbers do not end");
        placed.insert(node.id.as_str());
        (node, choice == node.id)
    })
}
