//! The end of the log: chunks go to the disks with the shortest queues.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;

use euphrates_flow::{Error, Result};
use parking_lot::{Condvar, Mutex};

use super::appender::DiskAppender;
use super::root::CheckpointPlace;
use super::segments::{VolumeDisks, create};
use crate::log::{BLOCK_ALIGN, BlockHeader, ChunkCode, ChunkPlace};

/// Payloads in memory that are not written yet.
const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;
/// The offset in a segment's file behind which another segment begins.
const SEGMENT_BYTES_MAX: u64 = 16 << 20;

/// The bit of an epoch that blocks of checkpoints have: they are not of the log.
const CHECKPOINT: u64 = 1 << 63;

/// Writes chunks.
#[derive(Debug)]
pub struct LogWriter {
    code: ChunkCode,
    volume: u64,
    epoch: u64,
    parity: usize,
    names: Vec<String>,
    appenders: Vec<Option<DiskAppender>>,
    /// All chunks before this one are durable.
    durable: AtomicU64,
    flights: Arc<Flights>,
    end: Mutex<SegmentEnd>,
}

/// The segment that is being written.
#[derive(Debug)]
struct SegmentEnd {
    segment: u64,
    /// The end of its file on each disk.
    offsets: Vec<u64>,
    /// The next number of a segment.
    next: u64,
}

#[derive(Debug, Default)]
struct Flights {
    payloads: Mutex<HashMap<u64, Arc<Vec<u8>>>>,
    has_landed: Condvar,
}

/// Drops when one block of a chunk is written; the last lands the chunk.
struct ChunkLanding {
    chunk: u64,
    flights: Arc<Flights>,
}

impl Drop for ChunkLanding {
    fn drop(&mut self) {
        self.flights.payloads.lock().remove(&self.chunk);
        self.flights.has_landed.notify_all();
    }
}

impl LogWriter {
    /// Writes from a segment on; `next` is the first chunk.
    pub fn start(
        disks: &VolumeDisks,
        (data, parity): (usize, usize),
        (volume, epoch): (u64, u64),
        segment: u64,
        next: u64,
    ) -> Result<LogWriter> {
        let code = ChunkCode::new(data, parity);
        let code = code.ok_or_else(|| Error::usage(format!("no layout {data} + {parity}")))?;
        let mut appenders = vec![];
        for (number, disk) in (0..).zip(&disks.0) {
            let start = || DiskAppender::start(disks, number);
            appenders.push(disk.folder.as_ref().map(|_| start()).transpose()?);
        }
        let names: Vec<String> = disks.0.iter().map(|disk| disk.name.clone()).collect();
        let there = appenders.iter().flatten().count();
        if there < data + parity {
            let lost = disks.missing().join(", ");
            let needed = data + parity;
            let error =
                format!("a chunk needs {needed} disks, and {there} are there; missing: {lost}");
            return Err(Error::resource(error).remedy(
                "mount the missing disks; for a new one in place of a lost one, make the \
                 volume's folder below `@volumes` on it; or mount the volume with --read-only",
            ));
        }
        let end = SegmentEnd { segment, offsets: vec![0; names.len()], next: segment + 1 };
        let (durable, flights, end) = (AtomicU64::new(next), Arc::default(), Mutex::new(end));
        Ok(LogWriter { code, volume, epoch, parity, names, appenders, durable, flights, end })
    }

    /// Fails if more disks have failed than parity replaces, or too few are left for a chunk.
    pub fn check(&self) -> Result<()> {
        let failures: Vec<Error> = self.failures().collect();
        let good = self.appenders.iter().flatten().count() - failures.len();
        let (data, parity) = self.code.shape(usize::MAX);
        match failures.into_iter().next() {
            Some(error) if good < data + parity => {
                Err(error.better_remedy("free space on the disk or replace it, then mount again"))
            }
            _ => Ok(()),
        }
    }

    fn failures(&self) -> impl Iterator<Item = Error> {
        let named = self.names.iter().zip(&self.appenders);
        named.filter_map(|(name, disk)| Some(disk.as_ref()?.failure()?.at(format!("disk {name}"))))
    }

    /// Begins another segment, and returns its number.
    pub fn roll(&self) -> u64 {
        let mut end = self.end.lock();
        end.roll();
        end.segment
    }

