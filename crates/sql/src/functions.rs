//! Functions that the modules compute and the planner does not know.

pub(crate) mod aggregates;
pub(crate) mod calls;
pub(crate) mod field_access;
pub(crate) mod lambdas;
pub(crate) mod nested_types;
pub(crate) mod planned_aggregates;
pub(crate) mod scalars;
