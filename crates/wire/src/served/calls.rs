//! Calls for a folder at a worker, and for a segment that is open there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use euphrates_device::disk::{LostLink, ServedFile};
use euphrates_flow::Owner;
use euphrates_flow::sync::Mutex;
use euphrates_policy::io_path::IoPath;

use super::client::{Content, ServedWorker, calls_outstanding};
use super::protocol::{FileAnswer, FileRequest, FolderRequest, HandleRequest};

/// A folder of a worker, as this process reaches it.
#[derive(Debug)]
pub(super) struct FolderAtWorker {
    pub worker: Arc<ServedWorker>,
    pub name: String,
    pub machine: String,
    pub place: PathBuf,
    /// The name of this process, if it is a worker of the same cluster: a link that is lost between
    /// the two is then a fault of the flow.
    pub me: Option<String>,
}

impl FolderAtWorker {
    pub fn ask(&self, request: FolderRequest, body: &[u8]) -> io::Result<(FileAnswer, u64)> {
        let request = FileRequest::Folder { folder: self.name.clone(), request };
        let called = self.worker.call(&request, body, &mut Content::None, None);
        let (answer, session) = called.map_err(|error| self.lost(error))?;
        Ok((checked(answer)?, session))
    }

    pub fn done(&self, request: FolderRequest, body: &[u8]) -> io::Result<()> {
        match self.ask(request, body)?.0 {
            FileAnswer::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    pub fn handle(&self, request: FolderRequest, body: &[u8]) -> io::Result<(u64, u64)> {
        match self.ask(request, body)? {
            (FileAnswer::Handle(handle), session) => Ok((handle, session)),
            _ => Err(unexpected()),
        }
    }

    pub fn of_handle(
        &self,
        (handle, session): (u64, u64),
        request: HandleRequest,
        body: &[u8],
        content: &mut Content<'_>,
    ) -> io::Result<FileAnswer> {
        let request = FileRequest::Open { handle, request };
        let called = self.worker.call(&request, body, content, Some(session));
        checked(called.map_err(|error| self.lost(error))?.0)
    }

    /// An error of a call, which carries the link that has failed.
    pub fn lost(&self, error: io::Error) -> io::Error {
        let Some(me) = &self.me else { return error };
        let ends = [me.clone(), self.worker.name.clone()];
        io::Error::new(error.kind(), LostLink { ends, message: error.to_string() })
    }
}

/// An answer that is no error.
pub(super) fn checked(answer: FileAnswer) -> io::Result<FileAnswer> {
    match answer {
        FileAnswer::Os(errno) => Err(io::Error::from_raw_os_error(errno)),
        FileAnswer::Refused(error) => Err(io::Error::other(error.message().to_string())),
        answer => Ok(answer),
    }
}

pub(super) fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the worker answers what was not asked")
}

/// A segment that the session has open.
#[derive(Debug)]
pub(super) struct FileAtWorker {
    at: Arc<FolderAtWorker>,
    path: PathBuf,
    opened: Mutex<SegmentHandle>,
    /// Whether it is being written: it cannot be opened again.
    is_new: bool,
    owner: Owner,
}

#[derive(Clone, Copy, Debug)]
struct SegmentHandle {
    handle: u64,
    session: u64,
}

impl FileAtWorker {
    /// A file that was opened with this handle, in the session of this number.
    pub fn new(
        at: &Arc<FolderAtWorker>,
        path: &Path,
        (handle, session): (u64, u64),
        is_new: bool,
    ) -> FileAtWorker {
        let opened = Mutex::new(SegmentHandle { handle, session });
        let (at, path) = (at.clone(), path.to_path_buf());
        FileAtWorker { at, path, opened, is_new, owner: Owner::here() }
    }

    fn ask(
        &self,
        request: HandleRequest,
        body: &[u8],
        content: &mut Content<'_>,
    ) -> io::Result<FileAnswer> {
        let SegmentHandle { handle, session } = *self.opened.lock();
        self.at.of_handle((handle, session), request, body, content)
    }

    fn done(&self, request: HandleRequest) -> io::Result<()> {
        self.ask(request, &[], &mut Content::None).map(drop)
    }

    fn read_once(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = u32::try_from(buffer.len()).map_err(io::Error::other)?;
        let mut content = Content::Into(buffer);
        let request = HandleRequest::Read { offset, bytes, left: calls_outstanding() };
        match (self.ask(request, &[], &mut content)?, content) {
            (FileAnswer::Content, Content::Into(read)) => Ok(read.len()),
            _ => Err(unexpected()),
        }
    }

    /// Opens a file for reading again after the session in which it was open has ended.
    fn reopen(&self) -> io::Result<()> {
        let mut opened = self.opened.lock();
        let request = FolderRequest::Open { path: self.path.clone() };
        // Lent memory is free when the session ends.
        let again = self.at.handle(request, &[]).map_err(|error| self.at.lost(error));
        let (handle, session) = again?;
        *opened = SegmentHandle { handle, session };
        Ok(())
    }
}

impl ServedFile for FileAtWorker {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self.read_once(offset, buffer) {
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle && !self.is_new => {
                self.reopen()?;
                self.read_once(offset, buffer)
            }
            read => read,
        }
    }

    fn write(&self, path: IoPath, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let is_buffered = path == IoPath::Buffered;
        let request = HandleRequest::Write { offset, is_buffered, left: calls_outstanding() };
        self.ask(request, bytes, &mut Content::None).map(drop)
    }

    fn bytes(&self) -> io::Result<u64> {
        match self.ask(HandleRequest::Bytes, &[], &mut Content::None)? {
            FileAnswer::Count(bytes) => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    fn publish(&self) -> io::Result<()> {
        self.done(HandleRequest::Publish)
    }

    fn sync(&self) -> io::Result<()> {
        self.done(HandleRequest::Sync)
    }
}

impl Drop for FileAtWorker {
    fn drop(&mut self) {
        if self.owner.is_here() {
            let SegmentHandle { handle, session } = *self.opened.lock();
            let handle = (handle, session);
            // A worker that is out of reach closes it when the session ends.
            let _ = self.at.of_handle(handle, HandleRequest::Drop, &[], &mut Content::None);
        }
    }
}
