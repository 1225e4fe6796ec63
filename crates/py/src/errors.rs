//! Errors on their way into Python and out of it.

use euphrates_flow::{Error, Kind, Result};
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError};
use pyo3::prelude::*;

const KINDS: [(Kind, &str); 6] = [
    (Kind::Usage, "usage"),
    (Kind::Failed, "failed"),
    (Kind::Corrupt, "corrupt"),
    (Kind::Resource, "resource"),
    (Kind::Interrupted, "interrupted"),
    (Kind::Closed, "closed"),
];

/// The exception for an error, with what caused it if that was an exception itself.
pub fn raised(py: Python<'_>, error: &Error, cause: Option<PyErr>) -> PyErr {
    if let Some(cause) = &cause
        && error.kind() == Kind::Interrupted
        && cause.is_instance_of::<PyKeyboardInterrupt>(py)
    {
        return cause.clone_ref(py);
    }
    let kind = KINDS.iter().find(|(kind, _)| *kind == error.kind()).map_or("failed", |pair| pair.1);
    let places: Vec<&str> = error.places().collect();
    let made = py.import("euphrates.errors").and_then(|errors| {
        errors.call_method1("made", (kind, error.message(), places, error.advice()))
    });
    match made {
        Ok(exception) => {
            let exception = PyErr::from_value(exception);
            exception.set_cause(py, cause);
            exception
        }
        Err(unexpected) => unexpected,
    }
}

/// A result whose error becomes an exception.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error, None))
    }
}

/// The error for an exception of user code. Its text carries the traceback, because it may be read
/// in a log, far from the program; the exception itself becomes the cause of the one that `go`
/// raises.
pub fn told(py: Python<'_>, exception: &PyErr) -> Error {
    let value = exception.value(py);
    let word = value.getattr("kind").and_then(|kind| kind.extract::<String>());
    let known = word.ok().and_then(|word| KINDS.iter().find(|pair| pair.1 == word));
    let kind = match known {
        Some((kind, _)) => *kind,
        None if exception.is_instance_of::<PyKeyboardInterrupt>(py) => Kind::Interrupted,
        None if exception.is_instance_of::<PyMemoryError>(py) => Kind::Resource,
        None => Kind::Failed,
    };
    match kind {
        Kind::Closed => Error::closed(),
        Kind::Interrupted => Error::interrupted(),
        kind => Error::new(kind, format!("{exception}{}", traceback(py, exception))),
    }
}

/// The frames of user code, innermost last; nothing if there are none.
fn traceback(py: Python<'_>, exception: &PyErr) -> String {
    let format = || -> PyResult<String> {
        let Some(traceback) = exception.traceback(py) else { return Ok(String::new()) };
        let lines = py.import("traceback")?.call_method1("format_tb", (traceback,))?;
        Ok(format!("\n{}", lines.extract::<Vec<String>>()?.concat().trim_end()))
    };
    format().unwrap_or_default()
}
