//! Which scratch folder receives a file: facts for `euphrates_policy::spill_placement`.
//!
//! The modules of all runs of a process share disks, so their bytes under way and speeds are kept
//! once for each device. A folder that a run can no longer write to is excluded for that run.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use euphrates_flow::PerProcess;
use euphrates_flow::sync::{Mutex, MutexGuard};
use euphrates_policy::spill_placement::{SpillFolder, WriteSpeed, backlog, choose_folder};

use crate::disk::{DiskCounts, DiskTransfers, disk_counts};

/// The state of a device that holds scratch folders.
struct SpillDevice {
    /// Files that are being written.
    files: usize,
    /// Bytes of these files that the device has not written yet, as far as it is known.
    under_way_bytes: u64,
    assigned_bytes: u64,
    speed: WriteSpeed,
    seen: DiskTransfers,
    /// When it last wrote something.
    written_at: Instant,
    /// When the last file ended, or the oldest one that is being written began.
    since: Instant,
    /// Bytes that the device had written then, past the page cache.
    counted_bytes: u64,
}

impl Default for SpillDevice {
    fn default() -> SpillDevice {
        SpillDevice {
            files: 0,
            under_way_bytes: 0,
            assigned_bytes: 0,
            speed: WriteSpeed::default(),
            seen: DiskTransfers::default(),
            written_at: Instant::now(),
            since: Instant::now(),
            counted_bytes: 0,
        }
    }
}

/// What the scratch of a process shares.
#[derive(Default)]
struct SharedScratch {
    devices: HashMap<u64, SpillDevice>,
    /// By run and folder: why the run no longer writes there.
    excluded: BTreeMap<(String, PathBuf), String>,
}

fn shared() -> MutexGuard<'static, SharedScratch> {
    static SHARED: PerProcess<Mutex<SharedScratch>> = PerProcess::new();
    SHARED.get(Mutex::default).lock()
}

impl SpillDevice {
    /// Updates the speed and what is under way by the counters of the device.
    fn look(&mut self, written: DiskTransfers) {
        let more = written.since(self.seen);
        self.seen = written;
        if more.bytes > 0 {
            let [busy_ns, idle_ns] =
                [more.busy, self.written_at.elapsed()].map(|time| time.as_nanos() as u64);
            self.speed.on_written(more.bytes, busy_ns, idle_ns);
            self.under_way_bytes = self.under_way_bytes.saturating_sub(more.bytes);
            self.written_at = Instant::now();
        }
    }

    fn begin(&mut self, bytes: u64) {
        if self.files == 0 {
            (self.since, self.counted_bytes) = (Instant::now(), self.seen.bytes);
        }
        self.files += 1;
        self.under_way_bytes += bytes;
        self.assigned_bytes += bytes;
    }

    /// A file has ended. If it went through the page cache, which no counter of the device shows,
    /// the speed is that of its writer: the cache takes no more than the device writes in the end.
    fn end(&mut self, bytes: u64, written: DiskTransfers) {
        self.look(written);
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.since, now);
        if std::mem::replace(&mut self.counted_bytes, self.seen.bytes) == self.seen.bytes {
            let [busy_ns, idle_ns] =
                [took, self.written_at.elapsed()].map(|time| time.as_nanos() as u64);
            self.speed.on_written(bytes, busy_ns, idle_ns.saturating_sub(busy_ns));
            self.written_at = now;
            self.under_way_bytes = self.under_way_bytes.saturating_sub(bytes);
        }
        self.files -= 1;
        if self.files == 0 {
            self.under_way_bytes = 0;
        }
    }
}

/// A file that is being written to a scratch folder, until this is dropped.
pub(super) struct SpillInFlight {
    device: Option<u64>,
    bytes: u64,
}

impl Drop for SpillInFlight {
    fn drop(&mut self) {
        let Some(device) = self.device else { return };
        let written = written(&disk_counts(), device);
        if let Some(device) = shared().devices.get_mut(&device) {
            device.end(self.bytes, written);
        }
    }
}

