//! Service for other processes that read the collection: its disks read for them, and answer over
//! the wire.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::buffer::Buffer;
use euphrates_flow::Result;
use euphrates_policy::declustering::{InFlight, ToReader};
use parking_lot::Mutex;

use super::disk::{DiskEnd, DiskMessage, ReaderState, Refused, Requester, Source, next_reader_id};
use super::message::Content;
use super::{Among, MirrorPolicy};
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

impl Serving {
    /// Begins to serve another process that reads a segment of which a disk here has a copy.
    pub fn join(
        &self,
        among: &Arc<Among>,
        process: usize,
        (segment, copy): (usize, usize),
        (own, mirrors): (&Arc<Segment>, MirrorPolicy),
    ) -> Result<()> {
        let (source, end) = (Source::new(own)?, DiskEnd::of(own.disk(), mirrors)?);
        let reader = next_reader_id();
        let reader_state = ReaderState {
            requester: Box::new(RemoteReader {
                among: Arc::downgrade(among),
                process,
                place: (segment, copy),
            }),
            is_remote: true,
            copy,
            source,
            in_flight: InFlight::default(),
        };
        end.post(DiskMessage::Join { reader, reader_state });
        self.readers.lock().insert((process, segment, copy), Served { reader, end });
        Ok(())
    }

    /// Passes a message on to the disk that serves this process, segment and copy.
    pub fn post(&self, key: (usize, usize, usize), message: impl FnOnce(u32) -> DiskMessage) {
        if let Some(Served { reader, end }) = self.readers.lock().get(&key) {
            end.post(message(*reader));
        }
    }

    /// Ends the service of this process, segment and copy.
    pub fn leave(&self, key: (usize, usize, usize)) {
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

/// A reader in another process.
struct RemoteReader {
    among: Weak<Among>,
    process: usize,
    /// The segment and the copy.
    place: (usize, usize),
}

impl RemoteReader {
    fn send(&self, content: Content, body: Vec<Buffer>) {
        if let Some(among) = self.among.upgrade() {
            among.tell(self.process, self.place, content, body);
        }
    }
}

impl Requester for RemoteReader {
    fn on_disk_message(&self, message: ToReader) {
        self.send(Content::ToReader(message), vec![]);
    }

    fn on_read(&self, block: u32, read: Result<Buffer, Refused>) {
        match read {
            Ok(bytes) => self.send(Content::Read { block }, vec![bytes]),
            Err(Refused { what, is_damaged }) => {
                self.send(Content::Refused { block, is_damaged, what }, vec![]);
            }
        }
    }

    fn give_up(&self) {
        self.send(Content::GaveUp, vec![]);
    }
}
