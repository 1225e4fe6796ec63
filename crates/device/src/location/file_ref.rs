//! Input files: local ones, objects of a store, files that a web server has returned whole, and
//! striped files.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use euphrates_flow::Result;

use crate::blob::Blob;
use crate::remote::{Identity, RemoteObject};
use crate::striped::{SCHEME, StripedInput};

/// A file that existed when it was looked up.
///
/// ```
/// use euphrates_device::location::FileRef;
///
/// let file = tempfile::NamedTempFile::new()?;
/// let reference = FileRef::local(file.path());
/// assert!(reference.is_local() && reference.bytes() == 0);
/// let before = reference.version();
/// std::fs::write(file.path(), "12345")?;
/// assert_eq!(reference.bytes(), 5);
/// assert_ne!(reference.version(), before);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct FileRef {
    /// The path or URL, as errors show it.
    pub name: String,
    pub(super) backend: Backend,
}

#[derive(Clone)]
pub(super) enum Backend {
    Local(PathBuf),
    Remote(RemoteObject, Identity),
    /// A file that was downloaded.
    Whole(Identity, Arc<File>),
    Striped(Arc<StripedInput>),
}

impl FileRef {
    /// A local path; does not check that the file exists.
    pub fn local(path: impl Into<PathBuf>) -> FileRef {
        let path = path.into();
        FileRef { name: path.display().to_string(), backend: Backend::Local(path) }
    }

    pub(super) fn remote((object, identity): (RemoteObject, Identity)) -> FileRef {
        FileRef { name: object.name(), backend: Backend::Remote(object, identity) }
    }

    /// Keeps what the cache has of it as long as the scan exists that has found it.
    pub(super) fn hold(&self) {
        if let Backend::Remote(object, identity) = &self.backend {
            object.options().reads().map(|reads| reads.open(object.version(identity)));
        }
    }

    pub(super) fn striped(input: StripedInput) -> FileRef {
        let name = format!("{SCHEME}{}", input.entry.path);
        FileRef { name, backend: Backend::Striped(Arc::new(input)) }
    }

    /// Opens it for positioned reads.
    pub fn open(&self) -> Result<Blob> {
        match &self.backend {
            Backend::Local(path) => Blob::open_local(path),
            Backend::Remote(object, it) => {
                Ok(Blob::open_remote(object.clone(), it.clone(), object.options().reads()))
            }
            Backend::Whole(it, file) => Blob::open_whole(&self.name, it.bytes, file),
            Backend::Striped(input) => {
                Ok(Blob::open_striped(&self.name, input.entry.bytes, input.open()?))
            }
        }
    }

    /// Whether it is on a file system of this machine.
    pub fn is_local(&self) -> bool {
        matches!(self.backend, Backend::Local(_))
    }

    /// Its absolute name, which is valid in any working directory.
    pub fn standing(&self) -> String {
        match &self.backend {
            Backend::Local(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                path.display().to_string()
            }
            Backend::Remote(..) | Backend::Whole(..) | Backend::Striped(..) => self.name.clone(),
        }
    }

    /// Its length in bytes; 0 for a local file that is missing.
    pub fn bytes(&self) -> u64 {
        match &self.backend {
            Backend::Local(path) => std::fs::metadata(path).map_or(0, |about| about.len()),
            Backend::Remote(_, identity) | Backend::Whole(identity, _) => identity.bytes,
            Backend::Striped(input) => input.entry.bytes,
        }
    }

    /// A fingerprint that distinguishes it from any other file of this name, past or future; empty
    /// for a local file that is missing.
    pub fn version(&self) -> String {
        match &self.backend {
            Backend::Local(path) => std::fs::metadata(path).map_or(String::new(), |about| {
                format!("{}.{:09} {}", about.mtime(), about.mtime_nsec(), about.len())
            }),
            Backend::Remote(_, identity) | Backend::Whole(identity, _) => identity.to_string(),
            Backend::Striped(input) => input.entry.version.clone(),
        }
    }
}
