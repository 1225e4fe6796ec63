//! What holds a disk to a rate, now or always, and counts what the disk does.
//!
//! All handles to a disk of one name and folder share it, so that a rate can be set while others
//! use the disk, and is that of the disk and not of each file. A limited disk has threads of its
//! own: requests that wait for their turn must not hold up other disks on the same device.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use super::meter::{Meter, Moved, lock};
use super::queue::Queue;

/// What a disk did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskCounts {
    /// The name.
    pub name: String,
    /// Its folder; `None` for what lies on a device without being on a named disk.
    pub folder: Option<PathBuf>,
    /// What came from it, without what the page cache had.
    pub read: Moved,
    /// What went to it.
    pub written: Moved,
}

impl DiskCounts {
    /// What it has done since it, or any disk, was looked at before.
    pub fn since(mut self, before: &[DiskCounts]) -> DiskCounts {
        let same = |other: &&DiskCounts| other.name == self.name && other.folder == self.folder;
        if let Some(before) = before.iter().find(same) {
            self.read = self.read.since(before.read);
            self.written = self.written.since(before.written);
        }
        self
    }
}

/// What every disk of this process has done so far that has done anything, at whatever rate.
pub fn disk_counts() -> Vec<DiskCounts> {
    let mut all: BTreeMap<(String, Option<PathBuf>), [Moved; 2]> = BTreeMap::new();
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

/// What tells disks apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub name: String,
    pub folder: Option<PathBuf>,
    /// The rate it has for good.
    pub rate: Option<u64>,
}

/// What the handles to one disk share.
#[derive(Debug)]
pub(super) struct Limit {
    /// Where requests go while the disk is limited.
    pub(super) queue: Queue,
    pub(super) meter: Arc<Meter>,
    /// The rate it has for good, and the one it is held to now; 0 for none.
    own: u64,
    held: AtomicU64,
}

impl Limit {
    /// That of a disk; made if nobody has it.
    pub(super) fn of(key: Key) -> Arc<Limit> {
        let mut known = registry();
        // Those that nobody uses are forgotten once there are many.
        if known.len() >= KNOWN_MAX {
            known.retain(|_, known| known.limit.strong_count() > 0);
        }
        let found = known.get(&key);
        if let Some(limit) = found.and_then(|known| known.limit.upgrade()) {
            return limit;
        }
        let meter = found.map_or_else(Arc::default, |known| known.meter.clone());
        let queue = Queue::new(&key.name);
        queue.set_rate(key.rate);
        let (own, held) = (key.rate.unwrap_or(0), AtomicU64::new(0));
        let limit = Arc::new(Limit { queue, meter: meter.clone(), own, held });
        known.insert(key, Known { meter, limit: Arc::downgrade(&limit) });
        limit
    }

    /// Bytes per second the disk does at most now.
    pub(super) fn rate(&self) -> Option<u64> {
        [self.own, self.held.load(Relaxed)].into_iter().filter(|rate| *rate > 0).min()
    }

    /// Holds it to this rate from now on, or no longer.
    pub(super) fn hold(&self, bytes_per_second: Option<u64>) {
        self.held.store(bytes_per_second.unwrap_or(0), Relaxed);
        self.queue.set_rate(self.rate());
    }
}

/// The most disks that are remembered after their last use.
const KNOWN_MAX: usize = 1024;

struct Known {
    meter: Arc<Meter>,
    limit: Weak<Limit>,
}

fn registry() -> MutexGuard<'static, HashMap<Key, Known>> {
    static KNOWN: OnceLock<Mutex<HashMap<Key, Known>>> = OnceLock::new();
    lock(KNOWN.get_or_init(Mutex::default))
}
