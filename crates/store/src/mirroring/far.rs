//! A remote mirror, from the sending side: another process keeps the file.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::buffer::Buffer;
use crc_fast::{CrcAlgorithm, Digest};
use euphrates_flow::{Error, Result};
use euphrates_policy::window::Sender;

use super::message::Word;
use super::{Writers, malformed};
use euphrates_device::disk::{InFlight, Load};

/// The most bytes of one mirror that are in flight or not written yet. A single block may be
/// larger.
const WINDOW_BYTES: u64 = 4 << 20;

/// The place of a mirror that another process keeps.
#[derive(Clone, Debug)]
pub struct RemotePlace {
    pub(super) writers: Arc<Writers>,
    pub(super) process: usize,
    pub(super) disk: String,
    pub(super) file: String,
}

/// A mirror that another process keeps, while it is written. Dropped unfinished, it is removed.
pub struct RemoteCopy {
    place: RemotePlace,
    number: u32,
    load: Option<Load>,
    state: std::sync::Mutex<Far>,
}

struct Far {
    window: Sender,
    /// The writes in flight, oldest first; the other process acknowledges them in this order.
    in_flight: VecDeque<InFlight>,
    kept_at: Option<String>,
    failed: Option<Error>,
}

impl RemotePlace {
    /// Requests the file. `load` counts the bytes in flight to it.
    pub fn create(self, load: Option<Load>) -> Arc<RemoteCopy> {
        let writers = self.writers.clone();
        let mut state = writers.lock();
        let number = state.far_next;
        state.far_next += 1;
        let window = Sender::new(WINDOW_BYTES);
        let far = Far { window, in_flight: VecDeque::new(), kept_at: None, failed: None };
        let far = Arc::new(RemoteCopy { place: self, number, load, state: far.into() });
        state.far.insert(number, Arc::downgrade(&far));
        drop(state);
        let RemotePlace { disk, file, .. } = far.place.clone();
        far.tell(&Word::Make { disk, file }, vec![]);
        far
    }
}

impl RemoteCopy {
    /// Sends all parts, to be written consecutively from `offset` on. Waits while enough bytes are
    /// in flight, and fails if an earlier write failed.
    pub fn write(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        self.wait(|far| {
            far.window.may_send(bytes).then(|| {
                far.window.on_sent(bytes);
                far.in_flight.extend(self.load.iter().map(|load| load.begin(bytes)));
            })
        })?;
        self.tell(&Word::Write { offset, crc: crc(parts) }, parts.to_vec());
        Ok(())
    }

    /// Sends the table of contents, and returns when the device has everything.
    pub fn finish(&self, bytes: u64, toc: &[u8]) -> Result<()> {
        let toc = [Buffer::from(toc)];
        self.tell(&Word::Finish { bytes, crc: crc(&toc) }, toc.to_vec());
        self.wait(|far| far.kept_at.is_some().then_some(()))
    }

    /// The name of the disk that holds it.
    pub fn disk(&self) -> &str {
        &self.place.disk
    }

    /// Its final location, relative to the disk's folder; `None` before it is finished.
    pub fn place(&self) -> Option<String> {
        self.lock().kept_at.clone()
    }

    /// Handles a message of the process that keeps it.
    pub(super) fn on_word(&self, process: usize, word: Word) -> Result<()> {
        if process != self.place.process {
            return Err(malformed());
        }
        let mut far = self.lock();
        match word {
            Word::Written { bytes } => {
                if bytes > far.window.under_way_bytes() {
                    return Err(malformed());
                }
                far.window.on_taken(bytes);
                far.in_flight.pop_front();
            }
            Word::Kept { place } => far.kept_at = Some(place),
            Word::Failed { error } => far.failed = Some(error),
            _ => return Err(malformed()),
        }
        drop(far);
        // Taking the lock orders this change after any check that is under way: a waiter that has
        // checked already waits, or will see the change.
        drop(self.place.writers.lock());
        self.place.writers.changed.notify_all();
        Ok(())
    }

    /// Waits until `look` returns a result, or the mirror has failed.
    fn wait<T>(&self, mut look: impl FnMut(&mut Far) -> Option<T>) -> Result<T> {
        self.place.writers.wait(|_| {
            let mut far = self.lock();
            match &far.failed {
                Some(error) => Some(Err(error.clone())),
                None => look(&mut far).map(Ok),
            }
        })
    }

    fn tell(&self, word: &Word, body: Vec<Buffer>) {
        self.place.writers.tell(self.place.process, self.number, word, body);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Far> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for RemoteCopy {
    fn drop(&mut self) {
        self.place.writers.lock().far.remove(&self.number);
        if self.lock().kept_at.is_none() {
            self.tell(&Word::Leave, vec![]);
        }
    }
}

/// CRC-32C of all parts in order: no other checksum guards them in flight.
fn crc(parts: &[Buffer]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}
