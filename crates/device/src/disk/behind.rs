//! Write-behind past the page cache: a few direct writes in flight, whose errors surface at the
//! next write or at the end.
//!
//! Sort output is rarely read again at once, must be durable before it is visible, and would take
//! as many fresh cache pages as it has bytes. A direct write costs one copy into a recycled slab,
//! leaves nothing for the final sync to do, and lets the writer go on while the device works. A
//! direct request must begin and end at multiples of the device's block, and not every append does:
//! the rest of a block waits for the append that continues there. Where none does, the ragged ends
//! go through the cache. No page is written both ways.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use arrow::buffer::Buffer;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result};
use euphrates_policy::io_path::{IoPath, write_path};

use super::meter::Op;
use super::queue::{Completion, DeviceRequest, THREADS_MAX};
use super::{BlockInFlight, Disk, DiskFile, Load, write_error};
use crate::buffer::{PooledBuffer, pool};

/// Bytes of one request: with as many in flight as a device takes at once, enough to keep it busy.
const REQUEST_BYTES: usize = 1 << 20;

/// Files of fewer bytes are extended by their writes.
const ALLOCATED_FROM_BYTES: u64 = 4 << 20;
/// The most bytes allocated ahead. An allocation waits for the writes in flight.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// The writes of one file that are in flight.
///
/// ```
/// use arrow::buffer::Buffer;
/// use euphrates_device::disk::{Disk, Mode, WriteBehind};
///
/// let folder = tempfile::tempdir()?;
/// let disk = Disk::new("behind", folder.path(), Mode::default())?;
/// let path = folder.path().join("segment");
/// let behind = WriteBehind::new(&disk, &disk.create(&path)?, None);
/// behind.write(0, &[Buffer::from(b"one "), Buffer::from(b"two")])?;
/// behind.wait()?;
/// assert_eq!(std::fs::read(&path)?, b"one two");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WriteBehind {
    disk: Disk,
    file: Arc<DiskFile>,
    load: Option<Load>,
    done: Sender<Completion>,
    writes: Mutex<InFlightWrites>,
}

#[derive(Debug)]
struct InFlightWrites {
    completions: Receiver<Completion>,
    requests: usize,
    failed: bool,
    edge: Option<UnfinishedBlock>,
    space: AllocatedSpace,
}

/// The blocks of a file that were allocated ahead of its writes.
#[derive(Debug, Default)]
struct AllocatedSpace {
    /// Where the last write ends.
    written: u64,
    /// Where the allocated blocks end, if there are some ahead.
    allocated: u64,
    /// The file system cannot allocate ahead, or has no space left.
    is_refused: bool,
}

impl AllocatedSpace {
    /// Allocates blocks for a direct write that ends at `end`, and for as many bytes behind it as
    /// are written by then: files that are being written take less than twice their bytes.
    fn grow(&mut self, file: &DiskFile, end: u64) {
        if end <= self.allocated || end < ALLOCATED_FROM_BYTES || self.is_refused {
            return;
        }
        let ahead = end.min(AHEAD_BYTES_MAX);
        match file.allocate(self.allocated..end + ahead) {
            Ok(()) => self.allocated = end + ahead,
            Err(error) => {
                self.is_refused = true;
                if error.kind() == io::ErrorKind::StorageFull {
                    // Some blocks may have been allocated.
                    let _ = file.set_bytes(self.written);
                }
            }
        }
    }

    /// Gives back what no write has filled.
    fn trim(&mut self, file: &DiskFile) -> io::Result<()> {
        if std::mem::take(&mut self.allocated) > self.written {
            file.set_bytes(self.written)?;
        }
        Ok(())
    }
}

/// The unfinished block that an append left: bytes from a block boundary on.
#[derive(Debug)]
struct UnfinishedBlock {
    offset: u64,
    bytes: Buffer,
}

impl UnfinishedBlock {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl WriteBehind {
    /// Begins with no write in flight. The given `load` counts the bytes that later ones have in
    /// flight.
    pub fn new(disk: &Disk, file: &Arc<DiskFile>, load: Option<Load>) -> WriteBehind {
        let (done, completions) = channel();
        let (edge, space) = (None, AllocatedSpace::default());
        let writes = InFlightWrites { completions, requests: 0, failed: false, edge, space };
        let writes = Mutex::new(writes);
        WriteBehind { disk: disk.clone(), file: file.clone(), load, done, writes }
    }

    /// Writes all parts consecutively from `offset` on, or begins to. Waits while enough requests
    /// are in flight, and fails if an earlier one failed.
    pub fn write(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        let bytes: usize = parts.iter().map(Buffer::len).sum();
        let align = self.file.align_bytes();
        let path = write_path(self.disk.mode(), align.is_some(), bytes);
        let end = offset + bytes as u64;
        {
            let space = &mut self.writes.lock().space;
            space.written = space.written.max(end);
            if path == IoPath::Direct {
                space.grow(&self.file, end);
            }
        }
        // A worker has no cache on this side: small writes to it are sent behind, too.
        if path == IoPath::Buffered && self.disk.rate().is_none() && !self.file.is_served() {
            let written = self.file.write_parts(offset, parts);
            return written.map_err(|error| write_error(&self.file, offset, bytes, &error));
        }
        let in_flight = self.load.as_ref().map(|load| Arc::new(load.begin(bytes as u64)));
        let Some(align) = align.filter(|_| path == IoPath::Direct) else {
            let rest = &mut UnsentWrite::new(None, parts);
            return self.submit(offset..end, IoPath::Buffered, rest, in_flight);
        };
        let edge = self.writes.lock().edge.take_if(|edge| edge.end() == offset);
        let offset = edge.as_ref().map_or(offset, |edge| edge.offset);
        let mut rest = UnsentWrite::new(edge, parts);
        let align = align as u64;
        let (from, to) = (offset.next_multiple_of(align), end / align * align);
        self.submit(offset..from, IoPath::Buffered, &mut rest, in_flight.clone())?;
        self.submit(from..to, IoPath::Direct, &mut rest, in_flight)?;
        let bytes = Buffer::from(&rest.take((end - to) as usize)?[..]);
        let other = self.writes.lock().edge.replace(UnfinishedBlock { offset: to, bytes });
        other.map_or(Ok(()), |edge| self.submit_edge(edge))
    }

