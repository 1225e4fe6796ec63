//! Window functions over sorted partitions.

pub(crate) mod aggregates;
pub(crate) mod folds;
mod frame_aggregates;
pub(crate) mod frames;
pub(crate) mod plan;
mod ranked_rows;
pub(crate) mod ranking;
mod state_tree;
pub(crate) mod syntax;
pub(crate) mod values;
