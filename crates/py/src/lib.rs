//! The native half of the Python package: the only crate that uses PyO3.
//!
//! Invariant: a thread holds the GIL only while it uses Python objects. It detaches before it waits
//! for queues, locks, files or foreign streams, so threads of a flow never block each other through
//! the GIL.

mod active;
mod cli;
mod cluster;
mod data;
mod describe;
mod errors;
mod input_stream;
mod interpreter;
mod isolated;
mod launch;
mod lease;
mod modules;
mod ports;
mod processed;
mod programs;
mod registry;
mod running;
mod sql;
mod user_code;

use euphrates_engine::cluster::served::connect_served_disks;
use pyo3::prelude::*;

/// The Python module `euphrates._euphrates`.
#[pymodule]
fn _euphrates(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<data::classes::Batch>()?;
    module.add_class::<data::classes::Table>()?;
    module.add_class::<data::classes::Schema>()?;
    module.add_class::<ports::PyPorts>()?;
    module.add_class::<input_stream::InputStream>()?;
    module.add_class::<cluster::Cluster>()?;
    module.add_class::<cluster::WorkerServer>()?;
    module.add_class::<launch::Launch>()?;
    module.add_function(wrap_pyfunction!(launch::launch, module)?)?;
    module.add_function(wrap_pyfunction!(launch::processes, module)?)?;
    module.add_function(wrap_pyfunction!(launch::kill, module)?)?;
    module.add_function(wrap_pyfunction!(cluster::new_token, module)?)?;
    module.add_class::<data::striped::StripedReaderHandle>()?;
    module.add_class::<data::striped::StripedWriterHandle>()?;
    module.add_class::<data::striped_views::StridedViewHandle>()?;
    module.add_class::<data::striped_sessions::StripedSessionHandle>()?;
    module.add_class::<data::striped_sessions::StripedShareHandle>()?;
    module.add_function(wrap_pyfunction!(data::striped::striped_folder, module)?)?;
    module.add_function(wrap_pyfunction!(cluster::served_home, module)?)?;
    connect_served_disks();
    module.add_function(wrap_pyfunction!(data::striped::striped_find, module)?)?;
    module.add_function(wrap_pyfunction!(data::striped::striped_remove, module)?)?;
    module.add_function(wrap_pyfunction!(data::striped::striped_name, module)?)?;
    module.add_function(wrap_pyfunction!(data::striped::striped_path, module)?)?;
    module.add_class::<active::ActiveEndpointHandle>()?;
    module.add_class::<active::ActiveRegionHandle>()?;
    module.add_class::<running::Running>()?;
    module.add_function(wrap_pyfunction!(running::start, module)?)?;
    module.add_function(wrap_pyfunction!(describe::specs, module)?)?;
    module.add_function(wrap_pyfunction!(describe::check, module)?)?;
    module.add_function(wrap_pyfunction!(describe::code, module)?)?;
    module.add_function(wrap_pyfunction!(describe::draw, module)?)?;
    module.add_function(wrap_pyfunction!(describe::normalize, module)?)?;
    module.add_function(wrap_pyfunction!(describe::notebook, module)?)?;
    module.add_function(wrap_pyfunction!(sql::sql, module)?)?;
    module.add_function(wrap_pyfunction!(sql::sql_tables, module)?)?;
    module.add_function(wrap_pyfunction!(sql::sql_functions, module)?)?;
    module.add_function(wrap_pyfunction!(sql::sql_explained, module)?)?;
    module.add_function(wrap_pyfunction!(sql::sql_summary, module)?)?;
    module.add_function(wrap_pyfunction!(sql::columns, module)?)?;
    module.add_function(wrap_pyfunction!(processed::forget, module)?)?;
    module.add_function(wrap_pyfunction!(processed::cache_clear, module)?)?;
    module.add_function(wrap_pyfunction!(data::tables::table, module)?)?;
    module.add_function(wrap_pyfunction!(data::tables::table_of, module)?)?;
    module.add_function(wrap_pyfunction!(data::schemas::schema, module)?)?;
    module.add_function(wrap_pyfunction!(data::schemas::schema_words, module)?)?;
    module.add_function(wrap_pyfunction!(cli::cli_main, module)?)?;
    module.add_function(wrap_pyfunction!(isolated::child::run_confined, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
