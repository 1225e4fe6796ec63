//! The machinery of grouping: how it is written, plans, keys and groups, states, and what is done
//! before the exchange and behind it. The modules themselves are `modules/pre_aggregate.rs` and
//! `modules/aggregate.rs`.

pub mod before;
pub mod groups;
pub mod kept;
pub mod keys;
pub mod merging;
pub mod numbering;
pub mod over;
pub mod plan;
pub mod shortcuts;
pub mod spelling;
pub mod states;
pub mod table;

#[cfg(test)]
mod tests;
