//! The HTTP servers, of the studio and of metrics: the only crate that uses an HTTP library.
//!
//! The studio's server serves the page and its API on the loopback interface, to clients with a
//! session or a token. It runs no user code: runs and scripts are processes of their own.

mod api;
mod check_limiter;
pub mod event_log;
mod events;
mod flow_map;
mod http;
pub mod metrics;
mod project;
mod replay;
mod router;
mod routes;
mod runs;
mod secret;
mod server;
mod settings;
mod studio;
mod table_json;
#[cfg(test)]
mod tests;
mod watcher;

pub use http::page::notebook;
pub use runs::{process as run_process, record as run_record, view as run_view};
pub use server::Server;
pub use settings::ServerSettings;
