//! The life of a flow: planning, placement, start, supervision, commit and recovery.

pub(crate) mod commit;
pub mod consent;
pub(crate) mod coordination;
pub(crate) mod live_control;
pub mod master;
pub(crate) mod options;
pub(crate) mod perturber;
pub mod placement;
pub(crate) mod recovery;
pub mod resume;
pub mod supervise;
pub mod survey;
pub(crate) mod worker;
