//! A disk's endpoint: a thread that takes letters, asks the policy what to read next, and has the
//! device queue read it. There is one for a disk of the process, however many readers it serves.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Kind, Result};
use euphrates_policy::declustering::ToDisk;
use euphrates_policy::declustering::disk::{Begin, Disk as Policy, Outbox};
use euphrates_policy::device::{ReadPath, Way};

use super::Mirrors;
use super::reading::Shared;
use crate::disk::{Disk, DiskFile, THREADS_MAX};
use crate::segment::Segment;

/// What a disk is told.
pub(super) enum Letter {
    /// A segment will be read of which it has a copy.
    Join { reader: u32, seat: Seat },
    /// A segment's reader says something.
    Said { reader: u32, message: ToDisk },
    /// A segment's reader is done, or gone.
    Gone { reader: u32 },
    /// A block was read, and is what was written; or not.
    Read { reader: u32, block: u32, read: Result<Buffer, Refused> },
}

/// Why a block cannot be used.
pub(super) struct Refused {
    pub what: String,
    /// It is not what was written; else the device refused to read it.
    pub is_damaged: bool,
}

/// One segment's reader, as a disk knows it.
pub(super) struct Seat {
    pub shared: Weak<Shared>,
    pub segment: usize,
    pub copy: usize,
    pub source: Source,
}

/// A copy to read from.
pub(super) struct Source {
    segment: Arc<Segment>,
    file: Arc<DiskFile>,
    way: Way,
}

/// The endpoint's mailbox. Its thread ends when the last of these is dropped.
pub(super) struct DiskEnd {
    letters: Sender<Letter>,
}

impl Source {
    pub fn new(segment: &Arc<Segment>) -> Result<Source> {
        let file = segment.file()?;
        let facts = segment.disk().facts(&file, segment.bytes());
        Ok(Source { segment: segment.clone(), file, way: ReadPath::new(facts).cold() })
    }
}

impl DiskEnd {
    /// The endpoint of this disk in this process. Each way of sharing has its own, so that they
    /// can be compared.
    pub fn of(disk: &Disk, mirrors: Mirrors) -> Result<Arc<DiskEnd>> {
        type Ends = Mutex<HashMap<(PathBuf, Option<u64>, Mirrors), Weak<DiskEnd>>>;
        static ENDS: OnceLock<Ends> = OnceLock::new();
        let mut ends = ENDS.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
        let key = (disk.folder().to_path_buf(), disk.rate(), mirrors);
        if let Some(end) = ends.get(&key).and_then(Weak::upgrade) {
            return Ok(end);
        }
        let (letters, mailbox) = channel();
        let end = Arc::new(DiskEnd { letters });
        let mut thread = Thread {
            policy: Policy::new(mirrors.order(), THREADS_MAX),
            mirrors,
            began: Instant::now(),
            disk: disk.clone(),
            seats: HashMap::new(),
            own: Arc::downgrade(&end),
        };
        std::thread::Builder::new()
            .name(format!("mirrors {}", disk.name()))
            .spawn(move || thread.live(&mailbox))
            .map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        ends.retain(|_, end| end.strong_count() > 0);
        ends.insert(key, Arc::downgrade(&end));
        Ok(end)
    }

    /// Puts a letter into the mailbox; never waits.
    pub fn post(&self, letter: Letter) {
        // The thread listens as long as there is a mailbox.
        let _ = self.letters.send(letter);
    }
}

struct Thread {
    policy: Policy,
    mirrors: Mirrors,
    began: Instant,
    disk: Disk,
    seats: HashMap<u32, Seat>,
    own: Weak<DiskEnd>,
}

impl Thread {
    /// Runs to the end. A mistake in here must not leave readers waiting.
    fn live(&mut self, mailbox: &Receiver<Letter>) {
        if catch_unwind(AssertUnwindSafe(|| self.run(mailbox))).is_err() {
            let readers = self.seats.values().filter_map(|seat| seat.shared.upgrade());
            readers.for_each(|shared| shared.give_up());
        }
    }

    fn run(&mut self, mailbox: &Receiver<Letter>) {
        while let Ok(letter) = mailbox.recv() {
            self.on(letter);
            // All that is known counts before a block is bound.
            while let Ok(letter) = mailbox.try_recv() {
                self.on(letter);
            }
            self.begin();
        }
    }

    fn on(&mut self, letter: Letter) {
        let mut out = Outbox::new();
        match letter {
            Letter::Join { reader, seat } => {
                self.policy.on_reader(reader, seat.copy);
                self.seats.insert(reader, seat);
            }
            Letter::Said { reader, message } => self.policy.on_message(reader, message, &mut out),
            Letter::Gone { reader } => {
                self.policy.on_gone(reader);
                self.seats.remove(&reader);
                self.forget();
            }
            Letter::Read { reader, block, read } => {
                let is_wanted = self.policy.on_done(reader, block, self.now_ns());
                if let Some((shared, seat)) = self.seat(reader).filter(|_| is_wanted) {
                    shared.on_read(seat.segment, seat.copy, block, read);
                }
                self.forget();
            }
        }
        self.tell(out);
    }

    /// When nobody reads, nothing needs to be remembered.
    fn forget(&mut self) {
        if self.seats.is_empty() && self.policy.in_flight() == 0 {
            self.policy = Policy::new(self.mirrors.order(), THREADS_MAX);
        }
    }

    fn begin(&mut self) {
        let mut out = Outbox::new();
        while let Some(Begin { reader, block, .. }) = self.policy.next(self.now_ns(), &mut out) {
            // Readers hear of a block before it comes.
            self.tell(std::mem::take(&mut out));
            self.read(reader, block);
        }
        self.tell(out);
    }

    fn read(&self, reader: u32, block: u32) {
        // Whoever asked keeps the mailbox; if he has gone since, nobody listens.
        let Some(own) = self.own.upgrade() else { return };
        let Some(Seat { source, .. }) = self.seats.get(&reader) else {
            let read = Err(Refused { what: "its reader is gone".into(), is_damaged: false });
            return own.post(Letter::Read { reader, block, read });
        };
        let place = source.segment.blocks()[block as usize];
        let then = move |read: Result<Buffer>| {
            let read = read.and_then(|bytes| place.check(&bytes).map(|()| bytes));
            let read = read.map_err(|error| Refused {
                what: error.message().to_string(),
                is_damaged: error.kind() == Kind::Corrupt,
            });
            own.post(Letter::Read { reader, block, read });
        };
        let length = place.bytes as usize;
        self.disk.read_then(&source.file, place.offset, length, source.way, then);
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn tell(&self, out: Outbox) {
        for (reader, message) in out {
            if let Some((shared, seat)) = self.seat(reader) {
                shared.on_message(seat.segment, seat.copy, message);
            }
        }
    }

    fn seat(&self, reader: u32) -> Option<(Arc<Shared>, &Seat)> {
        let seat = self.seats.get(&reader)?;
        Some((seat.shared.upgrade()?, seat))
    }
}
