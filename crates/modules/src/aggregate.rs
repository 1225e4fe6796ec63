//! Aggregation: function syntax, plan, group keys and tables, states, partial aggregation before
//! the exchange and merging behind it. The modules are `modules/pre_aggregate.rs` and
//! `modules/aggregate.rs`.

pub(crate) mod address_table;
pub(crate) mod config;
pub(crate) mod distinct_table;
pub(crate) mod exchange;
pub(crate) mod function_syntax;
pub(crate) mod functions;
pub(crate) mod group_indexer;
pub(crate) mod group_keys;
pub(crate) mod group_table;
pub(crate) mod key_domain;
pub(crate) mod numbered_rows;
pub(crate) mod output_expressions;
pub(crate) mod partial_aggregate;
pub(crate) mod plan;
pub(crate) mod states;
pub(crate) mod tables;
pub(crate) mod value_numbers;

#[cfg(test)]
mod tests;
