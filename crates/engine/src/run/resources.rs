//! The resources that the instances of a flow in one process share.

use std::sync::Arc;

use euphrates_flow::Setup;
use euphrates_policy::distributed::Policy;

use super::placement::Placement;
use crate::queue::network::Network;

/// Shared by the instances of one process.
pub struct Resources {
    /// The number of workers, in-process or processes of a cluster. With more than one, distributed
    /// queues bind late.
    pub workers: usize,
    /// The policy of distributed queues; if absent, chosen by where their ends are.
    pub queue_policy: Option<Policy>,
    /// Bytes that the memory arbiter divides between the modules of this process.
    pub modules_bytes: usize,
    /// The setup, except for what differs between instances.
    pub setup: Setup,
    /// The worker of every instance.
    pub placement: Placement,
    /// The names of the processes, by number; empty if there is only one.
    pub names: Arc<[String]>,
    /// Connections to other processes, if there are some.
    pub network: Option<Arc<Network>>,
}
