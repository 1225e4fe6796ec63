//! Access to the Python interpreter: attaching to it, and conversions of small values.

use euphrates_flow::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::as_usage_error;

/// Runs with the interpreter. Fails if the interpreter is shutting down, which can happen while
/// threads of a flow still run.
pub fn attached<R>(act: impl FnOnce(Python<'_>) -> Result<R>) -> Result<R> {
    Python::try_attach(act).unwrap_or_else(|| Err(Error::interrupted()))
}

/// Runs with the interpreter during the check of a flow: failures become usage errors.
pub fn checking<R>(act: impl FnOnce(Python<'_>) -> Result<R>) -> Result<R> {
    attached(act).map_err(as_usage_error)
}

/// A JSON value of a configuration as a Python object.
pub fn python_of<'py>(py: Python<'py>, value: &serde_json::Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

/// The qualified name of an object's type, for messages.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    let kind = object.get_type();
    kind.fully_qualified_name()
        .map_or("an object".into(), |name: Bound<'_, PyString>| name.to_string_lossy().into_owned())
}
