//! The built-in modules, one file each in `modules/`; `build.rs` lists the folder.

/// The modules, and the list of them.
#[allow(missing_docs)]
pub mod modules {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

pub mod aggregate;
pub mod alike;
pub mod doubles;
pub mod equal;
pub mod expression;
pub mod hashing;
pub mod join;
pub mod meeting;
pub mod order_by;
pub mod parts;
pub mod paths;
pub mod pipes;
pub mod sort;
pub mod stepwise;
pub mod store;
pub mod turns;
pub mod units;

#[cfg(test)]
mod testing;

pub use modules::MODULES;

/// A registry of the built-in modules.
pub fn registry() -> euphrates_flow::Registry {
    euphrates_flow::Registry::new(MODULES.iter().copied())
}
