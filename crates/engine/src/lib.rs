//! Runs a flow: master, worker, queues, memory, metrics, commit.

mod allocator;
pub mod cluster;
mod commit;
pub mod commons;
mod debts;
mod dispatch;
pub mod distributed;
pub mod division;
mod exchange;
mod history;
mod keyed;
pub mod live;
pub mod machine;
mod mailbox;
pub mod master;
mod meddling;
pub mod network;
mod options;
mod perturb;
pub mod placement;
mod processors;
pub mod progress;
pub mod queue;
mod recovery;
pub mod report;
pub mod resume;
mod runs;
pub mod slowness;
pub mod supervise;
pub mod survey;
mod transport;
mod watch;
mod worker;

pub use master::{Running, go, start, start_unless};
pub use options::Options;
pub use report::Report;
