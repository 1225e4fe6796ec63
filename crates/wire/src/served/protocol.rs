//! The requests for served folders, and their answers. Content of files is the body of a frame.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use euphrates_device::durable::Durability;
use euphrates_device::folder::{EntryKind, FolderEntry, FolderFacts};
use euphrates_flow::{Error, Result};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::frame::{Caps, FrameKind, Header};
use crate::greeting::Greeting;
use crate::heartbeat;

/// The purpose of a session's connection.
pub const FILES: &str = "files";
/// The purpose of the connections on which a session sends requests.
pub const FILE_REQUESTS: &str = "file-requests";
/// The longest block of a segment, in bytes.
pub(super) const BLOCK_BYTES_MAX: usize = 64 << 20;
/// The longest file that is read or written as a whole, in bytes: the map of the largest file.
pub(super) const WHOLE_BYTES_MAX: u64 = 1 << 30;
/// How long a client waits for a connection.
pub(super) const DIAL_WAIT: Duration = Duration::from_secs(5);

/// What a worker serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerOffer {
    /// The session that the connection is.
    pub session: String,
    /// The machine of the worker: workers of one machine fail together.
    pub machine: String,
    /// The folder of the home that it serves, as it is written on disks.
    pub home: PathBuf,
    /// The folders.
    pub folders: Vec<FolderOffer>,
}

/// A folder that a worker serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FolderOffer {
    /// The name of the disk.
    pub name: String,
    /// Whether it is the catalog of the home, and no disk.
    pub is_catalog: bool,
}

/// A request. Paths are relative to the folder, which is one of those that the worker offers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FileRequest {
    /// The first request of a connection: the session that it belongs to.
    Attach { session: String },
    /// For a folder.
    Folder { folder: String, request: FolderRequest },
    /// For something that the session has open.
    Open { handle: u64, request: HandleRequest },
}

/// A request for a folder: a method of `DiskFolder`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FolderRequest {
    Facts,
    Make,
    Kind { path: PathBuf },
    List { path: PathBuf },
    Read { path: PathBuf },
    Write { path: PathBuf, is_synced: bool },
    Stage { path: PathBuf },
    Hold { parent: PathBuf, name: String },
    IsHeld { parent: PathBuf, name: String },
    Abandoned { parent: PathBuf },
    ClearStaged { path: PathBuf },
    Open { path: PathBuf },
    Create { path: PathBuf },
    Link { from: PathBuf, to: PathBuf },
    MoveFolder { from: PathBuf, to: PathBuf },
    SyncFolder { path: PathBuf },
    RemoveFile { path: PathBuf },
    RemoveFolder { path: PathBuf },
    RemoveEmpty { path: PathBuf },
}

/// A request for an open file, a staged file, or a folder that is held or abandoned.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HandleRequest {
    /// Reads a range; `left` is the number of transfers that the client has outstanding.
    Read {
        offset: u64,
        bytes: u32,
        left: u64,
    },
    /// Writes the body.
    Write {
        offset: u64,
        is_buffered: bool,
        left: u64,
    },
    Bytes,
    Publish,
    Replace,
    Sync,
    /// Removes a held or abandoned folder.
    Remove,
    /// Closes it.
    Drop,
}

impl FolderRequest {
    /// The paths that it names.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            FolderRequest::Facts | FolderRequest::Make => vec![],
            FolderRequest::Kind { path }
            | FolderRequest::List { path }
            | FolderRequest::Read { path }
            | FolderRequest::Write { path, .. }
            | FolderRequest::Stage { path }
            | FolderRequest::ClearStaged { path }
            | FolderRequest::Open { path }
            | FolderRequest::Create { path }
            | FolderRequest::SyncFolder { path }
            | FolderRequest::RemoveFile { path }
            | FolderRequest::RemoveFolder { path }
            | FolderRequest::RemoveEmpty { path } => vec![path],
            FolderRequest::Link { from, to } | FolderRequest::MoveFolder { from, to } => {
                vec![from, to]
            }
            // A name is a part of a path, which the folder checks.
            FolderRequest::Hold { parent, .. }
            | FolderRequest::IsHeld { parent, .. }
            | FolderRequest::Abandoned { parent } => vec![parent],
        }
    }

    /// Whether it may be sent again when its connection has broken: the second has the effect of
    /// the first.
    pub fn is_repeatable(&self) -> bool {
        !matches!(
            self,
            FolderRequest::Stage { .. }
                | FolderRequest::Hold { .. }
                | FolderRequest::Abandoned { .. }
                | FolderRequest::Create { .. }
                | FolderRequest::Link { .. }
                | FolderRequest::MoveFolder { .. }
        )
    }
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FileAnswer {
    Done,
    Facts(FolderFacts),
    Kind(Option<EntryKind>),
    Entries(Vec<FolderEntry>),
    Flag(bool),
    Count(u64),
    Handle(u64),
    /// Open or abandoned: handles, and paths in the folder.
    Handles(Vec<(u64, PathBuf)>),
    /// The body.
    Content,
    Published(PublicationAnswer),
    /// The error of a system call.
    Os(i32),
    /// Any other error.
    Refused(Error),
}

/// The result of a publication.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum PublicationAnswer {
    Taken,
    Durable,
    Unknown(Error),
}

impl From<Option<Durability>> for PublicationAnswer {
    fn from(published: Option<Durability>) -> PublicationAnswer {
        match published {
            None => PublicationAnswer::Taken,
            Some(Durability::Durable) => PublicationAnswer::Durable,
            Some(Durability::Unknown(error) | Durability::Unanswered(error)) => {
                PublicationAnswer::Unknown(error)
            }
        }
    }
}

impl From<PublicationAnswer> for Option<Durability> {
    fn from(answer: PublicationAnswer) -> Option<Durability> {
        match answer {
            PublicationAnswer::Taken => None,
            PublicationAnswer::Durable => Some(Durability::Durable),
            PublicationAnswer::Unknown(error) => Some(Durability::Unknown(error)),
        }
    }
}

/// The answer for an error, as the client can tell errors apart.
pub(super) fn os_answer(error: &io::Error) -> FileAnswer {
    let errno = error.raw_os_error().unwrap_or_else(|| {
        let errno = match error.kind() {
            io::ErrorKind::NotFound => Errno::NOENT,
            io::ErrorKind::PermissionDenied => Errno::ACCESS,
            io::ErrorKind::NotADirectory => Errno::NOTDIR,
            io::ErrorKind::InvalidInput => Errno::INVAL,
            io::ErrorKind::AlreadyExists => Errno::EXIST,
            io::ErrorKind::StorageFull | io::ErrorKind::WriteZero => Errno::NOSPC,
            _ => Errno::IO,
        };
        errno.raw_os_error()
    });
    FileAnswer::Os(errno)
}

pub(super) fn header() -> Header {
    Header::of(FrameKind::Files)
}

pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(message).map_err(Error::failed)
}

pub(super) fn decode<T: DeserializeOwned>(meta: &[u8]) -> Result<T> {
    serde_json::from_slice(meta)
        .map_err(|error| Error::corrupt(format!("no request for files that can be read: {error}")))
}

/// The greeting of a client.
pub(super) fn client_greeting(purpose: &str) -> Greeting {
    Greeting {
        name: "client".into(),
        purpose: purpose.into(),
        flow: 0,
        epoch: 0,
        lane: 0,
        program: env!("CARGO_PKG_VERSION").into(),
        silence_ms: heartbeat::advertised_timeout().as_millis() as u32,
        caps: Caps::KNOWN,
        abilities: vec![],
    }
}