/// The folder for a file of about `bytes` bytes, among those that `may` take it.
pub(super) fn choose(
    run_id: &str,
    parents: &[&Path],
    bytes: u64,
    may: impl Fn(usize) -> bool,
) -> Option<(usize, SpillInFlight)> {
    // Asked without the lock, because a file system may take long to answer.
    let facts: Vec<Option<FileSystemFacts>> = parents.iter().map(|parent| facts(parent)).collect();
    let counts = disk_counts();
    let mut shared = shared();
    let SharedScratch { devices, excluded } = &mut *shared;
    let folder = |(parent, facts): (&&Path, &Option<FileSystemFacts>)| {
        let has_failed = excluded.contains_key(&(run_id.to_string(), parent.to_path_buf()));
        let Some(facts) = facts else {
            return SpillFolder { has_failed, ..SpillFolder::default() };
        };
        let device = devices.entry(facts.device).or_default();
        device.look(written(&counts, facts.device));
        let interval_ns = device.speed.interval_ns(device.written_at.elapsed().as_nanos() as u64);
        SpillFolder {
            backlog: backlog(device.under_way_bytes, interval_ns),
            assigned_bytes: device.assigned_bytes,
            space: Some((facts.bytes_free, facts.bytes_all)),
            has_failed,
        }
    };
    let folders: Vec<SpillFolder> = parents.iter().zip(&facts).map(folder).collect();
    let at = choose_folder(&folders, bytes, may)?;
    for (other, folder) in folders.iter().enumerate().filter(|(other, _)| *other != at) {
        if !folder.has_space(bytes) {
            let key = (run_id.to_string(), parents[other].to_path_buf());
            excluded.entry(key).or_insert_with(|| "it is full".to_string());
        }
    }
    let device = facts[at].as_ref().map(|facts| facts.device);
    if let Some(device) = device.and_then(|device| devices.get_mut(&device)) {
        device.begin(bytes);
    }
    Some((at, SpillInFlight { device, bytes }))
}

/// What a device has written past the page cache.
fn written(counts: &[DiskCounts], device: u64) -> DiskTransfers {
    let name = format!("device-{device}");
    let found = counts.iter().find(|disk| disk.folder.is_none() && disk.name == name);
    found.map(|disk| disk.written).unwrap_or_default()
}

/// The device of a folder's file system, and its space in bytes.
struct FileSystemFacts {
    device: u64,
    bytes_free: u64,
    bytes_all: u64,
}

/// Facts about a folder, or about the nearest one above it that exists.
fn facts(parent: &Path) -> Option<FileSystemFacts> {
    parent.ancestors().find_map(|folder| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (facts, space) = (folder.metadata().ok()?, rustix::fs::statvfs(folder).ok()?);
        Some(FileSystemFacts {
            device: facts.dev(),
            bytes_free: space.f_bavail.saturating_mul(space.f_frsize),
            bytes_all: space.f_blocks.saturating_mul(space.f_frsize),
        })
    })
}

/// Excludes a folder from the run, for this reason, as long as there are others.
pub(super) fn exclude(run_id: &str, parent: &Path, why: &str) {
    let key = (run_id.to_string(), parent.to_path_buf());
    shared().excluded.entry(key).or_insert_with(|| why.to_string());
}

/// For the report: the folders that were excluded from a run, and why. They are forgotten.
///
/// ```
/// assert!(euphrates_device::scratch::take_excluded("run").is_empty());
/// ```
pub fn take_excluded(run_id: &str) -> Vec<String> {
    let mut shared = shared();
    let all = std::mem::take(&mut shared.excluded);
    let (of_run, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|((run, _), _)| run == run_id);
    shared.excluded = others.into_iter().collect();
    let text = |((_, folder), why): ((String, PathBuf), String)| {
        format!("scratch folder {} was left out: {why}", folder.display())
    };
    of_run.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn speed_is_that_of_the_device_or_else_of_the_writer() {
        let mut device = SpillDevice::default();
        device.begin(8 << 20);
        device.since -= Duration::from_secs(1);
        device.end(8 << 20, DiskTransfers::default());
        let through_cache = device.speed.interval_ns(0);
        assert!((120_000_000..200_000_000).contains(&through_cache), "{through_cache}");
        assert_eq!((device.files, device.under_way_bytes), (0, 0));

        let mut device = SpillDevice::default();
        device.begin(8 << 20);
        device.since -= Duration::from_secs(1);
        let written = DiskTransfers { bytes: 8 << 20, busy: Duration::from_millis(80) };
        device.end(8 << 20, written);
        assert_eq!(device.speed.interval_ns(0), 10_000_000, "its counters know better");
    }
}
