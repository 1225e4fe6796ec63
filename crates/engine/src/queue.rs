//! Queues between instances: in one process, between processes, and keyed by partition.

pub(crate) mod dispatch;
pub mod distributed;
pub(crate) mod fetch_backlog;
pub(crate) mod keyed;
pub mod local;
pub(crate) mod mailbox;
pub mod network;
pub mod policies;
pub(crate) mod runs;
pub(crate) mod transport;
