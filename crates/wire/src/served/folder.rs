//! A folder at a worker, as a folder of a disk.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use euphrates_device::disk::DiskFile;
use euphrates_device::durable::Durability;
use euphrates_device::folder::{
    AbandonedFolder, DiskFolder, EntryKind, FolderEntry, FolderFacts, FolderTree, HeldFolder,
    SmallFiles, StagedSmallFile,
};
use euphrates_device::lent_memory::LENT_MEMORY;
use euphrates_device::served::{Connector, ServedFolderAddress, WorkerAccess};
use euphrates_flow::{Error, Owner, Result};

use super::calls::{FileAtWorker, FolderAtWorker, checked, unexpected};
use super::client::{Content, ServedWorker};
use super::protocol::{FileAnswer, FileRequest, FolderRequest, HandleRequest};
use crate::address::Address;
use crate::connection::Security;
use crate::secret::Secret;

/// Opens folders by sessions with their workers, one for each worker.
#[derive(Debug, Default)]
pub struct ServedConnector;

impl Connector for ServedConnector {
    fn folder(
        &self,
        at: &ServedFolderAddress,
        machine: &str,
        access: &WorkerAccess,
    ) -> Result<Arc<dyn DiskFolder>> {
        let worker = ServedWorker::of(at, access)?;
        Ok(Arc::new(ServedFolder::new(worker, (&at.folder, machine), None)))
    }
}

/// The memory that another worker lends to this one, `me`; connects at its first use.
pub fn lent_by(
    me: &str,
    worker: &str,
    address: &Address,
    access: (&Secret, Security),
    lost_after: Option<Duration>,
) -> Result<Arc<dyn DiskFolder>> {
    let worker = ServedWorker::neighbour(worker, address, access, lost_after)?;
    Ok(Arc::new(ServedFolder::new(worker, (LENT_MEMORY, ""), Some(me.to_string()))))
}

/// A folder that a worker serves.
#[derive(Debug)]
struct ServedFolder(Arc<FolderAtWorker>);

impl ServedFolder {
    fn new(
        worker: Arc<ServedWorker>,
        (name, machine): (&str, &str),
        me: Option<String>,
    ) -> ServedFolder {
        let place = Path::new(&format!("{}:", worker.name)).join(name.trim_start_matches('/'));
        let (name, machine) = (name.to_string(), machine.to_string());
        ServedFolder(Arc::new(FolderAtWorker { worker, name, machine, place, me }))
    }

    fn file(&self, path: &Path, opened: (u64, u64), is_new: bool) -> DiskFile {
        let file = FileAtWorker::new(&self.0, path, opened, is_new);
        DiskFile::served(self.0.place.join(path), Box::new(file))
    }
}

impl DiskFolder for ServedFolder {
    fn place(&self) -> &Path {
        &self.0.place
    }

    fn local(&self) -> Option<&Path> {
        None
    }

    fn facts(&self) -> io::Result<FolderFacts> {
        match self.0.ask(FolderRequest::Facts, &[])?.0 {
            FileAnswer::Facts(facts) if self.0.machine.is_empty() => Ok(facts),
            FileAnswer::Facts(facts) => {
                Ok(FolderFacts { machine: self.0.machine.clone(), ..facts })
            }
            _ => Err(unexpected()),
        }
    }

    fn make(&self) -> io::Result<()> {
        self.0.done(FolderRequest::Make, &[])
    }

    fn open(&self, path: &Path) -> io::Result<DiskFile> {
        let opened = self.0.handle(FolderRequest::Open { path: path.into() }, &[])?;
        Ok(self.file(path, opened, false))
    }

    fn create(&self, path: &Path) -> io::Result<DiskFile> {
        let opened = self.0.handle(FolderRequest::Create { path: path.into() }, &[])?;
        Ok(self.file(path, opened, true))
    }
}

