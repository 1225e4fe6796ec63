//! Rate limits of disks, fixed or temporary, and counters of their transfers.
//!
//! All handles to a disk of one name and folder share one limit, so that a rate can change while
//! others use the disk, and applies to the disk and not to each file. A limited disk has threads of
//! its own: requests that wait for their turn must not delay other disks on the same device.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use euphrates_flow::PerProcess;
use euphrates_flow::sync::{Mutex, MutexGuard};

use super::meter::{DiskMeter, DiskTransfers};
use super::queue::DeviceQueue;

/// Bytes that a disk has transferred, and its busy time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskCounts {
    /// The disk's name in `disks.json`, or `device-` and a number.
    pub name: String,
    /// Its folder; `None` for files on a device that belong to no named disk.
    pub folder: Option<PathBuf>,
    /// Reads of the device; reads that the page cache served are not counted.
    pub read: DiskTransfers,
    /// Writes to the device.
    pub written: DiskTransfers,
}

impl DiskCounts {
    /// The difference to an earlier reading, which may lack this disk.
    pub fn since(mut self, before: &[DiskCounts]) -> DiskCounts {
        let same = |other: &&DiskCounts| other.name == self.name && other.folder == self.folder;
        if let Some(before) = before.iter().find(same) {
            self.read = self.read.since(before.read);
            self.written = self.written.since(before.written);
        }
        self
    }
}

/// The counters of every disk of this process that has transferred anything, summed over its rates.
pub fn disk_counts() -> Vec<DiskCounts> {
    let mut all: BTreeMap<(String, Option<PathBuf>), [DiskTransfers; 2]> = BTreeMap::new();
    for (key, known) in registry().iter() {
        let sum = all.entry((key.name.clone(), key.folder.clone())).or_default();
        for (sum, more) in sum.iter_mut().zip(known.meter.read()) {
            sum.bytes += more.bytes;
            sum.busy += more.busy;
        }
    }
    all.into_iter()
        .filter(|(_, [read, written])| read.bytes + written.bytes > 0)
        .map(|((name, folder), [read, written])| DiskCounts { name, folder, read, written })
        .collect()
}

/// What identifies a disk in the registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DiskIdentity {
    pub name: String,
    pub folder: Option<PathBuf>,
    /// The fixed rate of `Disk::with_rate`, in bytes per second.
    pub rate: Option<u64>,
}

/// The state that the handles to one disk share.
#[derive(Debug)]
pub(super) struct SharedLimit {
    /// The queue of the requests while the disk is limited.
    pub(super) queue: DeviceQueue,
    pub(super) meter: Arc<DiskMeter>,
    /// The fixed rate (`own`) and the temporary one (`held`), in bytes per second; 0 for none.
    own: u64,
    held: AtomicU64,
}

impl SharedLimit {
    /// The limit of a disk, created if no handle has it.
    pub(super) fn of(key: DiskIdentity) -> Arc<SharedLimit> {
        let mut known = registry();
        // Entries without handles are removed once there are many.
        if known.len() >= KNOWN_MAX {
            known.retain(|_, known| known.limit.strong_count() > 0);
        }
        let found = known.get(&key);
        if let Some(limit) = found.and_then(|known| known.limit.upgrade()) {
            return limit;
        }
        let meter = found.map_or_else(Arc::default, |known| known.meter.clone());
        let queue = DeviceQueue::new(&key.name);
        queue.set_rate(key.rate);
        let (own, held) = (key.rate.unwrap_or(0), AtomicU64::new(0));
        let limit = Arc::new(SharedLimit { queue, meter: meter.clone(), own, held });
        known.insert(key, RegisteredLimit { meter, limit: Arc::downgrade(&limit) });
        limit
    }

    /// The lower of the two rates, in bytes per second; `None` if neither is set.
    pub(super) fn rate(&self) -> Option<u64> {
        [self.own, self.held.load(Relaxed)].into_iter().filter(|rate| *rate > 0).min()
    }

    /// Sets the temporary rate in bytes per second, or removes it.
    pub(super) fn limit_rate(&self, bytes_per_second: Option<u64>) {
        self.held.store(bytes_per_second.unwrap_or(0), Relaxed);
        self.queue.set_rate(self.rate());
    }
}

/// The most disks that the registry holds before it drops unused ones.
const KNOWN_MAX: usize = 1024;

struct RegisteredLimit {
    meter: Arc<DiskMeter>,
    limit: Weak<SharedLimit>,
}

fn registry() -> MutexGuard<'static, HashMap<DiskIdentity, RegisteredLimit>> {
    static KNOWN: PerProcess<Mutex<HashMap<DiskIdentity, RegisteredLimit>>> = PerProcess::new();
    KNOWN.get(Mutex::default).lock()
}
