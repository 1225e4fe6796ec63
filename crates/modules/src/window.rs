//! Window functions over sorted partitions.

pub(crate) mod aggregates;
pub(crate) mod folds;
pub(crate) mod frames;
pub(crate) mod plan;
pub(crate) mod ranking;
pub(crate) mod syntax;
pub(crate) mod values;
