//! The built-in modules, one file each in `modules/`; `build.rs` lists that folder.

#![deny(unreachable_pub)]

mod aggregate;
mod batches;
mod block_writer;
mod canonical_floats;
mod coordination;
mod decimal_floats;
mod expression;
mod join;
mod order_by;
mod partitioning;
mod pipes;
mod prefetch;
mod rebase_path;
mod sort;

/// One module for each file of the folder, and the list `MODULES`.
mod modules {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

#[cfg(test)]
mod testing;

pub use sort::benchmark;

/// A registry of the built-in modules.
pub fn registry() -> euphrates_flow::Registry {
    euphrates_flow::Registry::new(modules::MODULES.iter().copied())
}
