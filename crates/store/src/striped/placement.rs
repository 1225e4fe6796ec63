//! The disks of a file that is being written: the segment that each receives, the blocks in flight,
//! and the choice of the disks of a stripe, by `euphrates_policy::striping`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use euphrates_device::buffer::PooledBuffer;
use euphrates_device::disk::{Completion, DeviceRequest, Disk, DiskFile, Op};
use euphrates_device::folder::HeldFolder;
use euphrates_flow::{Error, Result};
use euphrates_policy::block_assignment::Backlog;
use euphrates_policy::io_path::{IoPath, write_path};
use euphrates_policy::striping::{StripeDisk, TooFewDisks, choose_disks};

use super::map::BlockPlace;
use crate::catalog::folders::STAGING;
use crate::collection::{CommitIntent, segments_folder};

/// Blocks begin at multiples of this in their segments, for direct I/O.
const ALIGN_BYTES: u64 = 4096;
/// The name of the only segment that a session writes to a disk.
pub(super) const SEGMENT_FILE: &str = "0.blocks";

/// Whether a disk can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskHealth {
    Good,
    /// It has no space left; what was written to it stays.
    Full,
    /// It has failed; what was written to it is written elsewhere.
    Failed,
}

/// The readers of the segments of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentPurpose<'a> {
    /// The readers of the version that the writer publishes.
    Version,
    /// The readers of the version that a session publishes.
    Share { session: &'a str },
    /// Only the commit of a session. They are written to the page cache and never synced, and
    /// removed when the session ends, mostly before the kernel has written them to the disk.
    Log { session: &'a str },
}

/// A disk of the file, with the same number as in the version that is read.
#[derive(Debug)]
pub(super) struct WritableDisk {
    pub name: String,
    pub worker: u32,
    pub disk: Option<Disk>,
    pub held: Option<Box<dyn HeldFolder>>,
    pub health: DiskHealth,
    /// The error that ended writing.
    pub error: Option<Error>,
    /// The session's segment, and its number.
    pub file: Option<Arc<DiskFile>>,
    pub segment: u32,
    pub bytes: u64,
    backlog: Backlog,
    /// The end of the last block, or the beginning of the oldest in flight.
    since: Instant,
}

/// A block that is to be written.
#[derive(Debug)]
pub(super) struct UnplacedBlock {
    pub stripe: usize,
    pub place: usize,
    pub bytes: PooledBuffer,
    pub crc: u32,
}

/// A block in flight.
#[derive(Debug)]
struct WriteInFlight {
    stripe: usize,
    place: usize,
    disk: usize,
    bytes: u64,
    crc: u32,
}

/// The disks of a session.
#[derive(Debug)]
pub(super) struct WritableDisks {
    pub disks: Vec<WritableDisk>,
    /// Whether blocks go to the page cache, and stay in the staging folders.
    pub is_log: bool,
    in_flight: BTreeMap<u64, WriteInFlight>,
    writes: u64,
    done: Sender<(Instant, Completion)>,
    completions: Receiver<(Instant, Completion)>,
    /// Blocks whose disk has failed or is full.
    pub refused: Vec<UnplacedBlock>,
}

impl WritableDisk {
    /// A disk to which nothing is written, unless it is opened.
    pub fn new(name: &str, worker: u32) -> WritableDisk {
        WritableDisk {
            name: name.to_string(),
            worker,
            disk: None,
            held: None,
            health: DiskHealth::Failed,
            error: None,
            file: None,
            segment: 0,
            bytes: 0,
            backlog: Backlog::default(),
            since: Instant::now(),
        }
    }

    /// Creates the session's segment on the disk, in a staging folder of its own.
    pub fn open(
        &mut self,
        disk: &Disk,
        attempt: &str,
        note: &CommitIntent,
        is_log: bool,
    ) -> Result<()> {
        self.disk = Some(disk.clone());
        let files = disk.files();
        let held = self.held.insert(files.hold(Path::new(STAGING), attempt)?);
        // Before the disk can be full. A log that a loss of power leaves needs no note: its session
        // is lost, too.
        note.write_within(&**files, held.path(), !is_log)?;
        let path = segments_folder(held.path()).join(SEGMENT_FILE);
        self.file = Some(disk.create_within(&path)?);
        self.health = DiskHealth::Good;
        Ok(())
    }

    fn begin(&mut self, bytes: u64) {
        if self.backlog.blocks == 0 {
            self.since = Instant::now();
        }
        self.backlog.blocks += 1;
        self.backlog.bytes += bytes;
    }

    fn end(&mut self, bytes: u64, at: Instant) {
        let took = at.saturating_duration_since(std::mem::replace(&mut self.since, at));
        self.backlog.interval_ns = self.backlog.interval_ns / 2 + took.as_nanos() as u64 / 2;
        self.backlog.blocks -= 1;
        self.backlog.bytes -= bytes;
    }

    pub fn fail(&mut self, health: DiskHealth, error: Error) {
        self.health = health;
        self.error.get_or_insert(error);
    }
}

impl WritableDisks {
    pub fn new(disks: Vec<WritableDisk>, is_log: bool) -> WritableDisks {
        let (done, completions) = channel();
        let (in_flight, refused) = (BTreeMap::new(), vec![]);
        WritableDisks { disks, is_log, in_flight, writes: 0, done, completions, refused }
    }

    /// Chooses `width` disks for the next stripe, as soon as that number has room. Disks in `but`
    /// have other blocks of it.
    pub fn choose(&mut self, stripe: usize, width: usize, but: &[usize]) -> Result<Vec<usize>> {
        loop {
            while let Ok(completion) = self.completions.try_recv() {
                self.on_completed(completion);
            }
            let disk = |(number, disk): (usize, &WritableDisk)| StripeDisk {
                worker: disk.worker,
                backlog: disk.backlog,
                is_usable: disk.health == DiskHealth::Good && !but.contains(&number),
            };
            let disks: Vec<StripeDisk> = self.disks.iter().enumerate().map(disk).collect();
            match choose_disks(&disks, width, stripe as u64) {
                Ok(Some(chosen)) => return Ok(chosen),
                Ok(None) => self.wait_one(),
                Err(TooFewDisks { .. }) => return Err(self.too_few_error(width + but.len())),
            }
        }
    }

    /// Begins to write a block to a disk. Returns its place.
    pub fn write(&mut self, block: UnplacedBlock, number: usize) -> BlockPlace {
        let UnplacedBlock { stripe, place, bytes: buffer, crc } = block;
        let (bytes, tag) = (buffer.len() as u64, self.writes);
        self.writes += 1;
        let disk = &mut self.disks[number];
        let (device, file) = disk.disk.clone().zip(disk.file.clone()).expect("a good disk is open");
        let segment = disk.segment;
        let offset = disk.bytes.next_multiple_of(ALIGN_BYTES);
        disk.bytes = offset + bytes;
        disk.begin(bytes);
        let align = file.align_bytes().filter(|align| bytes.is_multiple_of(*align as u64));
        let path = match self.is_log {
            true => IoPath::Buffered,
            false => write_path(device.mode(), align.is_some(), buffer.len()),
        };
        self.in_flight.insert(tag, WriteInFlight { stripe, place, disk: number, bytes, crc });
        let request = DeviceRequest { op: Op::Write, file, offset, buffer, path, tag };
        let done = self.done.clone();
        device.submit_then(request, move |completion| {
            drop(done.send((Instant::now(), completion)));
        });
        BlockPlace { segment, offset, crc }
    }

    /// Waits for a block in flight.
    pub fn wait_one(&mut self) {
        let completion = self.completions.recv().expect("a sender is kept");
        self.on_completed(completion);
    }

    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    fn on_completed(&mut self, (at, completion): (Instant, Completion)) {
        let Completion { tag, buffer, done } = completion;
        let WriteInFlight { stripe, place, disk, bytes, crc } =
            self.in_flight.remove(&tag).expect("it was in flight");
        let disk = &mut self.disks[disk];
        disk.end(bytes, at);
        let Err(error) = done else { return };
        let health = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                DiskHealth::Full
            }
            _ => DiskHealth::Failed,
        };
        disk.fail(health, Error::os("write to disk", &disk.name, &error));
        self.refused.push(UnplacedBlock { stripe, place, bytes: buffer, crc });
    }

    fn too_few_error(&self, width: usize) -> Error {
        let bad = self.disks.iter().filter_map(|disk| {
            Some(format!("disk {}: {}", disk.name, disk.error.as_ref()?.message()))
        });
        let bad: Vec<String> = bad.collect();
        let good = self.disks.iter().filter(|disk| disk.health == DiskHealth::Good).count();
        let why = if bad.is_empty() { String::new() } else { format!(" ({})", bad.join("; ")) };
        let message =
            format!("a stripe has {width} blocks on as many disks, and {good} can be written{why}");
        Error::resource(message).remedy("free space, or name more disks")
    }
}
