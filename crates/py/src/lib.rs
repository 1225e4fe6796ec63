//! The Python package's native half: the only crate that knows Python.
//!
//! Invariant: the GIL is held only while Python objects are touched. Whatever can wait (queues,
//! locks, files, foreign streams) is done detached, so that no thread of a flow waits for another
//! one through the GIL.

mod arrow_c;
mod cli;
mod cluster;
mod confined;
mod describe;
mod errors;
mod launch;
mod lease;
mod modules;
mod ports;
mod running;
mod schema;
mod tables;
mod user_code;
mod values;
mod values_of;

use pyo3::prelude::*;

/// The module `euphrates._euphrates`.
#[pymodule]
fn _euphrates(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<tables::Batch>()?;
    module.add_class::<tables::Table>()?;
    module.add_class::<schema::Schema>()?;
    module.add_class::<ports::PyPorts>()?;
    module.add_class::<ports::InputStream>()?;
    module.add_class::<cluster::Cluster>()?;
    module.add_class::<cluster::WorkerServer>()?;
    module.add_class::<launch::Launch>()?;
    module.add_function(wrap_pyfunction!(launch::launch, module)?)?;
    module.add_function(wrap_pyfunction!(launch::processes, module)?)?;
    module.add_function(wrap_pyfunction!(launch::kill, module)?)?;
    module.add_function(wrap_pyfunction!(cluster::new_token, module)?)?;
    module.add_class::<running::Running>()?;
    module.add_function(wrap_pyfunction!(running::start, module)?)?;
    module.add_function(wrap_pyfunction!(describe::specs, module)?)?;
    module.add_function(wrap_pyfunction!(describe::check, module)?)?;
    module.add_function(wrap_pyfunction!(describe::code, module)?)?;
    module.add_function(wrap_pyfunction!(describe::draw, module)?)?;
    module.add_function(wrap_pyfunction!(describe::normalize, module)?)?;
    module.add_function(wrap_pyfunction!(describe::notebook, module)?)?;
    module.add_function(wrap_pyfunction!(tables::table, module)?)?;
    module.add_function(wrap_pyfunction!(tables::table_of, module)?)?;
    module.add_function(wrap_pyfunction!(schema::schema, module)?)?;
    module.add_function(wrap_pyfunction!(schema::schema_words, module)?)?;
    module.add_function(wrap_pyfunction!(cli::cli_main, module)?)?;
    module.add_function(wrap_pyfunction!(confined::run_confined, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

/// The modules of this process: the built-in ones, and those that run Python.
fn registry() -> euphrates_flow::Registry {
    euphrates_modules::registry().with_user_code(modules::MODULES.iter().copied())
}

/// The same for a worker: code of users runs in processes of its own.
fn worker_registry() -> euphrates_flow::Registry {
    registry().with(confined::MODULES.iter().copied())
}
