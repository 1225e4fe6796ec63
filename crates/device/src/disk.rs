//! Disks: named folders, each on a device with a request queue and threads of its own.
//!
//! A reader asks the page cache first, on its own thread; a range that is not cached goes to the
//! device queue, several requests at a time (`queue.rs`). `euphrates_policy::io_path` decides which
//! path a request goes.

mod at_once;
mod behind;
mod file;
mod limit;
mod load;
mod local_file;
mod lost_link;
mod meter;
mod named;
mod owners;
mod queue;
mod reading;

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};

use arrow::buffer::Buffer;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Owner, PerProcess, Result};
pub use euphrates_policy::io_path::Mode;
use euphrates_policy::io_path::{FileFacts, IoPath};

use crate::buffer::pool;
use crate::folder::{DiskFolder, LocalFolder};
use crate::memory_level::memory_available_bytes;
pub use at_once::at_once;
pub use behind::WriteBehind;
pub use file::{DiskFile, ServedFile};
pub use limit::{DiskCounts, disk_counts};
use limit::{DiskIdentity, SharedLimit};
pub use load::{BlockInFlight, Load, LoadReservation, Loads};
pub use lost_link::LostLink;
use lost_link::os_error;
pub use meter::{DiskTransfers, Op};
pub use named::{Disks, HOME, LOCAL, NamedDisk, save_named_disks};
pub use owners::Owners;
use queue::DeviceQueue;
pub use queue::{Completion, DeviceRequest, THREADS_MAX};
pub use reading::PendingRead;
use reading::{bytes, read_request};

/// A named folder on a device with a queue. Clones share it; the queue's threads end when the last
/// disk on it is dropped.
#[derive(Clone, Debug)]
pub struct Disk(Arc<OpenDisk>);

#[derive(Debug)]
struct OpenDisk {
    name: String,
    folder: Arc<dyn DiskFolder>,
    mode: Mode,
    limit: Arc<SharedLimit>,
    /// The queue of the device, which all its disks share.
    queue: Arc<DeviceQueue>,
}

impl Disk {
    /// A disk in a folder, which is created if it is missing. Disks on one device share its queue.
    pub fn new(name: &str, folder: &Path, mode: Mode) -> Result<Disk> {
        let key = DiskIdentity { name: name.into(), folder: Some(folder.into()), rate: None };
        Disk::made(key, folder, mode)
    }

    /// The disk on which a path lies, named after its device.
    pub fn of(path: &Path) -> Result<Disk> {
        let parent = match path.parent() {
            Some(here) if here.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => Path::new("/"),
        };
        let folder = if path.is_dir() { path } else { parent };
        let name = format!("device-{}", device_of(folder)?);
        Disk::made(DiskIdentity { name, folder: None, rate: None }, folder, Mode::Auto)
    }

    /// A disk of this name in any folder, which is made if it is missing.
    pub fn in_folder(name: &str, folder: Arc<dyn DiskFolder>, mode: Mode) -> Result<Disk> {
        let place = Some(folder.place().to_path_buf());
        Disk::over(DiskIdentity { name: name.into(), folder: place, rate: None }, folder, mode)
    }

    /// A folder of another worker that belongs to no home; counted like a device of this process.
    pub fn at_worker(name: &str, folder: Arc<dyn DiskFolder>) -> Result<Disk> {
        Disk::over(DiskIdentity { name: name.into(), folder: None, rate: None }, folder, Mode::Auto)
    }

    fn made(key: DiskIdentity, folder: &Path, mode: Mode) -> Result<Disk> {
        Disk::over(key, Arc::new(LocalFolder::new(folder)), mode)
    }

    fn over(key: DiskIdentity, folder: Arc<dyn DiskFolder>, mode: Mode) -> Result<Disk> {
        let made = folder.make();
        made.map_err(|error| Error::os("make the folder", folder.place(), &error))?;
        let (name, queue) = (key.name.clone(), queue_of(&*folder)?);
        let limit = SharedLimit::of(key);
        Ok(Disk(Arc::new(OpenDisk { name, folder, mode, limit, queue })))
    }

