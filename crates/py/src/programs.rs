//! The commands that start processes of this package: the command line, workers, and children that
//! run user code.

use std::ffi::OsString;

use pyo3::prelude::*;

/// The command of a worker: this Python with the package.
pub fn worker_command() -> Vec<OsString> {
    program().into_iter().chain(["worker".into()]).collect()
}

/// The command of a child process that runs user code.
pub fn isolated_command() -> Vec<OsString> {
    let code = "from euphrates._processes.confined import main; main()";
    vec![python(), "-c".into(), code.into()]
}

/// The command of the `euphrates` command line.
pub fn program() -> Vec<OsString> {
    // Not `-m`, which loads a third more modules at startup.
    vec![python(), "-c".into(), "from euphrates._processes.cli import main; main()".into()]
}

/// The path of this Python.
fn python() -> OsString {
    let python = Python::try_attach(|py| {
        let found = py.import("sys").and_then(|sys| sys.getattr("executable"));
        found.and_then(|path| path.extract::<OsString>()).ok()
    });
    python.flatten().unwrap_or_else(|| "python3".into())
}

/// The environment of workers on this machine: they find the same Python modules as this program.
pub fn worker_environment() -> Vec<(OsString, OsString)> {
    let path = Python::try_attach(|py| {
        let found = py.import("euphrates._processes.worker")?.call_method0("search_path")?;
        found.extract::<OsString>()
    });
    path.and_then(PyResult::ok).map(|path| ("PYTHONPATH".into(), path)).into_iter().collect()
}
