//! The command line, for the wheel: the same as the bare program's, and it knows Python.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use euphrates_cli::{ClusterOptions, Host};
use euphrates_engine::cluster::open::open;
use euphrates_engine::cluster::{Cluster as Workers, Security};
use euphrates_flow::{Document, Error, Registry, Result};
use pyo3::prelude::*;

use crate::cluster::Cluster;
use crate::errors::mistake;
use crate::user_code::{CHECKING, call};
use crate::{registry, worker_registry};

/// Runs the command line and returns its exit code.
#[pyfunction]
pub fn cli_main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| euphrates_cli::main(arguments, &Python3))
}

/// What starts a worker: this Python, with the package.
pub fn worker_command() -> Vec<OsString> {
    program().into_iter().chain(["worker".into()]).collect()
}

/// What starts a process of user code: the same Python.
pub fn confined_command() -> Vec<OsString> {
    let code = "from euphrates._confined import main; main()";
    vec![python(), "-c".into(), code.into()]
}

fn program() -> Vec<OsString> {
    // Not `-m`: that makes Python load a third more before it begins.
    vec![python(), "-c".into(), "from euphrates._cli import main; main()".into()]
}

fn python() -> OsString {
    let python = Python::try_attach(|py| {
        let found = py.import("sys").and_then(|sys| sys.getattr("executable"));
        found.and_then(|path| path.extract::<OsString>()).ok()
    });
    python.flatten().unwrap_or_else(|| "python3".into())
}

/// Workers of this machine find the modules that this program finds.
pub fn worker_environment() -> Vec<(OsString, OsString)> {
    let path = Python::try_attach(|py| {
        let found = py.import("euphrates._worker")?.call_method0("search_path")?;
        found.extract::<OsString>()
    });
    path.and_then(PyResult::ok).map(|path| ("PYTHONPATH".into(), path)).into_iter().collect()
}

/// What Python says of a file of the user's that it runs for it.
fn of_file(path: &Path, run: impl FnOnce(Python<'_>) -> PyResult<String>) -> Result<String> {
    let attached = Python::try_attach(|py| call(py, CHECKING, || run(py)));
    let json = attached.unwrap_or_else(|| Err(Error::failed("Python is shutting down")));
    json.map_err(|error| mistake(error).at(path.display()))
}

struct Python3;

impl Host for Python3 {
    fn registry(&self) -> Registry {
        registry()
    }

    fn flow_of_python(&self, path: &Path, is_kept: bool) -> Result<Document> {
        let json = of_file(path, |py| {
            let run = py.import("euphrates._flow_files")?.getattr("document_of_file")?;
            run.call1((path, is_kept))?.extract()
        });
        Document::from_json(&json?)
    }

    fn script(&self, path: &Path) -> Result<String> {
        of_file(path, |py| {
            let run = py.import("euphrates._own")?.getattr("script_of_file")?;
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
