//! The state that all parts of flows on one worker share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::Registry;
use euphrates_wire::{Address, Secret, Security};
use parking_lot::{Condvar, Mutex};

use crate::run::placement::WorkerProperties;

/// The settings of a worker.
pub struct WorkerSettings {
    /// Its name and other properties.
    pub member: WorkerProperties,
    /// The address at which it listens.
    pub listen: Address,
    /// The token that masters must have.
    pub secret: Secret,
    /// The security of connections between machines.
    pub security: Security,
    /// The limit on silence of any process, if not the default.
    pub lost_after: Option<Duration>,
    /// Folders for spilled data.
    pub scratch: Vec<PathBuf>,
}

/// Shared by all parts of a worker.
pub(super) struct WorkerContext {
    pub registry: Registry,
    pub setting: WorkerSettings,
    /// Counts parts whose threads have not ended.
    pub busy: Arc<Busy>,
}

/// Counts the running threads of parts.
#[derive(Default)]
pub(super) struct Busy {
    count: Mutex<usize>,
    changed: Condvar,
}

/// A running thread, until dropped.
pub(super) struct AtWork(Arc<Busy>);

impl Busy {
    pub fn begin(self: &Arc<Busy>) -> AtWork {
        *self.count.lock() += 1;
        AtWork(self.clone())
    }

    pub fn is_any(&self) -> bool {
        *self.count.lock() > 0
    }

    pub fn wait(&self, time: Duration) {
        self.changed.wait_while_for(&mut self.count.lock(), |count| *count > 0, time);
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.changed.notify_all();
    }
}
