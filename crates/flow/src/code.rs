//! Generates code for a flow: the Python or Rust program that builds the same document again.
//! Generating code runs and imports nothing.
//!
//! Invariant: executing the code gives the document back. The contents of a document reach the code
//! as literals only, never as a name or a comment.

mod expr;
mod names;
mod python;
mod rust;

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::document::Document;
use crate::error::{Error, Result, unknown};
use crate::spec::Registry;

/// The language of the generated code.
///
/// ```
/// use euphrates_flow::code::Language;
///
/// assert_eq!("py".parse::<Language>()?, Language::Python);
/// assert!("pyhton".parse::<Language>().is_err());
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A script that imports the `euphrates` package.
    Python,
    /// A program on the Rust crates.
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

/// The program that builds this document. Modules unknown to the registry are written out in full.
/// Fails if two modules have the same id.
///
/// ```
/// use euphrates_flow::code::{Language, code};
/// use euphrates_flow::{Document, Registry};
///
/// let mut flow = Document::new("daily");
/// flow.place("scan", serde_json::json!({"path": "days\"); exit("}), None);
/// let program = code(&flow, &Registry::default(), Language::Rust)?;
/// assert!(program.contains(r#""days\"); exit(""#), "values are literals");
/// flow.modules.push(flow.modules[0].clone());
/// assert!(code(&flow, &Registry::default(), Language::Rust).is_err(), "two of one id");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
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