    /// The same folder as a simulated device that does at most this many bytes per second. All its
    /// requests go through one queue, which the process has once for a name, folder and rate.
    pub fn with_rate(&self, bytes_per_second: u64) -> Disk {
        let OpenDisk { name, folder, mode, queue, .. } = &*self.0;
        let rate = Some(bytes_per_second.max(1));
        let limit = SharedLimit::of(DiskIdentity {
            name: name.clone(),
            folder: Some(folder.place().to_path_buf()),
            rate,
        });
        let (name, folder, queue) = (name.clone(), folder.clone(), queue.clone());
        Disk(Arc::new(OpenDisk { name, folder, mode: *mode, limit, queue }))
    }

    /// Limits the disk to this many bytes per second for all its users, or with `None` removes the
    /// limit; the rate given to `with_rate` remains. The limit ends at the latest when the last
    /// handle drops.
    ///
    /// ```
    /// use euphrates_device::disk::{Disk, Mode};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let disk = Disk::new("held", folder.path(), Mode::default())?.with_rate(50_000_000);
    /// disk.limit_rate(Some(10_000_000));
    /// assert_eq!(disk.rate(), Some(10_000_000), "the lower of both");
    /// disk.limit_rate(None);
    /// assert_eq!(disk.rate(), Some(50_000_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limit_rate(&self, bytes_per_second: Option<u64>) {
        self.0.limit.limit_rate(bytes_per_second);
    }

    /// The name in `disks.json`, or `device-` and a number.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The path of the folder in which its files lie. For a disk that a worker serves it is only a
    /// name, for messages.
    pub fn folder(&self) -> &Path {
        self.0.folder.place()
    }

    /// The folder in which its files lie.
    pub fn files(&self) -> &Arc<dyn DiskFolder> {
        &self.0.folder
    }

    /// The limit now in force, in bytes per second.
    pub fn rate(&self) -> Option<u64> {
        self.0.limit.rate()
    }

    /// The configured use of the page cache.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }

    /// Opens an existing file, anywhere on the device; at a worker, in the folder that it serves.
    pub fn open(&self, path: &Path) -> Result<Arc<DiskFile>> {
        if self.0.folder.local().is_none() {
            return self.open_within(path);
        }
        let file = DiskFile::open(path).map_err(|error| Error::os("open", path, &error))?;
        Ok(Arc::new(file))
    }

    /// As `open`, a file of the disk's folder.
    pub fn open_within(&self, path: &Path) -> Result<Arc<DiskFile>> {
        let file = self.0.folder.open(path);
        let file = file.map_err(|error| os_error("open", &self.folder().join(path), &error))?;
        Ok(Arc::new(file))
    }

    /// As `create`, a file of the disk's folder.
    pub fn create_within(&self, path: &Path) -> Result<Arc<DiskFile>> {
        let file = self.0.folder.create(path);
        let file = file.map_err(|error| Error::os("create", self.folder().join(path), &error))?;
        Ok(Arc::new(file))
    }

    /// Creates a file and the folders above it; fails if there is one of this name. Only its user
    /// can open it until [`DiskFile::publish`].
    pub fn create(&self, path: &Path) -> Result<Arc<DiskFile>> {
        if self.0.folder.local().is_none() {
            return self.create_within(path);
        }
        let made = DiskFile::create(path).or_else(|error| {
            let (io::ErrorKind::NotFound, Some(parent)) = (error.kind(), path.parent()) else {
                return Err(error);
            };
            crate::private::make_folders(parent)?;
            DiskFile::create(path)
        });
        Ok(Arc::new(made.map_err(|error| Error::os("create", path, &error))?))
    }

    /// Removes a file, by the path with which it was created.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let is_here = self.0.folder.local().is_some();
        if is_here { std::fs::remove_file(path) } else { self.0.folder.remove_file(path) }
    }

    /// Hands a request to the device queue, which sends its completion to `done` in every case.
    pub fn submit(&self, request: DeviceRequest, done: &Sender<Completion>) {
        let done = done.clone();
        // If no receiver is left, the buffer goes back to its pool.
        self.submit_then(request, move |completion| drop(done.send(completion)));
    }

    /// Hands a request to the device queue, one of whose threads calls `then` with the completion
    /// in every case.
    pub fn submit_then(
        &self,
        request: DeviceRequest,
        then: impl FnOnce(Completion) + Send + 'static,
    ) {
        let limit = &self.0.limit;
        let queue = if limit.rate().is_some() { &limit.queue } else { &*self.0.queue };
        queue.submit(request, Box::new(then), &limit.meter);
    }

    /// The facts from which `euphrates_policy::io_path` chooses the path to a file of this length.
    pub fn facts(&self, file: &DiskFile, file_bytes: u64) -> FileFacts {
        FileFacts {
            file_bytes,
            memory_available_bytes: memory_available_bytes(),
            mode: self.0.mode,
            can_direct: self.0.mode != Mode::Buffered && file.align_bytes().is_some(),
            is_limited: self.rate().is_some(),
        }
    }

    /// Reads this range from the page cache if all of it is cached; never waits for a device.
    pub fn read_cached(&self, file: &DiskFile, offset: u64, len: usize) -> Result<Option<Buffer>> {
        if self.rate().is_some() {
            return Ok(None);
        }
        let mut buffer = pool().take(len)?;
        let all = file.read_cached(offset, &mut buffer);
        Ok(all.then(|| buffer.into_arrow()))
    }

    /// Begins to read a range of a file through the device queue, without waiting.
    ///
    /// ```
    /// use euphrates_device::disk::Disk;
    /// use euphrates_policy::io_path::{IoPath, Mode};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("block");
    /// std::fs::write(&path, "0123456789")?;
    /// let disk = Disk::new("spare", folder.path(), Mode::default())?;
    /// let block = disk.read_at(&disk.open(&path)?, 2, 4, IoPath::Buffered)?.wait()?;
    /// assert_eq!(block.as_slice(), b"2345");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_at(
        &self,
        file: &Arc<DiskFile>,
        offset: u64,
        len: usize,
        path: IoPath,
    ) -> Result<PendingRead> {
        let (request, range) = read_request(file, offset, len, path)?;
        let (done, completion) = channel();
        self.submit(request, &done);
        Ok(PendingRead::new(completion, file.clone(), range))
    }

    /// As `read_at`, but a thread of the device queue calls `then` with the bytes.
    pub fn read_then(
        &self,
        file: &Arc<DiskFile>,
        offset: u64,
        len: usize,
        path: IoPath,
        then: impl FnOnce(Result<Buffer>) + Send + 'static,
    ) {
        match read_request(file, offset, len, path) {
            Ok((request, range)) => {
                let file = file.clone();
                self.submit_then(request, move |completion| then(bytes(completion, &file, range)));
            }
            Err(error) => then(Err(error)),
        }
    }
}

