//! The settings that a studio server is started with.

use std::ffi::OsString;
use std::path::PathBuf;

use euphrates_flow::Registry;

/// The settings of one server.
pub struct ServerSettings {
    /// The folder of the project.
    pub root: PathBuf,
    /// The file that the page opens first: a path relative to `root`.
    pub flow: Option<String>,
    /// The port; if absent, the default one or any free one.
    pub port: Option<u16>,
    /// Whether files cannot be changed and runs cannot be started.
    pub read_only: bool,
    /// Additional `name:port` pairs that a request's `Host` header may have.
    pub allowed_hosts: Vec<String>,
    /// Whether runs end with the server.
    pub end_runs: bool,
    /// The modules that flows can use.
    pub registry: Registry,
    /// The program and leading arguments that start this program; a command is appended.
    pub program: Vec<OsString>,
    /// Environment variables of its processes, in addition to those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// The folder for files of the user that do not belong to the project.
    pub home: PathBuf,
}
