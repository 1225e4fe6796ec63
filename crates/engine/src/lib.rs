//! Executes flows: master, workers, queues, exchange between processes, monitoring, clusters.

mod allocator;
pub mod cluster;
mod exchange;
pub mod machine;
pub mod observe;
mod panics;
pub mod queue;
pub mod run;

pub use observe::report::Report;
pub use run::master::{go, start, start_unless};
pub use run::options::Options;
pub use run::running::Running;
