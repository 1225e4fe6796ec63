//! A client's session at a server: what it has open and holds, and its connections.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;

use arrow::buffer::Buffer;
use euphrates_device::buffer::{PooledBuffer, pool};
use euphrates_device::disk::{DeviceRequest, Disk, DiskFile, Op, PendingRead};
use euphrates_device::folder::{AbandonedFolder, HeldFolder, StagedSmallFile};
use euphrates_flow::{Error, Result};
use euphrates_policy::io_path::{IoPath, write_path};
use parking_lot::Mutex;

use crate::connection::Closer;

/// Things that a session has open, at most.
const HANDLES_MAX: usize = 1 << 16;
/// Connections of a session, at most.
const CONNECTIONS_MAX: usize = 256;

/// What a handle of a client stands for.
pub(super) enum OpenThing {
    File(Arc<SegmentInUse>),
    Staged(Box<dyn StagedSmallFile>),
    Held(Box<dyn HeldFolder>),
    Abandoned(Box<dyn AbandonedFolder>),
}

/// An open segment, with the path by which it is read.
pub(super) struct SegmentInUse {
    /// The number of its folder.
    pub folder: usize,
    /// Its disk; `None` in memory, which needs no queue of requests.
    pub disk: Option<Disk>,
    pub file: Arc<DiskFile>,
    pub path: IoPath,
}

impl SegmentInUse {
    /// Reads a range; returns fewer bytes only at the end of the file.
    pub fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        let left = self.file.bytes()?.saturating_sub(offset);
        let count = left.min(bytes as u64) as usize;
        let Some(disk) = &self.disk else {
            let mut buffer = pool().take(count).map_err(io::Error::other)?;
            return match self.file.read(self.path, offset, &mut buffer)? {
                read if read == count => Ok(buffer.into_arrow()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        };
        // A kernel begins to read what it finds missing, and a direct read would read it again.
        if self.path == IoPath::Buffered
            && let Ok(Some(cached)) = disk.read_cached(&self.file, offset, count)
        {
            return Ok(cached);
        }
        let pending = disk.read_at(&self.file, offset, count, self.path);
        pending.and_then(PendingRead::wait).map_err(io::Error::other)
    }

    /// Writes a buffer, through the page cache or as the policy chooses.
    pub fn write(&self, offset: u64, buffer: PooledBuffer, is_buffered: bool) -> io::Result<()> {
        let Some(disk) = &self.disk else {
            return self.file.write(self.path, offset, &buffer);
        };
        let is_aligned = self.file.align_bytes().is_some_and(|align| {
            buffer.len().is_multiple_of(align) && offset.is_multiple_of(align as u64)
        });
        let path = match is_buffered {
            true => IoPath::Buffered,
            false => write_path(disk.mode(), is_aligned, buffer.len()),
        };
        let (op, file) = (Op::Write, self.file.clone());
        let (done, completion) = channel();
        disk.submit(DeviceRequest { op, file, offset, buffer, path, tag: 0 }, &done);
        let ended = |_| io::Error::other("the device queue ended");
        completion.recv().map_err(ended)?.done.map(drop)
    }
}

/// A client's session.
pub(super) struct ServerSession {
    /// Its number among those of the server, for the order of requests.
    pub client: usize,
    state: Mutex<SessionState>,
    has_ended: AtomicBool,
}

#[derive(Default)]
struct SessionState {
    things: HashMap<u64, OpenThing>,
    next_handle: u64,
    closers: Vec<Option<Closer>>,
}

impl ServerSession {
    pub fn new(client: usize) -> ServerSession {
        ServerSession { client, state: Mutex::default(), has_ended: AtomicBool::new(false) }
    }

    /// Gives a thing a handle. Fails if the session has ended or has too many.
    pub fn put(&self, thing: OpenThing) -> Result<u64> {
        let mut state = self.state.lock();
        if self.has_ended.load(SeqCst) || state.things.len() == HANDLES_MAX {
            return Err(Error::resource("the session has ended, or has too many files open"));
        }
        let handle = state.next_handle;
        state.next_handle += 1;
        state.things.insert(handle, thing);
        Ok(handle)
    }

    /// Takes the thing of a handle.
    pub fn take(&self, handle: u64) -> Result<OpenThing> {
        self.state.lock().things.remove(&handle).ok_or_else(unknown_handle)
    }

    /// The segment of a handle.
    pub fn segment(&self, handle: u64) -> Result<Arc<SegmentInUse>> {
        match self.state.lock().things.get(&handle) {
            Some(OpenThing::File(segment)) => Ok(segment.clone()),
            _ => Err(unknown_handle()),
        }
    }

    /// Registers a connection, which is closed when the session ends. Returns its number.
    pub fn enter(&self, closer: Closer) -> Result<usize> {
        let mut state = self.state.lock();
        if self.has_ended.load(SeqCst) {
            return Err(Error::resource("the session has ended"));
        }
        if let Some(free) = state.closers.iter().position(Option::is_none) {
            state.closers[free] = Some(closer);
            return Ok(free);
        }
        if state.closers.len() == CONNECTIONS_MAX {
            return Err(Error::resource("the session has too many connections"));
        }
        state.closers.push(Some(closer));
        Ok(state.closers.len() - 1)
    }

    pub fn leave(&self, connection: usize) {
        self.state.lock().closers[connection] = None;
    }

    /// Closes all connections, and drops all that the client has open: the locks of its folders
    /// are free, and its unpublished files are removed.
    pub fn end(&self) {
        let mut state = self.state.lock();
        self.has_ended.store(true, SeqCst);
        state.closers.iter().flatten().for_each(Closer::close);
        let things = std::mem::take(&mut state.things);
        drop(state);
        drop(things);
    }
}

fn unknown_handle() -> Error {
    Error::usage("the session has no such file open")
}
