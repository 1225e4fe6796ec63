//! Which place receives a spilled file: facts for `euphrates_policy::spill_placement`.
//!
//! The modules of all runs of a process share disks and links, so their bytes under way and speeds
//! are kept once for each device. A folder that a run can no longer write to is excluded for that
//! run; lent memory, which may be free again soon, is avoided for a moment.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::PerProcess;
use euphrates_flow::sync::{Mutex, MutexGuard};
use euphrates_policy::spill_placement::{SpillFolder, WriteSpeed, backlog, choose_folder};

use super::places::{SpillPlace, device_name};
use crate::disk::{DiskCounts, DiskTransfers, disk_counts};
use crate::folder::DiskFolder;

/// How long the free space that a lender has reported is used without asking again.
const LENT_SPACE_AGE_MAX: Duration = Duration::from_millis(200);
/// How long lent memory is avoided after it has refused a file: others may have filled it.
const REFUSAL_AGE_MAX: Duration = Duration::from_secs(1);

/// A device, as files under way to it are counted: of a file system, or a link to a lender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SpillTarget {
    Device(u64),
    Lender(PathBuf),
}

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
    devices: HashMap<SpillTarget, SpillDevice>,
    /// By run and folder: why the run no longer writes there.
    excluded: BTreeMap<(String, PathBuf), String>,
    /// By run: the memory that others lend it.
    borrowed: BTreeMap<String, Vec<BorrowedMemory>>,
    /// By place: what is known of a lender.
    lenders: HashMap<PathBuf, LenderFacts>,
}

struct BorrowedMemory {
    folder: Arc<dyn DiskFolder>,
    is_used: bool,
}

#[derive(Default)]
struct LenderFacts {
    /// When it was asked last, and its free and all bytes; none if it did not answer.
    asked: Option<(Instant, Option<(u64, u64)>)>,
    refused: Option<Instant>,
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
    target: Option<SpillTarget>,
    bytes: u64,
}

impl Drop for SpillInFlight {
    fn drop(&mut self) {
        let Some(target) = &self.target else { return };
        let written = written(&disk_counts(), target);
        if let Some(device) = shared().devices.get_mut(target) {
            device.end(self.bytes, written);
        }
    }
}

/// The place for a file of about `bytes` bytes, among those that `may` take it.
pub(super) fn choose(
    run_id: &str,
    places: &[SpillPlace],
    bytes: u64,
    may: impl Fn(usize) -> bool,
) -> Option<(usize, SpillInFlight)> {
    // Asked without the lock, because a file system or a lender may take long to answer.
    let facts: Vec<Option<PlaceFacts>> = places.iter().map(facts).collect();
    let counts = disk_counts();
    let mut shared = shared();
    let SharedScratch { devices, excluded, lenders, .. } = &mut *shared;
    let folder = |(place, facts): (&SpillPlace, &Option<PlaceFacts>)| {
        let has_failed = match place {
            SpillPlace::Folder(parent) => {
                excluded.contains_key(&(run_id.to_string(), parent.clone()))
            }
            SpillPlace::Lent(folder) => {
                facts.is_none() || lenders.get(folder.place()).is_some_and(LenderFacts::is_refusing)
            }
        };
        let is_lent = matches!(place, SpillPlace::Lent(_));
        let Some(facts) = facts else {
            return SpillFolder { is_lent, has_failed, ..SpillFolder::default() };
        };
        let device = devices.entry(facts.target.clone()).or_default();
        device.look(written(&counts, &facts.target));
        let interval_ns = device.speed.interval_ns(device.written_at.elapsed().as_nanos() as u64);
        SpillFolder {
            backlog: backlog(device.under_way_bytes, interval_ns),
            assigned_bytes: device.assigned_bytes,
            space: Some((facts.bytes_free, facts.bytes_all)),
            is_lent,
            has_failed,
        }
    };
    let folders: Vec<SpillFolder> = places.iter().zip(&facts).map(folder).collect();
    let at = choose_folder(&folders, bytes, may)?;
    for (other, folder) in folders.iter().enumerate().filter(|(other, _)| *other != at) {
        if let (SpillPlace::Folder(parent), false) = (&places[other], folder.has_space(bytes)) {
            let key = (run_id.to_string(), parent.clone());
            excluded.entry(key).or_insert_with(|| "it is full".to_string());
        }
    }
    let target = facts[at].as_ref().map(|facts| facts.target.clone());
    if let Some(device) = target.as_ref().and_then(|target| devices.get_mut(target)) {
        device.begin(bytes);
    }
    Some((at, SpillInFlight { target, bytes }))
}

