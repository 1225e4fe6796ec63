//! The studio's server: the only crate that knows HTTP.
//!
//! It serves the page and what the page asks for to whoever was given the link, on this machine
//! alone. It runs nothing of the user's: runs and scripts have processes of their own.

mod accept;
#[cfg(test)]
mod attacks;
mod checking;
pub mod child;
mod connections;
mod drawn;
mod events;
mod files;
mod gate;
mod own;
mod page;
mod perturbed;
pub mod record;
mod refusal;
mod root;
mod routes;
mod running;
mod schema;
mod script;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod told;
mod trust;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use euphrates_flow::{Registry, Result};

pub use accept::Server;
pub use page::notebook;

/// How a studio is started.
pub struct Setting {
    /// The project's folder.
    pub root: PathBuf,
    /// What is opened first: a path from there.
    pub flow: Option<String>,
    /// The port; the usual one, or any other that is free, if absent.
    pub port: Option<u16>,
    /// Whether nothing may be changed or run.
    pub read_only: bool,
    /// More names that browsers may call this machine by, with the port they use.
    pub allowed_hosts: Vec<String>,
    /// Whether runs end with the server.
    pub end_runs: bool,
    /// All modules that flows can be made of.
    pub registry: Registry,
    /// What starts this program, to which a command is added; and with what in its environment.
    pub program: Vec<OsString>,
    /// What it is started with in its environment, besides this program's.
    pub environment: Vec<(OsString, OsString)>,
    /// Where what is the user's and not the project's is kept.
    pub home: PathBuf,
}

/// What all requests share.
struct Studio {
    setting: Setting,
    gate: gate::Gate,
    root: root::Root,
    runs: running::Runs,
    events: events::Events,
    watched: files::Watched,
    trust: trust::Trust,
    own: own::Own,
    checks: checking::Checks,
    saving: Mutex<()>,
}

impl Studio {
    fn new(setting: Setting, port: u16) -> Result<Arc<Studio>> {
        let root = root::Root::open(&setting.root)?;
        let studio = Arc::new(Studio {
            gate: gate::Gate::new(port, &setting.allowed_hosts)?,
            runs: running::Runs::new(&root.path)?,
            events: events::Events::default(),
            watched: files::Watched::default(),
            trust: trust::Trust::at(&setting.home),
            own: own::Own::default(),
            checks: checking::Checks::default(),
            saving: Mutex::default(),
            root,
            setting,
        });
        events::watch(&studio)?;
        Ok(studio)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
