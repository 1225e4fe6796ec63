//! What operations, checkpoints and the cleaner share: the tree, the chunk that is being filled,
//! and the log on disks.
//!
//! One lock protects the tree and the chunk. An operation appends its record to the chunk and
//! applies it; a full chunk is sealed, and its blocks go to the threads of the disks. `fsync` seals
//! the chunk and waits for the disks without the lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use euphrates_flow::{Error, Result};
use parking_lot::{Mutex, MutexGuard};

use crate::disks::{
    ChunkReader, DiskSpace, LogWriter, Roots, VolumeDisks, VolumeLease, VolumeRoot,
};
use crate::log::ChunkPlace;
use crate::tree::{DataPlace, Errno, LogRecord, VolumeTree};

/// After this length of log the free space is measured again.
const MEASURED_BYTES: u64 = 16 << 20;
/// A chunk is sealed when it is at least this long.
pub const CHUNK_BYTES: usize = 1 << 20;

/// What the threads of a volume share.
pub struct Core {
    pub roots: Roots,
    pub disks: VolumeDisks,
    pub reader: ChunkReader,
    pub state: Mutex<VolumeState>,
    /// `None` if it is read only.
    pub writer: Option<WriterEnd>,
    /// Held by the one that makes a checkpoint.
    pub root: Mutex<VolumeRoot>,
    /// Data and parity blocks of a chunk.
    pub layout: (usize, usize),
    pub space: Mutex<DiskSpace>,
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

pub struct WriterEnd {
    pub log: LogWriter,
    pub lease: VolumeLease,
    /// Set when the lease was lost, or the log cannot be written.
    pub has_ended: AtomicBool,
}

/// What operations change.
pub struct VolumeState {
    pub tree: VolumeTree,
    /// Where chunks are, those with live bytes and perhaps others.
    pub places: BTreeMap<u64, ChunkPlace>,
    /// Bytes that were written to each segment, parity left out.
    pub segments: BTreeMap<u64, u64>,
    /// Records of the chunk that is being filled.
    pub pending: Vec<u8>,
    /// The number of that chunk.
    pub chunk: u64,
    /// Bytes of log since the last checkpoint, and when that was.
    pub log_bytes: u64,
    /// Bytes of log since the free space was measured.
    pub unmeasured_bytes: u64,
    pub checkpointed: Instant,
    pub checkpoint_took: Duration,
    /// References of the kernel to inodes: one without a name is dropped with the last.
    pub lookups: HashMap<u64, u64>,
}

impl Core {
    pub fn write_end(&self) -> Result<&WriterEnd, Errno> {
        self.writer.as_ref().ok_or(Errno::ROFS)
    }

    /// Applies a record to the tree, and appends it to the log.
    pub fn apply(&self, state: &mut VolumeState, record: &LogRecord<'_>) -> Result<(), Errno> {
        let end = self.write_end()?;
        self.expect_writable(end)?;
        let before = state.pending.len();
        record.encode(&mut state.pending);
        let at = (state.pending.len() - record.data_bytes()) as u32;
        let applied = state.tree.apply(record, DataPlace { chunk: state.chunk, at });
        if applied.is_err() {
            state.pending.truncate(before);
            return applied;
        }
        if state.pending.len() >= CHUNK_BYTES {
            self.seal(state)?;
        }
        Ok(())
    }

    pub fn expect_writable(&self, end: &WriterEnd) -> Result<(), Errno> {
        if end.has_ended.load(Relaxed) {
            return Err(Errno::IO);
        }
        if !end.lease.is_valid() {
            let error = Error::resource("the lease has expired: the catalog cannot be written");
            return Err(self.fail(end, &error.remedy("mount the volume again")));
        }
        Ok(())
    }

    /// No operation succeeds any more: what is in memory cannot become durable.
    pub fn fail(&self, end: &WriterEnd, error: &Error) -> Errno {
        if !end.has_ended.swap(true, Relaxed) {
            let advice = error.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
            (self.say)(&format!("volume {}: {error}{advice}", self.roots.name));
        }
        Errno::IO
    }

    /// Ends the chunk that is being filled. Its blocks are written later.
    pub fn seal(&self, state: &mut VolumeState) -> Result<(), Errno> {
        let end = self.write_end()?;
        if state.pending.is_empty() {
            return Ok(());
        }
        self.expect_writable(end)?;
        let payload = std::mem::take(&mut state.pending);
        let bytes = payload.len() as u64;
        // The payload of a chunk that no disk takes is lost, and with it the volume's end.
        let appended = end.log.append(state.chunk, payload);
        let place = appended.map_err(|error| self.fail(end, &error))?;
        *state.segments.entry(place.segment).or_default() += bytes;
        state.places.insert(state.chunk, place);
        state.chunk += 1;
        state.log_bytes += bytes;
        state.unmeasured_bytes += bytes;
        if state.unmeasured_bytes >= MEASURED_BYTES {
            state.unmeasured_bytes = 0;
            self.measure_space();
        }
        Ok(())
    }

    /// Measures the free space, which operations look at.
    pub fn measure_space(&self) {
        if let Ok(space) = self.disks.space() {
            *self.space.lock() = space;
        }
    }

    /// Waits until all operations before this call are durable.
    pub fn sync(&self) -> Result<(), Errno> {
        let Some(end) = &self.writer else { return Ok(()) };
        let next = {
            let mut state = self.state.lock();
            self.seal(&mut state)?;
            self.expect_writable(end)?;
            state.chunk
        };
        end.log.sync(next).map_err(|error| self.fail(end, &error))?;
        // Another process may have taken over while this one was stopped.
        self.expect_writable(end)
    }

    pub fn state(&self) -> MutexGuard<'_, VolumeState> {
        self.state.lock()
    }
}

/// Nanoseconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64)
}