impl LenderFacts {
    fn is_refusing(&self) -> bool {
        self.refused.is_some_and(|refused| refused.elapsed() < REFUSAL_AGE_MAX)
    }
}

/// What a device has written past the page cache, or a link has carried.
fn written(counts: &[DiskCounts], target: &SpillTarget) -> DiskTransfers {
    let name = match target {
        SpillTarget::Device(device) => format!("device-{device}"),
        SpillTarget::Lender(place) => device_name(place),
    };
    let found = counts.iter().find(|disk| disk.folder.is_none() && disk.name == name);
    found.map(|disk| disk.written).unwrap_or_default()
}

/// The device of a place, and its space in bytes.
struct PlaceFacts {
    target: SpillTarget,
    bytes_free: u64,
    bytes_all: u64,
}

/// Facts about a place; `None` if there are none, or if a lender does not answer.
fn facts(place: &SpillPlace) -> Option<PlaceFacts> {
    match place {
        SpillPlace::Folder(parent) => folder_facts(parent),
        SpillPlace::Lent(folder) => {
            let (bytes_free, bytes_all) = lent_space(&**folder)?;
            let target = SpillTarget::Lender(folder.place().to_path_buf());
            Some(PlaceFacts { target, bytes_free, bytes_all })
        }
    }
}

/// Free and all bytes of lent memory, as its lender has lately said.
fn lent_space(folder: &dyn DiskFolder) -> Option<(u64, u64)> {
    let known = shared().lenders.get(folder.place()).and_then(|lender| lender.asked);
    if let Some((_, space)) = known.filter(|(asked, _)| asked.elapsed() < LENT_SPACE_AGE_MAX) {
        return space;
    }
    let space = folder.facts().ok().map(|facts| (facts.bytes_free, facts.bytes_all));
    let place = folder.place().to_path_buf();
    shared().lenders.entry(place).or_default().asked = Some((Instant::now(), space));
    space
}

/// Facts about a folder, or about the nearest one above it that exists.
fn folder_facts(parent: &Path) -> Option<PlaceFacts> {
    parent.ancestors().find_map(|folder| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (facts, space) = (folder.metadata().ok()?, rustix::fs::statvfs(folder).ok()?);
        Some(PlaceFacts {
            target: SpillTarget::Device(facts.dev()),
            bytes_free: space.f_bavail.saturating_mul(space.f_frsize),
            bytes_all: space.f_blocks.saturating_mul(space.f_frsize),
        })
    })
}

/// A place has refused a file. A folder is excluded from the run, for this reason, as long as there
/// are others; lent memory is avoided for a moment.
pub(super) fn on_refused(run_id: &str, place: &SpillPlace, why: &str) {
    let mut shared = shared();
    let path = place.path().to_path_buf();
    match place {
        SpillPlace::Folder(_) => {
            let key = (run_id.to_string(), path);
            shared.excluded.entry(key).or_insert_with(|| why.to_string());
        }
        SpillPlace::Lent(_) => {
            shared.lenders.entry(path).or_default().refused = Some(Instant::now());
        }
    }
}

/// Sets the memory that a run may borrow.
pub(super) fn borrow(run_id: &str, lent: Vec<Arc<dyn DiskFolder>>) {
    let lent = lent.into_iter().map(|folder| BorrowedMemory { folder, is_used: false });
    shared().borrowed.insert(run_id.to_string(), lent.collect());
}

/// The memory that a run may borrow.
pub(super) fn borrowed(run_id: &str) -> Vec<Arc<dyn DiskFolder>> {
    let shared = shared();
    let lent = shared.borrowed.get(run_id).into_iter().flatten();
    lent.map(|lent| lent.folder.clone()).collect()
}

/// The run has a folder in this place.
pub(super) fn on_held(run_id: &str, place: &SpillPlace) {
    let mut shared = shared();
    let lent = shared.borrowed.get_mut(run_id).into_iter().flatten();
    lent.filter(|lent| lent.folder.place() == place.path()).for_each(|lent| lent.is_used = true);
}

/// Ends the borrowing of a run; returns the memory in which it may have left folders.
pub(super) fn give_back(run_id: &str) -> Vec<Arc<dyn DiskFolder>> {
    let lent = shared().borrowed.remove(run_id).into_iter().flatten();
    lent.filter(|lent| lent.is_used).map(|lent| lent.folder).collect()
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
