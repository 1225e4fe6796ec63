//! The hash join: plan, keys, row layout, hash table, probing, and parts that are spilled and
//! joined one by one. The module is `modules/join.rs`.

pub(crate) mod build_state;
mod column_rows;
pub(crate) mod config;
pub(crate) mod dictionary_keys;
mod direct_addresses;
pub(crate) mod hash_table;
pub(crate) mod join_keys;
pub(crate) mod packed_rows;
pub(crate) mod part_join;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod row_request;
pub(crate) mod shared_build;
pub(crate) mod shared_join;
pub(crate) mod side_layout;

#[cfg(test)]
mod tests;
