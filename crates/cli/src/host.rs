//! The program that the command line is part of: its modules, its Python support, and the command
//! that starts it again.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use euphrates_engine::cluster::Cluster;
use euphrates_engine::cluster::open::open;
use euphrates_engine::cluster::options::ClusterOptions;
use euphrates_flow::{Document, Error, Registry, Result};

/// The program that hosts the command line.
pub trait Host {
    /// The modules that flows can use.
    fn registry(&self) -> Registry;
    /// The flow that a Python file builds. If `is_kept`, the document outlives this process, so it
    /// must not refer to objects of this process.
    fn flow_of_python(&self, path: &Path, is_kept: bool) -> Result<Document>;
    /// The flow that a Python file builds and the modules that it defines, as JSON on one line.
    fn script(&self, path: &Path) -> Result<String>;
    /// The program and leading arguments that start this program; a command is appended.
    fn program(&self) -> Vec<OsString>;
    /// The command line that starts a worker of this program.
    fn worker_command(&self) -> Vec<OsString> {
        self.program().into_iter().chain(["worker".into()]).collect()
    }
    /// Environment variables of a worker, in addition to those of this process.
    fn worker_environment(&self) -> Vec<(OsString, OsString)> {
        vec![]
    }
    /// The modules that a worker of this program runs; called when this process becomes a worker.
    fn worker_registry(&self) -> Registry {
        self.registry()
    }
    /// Reads statements from the terminal and runs them, with these tables, each `name=path`, and
    /// these options of the stores of paths.
    fn sql_shell(&self, tables: &[String], storage: &[String]) -> Result<()> {
        let _ = (tables, storage);
        let error = Error::usage("there is no query");
        Err(error.remedy("write one: euphrates sql \"select count(*) from 'a.parquet'\""))
    }
    /// Runs the tour of `euphrates demo`, with a tenth of its data if it is to be small.
    fn demo(&self, is_small: bool) -> Result<()> {
        let _ = is_small;
        let error = Error::usage("the demo is a part of the wheel");
        Err(error.remedy("install the wheel: pip install euphrates"))
    }
    /// Opens the cluster of a `--cluster` value.
    fn open_cluster(&self, words: &str, options: &ClusterOptions) -> Result<Arc<Cluster>> {
        open(words, options)
    }
}

/// The bare program: built-in modules, no Python.
///
/// ```
/// use euphrates_cli::{Bare, Host};
/// use std::path::Path;
///
/// assert!(Bare.registry().find("scan").is_ok());
/// let error = Bare.flow_of_python(Path::new("flow.py"), false).unwrap_err();
/// assert_eq!(error.kind(), euphrates_flow::Kind::Usage, "it has no Python");
/// assert_eq!(Bare.worker_command().last(), Some(&"worker".into()));
/// ```
pub struct Bare;

impl Host for Bare {
    fn registry(&self) -> Registry {
        crate::allow_subflows();
        euphrates_modules::registry()
    }

    fn flow_of_python(&self, path: &Path, _: bool) -> Result<Document> {
        Err(no_python(path))
    }

    fn script(&self, path: &Path) -> Result<String> {
        Err(no_python(path))
    }

    fn program(&self) -> Vec<OsString> {
        vec![std::env::current_exe().map_or("euphrates".into(), |path| path.into())]
    }
}

fn no_python(path: &Path) -> Error {
    Error::usage(format!("{path:?} is a Python file, and this program has no Python"))
        .remedy("install the wheel (`pip install euphrates`), or give the flow as JSON")
}