    /// Writes bytes as chunks of a segment of their own, durably.
    pub fn write_apart(
        &self,
        disks: &VolumeDisks,
        bytes: &[u8],
        chunk_bytes: usize,
    ) -> Result<CheckpointPlace> {
        let segment = {
            let mut end = self.end.lock();
            end.next += 1;
            end.next - 1
        };
        let mut good: Vec<usize> = (0..self.appenders.len()).collect();
        good.retain(|disk| self.is_good(*disk));
        let epoch = self.epoch | CHECKPOINT;
        let mut files: Vec<Vec<u8>> = vec![vec![]; good.len()];
        for (chunk, payload) in (0..).zip(bytes.chunks(chunk_bytes)) {
            let header =
                BlockHeader { volume: self.volume, epoch, chunk, ..BlockHeader::default() };
            for (at, block) in self.code.blocks(payload, header).into_iter().enumerate() {
                let file = &mut files[(at + chunk as usize) % good.len()];
                file.extend(block);
                file.resize(file.len().next_multiple_of(BLOCK_ALIGN as usize), 0);
            }
        }
        let mut failed = vec![];
        for (disk, bytes) in good.into_iter().zip(files).filter(|(_, bytes)| !bytes.is_empty()) {
            let path = disks.path(disk as u32, segment).unwrap_or_default();
            let file = create(&path);
            let done = file.and_then(|file| {
                file.write_all_at(&bytes, 0)?;
                file.sync_data()
            });
            failed.extend(done.err().map(|error| Error::os("write", &path, &error)));
        }
        let chunks = bytes.chunks(chunk_bytes).count() as u64;
        match failed.pop().filter(|_| failed.len() + 1 > self.parity) {
            Some(error) => {
                Err(error.better_remedy("free space on the disk or replace it, then mount again"))
            }
            None => Ok(CheckpointPlace { segment, chunks, epoch }),
        }
    }

    /// Writes a chunk, later. Chunks must come in their order.
    pub fn append(&self, chunk: u64, payload: Vec<u8>) -> Result<ChunkPlace> {
        self.check()?;
        let mut end = self.end.lock();
        if end.offsets.iter().any(|offset| *offset >= SEGMENT_BYTES_MAX) {
            end.roll();
        }
        let header = BlockHeader {
            volume: self.volume,
            epoch: self.epoch,
            chunk,
            durable: self.durable.load(Relaxed),
            ..BlockHeader::default()
        };
        let blocks = self.code.blocks(&payload, header);
        let (data, _) = self.code.shape(payload.len());
        let mut disks: Vec<usize> = (0..self.appenders.len()).collect();
        disks.retain(|disk| self.is_good(*disk));
        let queued =
            |disk: &usize| self.appenders[*disk].as_ref().map_or(0, DiskAppender::queued_bytes);
        let count = self.appenders.len();
        disks.sort_by_cached_key(|disk| (queued(disk), (disk + chunk as usize) % count));
        disks.truncate(blocks.len());
        if disks.len() < blocks.len() {
            return Err(Error::resource("too few disks can be written"));
        }
        let payload_bytes = payload.len() as u32;
        self.wait_for_room(payload.len());
        self.flights.payloads.lock().insert(chunk, Arc::new(payload));
        let landing = Arc::new(ChunkLanding { chunk, flights: self.flights.clone() });
        let mut places = vec![];
        for (disk, bytes) in disks.into_iter().zip(blocks) {
            let offset = end.offsets[disk];
            end.offsets[disk] = (offset + bytes.len() as u64).next_multiple_of(BLOCK_ALIGN);
            places.push((disk as u32, offset));
            let appender = self.appenders[disk].as_ref().expect("a good disk has one");
            appender.append(end.segment, offset, bytes, Box::new(landing.clone()));
        }
        Ok(ChunkPlace { segment: end.segment, payload_bytes, data: data as u8, blocks: places })
    }

    /// Whether a disk is there, and has not failed.
    pub fn is_good(&self, disk: usize) -> bool {
        self.appenders
            .get(disk)
            .and_then(Option::as_ref)
            .is_some_and(|disk| disk.failure().is_none())
    }

    /// Waits until the payloads in memory leave room for another.
    fn wait_for_room(&self, bytes: usize) {
        let mut payloads = self.flights.payloads.lock();
        let held = |payloads: &HashMap<u64, Arc<Vec<u8>>>| {
            payloads.values().map(|one| one.len()).sum::<usize>()
        };
        while !payloads.is_empty() && held(&payloads) + bytes > IN_FLIGHT_BYTES_MAX {
            self.flights.has_landed.wait(&mut payloads);
        }
    }

    /// The payload of a chunk that may not be on disks yet.
    pub fn in_flight(&self, chunk: u64) -> Option<Arc<Vec<u8>>> {
        self.flights.payloads.lock().get(&chunk).cloned()
    }

    /// Waits until all chunks before this one, which were appended, are durable.
    pub fn sync(&self, next: u64) -> Result<()> {
        if self.durable.load(Relaxed) < next {
            let (done, syncs) = channel();
            self.appenders.iter().flatten().for_each(|disk| disk.sync(done.clone()));
            drop(done);
            syncs.iter().for_each(drop);
            let mut failures = self.failures();
            if failures.by_ref().count() > self.parity {
                let error = self.failures().next().expect("there are some");
                return Err(error.remedy("replace the disk, then mount again"));
            }
            self.durable.fetch_max(next, Relaxed);
        }
        Ok(())
    }
}

impl SegmentEnd {
    fn roll(&mut self) {
        self.segment = self.next;
        self.next += 1;
        self.offsets.fill(0);
    }
}
