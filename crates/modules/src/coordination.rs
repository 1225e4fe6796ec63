//! Coordination of the instances of a module: dynamic assignment of work units, and all-gather.

pub(crate) mod collective;
pub(crate) mod source_splits;
pub(crate) mod work_units;
