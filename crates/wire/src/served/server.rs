//! The server of folders: answers the requests of authenticated clients.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

use arrow::buffer::Buffer;
use euphrates_device::buffer::pool;
use euphrates_device::disk::{Disk, DiskFile, Disks};
use euphrates_device::folder::{DiskFolder, FolderFacts, inside};
use euphrates_flow::{Error, Result};
use euphrates_policy::io_path::{IoPath, ReadPath};
use euphrates_policy::striping::RequestOrder;
use parking_lot::Mutex;

use super::content_memory::ContentMemory;
use super::grants::TransferGrants;
use super::protocol::{
    BLOCK_BYTES_MAX, FileAnswer, FileRequest, FolderOffer, FolderRequest, HandleRequest,
    WHOLE_BYTES_MAX, WorkerOffer, decode, encode, header, os_answer,
};
use super::session::{OpenThing, SegmentInUse, ServerSession};
use crate::connection::Connection;
use crate::frame::{FrameKind, Header};
use crate::lane::Lane;
use crate::secret::Secret;

/// Sessions, at most.
const SESSIONS_MAX: usize = 1024;

/// A folder to serve.
#[derive(Debug)]
pub struct SharedFolder {
    /// The name by which clients ask for it.
    pub name: String,
    /// The folder, of this machine.
    pub folder: Arc<dyn DiskFolder>,
    /// The disks of its home, of which it is one; `None` for a catalog, which has no segments.
    pub disks: Option<Arc<Disks>>,
}

impl SharedFolder {
    /// Fails if a path leads out of the folder: by its parts, or by a link that somebody has put
    /// there.
    fn expect_inside(&self, path: &Path) -> io::Result<()> {
        let folder = self.folder.place();
        let full = inside(folder, path)?;
        if self.folder.local().is_none() {
            // Memory has no links.
            return Ok(());
        }
        let there = full.ancestors().find(|above| fs::symlink_metadata(above).is_ok());
        match there.filter(|there| there.starts_with(folder)) {
            Some(there) if !there.canonicalize()?.starts_with(folder.canonicalize()?) => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            // If there is none, the folder itself is missing.
            _ => Ok(()),
        }
    }

    /// The disk, whose folder exists; `None` for memory.
    fn disk(&self) -> Result<Option<Disk>> {
        if self.folder.local().is_none() {
            return Ok(None);
        }
        let disks = self.disks.as_ref().ok_or_else(|| Error::usage("a catalog has no segments"))?;
        disks.open(&self.name).map(Some)
    }
}

/// Serves folders to the clients of a worker.
pub struct FileServer {
    machine: String,
    home: PathBuf,
    folders: Vec<(SharedFolder, TransferGrants)>,
    lost_after: Option<Duration>,
    sessions: Mutex<HashMap<String, Arc<ServerSession>>>,
    clients: AtomicUsize,
    content: ContentMemory,
}

/// What a request is answered with.
struct Answered {
    answer: FileAnswer,
    body: Buffer,
}

impl FileServer {
    /// A server of folders of a home on this machine, with an order of requests that wait for a
    /// disk. `lost_after` is the heartbeat timeout of clients, if not the default.
    pub fn new(
        machine: &str,
        home: &Path,
        folders: Vec<SharedFolder>,
        order: &RequestOrder,
        lost_after: Option<Duration>,
    ) -> FileServer {
        let folders = folders.into_iter().enumerate();
        let folders =
            folders.map(|(at, folder)| (folder, TransferGrants::new(at, order.clone()))).collect();
        FileServer {
            machine: machine.to_string(),
            home: home.to_path_buf(),
            folders,
            lost_after,
            sessions: Mutex::default(),
            clients: AtomicUsize::new(0),
            content: ContentMemory::default(),
        }
    }

    /// Serves memory that this worker lends, too, which is no disk of the home.
    pub fn lending(mut self, folder: Arc<dyn DiskFolder>) -> FileServer {
        let name = folder.place().display().to_string();
        let grants = TransferGrants::new(self.folders.len(), RequestOrder::Granted);
        self.folders.push((SharedFolder { name, folder, disks: None }, grants));
        self
    }

