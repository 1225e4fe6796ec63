//! States between partial aggregation and its consumers: how they are held, spilled, sent by hash
//! part, and merged.

pub(crate) mod exchanged_states;
pub(crate) mod state_merge;
pub(crate) mod state_rows;
pub(crate) mod state_store;
