//! What flows leave for later ones: the files that `only_new` has processed, and the cache.

use euphrates_engine::machine::{clear_cache, home};
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// Forgets files under a name, or all of them; returns how many.
#[pyfunction]
#[pyo3(signature = (name, files=None))]
pub fn forget(py: Python<'_>, name: &str, files: Option<Vec<String>>) -> PyResult<usize> {
    py.detach(|| euphrates_modules::forget(&home(), name, files.as_deref())).or_raise(py)
}

/// Frees the remote data that this process keeps; returns the bytes.
#[pyfunction]
pub fn cache_clear(py: Python<'_>) -> u64 {
    py.detach(clear_cache)
}
