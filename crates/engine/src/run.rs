//! The life of a flow: checks, placement, start, supervision, commit and recovery.

pub mod check;
pub(crate) mod commit;
pub mod consent;
pub(crate) mod coordination;
pub(crate) mod fault;
pub(crate) mod live_control;
pub mod master;
pub mod options;
pub(crate) mod perturber;
pub(crate) mod placement;
pub(crate) mod recovery;
pub(crate) mod resources;
pub mod resume;
pub mod running;
pub(crate) mod running_part;
pub mod supervise;
pub mod survey;
pub(crate) mod unit_recovery;
pub(crate) mod wiring;
