//! Queues between instances: in one process, between processes, and keyed by partition.

pub(crate) mod alarms;
pub(crate) mod any_queue;
pub(crate) mod broadcast;
pub(crate) mod claim_gates;
pub(crate) mod dispatch;
pub mod distributed;
pub(crate) mod endpoint_queue;
pub(crate) mod endpoint_queue_consumer;
pub(crate) mod fetch_backlog;
pub(crate) mod keyed;
pub mod local;
pub(crate) mod mailbox;
pub(crate) mod network;
pub mod policies;
pub(crate) mod protocol;
pub(crate) mod run_error;
pub(crate) mod runs;
pub(crate) mod transport;
