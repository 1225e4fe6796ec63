//! The Python class of views of striped files, and the home of files.

use std::path::PathBuf;

use euphrates_engine::machine;
use euphrates_store::striped::StridedView;
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// A nested-strided view of any file.
#[pyclass(frozen, module = "euphrates._euphrates", name = "StridedView")]
pub struct StridedViewHandle(pub StridedView);

#[pymethods]
impl StridedViewHandle {
    /// Describes a view.
    #[new]
    fn new(
        py: Python<'_>,
        start: u64,
        length: u64,
        levels: Vec<(u64, u64)>,
    ) -> PyResult<StridedViewHandle> {
        StridedView::new(start, length, &levels).map(StridedViewHandle).or_raise(py)
    }

    /// The length of the view.
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Fails if the view ends behind a file of this length.
    fn expect_within(&self, py: Python<'_>, file_bytes: u64) -> PyResult<()> {
        self.0.expect_within(file_bytes).or_raise(py)
    }
}

/// The home, as an absolute path: files on disks are marked with it.
pub fn home_of(home: Option<PathBuf>) -> PathBuf {
    let home = home.unwrap_or_else(machine::home);
    std::path::absolute(&home).unwrap_or(home)
}