    /// Serves a session until it ends.
    pub fn serve_session(&self, connection: Connection) -> Result<()> {
        let session = Arc::new(ServerSession::new(self.clients.fetch_add(1, Relaxed)));
        let id = Secret::random()?.to_text();
        {
            let mut sessions = self.sessions.lock();
            if sessions.len() == SESSIONS_MAX {
                return Err(Error::resource("too many clients are served"));
            }
            sessions.insert(id.clone(), session.clone());
        }
        let (ended, end) = channel();
        let on_end = move |_| {
            let _ = ended.send(());
        };
        let served = Lane::start_within(self.lost_after, connection, "files", |_| (), on_end)
            .and_then(|lane| {
                lane.send(header(), encode(&self.offer(&id))?, vec![]);
                // The lane's thread sends once, or has ended.
                let _ = end.recv();
                Ok(())
            });
        self.sessions.lock().remove(&id);
        session.end();
        served
    }

    /// Ends all sessions.
    pub fn close(&self) {
        self.sessions.lock().drain().for_each(|(_, session)| session.end());
    }

    fn offer(&self, session: &str) -> WorkerOffer {
        let of_home = self.folders.iter().filter(|(shared, _)| shared.folder.local().is_some());
        let folders = of_home.map(|(folder, _)| FolderOffer {
            name: folder.name.clone(),
            is_catalog: folder.disks.is_none(),
        });
        WorkerOffer {
            session: session.to_string(),
            machine: self.machine.clone(),
            home: self.home.clone(),
            folders: folders.collect(),
        }
    }

    /// Serves the requests of a connection until it is closed.
    pub fn serve_requests(&self, mut connection: Connection) -> Result<()> {
        let Some(first) = connection.receiver.receive_head()? else { return Ok(()) };
        let FileRequest::Attach { session } = request(&first)? else {
            return Err(Error::usage("a connection for files belongs to no session"));
        };
        let session = self.sessions.lock().get(&session).cloned();
        let session = session.ok_or_else(|| Error::usage("the session has ended"))?;
        let entered = session.enter(connection.closer())?;
        let served = self.serve_entered(&session, &mut connection);
        session.leave(entered);
        served
    }

    fn serve_entered(&self, session: &ServerSession, connection: &mut Connection) -> Result<()> {
        while let Some(head) = connection.receiver.receive_head()? {
            let asked = request(&head)?;
            let length = head.0.body_bytes;
            let is_block = matches!(&asked, FileRequest::Open { .. });
            let most = if is_block { BLOCK_BYTES_MAX as u64 } else { WHOLE_BYTES_MAX };
            if length > most {
                return Err(Error::usage(format!("{length} bytes in a request for files")));
            }
            let answer_bytes = match &asked {
                FileRequest::Open { request: HandleRequest::Read { bytes, .. }, .. } => {
                    u64::from(*bytes)
                }
                FileRequest::Folder { folder, request: FolderRequest::Read { path } } => {
                    self.bytes_of(folder, path)
                }
                _ => 0,
            };
            let _memory = self.content.take(length.max(answer_bytes));
            let mut body = pool().take(length as usize)?;
            connection.receiver.receive_body(&head, &mut body)?;
            let answered = match asked {
                FileRequest::Attach { .. } => Err(Error::usage("the connection has a session")),
                FileRequest::Folder { folder, request } => {
                    self.on_folder(session, &folder, request, &body)
                }
                FileRequest::Open {
                    handle,
                    request: HandleRequest::Write { offset, is_buffered, left },
                } => session.segment(handle).map(|segment| {
                    let (_, grants) = &self.folders[segment.folder];
                    let _granted = grants.wait(session.client, left);
                    done(segment.write(offset, body, is_buffered))
                }),
                FileRequest::Open { handle, request } => self.on_handle(session, handle, request),
            };
            let Answered { answer, body } = answered.unwrap_or_else(|error| Answered {
                answer: FileAnswer::Refused(error),
                body: Buffer::from(&[][..]),
            });
            let sent = connection.sender.send(header(), &encode(&answer)?, &[body]);
            sent.map_err(|error| Error::resource(format!("the client has gone: {error}")))?;
        }
        Ok(())
    }

