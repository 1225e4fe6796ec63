//! Runs a flow: master, worker, queues, memory, metrics, commit.

pub mod distributed;
pub mod division;
pub mod machine;
pub mod master;
pub mod progress;
pub mod queue;
pub mod report;
mod worker;

pub use master::{Options, Running, go, start};
pub use report::Report;
