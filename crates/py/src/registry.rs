//! The modules of this process and of a worker.

use euphrates_flow::Registry;

use crate::{isolated, modules};

/// The built-in modules, and those that run Python.
pub fn registry() -> Registry {
    euphrates_cli::allow_subflows();
    euphrates_modules::registry().with_user_code(modules::MODULES.iter().copied())
}

/// The same modules for a worker, with user code isolated in child processes.
pub fn worker_registry() -> Registry {
    registry().with(isolated::MODULES.iter().copied())
}
