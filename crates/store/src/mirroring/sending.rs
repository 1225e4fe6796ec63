//! Remote mirrors from the sending side: copies of segments that other processes keep.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use arrow::buffer::Buffer;
use crc_fast::{CrcAlgorithm, Digest};
use euphrates_device::disk::{BlockInFlight, Load};
use euphrates_flow::{Error, Result};
use euphrates_policy::window::WindowSender;
use parking_lot::{Condvar, Mutex};

use super::link::{OwnerLink, malformed};
use super::message::MirrorMessage;

/// The most bytes of one mirror that are in flight or not written yet. A single block may be
/// larger.
const WINDOW_BYTES: u64 = 4 << 20;

/// The mirrors that other processes keep for this one.
#[derive(Default)]
pub(super) struct MirrorSender {
    pub link: Arc<OwnerLink>,
    /// By number, with those that have been dropped: no number is used twice.
    mirrors: Mutex<Vec<Weak<RemoteCopy>>>,
}

/// The process, disk and file of a mirror that another process keeps.
#[derive(Clone)]
pub struct RemoteTarget {
    pub(super) sending: Arc<MirrorSender>,
    pub(super) process: usize,
    pub(super) disk: String,
    pub(super) file: String,
}

/// A mirror that another process keeps, while it is written. Dropped unfinished, it is removed.
pub struct RemoteCopy {
    target: RemoteTarget,
    number: u32,
    load: Option<Load>,
    state: Mutex<SenderState>,
    changed: Condvar,
}

struct SenderState {
    window: WindowSender,
    /// The writes in flight, oldest first; the other process acknowledges them in this order.
    in_flight: VecDeque<BlockInFlight>,
    kept_at: Option<String>,
    failed: Option<Error>,
}

impl MirrorSender {
    pub fn new(link: Arc<OwnerLink>) -> Arc<MirrorSender> {
        Arc::new(MirrorSender { link, mirrors: Mutex::default() })
    }

    /// Passes a message about one mirror on to it, unless it has been dropped.
    pub fn on_message(&self, process: usize, number: u32, message: MirrorMessage) -> Result<()> {
        let mirror = self.mirrors.lock().get(number as usize).and_then(Weak::upgrade);
        mirror.map_or(Ok(()), |mirror| mirror.on_message(process, message))
    }
}

impl std::fmt::Debug for RemoteTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {} of process {}", self.file, self.disk, self.process)
    }
}

impl RemoteTarget {
    /// Requests the file. `load` counts the bytes in flight to it.
    pub fn create(self, load: Option<Load>) -> Arc<RemoteCopy> {
        let (sending, disk, file) = (self.sending.clone(), self.disk.clone(), self.file.clone());
        let window = WindowSender::new(WINDOW_BYTES);
        let state = SenderState { window, in_flight: VecDeque::new(), kept_at: None, failed: None };
        let mut mirrors = sending.mirrors.lock();
        let number = mirrors.len() as u32;
        let changed = Condvar::new();
        let copy = RemoteCopy { target: self, number, load, state: state.into(), changed };
        let copy = Arc::new(copy);
        mirrors.push(Arc::downgrade(&copy));
        drop(mirrors);
        copy.send(&MirrorMessage::Make { disk, file }, vec![]);
        copy
    }
}

impl RemoteCopy {
    /// Sends all parts, to be written consecutively from `offset` on. Waits while enough bytes are
    /// in flight, and fails if an earlier write failed.
    pub fn write(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        self.wait(|state| {
            state.window.may_send(bytes).then(|| {
                state.window.on_sent(bytes);
                state.in_flight.extend(self.load.iter().map(|load| load.begin(bytes)));
            })
        })?;
        self.send(&MirrorMessage::Write { offset, crc: crc(parts) }, parts.to_vec());
        Ok(())
    }

    /// Sends the table of contents, and returns when the device has everything.
    pub fn finish(&self, bytes: u64, toc: &[u8]) -> Result<()> {
        let toc = [Buffer::from(toc)];
        self.send(&MirrorMessage::Finish { bytes, crc: crc(&toc) }, toc.to_vec());
        self.wait(|state| state.kept_at.is_some().then_some(()))
    }

    /// The name of the disk that holds it.
    pub fn disk(&self) -> &str {
        &self.target.disk
    }

    /// Its final location, relative to the disk's folder; `None` before it is finished.
    pub fn path(&self) -> Option<String> {
        self.state.lock().kept_at.clone()
    }

    /// Handles a message of the process that keeps it.
    fn on_message(&self, process: usize, message: MirrorMessage) -> Result<()> {
        if process != self.target.process {
            return Err(malformed());
        }
        let mut state = self.state.lock();
        match message {
            MirrorMessage::Written { bytes } => {
                if bytes > state.window.in_flight_bytes() {
                    return Err(malformed());
                }
                state.window.on_taken(bytes);
                state.in_flight.pop_front();
            }
            MirrorMessage::Kept { path } => state.kept_at = Some(path),
            MirrorMessage::Failed { error } => state.failed = Some(error),
            _ => return Err(malformed()),
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until `look` returns a result, or the mirror has failed.
    fn wait<T>(&self, mut look: impl FnMut(&mut SenderState) -> Option<T>) -> Result<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if let Some(found) = look(&mut state) {
                return Ok(found);
            }
            self.target.sending.link.cancel.wait(&self.changed, &mut state)?;
        }
    }

    fn send(&self, message: &MirrorMessage, body: Vec<Buffer>) {
        self.target.sending.link.send(self.target.process, self.number, message, body);
    }
}

impl Drop for RemoteCopy {
    fn drop(&mut self) {
        if self.state.get_mut().kept_at.is_none() {
            self.send(&MirrorMessage::Discard, vec![]);
        }
    }
}

/// CRC-32C of all parts in order: no other checksum guards them in flight.
fn crc(parts: &[Buffer]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}
