//! Coordination of the instances of a module: dynamic assignment of work units, and all-gather; and
//! flows within modules.

pub(crate) mod affine_units;
pub(crate) mod collective;
pub(crate) mod source_splits;
pub(crate) mod subflows;
pub(crate) mod work_units;
