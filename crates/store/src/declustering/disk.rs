//! A disk's endpoint: a thread that takes messages, asks the policy what to read next, and submits
//! it to the device queue.
//!
//! The process has one for each owner, disk, rate and order of service, for any number of readers:
//! of segments with mirrors, or of striped files.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Instant;

use arrow::buffer::Buffer;
use euphrates_flow::sync::{Mutex, MutexGuard};
use euphrates_flow::{Kind, Owner, PerProcess, Result, spawn_named};
use euphrates_policy::declustering::disk::{Begin, DiskPolicy as Policy, ToReaders};
use euphrates_policy::declustering::{
    BlocksInFlight, Proportional, ServiceOrder, ToDisk, ToReader,
};
use euphrates_policy::io_path::{IoPath, ReadPath};

use super::MirrorPolicy;
use crate::segment::{Segment, expect_crc};
use euphrates_device::disk::{Disk, DiskFile, THREADS_MAX};

/// A message to a disk.
pub(crate) enum DiskMessage {
    /// A reader begins a segment of which the disk has a copy.
    Join { reader: u32, reader_state: ReaderState },
    /// A message of a segment's reader.
    FromReader { reader: u32, message: ToDisk },
    /// A segment's reader in another process has received a block.
    Received { reader: u32 },
    /// A segment's reader has finished, or is gone.
    Leave { reader: u32 },
    /// The device has read a block: its bytes if they match their checksum, or else the reason.
    Read { reader: u32, block: u32, read: Result<Buffer, BlockRefused> },
}

/// The reason why a block cannot be used.
pub(crate) struct BlockRefused {
    pub what: String,
    /// It differs from what was written; else the device refused to read it.
    pub is_damaged: bool,
}

/// The reader of a segment, to which the disk of one of its copies answers.
pub(crate) trait Requester: Send {
    /// Receives a message of the disk's policy.
    fn on_disk_message(&self, message: ToReader);
    /// Receives a block that the disk has read, or the reason why it cannot be used.
    fn on_read(&self, block: u32, read: Result<Buffer, BlockRefused>);
    /// Learns that the disk's endpoint has panicked.
    fn give_up(&self);
}

/// The blocks that a reader may request of one disk.
pub(crate) trait BlockSource: Send {
    /// The request for a block of this number, or the reason why there is none.
    fn request(&self, block: u32) -> Result<BlockRequest, BlockRefused>;
}

/// Where a block lies, and the checksum of its bytes.
pub(crate) struct BlockRequest {
    pub file: Arc<DiskFile>,
    pub offset: u64,
    pub length: usize,
    pub path: IoPath,
    pub crc: u32,
}

/// What a disk is read for, which decides the order in which it serves its readers. Each use has
/// an endpoint of its own, so that policies can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DiskUse {
    Mirrors(MirrorPolicy),
    Stripes,
}

/// The disk's state for one reader.
pub(crate) struct ReaderState {
    pub requester: Box<dyn Requester>,
    /// Whether the reader is in another process.
    pub is_remote: bool,
    pub copy: usize,
    pub source: Box<dyn BlockSource>,
    /// Blocks in flight to another process.
    pub in_flight: BlocksInFlight,
}

/// An open copy to read from.
pub(super) struct OpenCopy {
    segment: Arc<Segment>,
    file: Arc<DiskFile>,
    way: IoPath,
}

/// An identifier that no other reader of this process has.
pub(crate) fn next_reader_id() -> u32 {
    static READERS: AtomicU32 = AtomicU32::new(0);
    READERS.fetch_add(1, Relaxed)
}

/// The sending end of the endpoint's mailbox. Its thread ends when the last of these is dropped.
pub(crate) struct DiskEndpoint {
    sender: Sender<DiskMessage>,
}

impl OpenCopy {
    pub fn new(segment: &Arc<Segment>) -> Result<OpenCopy> {
        let file = segment.file()?;
        let facts = segment.disk().facts(&file, segment.bytes());
        Ok(OpenCopy { segment: segment.clone(), file, way: ReadPath::new(facts).cold() })
    }
}

impl BlockSource for OpenCopy {
    fn request(&self, block: u32) -> Result<BlockRequest, BlockRefused> {
        let entry = self.segment.blocks()[block as usize];
        Ok(BlockRequest {
            file: self.file.clone(),
            offset: entry.offset,
            length: entry.bytes as usize,
            path: self.way,
            crc: entry.crc,
        })
    }
}

impl From<MirrorPolicy> for DiskUse {
    fn from(mirrors: MirrorPolicy) -> DiskUse {
        DiskUse::Mirrors(mirrors)
    }
}

