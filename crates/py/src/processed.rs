//! The files that flows with `only_new` have processed.

use euphrates_engine::machine::home;
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// Forgets files under a name, or all of them; returns how many.
#[pyfunction]
#[pyo3(signature = (name, files=None))]
pub fn forget(py: Python<'_>, name: &str, files: Option<Vec<String>>) -> PyResult<usize> {
    py.detach(|| euphrates_modules::forget(&home(), name, files.as_deref())).or_raise(py)
}
