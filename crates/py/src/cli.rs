//! The command line, for the wheel: the same as the bare program's, and it knows Python.

use std::path::Path;

use euphrates_cli::Host;
use euphrates_flow::{Document, Error, Registry, Result};
use pyo3::prelude::*;

use crate::errors::mistake;
use crate::registry;
use crate::user_code::{CHECKING, call};

/// Runs the command line and returns its exit code.
#[pyfunction]
pub fn cli_main(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| euphrates_cli::main(arguments, &Python3))
}

struct Python3;

impl Host for Python3 {
    fn registry(&self) -> Registry {
        registry()
    }

    fn flow_of_python(&self, path: &Path, is_kept: bool) -> Result<Document> {
        let attached = Python::try_attach(|py| {
            call(py, CHECKING, || {
                let run = py.import("euphrates.flow")?.getattr("document_of_file")?;
                run.call1((path, is_kept))?.extract::<String>()
            })
        });
        let json = attached.unwrap_or_else(|| Err(Error::failed("Python is shutting down")));
        Document::from_json(&json.map_err(|error| mistake(error).at(path.display()))?)
    }
}
