//! Modules that run Python. What runs is named in the configuration: by an import path, so that
//! the flow is a document like any other, or by a handle to an object of this process.

mod class;
mod from_arrow;
mod map;
mod sql;

use euphrates_flow::{Error, ModuleSpec, Result, Spread};
use pyo3::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::errors::mistake;
use crate::user_code::{CHECKING, call};

/// All of them.
pub static MODULES: &[&ModuleSpec] = &[&CLASS, &from_arrow::MODULE, &MAP, &SQL];

/// Those that run code of the user's.
pub use class::MODULE as CLASS;
pub use map::MODULE as MAP;
pub use sql::MODULE as SQL;

/// A Python object, by where it is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Reference {
    /// `package.module:name`, to be imported, or `script.py:name`.
    Import(String),
    /// An object of this process, which cannot be saved with the flow.
    Live {
        /// Its number.
        #[serde(rename = "$live")]
        live: u64,
        /// The same for workers, who believe their master: pickled, in base64.
        #[serde(rename = "$pickled", default, skip_serializing_if = "Option::is_none")]
        pickled: Option<String>,
    },
}

impl Reference {
    /// Where a module may be that refers to it.
    fn spread(&self) -> Spread {
        match self {
            Reference::Live { pickled: None, .. } => Spread::Home,
            _ => Spread::Anywhere,
        }
    }

    /// The object.
    fn resolve(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        call(py, CHECKING, || {
            let references = py.import("euphrates._references")?;
            match self {
                Reference::Import(path) => references.call_method1("imported", (path,)),
                Reference::Live { live, pickled } => {
                    references.call_method1("held", (*live, pickled.as_deref()))
                }
            }
            .map(Bound::unbind)
        })
    }
}

/// Runs with the interpreter, which may be on its way out while threads of a flow still run.
fn attached<R>(act: impl FnOnce(Python<'_>) -> Result<R>) -> Result<R> {
    Python::try_attach(act).unwrap_or_else(|| Err(Error::interrupted()))
}

/// Runs with the interpreter while a flow is checked.
fn checking<R>(act: impl FnOnce(Python<'_>) -> Result<R>) -> Result<R> {
    attached(act).map_err(mistake)
}

/// A configuration's value as a Python object.
fn python_of<'py>(py: Python<'py>, value: &serde_json::Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}