impl DiskUse {
    fn order(self) -> ServiceOrder {
        match self {
            DiskUse::Mirrors(mirrors) => mirrors.order(),
            DiskUse::Stripes => ServiceOrder::Proportional(Proportional),
        }
    }
}

impl DiskEndpoint {
    /// The endpoint of this disk in this process.
    pub fn of(disk: &Disk, reads: impl Into<DiskUse>) -> Result<Arc<DiskEndpoint>> {
        let reads = reads.into();
        let mut ends = ends();
        let key = (Owner::here(), disk.folder().to_path_buf(), disk.rate(), reads);
        if let Some(end) = ends.get(&key).and_then(Weak::upgrade) {
            return Ok(end);
        }
        let (sender, mailbox) = channel();
        let end = Arc::new(DiskEndpoint { sender });
        let mut thread = EndpointThread {
            policy: Policy::new(reads.order(), THREADS_MAX),
            reads,
            began: Instant::now(),
            disk: disk.clone(),
            readers: HashMap::new(),
            own: Arc::downgrade(&end),
        };
        spawn_named(format!("reads {}", disk.name()), move || thread.live(&mailbox))?;
        ends.retain(|_, end| end.strong_count() > 0);
        ends.insert(key, Arc::downgrade(&end));
        Ok(end)
    }

    /// Puts a message into the mailbox; never waits.
    pub fn post(&self, message: DiskMessage) {
        // The thread receives as long as this end of the mailbox exists, unless it has panicked.
        let _ = self.sender.send(message);
    }
}

/// The endpoints of this process by owner, folder, rate and use.
type DiskEndpoints = HashMap<(Owner, PathBuf, Option<u64>, DiskUse), Weak<DiskEndpoint>>;

fn ends() -> MutexGuard<'static, DiskEndpoints> {
    static ENDS: PerProcess<Mutex<DiskEndpoints>> = PerProcess::new();
    ENDS.get(Mutex::default).lock()
}

struct EndpointThread {
    policy: Policy,
    reads: DiskUse,
    began: Instant,
    disk: Disk,
    readers: HashMap<u32, ReaderState>,
    own: Weak<DiskEndpoint>,
}

impl EndpointThread {
    /// The loop of the thread. A panic in it must not leave readers waiting.
    fn live(&mut self, mailbox: &Receiver<DiskMessage>) {
        if catch_unwind(AssertUnwindSafe(|| self.run(mailbox))).is_err() {
            // Later readers get another endpoint. A reader that has this one, and joins it late, is
            // notified as all others are.
            ends().retain(|_, end| !Weak::ptr_eq(end, &self.own));
            self.readers.drain().for_each(|(_, reader_state)| reader_state.requester.give_up());
            for message in mailbox {
                if let DiskMessage::Join { reader_state, .. } = message {
                    reader_state.requester.give_up();
                }
            }
        }
    }

    fn run(&mut self, mailbox: &Receiver<DiskMessage>) {
        while let Ok(message) = mailbox.recv() {
            self.on(message);
            // Takes in all messages that have arrived before it binds a block.
            while let Ok(message) = mailbox.try_recv() {
                self.on(message);
            }
            self.begin();
        }
    }

    fn on(&mut self, message: DiskMessage) {
        let mut out = ToReaders::new();
        match message {
            DiskMessage::Join { reader, reader_state } => {
                self.policy.on_reader(reader, reader_state.copy);
                if reader_state.is_remote {
                    self.policy.on_far(reader);
                }
                self.readers.insert(reader, reader_state);
            }
            DiskMessage::FromReader { reader, message } => {
                self.policy.on_message(reader, message, &mut out)
            }
            DiskMessage::Received { reader } => {
                let now_ns = self.now_ns();
                if let Some(reader_state) = self.readers.get_mut(&reader) {
                    reader_state.in_flight.on_got(now_ns);
                }
            }
            DiskMessage::Leave { reader } => {
                self.policy.on_gone(reader);
                self.readers.remove(&reader);
                self.forget();
            }
            DiskMessage::Read { reader, block, read } => {
                let now_ns = self.now_ns();
                let is_wanted = self.policy.on_done(reader, block, now_ns);
                if let Some(reader_state) = self.readers.get_mut(&reader).filter(|_| is_wanted) {
                    if let (true, Ok(bytes)) = (reader_state.is_remote, &read) {
                        reader_state.in_flight.on_sent(bytes.len() as u64, now_ns);
                    }
                    reader_state.requester.on_read(block, read);
                }
                self.forget();
            }
        }
        self.tell(out);
    }