fn write_error(file: &DiskFile, offset: u64, bytes: usize, error: &io::Error) -> Error {
    Error::os(format!("write {bytes} bytes at {offset} of"), file.path(), error)
        .remedy("free space, raise the limit, or point the output and scratch elsewhere")
}

/// The queue of the device on which a folder lies; a process has one for a device, and one for each
/// served disk. A forked child starts its own, because it does not inherit its parent's threads.
fn queue_of(folder: &dyn DiskFolder) -> Result<Arc<DeviceQueue>> {
    type Queues = HashMap<(Owner, String), Weak<DeviceQueue>>;
    static QUEUES: PerProcess<Mutex<Queues>> = PerProcess::new();
    let device = match folder.local() {
        Some(path) => device_of(path)?.to_string(),
        None => folder.place().display().to_string(),
    };
    let key = (Owner::here(), device.clone());
    let mut queues = QUEUES.get(Mutex::default).lock();
    if let Some(queue) = queues.get(&key).and_then(Weak::upgrade) {
        return Ok(queue);
    }
    let queue = Arc::new(DeviceQueue::new(&device));
    queues.insert(key, Arc::downgrade(&queue));
    Ok(queue)
}

fn device_of(folder: &Path) -> Result<u64> {
    let facts = std::fs::metadata(folder).map_err(|error| Error::os("look at", folder, &error))?;
    Ok(facts.dev())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    fn filled(folder: &Path, bytes: usize) -> (PathBuf, Vec<u8>) {
        let content: Vec<u8> = (0..bytes).map(|at| (at * 31 % 251) as u8).collect();
        let path = folder.join("file");
        std::fs::write(&path, &content).unwrap();
        (path, content)
    }

    #[test]
    fn every_read_path_returns_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, content) = filled(folder.path(), 300_001);
        let disk = Disk::new("d", folder.path(), Mode::Direct).unwrap();
        let file = disk.open(&path).unwrap();
        for (offset, len) in [(0, 300_001), (1, 4096), (4095, 8193), (299_000, 1001), (64, 0)] {
            let expected = &content[offset..offset + len];
            for path in [IoPath::Direct, IoPath::Buffered] {
                let read = disk.read_at(&file, offset as u64, len, path).unwrap().wait().unwrap();
                assert_eq!(read.as_slice(), expected, "{path:?} {offset} {len}");
            }
            let cached = disk.read_cached(&file, offset as u64, len).unwrap();
            assert!(cached.is_none_or(|cached| cached.as_slice() == expected));
        }
    }

    #[test]
    fn read_past_the_end_is_corrupt_and_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = filled(folder.path(), 5000);
        let disk = Disk::new("d", folder.path(), Mode::Auto).unwrap();
        let file = disk.open(&path).unwrap();
        for path in [IoPath::Direct, IoPath::Buffered] {
            let error = disk.read_at(&file, 4000, 1001, path).unwrap().wait().unwrap_err();
            assert_eq!(error.kind(), euphrates_flow::Kind::Corrupt);
            assert!(error.to_string().contains("file"), "{error}");
        }
        assert!(disk.read_cached(&file, 4000, 1001).unwrap().is_none());
    }

    #[test]
    fn completions_carry_the_tags_of_their_requests() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new("d", folder.path(), Mode::Auto).unwrap();
        let file = disk.create(&folder.path().join("deep/er/file")).unwrap();
        let (done, completions) = channel();
        for op in [Op::Write, Op::Read] {
            for tag in 0..50u64 {
                let mut buffer = pool().take(1000).unwrap();
                if op == Op::Write {
                    buffer.fill(tag as u8);
                }
                let (file, offset, path) = (file.clone(), tag * 1000, IoPath::Buffered);
                disk.submit(DeviceRequest { op, file, offset, buffer, path, tag }, &done);
            }
            for completion in completions.iter().take(50) {
                assert_eq!(completion.done.unwrap(), 1000);
                assert!(completion.buffer.iter().all(|byte| *byte == completion.tag as u8));
            }
        }
    }

    #[test]
    fn disks_share_the_device_queue_and_handles_share_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let one = Disk::new("one", folder.path(), Mode::Auto).unwrap();
        let two = Disk::of(&folder.path().join("nothing")).unwrap();
        assert!(Arc::ptr_eq(&one.0.queue, &two.0.queue));
        assert!(!Arc::ptr_eq(&one.0.limit, &two.0.limit));
        let again = Disk::new("one", folder.path(), Mode::Direct).unwrap();
        again.limit_rate(Some(7));
        assert_eq!((one.rate(), two.rate(), one.with_rate(9).rate()), (Some(7), None, Some(9)));
        again.limit_rate(None);
        assert_eq!(one.rate(), None);
    }

    #[test]
    fn removing_a_limit_releases_waiting_requests() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = filled(folder.path(), 100_000);
        let disk = Disk::new("held", folder.path(), Mode::Auto).unwrap();
        let file = disk.open(&path).unwrap();
        // At one byte per second, the second of these would take a day.
        disk.limit_rate(Some(1));
        let read = || disk.read_at(&file, 0, 90_000, IoPath::Buffered).unwrap();
        let reads = [read(), read()];
        disk.limit_rate(None);
        reads.into_iter().for_each(|read| assert_eq!(read.wait().unwrap().len(), 90_000));
        // A handle with another rate reads the same disk.
        disk.with_rate(1 << 40).read_at(&file, 0, 1000, IoPath::Buffered).unwrap().wait().unwrap();
        let counts = disk_counts();
        let counts: Vec<_> = counts.iter().filter(|counts| counts.name == "held").collect();
        let [counts] = counts[..] else { panic!("{counts:?}") };
        assert_eq!((counts.read.bytes, counts.written.bytes), (181_000, 0));
        assert!(counts.read.busy > Duration::ZERO);
    }

    #[test]
    fn limited_disk_does_not_exceed_its_rate() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = filled(folder.path(), 100_000);
        let disk = Disk::new("slow", folder.path(), Mode::Auto).unwrap().with_rate(1_000_000);
        let file = disk.open(&path).unwrap();
        let began = Instant::now();
        let reads: Vec<PendingRead> = (0..6)
            .map(|part| disk.read_at(&file, part * 10_000, 10_000, IoPath::Buffered).unwrap())
            .collect();
        reads.into_iter().for_each(|read| assert_eq!(read.wait().unwrap().len(), 10_000));
        assert!(began.elapsed() >= Duration::from_millis(60));
        assert!(disk.read_cached(&file, 0, 10).unwrap().is_none());
    }
}
