//! A flow as a program: what was drawn or loaded, as the Python or Rust that makes the same
//! document again. Reading a document and writing code of it runs nothing and imports nothing.
//!
//! Invariant: executing the code gives the document back. Whatever a document holds reaches the
//! code as a literal only, never as a name or a comment.

mod expr;
mod python;
mod rust;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use crate::document::{Document, Node};
use crate::error::{Error, Result, unknown};
use crate::spec::Registry;

/// What the code is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A script that imports `euphrates`.
    Python,
    /// A program on the crates.
    Rust,
}

impl FromStr for Language {
    type Err = Error;

    fn from_str(name: &str) -> Result<Language> {
        match name {
            "python" | "py" => Ok(Language::Python),
            "rust" | "rs" => Ok(Language::Rust),
            _ => Err(unknown("language", name, ["python", "rust"].into_iter())),
        }
    }
}

/// The program that makes this document. Modules the registry does not know are written out in
/// full. Fails if two modules have the same id.
pub fn code(document: &Document, registry: &Registry, language: Language) -> Result<String> {
    let mut ids = BTreeSet::new();
    if let Some(twice) = document.modules.iter().find(|node| !ids.insert(&node.id)) {
        return Err(Error::usage(format!("two modules have the id `{}`", twice.id)));
    }
    Ok(match language {
        Language::Python => python::write(document, registry),
        Language::Rust => rust::write(document),
    })
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