    /// Forgets the policy's state while there are no readers.
    fn forget(&mut self) {
        if self.readers.is_empty() && self.policy.in_flight() == 0 {
            self.policy = Policy::new(self.reads.order(), THREADS_MAX);
        }
    }

    fn begin(&mut self) {
        let (mut out, now_ns) = (ToReaders::new(), self.now_ns());
        for (&reader, reader_state) in
            self.readers.iter().filter(|(_, reader_state)| reader_state.is_remote)
        {
            self.policy.on_held_up(reader, reader_state.in_flight.is_held_up(now_ns));
        }
        while let Some(Begin { reader, block, .. }) = self.policy.next(self.now_ns(), &mut out) {
            // Readers receive the notice of a block before its bytes.
            self.tell(std::mem::take(&mut out));
            self.read(reader, block);
        }
        self.tell(out);
    }

    fn read(&self, reader: u32, block: u32) {
        // A reader holds the mailbox; if it is gone since, no reader is left to serve.
        let Some(own) = self.own.upgrade() else { return };
        let Some(ReaderState { source, .. }) = self.readers.get(&reader) else {
            let read = Err(BlockRefused { what: "its reader is gone".into(), is_damaged: false });
            return own.post(DiskMessage::Read { reader, block, read });
        };
        let BlockRequest { file, offset, length, path, crc } = match source.request(block) {
            Ok(request) => request,
            Err(refused) => {
                return own.post(DiskMessage::Read { reader, block, read: Err(refused) });
            }
        };
        let then = move |read: Result<Buffer>| {
            let read = read.and_then(|bytes| expect_crc(&bytes, crc).map(|()| bytes));
            let read = read.map_err(|error| BlockRefused {
                what: error.message().to_string(),
                is_damaged: error.kind() == Kind::Corrupt,
            });
            own.post(DiskMessage::Read { reader, block, read });
        };
        self.disk.read_then(&file, offset, length, path, then);
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn tell(&self, out: ToReaders) {
        for (reader, message) in out {
            if let Some(reader_state) = self.readers.get(&reader) {
                reader_state.requester.on_disk_message(message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use euphrates_flow::Cancel;

    use super::*;
    use crate::collection::{Collection, CollectionReadOptions, CreateOptions, NewCollection};
    use euphrates_device::disk::{NamedDisk, save_named_disks};

    /// Writes a collection of one block, on two disks.
    fn write(home: &Path) -> Result<()> {
        let disks = ["a", "b"].map(|name| NamedDisk {
            name: name.into(),
            folder: home.join(name),
            mode: Default::default(),
            rate: None,
            worker: String::new(),
        });
        save_named_disks(home, &disks)?;
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7; 10]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let disks = vec!["a".into(), "b".into()];
        let options = CreateOptions { disks, copies: 2, ..CreateOptions::default() };
        let options = CreateOptions { run_id: "run".into(), ..options };
        let new = NewCollection::create(home, "c", &batch.schema(), options)?;
        let segments = new.begin_segments()?;
        let encoded = segments.encoder()?.encode(&batch)?;
        segments.append(None, &encoded, &Cancel::default())?;
        new.add(segments)?;
        new.commit(None)
    }

    #[test]
    fn panicked_endpoint_is_replaced_and_its_readers_fail() {
        let home = tempfile::tempdir().unwrap();
        write(home.path()).unwrap();
        let collection = Collection::open(home.path(), "c").unwrap();
        let cancel = Arc::new(Cancel::default());
        let reading = || collection.reading(CollectionReadOptions::default()).unwrap();
        let early = reading();
        for copy in collection.copies().iter().flat_map(|copies| &copies.copies) {
            let disk = copy.as_ref().unwrap().disk();
            let end = DiskEndpoint::of(disk, MirrorPolicy::default()).unwrap();
            // A completion without a request: the policy panics.
            let read = Err(BlockRefused { what: "made up".into(), is_damaged: false });
            end.post(DiskMessage::Read { reader: u32::MAX, block: 0, read });
            while Arc::ptr_eq(&DiskEndpoint::of(disk, MirrorPolicy::default()).unwrap(), &end) {
                std::thread::yield_now();
            }
        }
        let error = early.reader(&cancel, early.numbers()).next_block().err().unwrap();
        assert!(error.to_string().contains("thread has panicked"), "{error}");
        let late = reading();
        let block = late.reader(&cancel, late.numbers()).next_block().unwrap().unwrap();
        assert_eq!(block.batch.num_rows(), 10);
    }
}
