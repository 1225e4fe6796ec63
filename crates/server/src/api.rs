//! The handlers of the API, one file for each resource.

pub mod check;
pub mod events;
pub mod files;
pub mod metrics;
pub mod runs;
pub mod script;
pub mod session;
