//! Observation of a running flow: metrics, slow episodes, progress and reports.

pub(crate) mod history;
pub mod live;
pub(crate) mod processors;
pub mod progress;
pub mod report;
pub mod slowness;
pub(crate) mod watch;
