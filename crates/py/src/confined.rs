//! Isolation of user code: at a worker, each instance of a Python module runs in a child process.
//!
//! A crash (a segmentation fault, `os._exit`, the OOM killer) ends only that process, not the
//! worker and the flows of other programs there. A `map` function is given its batch again in a new
//! process; a second crash at the same rows is an error that names them. A class has state, so its
//! flow begins again.
//!
//! `placed` is the module as the worker checks it. `serving` is an instance's thread, which carries
//! out the requests of the child on the real ports. `process` is the child seen from the worker,
//! `inside` the child itself, and `letters` the protocol between them.

mod inside;
mod letters;
mod placed;
mod process;
mod serving;

use euphrates_flow::ModuleSpec;

pub use inside::{count, rows_before, run_confined};

use crate::modules::{CLASS, MAP, SQL};

/// The modules with user code, isolated in child processes.
pub static MODULES: &[&ModuleSpec] = &[
    &ModuleSpec { place: |config| placed::place(MAP.name, config), ..MAP },
    &ModuleSpec { place: |config| placed::place(CLASS.name, config), ..CLASS },
    &ModuleSpec { place: |config| placed::place(SQL.name, config), ..SQL },
];
