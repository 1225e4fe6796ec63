//! The handle of an open volume.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use euphrates_flow::Result;
use parking_lot::Mutex;

use super::core::Core;
use super::maintenance::{Threads, renew_lease};

/// A volume, open for reading its last checkpoint or for writing its log.
pub struct Volume {
    pub(super) core: Arc<Core>,
    /// Heartbeats, checkpoints and cleaning; `None` if it is read only.
    pub(super) threads: Mutex<Option<Threads>>,
}

impl Volume {
    /// Makes a checkpoint, so that readers see what was written, and frees the space of segments.
    pub fn checkpoint(&self) -> Result<()> {
        self.core.checkpoint(true).and_then(|()| self.core.clean())
    }

    /// Makes all operations durable, and gives up the lease.
    pub fn close(&self) -> Result<()> {
        drop(self.threads.lock().take());
        renew_lease(&self.core);
        let end = self.core.writer.as_ref();
        match end.filter(|end| !end.has_ended.load(Relaxed)) {
            Some(_) => self.core.checkpoint(false),
            None => Ok(()),
        }
    }
}
