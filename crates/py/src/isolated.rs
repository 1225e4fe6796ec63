//! Isolation of user code: at a worker, each instance of a Python module runs in a child process.
//!
//! A crash (a segmentation fault, `os._exit`, the OOM killer) ends that process only, not the
//! worker and the flows of other programs there. A `map` function receives its batch again in a new
//! process; a second crash at the same rows is an error that names them. A class has state, so its
//! flow restarts.
//!
//! At the worker, `configure` and `module` are the module, `port_server` is an instance's thread,
//! which executes the requests of the child on the real ports, and `process` is the handle of the
//! child. In the child, `child` runs the module, `remote_ports` are its ports, and `channel` is its
//! connection. `messages` is the protocol between the two.

pub mod channel;
pub mod child;
mod configure;
mod messages;
mod module;
mod port_server;
mod process;
mod remote_ports;

use euphrates_flow::ModuleSpec;

use crate::modules::{CLASS, EXTERNAL_SQL, MAP};

/// The modules with user code, isolated in child processes.
pub static MODULES: &[&ModuleSpec] = &[
    &ModuleSpec { configure: |config| configure::configure(MAP.name, config), ..MAP },
    &ModuleSpec { configure: |config| configure::configure(CLASS.name, config), ..CLASS },
    &ModuleSpec {
        configure: |config| configure::configure(EXTERNAL_SQL.name, config),
        ..EXTERNAL_SQL
    },
];
