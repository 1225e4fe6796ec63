//! Service for other processes that read the collection: dispatches their messages to the disks and
//! readers of this one, in the order of sending.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_policy::declustering::InFlight;
use parking_lot::Mutex;

use super::Mirrors;
use super::disk::{DiskEnd, DiskMessage, ReaderState, Refused, Source};
use super::message::{Message, Word};
use super::reading::Shared;
use crate::segment::Segment;

/// The readers of other processes that the disks of this one serve.
#[derive(Default)]
pub(super) struct Serving {
    /// By process, segment and copy.
    readers: Mutex<HashMap<(usize, usize, usize), Served>>,
}

struct Served {
    /// The reader's identifier at the disk.
    reader: u32,
    end: Arc<DiskEnd>,
}

/// An identifier that no other reader of this process has.
pub(super) fn next_reader_id() -> u32 {
    static READERS: AtomicU32 = AtomicU32::new(0);
    READERS.fetch_add(1, Relaxed)
}

impl Serving {
    /// Begins to serve another process that reads a segment of which a disk here has a copy.
    fn join(
        &self,
        shared: &Arc<Shared>,
        requester: usize,
        (segment, copy): (usize, usize),
        (own, mirrors): (&Arc<Segment>, Mirrors),
    ) -> Result<()> {
        let (source, end) = (Source::new(own)?, DiskEnd::of(own.disk(), mirrors)?);
        let reader = next_reader_id();
        let reader_state = ReaderState {
            shared: Arc::downgrade(shared),
            requester: Some(requester),
            segment,
            copy,
            source,
            in_flight: InFlight::default(),
        };
        end.post(DiskMessage::Join { reader, reader_state });
        self.readers.lock().insert((requester, segment, copy), Served { reader, end });
        Ok(())
    }

    fn post(&self, key: (usize, usize, usize), letter: impl FnOnce(u32) -> DiskMessage) {
        if let Some(Served { reader, end }) = self.readers.lock().get(&key) {
            end.post(letter(*reader));
        }
    }

    fn leave(&self, key: (usize, usize, usize)) {
        let served = self.readers.lock().remove(&key);
        served.iter().for_each(Served::leave);
    }
}

impl Served {
    fn leave(&self) {
        self.end.post(DiskMessage::Leave { reader: self.reader });
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.readers.lock().values().for_each(Served::leave);
    }
}

impl Shared {
    /// Handles a message of another process. A malformed one is an error.
    pub fn on_message(self: &Arc<Self>, process: usize, bytes: &[u8], body: &Buffer) -> Result<()> {
        let message = Message::read(bytes).ok_or_else(malformed)?;
        let part = self.parts.get(message.segment).ok_or_else(malformed)?;
        if !part.expects(process, &message, &self.among) {
            return Err(malformed());
        }
        let Message { segment, copy, word } = message;
        let (key, place) = ((process, segment, copy), (segment, copy));
        match word {
            Word::Join => {
                let joined = match &part.copies[copy] {
                    Some(own) => self.serving.join(self, process, place, (own, self.mirrors)),
                    None => Err(Error::corrupt("it cannot be opened")),
                };
                if let Err(error) = joined {
                    let word = Word::Lost { what: error.message().to_string() };
                    self.among.tell(process, place, word, vec![]);
                }
            }
            Word::ToDisk(message) => {
                self.serving.post(key, |reader| DiskMessage::FromReader { reader, message });
            }
            Word::Got => self.serving.post(key, |reader| DiskMessage::Received { reader }),
            Word::Gone => self.serving.leave(key),
            Word::ToReader(message) => self.on_disk_message(place, message),
            Word::Read { block } => {
                // Bytes that were good at the disk may have changed in flight.
                let checked = part.check(block, body);
                let refused =
                    |error: Error| Refused { what: error.message().to_string(), is_damaged: true };
                self.on_read(place, block, checked.map(|()| body.clone()).map_err(refused));
                self.among.tell(process, place, Word::Got, vec![]);
            }
            Word::Refused { block, is_damaged, what } => {
                self.on_read(place, block, Err(Refused { what, is_damaged }));
            }
            Word::Lost { what } => self.on_lost(place, what),
            Word::GaveUp => self.give_up(),
        }
        Ok(())
    }
}

fn malformed() -> Error {
    Error::corrupt("a malformed message from a reader of the collection")
}