    fn shared(&self, name: &str) -> Result<(usize, &SharedFolder)> {
        let mut all = self.folders.iter().enumerate();
        let found = all.find(|(_, (folder, _))| folder.name == name);
        let found = found.map(|(at, (folder, _))| (at, folder));
        found.ok_or_else(|| Error::usage(format!("no folder named `{name}` is served here")))
    }

    fn bytes_of(&self, folder: &str, path: &Path) -> u64 {
        let shared = self.shared(folder).ok();
        let opened = shared.and_then(|(_, shared)| {
            shared.expect_inside(path).ok()?;
            shared.folder.open(path).ok()
        });
        opened.and_then(|file| file.bytes().ok()).unwrap_or(0)
    }

    fn on_folder(
        &self,
        session: &ServerSession,
        name: &str,
        request: FolderRequest,
        body: &[u8],
    ) -> Result<Answered> {
        let (at, shared) = self.shared(name)?;
        for path in request.paths() {
            if let Err(error) = shared.expect_inside(path) {
                return Ok(plain(os_answer(&error)));
            }
        }
        let folder = &shared.folder;
        let answer = match request {
            FolderRequest::Facts => os(folder.facts(), |facts| {
                let machine = self.machine.clone();
                FileAnswer::Facts(FolderFacts { machine, ..facts })
            }),
            FolderRequest::Make => os(folder.make(), |()| FileAnswer::Done),
            FolderRequest::Kind { path } => os(folder.kind(&path), FileAnswer::Kind),
            FolderRequest::List { path } => os(folder.list(&path), FileAnswer::Entries),
            FolderRequest::Read { path } => return Ok(self.read_whole(shared, &path)),
            FolderRequest::Write { path, is_synced } => {
                os(folder.write(&path, body, is_synced), |()| FileAnswer::Done)
            }
            FolderRequest::Stage { path } => {
                FileAnswer::Handle(session.put(OpenThing::Staged(folder.stage(&path, body)?))?)
            }
            FolderRequest::Hold { parent, name } => {
                FileAnswer::Handle(session.put(OpenThing::Held(folder.hold(&parent, &name)?))?)
            }
            FolderRequest::IsHeld { parent, name } => {
                FileAnswer::Flag(folder.is_held(&parent, &name))
            }
            FolderRequest::Abandoned { parent } => {
                let mut handles = vec![];
                for abandoned in folder.abandoned(&parent) {
                    let path = abandoned.path().to_path_buf();
                    handles.push((session.put(OpenThing::Abandoned(abandoned))?, path));
                }
                FileAnswer::Handles(handles)
            }
            FolderRequest::ClearStaged { path } => {
                FileAnswer::Count(folder.clear_staged(&path) as u64)
            }
            FolderRequest::Open { path } => self.open(session, (at, shared), folder.open(&path))?,
            FolderRequest::Create { path } => {
                self.open(session, (at, shared), folder.create(&path))?
            }
            FolderRequest::Link { from, to } => os(folder.link(&from, &to), |()| FileAnswer::Done),
            FolderRequest::MoveFolder { from, to } => {
                os(folder.move_folder(&from, &to), |()| FileAnswer::Done)
            }
            FolderRequest::SyncFolder { path } => {
                os(folder.sync_folder(&path), |()| FileAnswer::Done)
            }
            FolderRequest::RemoveFile { path } => {
                os(folder.remove_file(&path), |()| FileAnswer::Done)
            }
            FolderRequest::RemoveFolder { path } => {
                os(folder.remove_folder(&path), |()| FileAnswer::Done)
            }
            FolderRequest::RemoveEmpty { path } => {
                folder.remove_empty(&path);
                FileAnswer::Done
            }
        };
        Ok(plain(answer))
    }

