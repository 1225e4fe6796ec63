//! The command line of the wheel: that of the bare program, with Python flow files and Ray.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use euphrates_cli::{ClusterOptions, Host};
use euphrates_engine::cluster::open::open;
use euphrates_engine::cluster::{Cluster as Workers, Security};
use euphrates_flow::{Document, Error, Registry, Result};
use pyo3::prelude::*;

use crate::cluster::Cluster;
use crate::errors::as_usage_error;
use crate::programs::{program, worker_environment};
use crate::registry::{registry, worker_registry};
use crate::user_code::{CHECKING, call};

/// Runs the command line and returns its exit code.
#[pyfunction]
pub fn cli_main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| euphrates_cli::main(arguments, &Python3))
}

/// Runs Python code that executes a file of the user, and returns its result. Failures become usage
/// errors.
fn run_file(path: &Path, run: impl FnOnce(Python<'_>) -> PyResult<String>) -> Result<String> {
    let attached = Python::try_attach(|py| call(py, CHECKING, || run(py)));
    let json = attached.unwrap_or_else(|| Err(Error::failed("Python is shutting down")));
    json.map_err(|error| as_usage_error(error).at(path.display()))
}

/// The wheel as the host of the command line.
struct Python3;

impl Host for Python3 {
    fn registry(&self) -> Registry {
        registry()
    }

    fn flow_of_python(&self, path: &Path, is_kept: bool) -> Result<Document> {
        let json = run_file(path, |py| {
            let run = py.import("euphrates._user_code.flow_files")?.getattr("document_of_file")?;
            run.call1((path, is_kept))?.extract()
        });
        Document::from_json(&json?)
    }

    fn script(&self, path: &Path) -> Result<String> {
        run_file(path, |py| {
            let run = py.import("euphrates._processes.own")?.getattr("script_of_file")?;
            run.call1((path,))?.extract()
        })
    }

    fn program(&self) -> Vec<OsString> {
        program()
    }

    fn worker_environment(&self) -> Vec<(OsString, OsString)> {
        worker_environment()
    }

    fn worker_registry(&self) -> Registry {
        worker_registry()
    }

    fn sql_shell(&self, tables: &[String], storage: &[String]) -> Result<()> {
        let attached = Python::try_attach(|py| {
            call(py, CHECKING, || {
                let run = py.import("euphrates._shell.session")?.getattr("run")?;
                run.call1((tables.to_vec(), storage.to_vec())).map(drop)
            })
        });
        attached.unwrap_or_else(|| Err(Error::failed("Python is shutting down")))
    }

    fn demo(&self, is_small: bool) -> Result<()> {
        let attached = Python::try_attach(|py| {
            call(py, CHECKING, || {
                let run = py.import("euphrates._processes.demo")?.getattr("run")?;
                run.call1((is_small,)).map(drop)
            })
        });
        attached.unwrap_or_else(|| Err(Error::failed("Python is shutting down")))
    }

    fn open_cluster(&self, words: &str, options: &ClusterOptions) -> Result<Arc<Workers>> {
        if words.split(':').next() != Some("ray") {
            return open(words, options);
        }
        let security = match options.security {
            Some(Security::Token) => "token",
            Some(Security::Tls) | None => "tls",
        };
        let attached = Python::try_attach(|py| {
            call(py, CHECKING, || {
                let open = py.import("euphrates.ray")?.getattr("kept")?;
                let native = open.call1((words, options.workers, security))?;
                Ok(native.extract::<Py<Cluster>>()?)
            })
        });
        let native = attached.unwrap_or_else(|| Err(Error::failed("Python is shutting down")))?;
        native.get().workers()
    }
}
