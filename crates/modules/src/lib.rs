//! The built-in modules, one file each in `modules/`; `build.rs` lists that folder.

#![deny(unreachable_pub)]

mod aggregate;
mod batches;
mod block_skipping;
mod block_writer;
mod canonical_floats;
mod coordination;
/// The files of a dataset: how they are named, and when one is full.
mod dataset {
    pub(crate) mod config;
    pub(crate) mod existing_files;
    pub(crate) mod file_names;
    pub(crate) mod file_writer;
    pub(crate) mod partition_folders;
    pub(crate) mod unit_writer;
}
mod decimal_floats;
mod expression;
mod join;
mod key_filters;
mod open_outputs;
mod order_by;
mod partitioning;
mod pipes;
mod prefetch;
mod rebase_path;
/// Parts of `scan`.
mod scanning {
    pub(crate) mod cache_peers;
    pub(crate) mod config;
    pub(crate) mod extent;
    pub(crate) mod processed_files;
    pub(crate) mod rejected_rows;
}
mod sort;
mod window;

/// One module for each file of the folder, and the list `MODULES`.
mod modules {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

#[cfg(test)]
mod testing;

pub use coordination::subflows::{SubflowRunner, run_subflows_by};
pub use scanning::processed_files::forget;
pub use scanning::rejected_rows::sink as rejects_sink;
pub use sort::benchmark;

/// A registry of the built-in modules.
///
/// ```
/// use euphrates_engine::{Options, go};
/// use euphrates_flow::Document;
/// use serde_json::json;
///
/// let mut flow = Document::new("numbers");
/// let numbers = flow.place("generate", json!({"what": "integers", "rows": 1000}), Some(2));
/// let even = flow.place("filter", json!({"where": "n % 2 = 0"}), None);
/// let folder = tempfile::tempdir()?;
/// let file = folder.path().join("even.parquet");
/// let save = flow.place("save", json!({"path": file}), None);
/// flow.attach(&numbers, &even);
/// flow.attach(&even, &save);
/// let report = go(&flow, &euphrates_modules::registry(), &Options::default())?;
/// assert_eq!(report.modules[1].counters.rows_out, 500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn registry() -> euphrates_flow::Registry {
    euphrates_flow::Registry::new(modules::MODULES.iter().copied())
}