    fn read_whole(&self, shared: &SharedFolder, path: &Path) -> Answered {
        let is_small = |file: &DiskFile| file.bytes().is_ok_and(|bytes| bytes <= WHOLE_BYTES_MAX);
        let opened = shared.folder.open(path);
        let read = opened.and_then(|file| match is_small(&file) {
            true => shared.folder.read(path),
            false => Err(io::ErrorKind::InvalidInput.into()),
        });
        match read {
            Ok(bytes) => Answered { answer: FileAnswer::Content, body: Buffer::from_vec(bytes) },
            Err(error) => plain(os_answer(&error)),
        }
    }

    fn open(
        &self,
        session: &ServerSession,
        (at, shared): (usize, &SharedFolder),
        opened: io::Result<DiskFile>,
    ) -> Result<FileAnswer> {
        let opened = opened.and_then(|file| file.bytes().map(|bytes| (file, bytes)));
        let (file, bytes) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(os_answer(&error)),
        };
        let disk = shared.disk()?;
        let path = disk
            .as_ref()
            .map_or(IoPath::Buffered, |disk| ReadPath::new(disk.facts(&file, bytes)).cold());
        let segment = SegmentInUse { folder: at, disk, file: Arc::new(file), path };
        Ok(FileAnswer::Handle(session.put(OpenThing::File(Arc::new(segment)))?))
    }

    fn on_handle(
        &self,
        session: &ServerSession,
        handle: u64,
        request: HandleRequest,
    ) -> Result<Answered> {
        let answer = match request {
            HandleRequest::Read { offset, bytes, left } => {
                let segment = session.segment(handle)?;
                let (_, grants) = &self.folders[segment.folder];
                let bytes = bytes as usize;
                if bytes > BLOCK_BYTES_MAX {
                    return Err(Error::usage(format!("{bytes} bytes are no block")));
                }
                let granted = grants.wait(session.client, left);
                let read = segment.read(offset, bytes);
                drop(granted);
                return Ok(match read {
                    Ok(body) => Answered { answer: FileAnswer::Content, body },
                    Err(error) => plain(os_answer(&error)),
                });
            }
            HandleRequest::Write { .. } => return Err(Error::failed("a write has a body")),
            HandleRequest::Bytes => os(session.segment(handle)?.file.bytes(), FileAnswer::Count),
            HandleRequest::Sync => os(session.segment(handle)?.file.sync(), |()| FileAnswer::Done),
            HandleRequest::Publish | HandleRequest::Replace => {
                let is_new = matches!(request, HandleRequest::Publish);
                if let Ok(segment) = session.segment(handle) {
                    return Ok(plain(os(segment.file.publish(), |()| FileAnswer::Done)));
                }
                match session.take(handle)? {
                    OpenThing::Staged(staged) if is_new => {
                        FileAnswer::Published(staged.publish()?.into())
                    }
                    OpenThing::Staged(staged) => {
                        FileAnswer::Published(Some(staged.replace()?).into())
                    }
                    _ => return Err(Error::usage("that cannot be published")),
                }
            }
            HandleRequest::Remove => match session.take(handle)? {
                OpenThing::Held(held) => {
                    held.remove();
                    FileAnswer::Done
                }
                OpenThing::Abandoned(folder) => os(folder.remove(), |()| FileAnswer::Done),
                _ => return Err(Error::usage("that cannot be removed")),
            },
            HandleRequest::Drop => {
                drop(session.take(handle)?);
                FileAnswer::Done
            }
        };
        Ok(plain(answer))
    }
}

fn request(head: &(Header, Vec<u8>)) -> Result<FileRequest> {
    match head.0.kind {
        FrameKind::Files => decode(&head.1),
        _ => Err(Error::usage("a frame that is no request for files")),
    }
}

fn os<T>(result: io::Result<T>, answer: impl FnOnce(T) -> FileAnswer) -> FileAnswer {
    match result {
        Ok(value) => answer(value),
        Err(error) => os_answer(&error),
    }
}

fn done(written: io::Result<()>) -> Answered {
    plain(os(written, |()| FileAnswer::Done))
}

fn plain(answer: FileAnswer) -> Answered {
    Answered { answer, body: Buffer::from(&[][..]) }
}
