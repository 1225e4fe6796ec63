//! Metrics of flows in the text format of Prometheus: their table, their text, and a server of
//! them.

pub mod collector;
pub mod server;
pub mod table;
pub mod text;
