//! Serves readers in other processes: disks of this process read blocks for them and send them over
//! the wire.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::buffer::Buffer;
use euphrates_flow::Result;
use euphrates_flow::sync::Mutex;
use euphrates_policy::declustering::{BlocksInFlight, ToReader};

use super::disk::{
    BlockRefused, DiskEndpoint, DiskMessage, OpenCopy, ReaderState, Requester, next_reader_id,
};
use super::message::CopyContent;
use super::{MirrorPolicy, ReaderAssignment};
use crate::segment::Segment;

/// The readers of other processes that the disks of this one serve.
#[derive(Default)]
pub(super) struct RemoteReaders {
    /// By process, segment and copy.
    readers: Mutex<HashMap<(usize, usize, usize), RemoteReader>>,
}

struct RemoteReader {
    /// The reader's identifier at the disk.
    reader: u32,
    end: Arc<DiskEndpoint>,
}

impl RemoteReaders {
    /// Begins to serve another process that reads a segment of which a disk here has a copy.
    pub fn join(
        &self,
        among: &Arc<ReaderAssignment>,
        process: usize,
        (segment, copy): (usize, usize),
        (own, mirrors): (&Arc<Segment>, MirrorPolicy),
    ) -> Result<()> {
        let (source, end) = (OpenCopy::new(own)?, DiskEndpoint::of(own.disk(), mirrors)?);
        let reader = next_reader_id();
        let reader_state = ReaderState {
            requester: Box::new(RemoteRequester {
                among: Arc::downgrade(among),
                process,
                of: (segment, copy),
            }),
            is_remote: true,
            copy,
            source: Box::new(source),
            in_flight: BlocksInFlight::default(),
        };
        end.post(DiskMessage::Join { reader, reader_state });
        self.readers.lock().insert((process, segment, copy), RemoteReader { reader, end });
        Ok(())
    }

    /// Passes a message on to the disk that serves this process, segment and copy.
    pub fn post(&self, key: (usize, usize, usize), message: impl FnOnce(u32) -> DiskMessage) {
        if let Some(RemoteReader { reader, end }) = self.readers.lock().get(&key) {
            end.post(message(*reader));
        }
    }

    /// Ends the service of this process, segment and copy.
    pub fn leave(&self, key: (usize, usize, usize)) {
        let served = self.readers.lock().remove(&key);
        served.iter().for_each(RemoteReader::leave);
    }
}

impl RemoteReader {
    fn leave(&self) {
        self.end.post(DiskMessage::Leave { reader: self.reader });
    }
}

impl Drop for RemoteReaders {
    fn drop(&mut self) {
        self.readers.lock().values().for_each(RemoteReader::leave);
    }
}

/// A reader in another process.
struct RemoteRequester {
    among: Weak<ReaderAssignment>,
    process: usize,
    /// The segment and the copy.
    of: (usize, usize),
}

impl RemoteRequester {
    fn send(&self, content: CopyContent, body: Vec<Buffer>) {
        if let Some(among) = self.among.upgrade() {
            among.send(self.process, self.of, content, body);
        }
    }
}

impl Requester for RemoteRequester {
    fn on_disk_message(&self, message: ToReader) {
        self.send(CopyContent::ToReader(message), vec![]);
    }

    fn on_read(&self, block: u32, read: Result<Buffer, BlockRefused>) {
        match read {
            Ok(bytes) => self.send(CopyContent::Read { block }, vec![bytes]),
            Err(BlockRefused { what, is_damaged }) => {
                self.send(CopyContent::Refused { block, is_damaged, what }, vec![]);
            }
        }
    }

    fn give_up(&self) {
        self.send(CopyContent::GaveUp, vec![]);
    }
}
