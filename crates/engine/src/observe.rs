//! Monitoring of a running flow: counters, slow episodes, live statistics, progress, reports.

pub mod format;
pub(crate) mod history;
pub(crate) mod live;
pub mod live_stats;
pub mod observer;
pub(crate) mod processors;
pub mod progress;
pub mod report;
pub(crate) mod running_totals;
pub(crate) mod sampler;
pub mod slowness;
pub(crate) mod snapshot;
pub mod totals;
