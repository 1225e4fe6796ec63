//! Runs a flow: master, worker, queues, memory, metrics, commit.

pub mod distributed;
pub mod division;
mod history;
pub mod machine;
pub mod master;
mod perturb;
pub mod progress;
pub mod queue;
pub mod report;
pub mod slowness;
mod watch;
mod worker;

pub use master::{Options, Running, go, start};
pub use report::Report;
