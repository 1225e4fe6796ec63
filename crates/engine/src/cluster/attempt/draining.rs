//! The draining workers of an attempt: sends each of them the modules that claim no work there.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use euphrates_policy::drain::FlowDrain;

use crate::cluster::control::MasterCommand;
use crate::cluster::control_connection::WorkerHandle;
use crate::run::placement::Placement;

/// The draining workers. It is locked while messages are sent, so that the latest one is the last.
pub(super) struct DrainingWorkers {
    policy: FlowDrain,
    handles: BTreeMap<usize, Weak<WorkerHandle>>,
    id: (u64, u32),
}

impl DrainingWorkers {
    /// For an attempt with this many workers, besides the master.
    pub fn new(placement: &Placement, workers: usize, id: (u64, u32)) -> DrainingWorkers {
        let policy = FlowDrain::new(&placement.worker_of_instance, workers);
        DrainingWorkers { policy, handles: BTreeMap::new(), id }
    }

    /// A worker drains.
    pub fn on_draining(&mut self, worker: usize, handle: &Arc<WorkerHandle>) {
        if self.policy.on_draining(worker) {
            self.handles.insert(worker, Arc::downgrade(handle));
            self.hold_claims();
        }
    }

    /// An instance has ended, here or at a worker.
    pub fn on_ended(&mut self, (module, instance): (usize, usize)) {
        if self.policy.on_ended(module, instance) {
            self.hold_claims();
        }
    }

    /// Sends all draining workers the modules that claim no work there. A worker ignores the
    /// message until it has the plan.
    pub fn hold_claims(&self) {
        for (worker, handle) in &self.handles {
            if let Some(handle) = handle.upgrade() {
                let command = MasterCommand::Hold { modules: self.policy.held(*worker) };
                handle.command(self.id, &command, vec![]);
            }
        }
    }
}
