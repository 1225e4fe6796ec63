//! How much is on its way to each of several disks: facts for `euphrates_policy::dealing`.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// What is on its way to the disks of one collection.
#[derive(Debug)]
pub struct Loads {
    bytes: Mutex<Vec<u64>>,
    less: Condvar,
}

/// The share of one disk.
#[derive(Clone, Debug)]
pub struct Load {
    loads: Arc<Loads>,
    disk: usize,
}

impl Loads {
    /// Nothing is on its way to this many disks.
    pub fn new(disks: usize) -> Arc<Loads> {
        Arc::new(Loads { bytes: Mutex::new(vec![0; disks]), less: Condvar::new() })
    }

    /// The share of a disk.
    pub fn of(self: &Arc<Self>, disk: usize) -> Load {
        Load { loads: self.clone(), disk }
    }

    /// Asks `choose`, which is told the bytes on their way to each disk, until it has an answer:
    /// again when they have become less, or when the time is up.
    pub fn choose<T>(&self, patience: Duration, choose: impl Fn(&[u64]) -> Option<T>) -> Option<T> {
        let bytes = self.lock();
        if let Some(chosen) = choose(&bytes) {
            return Some(chosen);
        }
        let woken = self.less.wait_timeout(bytes, patience);
        let bytes = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        choose(&bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.bytes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Load {
    pub(super) fn add(&self, bytes: u64) {
        self.loads.lock()[self.disk] += bytes;
    }

    pub(super) fn subtract(&self, bytes: u64) {
        self.loads.lock()[self.disk] -= bytes;
        self.loads.less.notify_all();
    }
}
