//! Converts errors to Python exceptions and back.

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

/// The exception for an error. `cause` is the exception of user code that caused it, if any.
pub fn to_exception(py: Python<'_>, error: &Error, cause: Option<PyErr>) -> PyErr {
    if let Some(cause) = &cause
        && error.kind() == Kind::Interrupted
        && cause.is_instance_of::<PyKeyboardInterrupt>(py)
    {
        return cause.clone_ref(py);
    }
    let kind = KINDS.iter().find(|(kind, _)| *kind == error.kind()).map_or("failed", |pair| pair.1);
    let places: Vec<&str> = error.places().collect();
    let made = py.import("euphrates.errors").and_then(|errors| {
        let row = error.row().map(ToString::to_string);
        errors.call_method1("made", (kind, error.message(), places, error.advice(), row))
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

/// Converts the error of a result to an exception.
pub trait OrRaise<T> {
    /// The same result with a Python exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_exception(py, &error, None))
    }
}

/// The error for an exception of user code. Its message contains the user's part of the traceback,
/// because it may be read in a log. The exception itself becomes the cause of the one that `go`
/// raises.
pub fn from_exception(py: Python<'_>, exception: &PyErr) -> Error {
    let value = exception.value(py);
    // Exceptions of other libraries may have a `kind`, too.
    let is_own = py.import("euphrates.errors").and_then(|errors| {
        let own = (errors.getattr("EuphratesError")?, errors.getattr("Stopped")?);
        value.is_instance(own.into_pyobject(py)?.as_any())
    });
    let kind = |_| value.getattr("kind").and_then(|kind| kind.extract::<String>());
    let word = is_own.ok().filter(|is_own| *is_own).map(kind);
    let known = word.and_then(Result::ok).and_then(|word| KINDS.iter().find(|pair| pair.1 == word));
    let kind = match known {
        Some((kind, _)) => *kind,
        None if exception.is_instance_of::<PyKeyboardInterrupt>(py) => Kind::Interrupted,
        None if exception.is_instance_of::<PyMemoryError>(py) => Kind::Resource,
        None => Kind::Failed,
    };
    match kind {
        Kind::Closed => Error::closed(),
        Kind::Interrupted => Error::interrupted(),
        kind => described(py, exception, kind).unwrap_or_else(|_| Error::new(kind, exception)),
    }
}

fn described(py: Python<'_>, exception: &PyErr, kind: Kind) -> PyResult<Error> {
    let errors = py.import("euphrates.errors")?;
    // PyO3 keeps the traceback apart from the exception object.
    exception.value(py).setattr("__traceback__", exception.traceback(py))?;
    let parts = errors.call_method1("told", (exception.value(py),))?;
    let (message, place, remedy): (String, Option<String>, Option<String>) = parts.extract()?;
    let error = place.into_iter().fold(Error::new(kind, message), Error::at);
    Ok(remedy.into_iter().fold(error, Error::remedy))
}

/// A failure during the check of a flow as a usage error; other kinds stay as they are.
pub fn as_usage_error(error: Error) -> Error {
    if error.kind() != Kind::Failed {
        return error;
    }
    let mut places: Vec<&str> = error.places().collect();
    places.reverse();
    let usage = places.into_iter().fold(Error::usage(error.message()), Error::at);
    error.advice().into_iter().fold(usage, Error::remedy)
}