    /// Waits until no write is in flight; fails if any write of the file has failed.
    pub fn wait(&self) -> Result<()> {
        let edge = self.writes.lock().edge.take();
        edge.map_or(Ok(()), |edge| self.submit_edge(edge))?;
        let mut writes = self.writes.lock();
        while writes.requests > 0 {
            self.take(&mut writes)?;
        }
        if writes.failed {
            let error = Error::resource("an earlier write failed");
            return Err(error.at(self.file.path().display()));
        }
        let trimmed = writes.space.trim(&self.file);
        trimmed.map_err(|error| Error::os("set the length of", self.file.path(), &error))
    }

    fn submit_edge(&self, edge: UnfinishedBlock) -> Result<()> {
        let range = edge.offset..edge.end();
        self.submit(range, IoPath::Buffered, &mut UnsentWrite::new(Some(edge), &[]), None)
    }

    /// Sends the requests for a range of the file. They wait for other requests of the file only if
    /// the caller has not waited for room at the disk before: a writer that holds a turn of a
    /// stream delays all others.
    fn submit(
        &self,
        range: Range<u64>,
        path: IoPath,
        rest: &mut UnsentWrite,
        in_flight: Option<Arc<BlockInFlight>>,
    ) -> Result<()> {
        for offset in range.clone().step_by(REQUEST_BYTES) {
            let buffer = rest.take(REQUEST_BYTES.min((range.end - offset) as usize))?;
            let mut writes = self.writes.lock();
            while let Ok(completion) = writes.completions.try_recv() {
                writes.on_completed(&self.file, completion)?;
            }
            while writes.requests >= THREADS_MAX && self.load.is_none() {
                self.take(&mut writes)?;
            }
            writes.requests += 1;
            drop(writes);
            let (op, file) = (Op::Write, self.file.clone());
            let request = DeviceRequest { op, file, offset, buffer, path, tag: offset };
            let (done, in_flight) = (self.done.clone(), in_flight.clone());
            self.disk.submit_then(request, move |completion| {
                drop(in_flight);
                drop(done.send(completion));
            });
        }
        Ok(())
    }

    fn take(&self, writes: &mut InFlightWrites) -> Result<()> {
        // This struct holds a sender, so the channel cannot end.
        let completion = writes.completions.recv().map_err(|_| Error::failed("the queue ended"))?;
        writes.on_completed(&self.file, completion)
    }
}

impl InFlightWrites {
    fn on_completed(&mut self, file: &DiskFile, completion: Completion) -> Result<()> {
        self.requests -= 1;
        let Err(error) = completion.done else { return Ok(()) };
        self.failed = true;
        Err(write_error(file, completion.tag, completion.buffer.len(), &error))
    }
}

/// The parts of a write that have not been sent.
struct UnsentWrite {
    parts: VecDeque<Buffer>,
}

impl UnsentWrite {
    fn new(edge: Option<UnfinishedBlock>, parts: &[Buffer]) -> UnsentWrite {
        let edge = edge.map(|edge| edge.bytes).into_iter();
        UnsentWrite { parts: edge.chain(parts.iter().cloned()).collect() }
    }

    /// Moves the next `count` bytes into a slab.
    fn take(&mut self, count: usize) -> Result<PooledBuffer> {
        let mut slab = pool().take(count)?;
        let mut filled = 0;
        while filled < count {
            let part = &mut self.parts[0];
            let now = part.len().min(count - filled);
            slab[filled..filled + now].copy_from_slice(&part[..now]);
            filled += now;
            part.advance(now);
            if part.is_empty() {
                self.parts.pop_front();
            }
        }
        Ok(slab)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::disk::Mode;

    #[test]
    fn appends_of_any_size_are_contiguous() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let disk = |mode| Disk::new("test", folder.path(), mode).unwrap();
        let disks = [disk(Mode::Auto), disk(Mode::Buffered), disk(Mode::Auto).with_rate(1 << 30)];
        for (number, disk) in disks.iter().enumerate() {
            let path = folder.path().join(number.to_string());
            let file = disk.create(&path).unwrap();
            let behind = WriteBehind::new(disk, &file, None);
            let mut expected = Vec::new();
            for (number, bytes) in [1, 5_000_001, 0, 1 << 20, 4096, 9_999_999, 3].iter().enumerate()
            {
                let part = |part| vec![(number * 3 + part) as u8; bytes / 3 + part];
                let parts: Vec<Buffer> = (0..3).map(|at| Buffer::from_vec(part(at))).collect();
                behind.write(expected.len() as u64, &parts).unwrap();
                parts.iter().for_each(|part| expected.extend_from_slice(part));
            }
            behind.wait().unwrap();
            assert!(std::fs::read(&path).unwrap() == expected, "{number}");
            let held = std::fs::metadata(&path).unwrap().blocks() * 512;
            assert!(held <= expected.len() as u64 + (1 << 16), "{held} bytes of blocks are held");
        }
    }
}
