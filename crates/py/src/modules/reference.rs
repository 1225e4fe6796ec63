//! References to Python objects in configurations: an import path, so that the flow is a document
//! like any other, or a handle to an object of this process.

use euphrates_flow::{PlacementConstraint, Result};
use pyo3::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::user_code::{CHECKING, call};

/// A Python object, by where it is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ObjectReference {
    /// `package.module:name`, to be imported, or `script.py:name`.
    Import(String),
    /// An object of this process, which cannot be saved with the flow.
    Live {
        /// The number under which this process has registered it.
        #[serde(rename = "$live")]
        live: u64,
        /// The same for workers, who believe their master: pickled, in base64.
        #[serde(rename = "$pickled", default, skip_serializing_if = "Option::is_none")]
        pickled: Option<String>,
    },
}

impl ObjectReference {
    /// The placement of a module that refers to the object: anywhere, or in this process only.
    pub fn spread(&self) -> PlacementConstraint {
        match self {
            ObjectReference::Live { pickled: None, .. } => PlacementConstraint::Home,
            _ => PlacementConstraint::Anywhere,
        }
    }

    /// Imports or looks up the object.
    pub fn resolve(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        call(py, CHECKING, || {
            let references = py.import("euphrates._user_code.references")?;
            match self {
                ObjectReference::Import(path) => references.call_method1("imported", (path,)),
                ObjectReference::Live { live, pickled } => {
                    references.call_method1("held", (*live, pickled.as_deref()))
                }
            }
            .map(Bound::unbind)
        })
    }
}