impl SmallFiles for ServedFolder {
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        match self.0.ask(FolderRequest::Kind { path: path.into() }, &[])?.0 {
            FileAnswer::Kind(kind) => Ok(kind),
            _ => Err(unexpected()),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        match self.0.ask(FolderRequest::List { path: path.into() }, &[])?.0 {
            FileAnswer::Entries(entries) => Ok(entries),
            _ => Err(unexpected()),
        }
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let (folder, request) = (self.0.name.clone(), FolderRequest::Read { path: path.into() });
        let request = FileRequest::Folder { folder, request };
        let mut bytes = vec![];
        let mut content = Content::Whole(&mut bytes);
        let (answer, _) = self.0.worker.call(&request, &[], &mut content, None)?;
        match checked(answer)? {
            FileAnswer::Content => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    fn write(&self, path: &Path, bytes: &[u8], is_synced: bool) -> io::Result<()> {
        self.0.done(FolderRequest::Write { path: path.into(), is_synced }, bytes)
    }

    fn stage(&self, path: &Path, bytes: &[u8]) -> Result<Box<dyn StagedSmallFile>> {
        let staged = self.0.handle(FolderRequest::Stage { path: path.into() }, bytes);
        let staged = staged.map_err(|error| self.failed("write", path, &error))?;
        Ok(Box::new(StagedAtWorker(HandleAtWorker::new(&self.0, path, staged))))
    }

    fn clear_staged(&self, path: &Path) -> usize {
        match self.0.ask(FolderRequest::ClearStaged { path: path.into() }, &[]) {
            Ok((FileAnswer::Count(count), _)) => count as usize,
            _ => 0,
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.done(FolderRequest::Link { from: from.into(), to: to.into() }, &[])
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.done(FolderRequest::RemoveFile { path: path.into() }, &[])
    }
}

impl FolderTree for ServedFolder {
    fn hold(&self, parent: &Path, name: &str) -> Result<Box<dyn HeldFolder>> {
        let request = FolderRequest::Hold { parent: parent.into(), name: name.into() };
        let path = parent.join(name);
        let held = self.0.handle(request, &[]);
        let held = held.map_err(|error| self.failed("make the folder", &path, &error))?;
        Ok(Box::new(HandleAtWorker::new(&self.0, &path, held)))
    }

    fn is_held(&self, parent: &Path, name: &str) -> bool {
        let request = FolderRequest::IsHeld { parent: parent.into(), name: name.into() };
        // Nobody removes what may be held.
        !matches!(self.0.ask(request, &[]), Ok((FileAnswer::Flag(false), _)))
    }

    fn abandoned(&self, parent: &Path) -> Vec<Box<dyn AbandonedFolder>> {
        let asked = self.0.ask(FolderRequest::Abandoned { parent: parent.into() }, &[]);
        let Ok((FileAnswer::Handles(handles), session)) = asked else { return vec![] };
        let of = |(handle, path): (u64, PathBuf)| -> Box<dyn AbandonedFolder> {
            Box::new(HandleAtWorker::new(&self.0, &path, (handle, session)))
        };
        handles.into_iter().map(of).collect()
    }

    fn move_folder(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.done(FolderRequest::MoveFolder { from: from.into(), to: to.into() }, &[])
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.0.done(FolderRequest::SyncFolder { path: path.into() }, &[])
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.0.done(FolderRequest::RemoveFolder { path: path.into() }, &[])
    }

    fn remove_empty(&self, path: &Path) {
        // What is left empty is no error.
        let _ = self.0.done(FolderRequest::RemoveEmpty { path: path.into() }, &[]);
    }
}

impl ServedFolder {
    fn failed(&self, doing: &str, path: &Path, error: &io::Error) -> Error {
        Error::os(doing, self.0.place.join(path), error)
    }
}

/// Something that the session has at the worker. Dropping it drops it there.
struct HandleAtWorker {
    at: Arc<FolderAtWorker>,
    path: PathBuf,
    /// Handle and session; `None` once it has been consumed.
    handle: Option<(u64, u64)>,
    owner: Owner,
}

impl fmt::Debug for HandleAtWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandleAtWorker").field("path", &self.path).finish_non_exhaustive()
    }
}

impl HandleAtWorker {
    fn new(at: &Arc<FolderAtWorker>, path: &Path, handle: (u64, u64)) -> HandleAtWorker {
        let (at, path) = (at.clone(), path.to_path_buf());
        HandleAtWorker { at, path, handle: Some(handle), owner: Owner::here() }
    }

    /// Consumes it with a last request.
    fn end(&mut self, request: HandleRequest) -> io::Result<FileAnswer> {
        let handle = self.handle.take().ok_or_else(unexpected)?;
        self.at.of_handle(handle, request, &[], &mut Content::None)
    }

    fn publish(&mut self, request: HandleRequest) -> Result<Option<Durability>> {
        let answer = self.end(request);
        let answer =
            answer.map_err(|error| Error::os("publish", self.at.place.join(&self.path), &error))?;
        match answer {
            FileAnswer::Published(published) => Ok(published.into()),
            _ => Err(Error::failed(unexpected())),
        }
    }
}

impl Drop for HandleAtWorker {
    fn drop(&mut self) {
        if self.owner.is_here() && self.handle.is_some() {
            // A worker that is out of reach drops it when the session ends.
            let _ = self.end(HandleRequest::Drop);
        }
    }
}

struct StagedAtWorker(HandleAtWorker);

impl StagedSmallFile for StagedAtWorker {
    fn publish(mut self: Box<Self>) -> Result<Option<Durability>> {
        self.0.publish(HandleRequest::Publish)
    }

    fn replace(mut self: Box<Self>) -> Result<Durability> {
        let replaced = self.0.publish(HandleRequest::Replace)?;
        replaced.ok_or_else(|| Error::failed(unexpected()))
    }
}

impl HeldFolder for HandleAtWorker {
    fn path(&self) -> &Path {
        &self.path
    }

    fn remove(mut self: Box<Self>) {
        if self.owner.is_here() {
            // The next writer reclaims what cannot be removed now.
            let _ = self.end(HandleRequest::Remove);
        }
    }
}

impl AbandonedFolder for HandleAtWorker {
    fn path(&self) -> &Path {
        &self.path
    }

    fn remove(mut self: Box<Self>) -> io::Result<()> {
        self.end(HandleRequest::Remove).map(drop)
    }
}
