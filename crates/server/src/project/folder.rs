//! The files of the project's folder. No path leads out of it, by `..`, by a symbolic link, or by
//! one that is swapped during the access: the kernel resolves paths (`openat2`), so the file that
//! is checked is the file that is opened.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use euphrates_flow::Error;
use ring::digest::{SHA256, digest};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, fstat, fsync, openat2,
    renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::http::error::{ApiError, Result};
use crate::secret::{hex, secret};

/// The largest file that is read or written, in bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// The longest path of a file, in bytes.
const PATH_BYTES_MAX: usize = 1024;

/// The folder, held open.
pub struct ProjectFolder {
    folder: OwnedFd,
    /// The canonical path of the folder.
    pub path: PathBuf,
}

/// A text file and its version.
pub struct ProjectFile {
    pub text: String,
    /// A hash of the content.
    pub version: String,
}

/// The modification time (seconds, nanoseconds) and the inode of a file; `None` if there is none.
pub type FileStamp = Option<[i64; 3]>;

impl ProjectFolder {
    /// Opens an existing folder.
    pub fn open(path: &Path) -> euphrates_flow::Result<ProjectFolder> {
        let cannot = |error: std::io::Error| Error::os("open the project's folder", path, &error);
        let path = path.canonicalize().map_err(cannot)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&path, flags, Mode::empty());
        let folder = folder.map_err(|error| cannot(error.into()))?;
        let opened = ProjectFolder { folder, path };
        opened
            .resolve(".", OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|error| cannot(error.into()))?;
        Ok(opened)
    }

    /// Opens a folder of the project, to be listed.
    pub fn subfolder(&self, path: &str) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { "." } else { path };
        self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Reads a text file. The caller has checked the name.
    pub fn read(&self, path: &str) -> Result<ProjectFile> {
        Ok(self.open_file(path)?.0)
    }

    /// The first bytes and the status of a regular file.
    pub fn read_start(&self, path: &str, bytes: u64) -> Option<(Vec<u8>, Stat)> {
        let (file, stat) = self.regular(path).ok()?;
        let mut start = vec![];
        file.take(bytes).read_to_end(&mut start).ok()?;
        Some((start, stat))
    }

    /// The stamp of a file, which differs after a change.
    pub fn stamp(&self, path: &str) -> FileStamp {
        let (_, stat) = self.regular(path).ok()?;
        Some([stat.st_mtime, stat.st_mtime_nsec as i64, stat.st_ino as i64])
    }

    /// Replaces or creates a file, atomically and durably, and returns its new version. Fails if
    /// the current version is not `seen`; `None` stands for a file that does not exist.
    pub fn write(&self, path: &str, text: &str, seen: Option<&str>) -> Result<String> {
        if text.len() as u64 > FILE_BYTES_MAX {
            let message = format!("{path} would be longer than {FILE_BYTES_MAX} bytes");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message));
        }
        let mode = match (self.open_file(path), seen) {
            (Ok((there, _)), _) if seen != Some(&there.version) => {
                return Err(conflict(path).with("version", there.version).with("text", there.text));
            }
            // The folder's permissions would allow a replacement, but the file is read-only.
            (Ok((_, stat)), _) if stat.st_mode & 0o222 == 0 => {
                let error = ApiError::forbidden(format!("{path} may only be read"));
                return Err(error.remedy("save under another name, or make it writable"));
            }
            (Ok((_, stat)), _) => Mode::from_raw_mode(stat.st_mode & 0o777),
            (Err(error), Some(_)) if error.status == StatusCode::NOT_FOUND => {
                return Err(conflict(path).with("version", ()).with("text", ()));
            }
            (Err(error), _) if error.status != StatusCode::NOT_FOUND => return Err(error),
            (Err(_), _) => Mode::from_raw_mode(0o666),
        };
        self.replace(path, text, (mode, seen.is_none()))?;
        Ok(version_of(text.as_bytes()))
    }

    /// Removes a file; a missing one is no error.
    pub fn remove(&self, path: &str) -> Result<()> {
        let (folder, name) = self.parent(path)?;
        match unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(cannot("remove", path, error)),
        }
    }

    /// Writes and syncs a temporary file beside the file, and renames it.
    fn replace(&self, path: &str, text: &str, (mode, is_new): (Mode, bool)) -> Result<()> {
        let (folder, name) = self.parent(path)?;
        let staged = format!(".{name}.{}", &secret()?[..12]);
        let failed = |error: Errno| cannot("write", path, error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&folder, &staged, flags | OFlags::CLOEXEC, mode);
        let mut file = File::from(file.map_err(failed)?);
        let written = (|| {
            file.write_all(text.as_bytes())
                .map_err(|error| ApiError::from(Error::os("write", path, &error)))?;
            fsync(&file).map_err(failed)?;
            if !is_new {
                // The umask must not change the mode of an existing file.
                rustix::fs::fchmod(&file, mode).map_err(failed)?;
            }
            let flags = if is_new { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
            match renameat_with(&folder, &staged, &folder, name, flags) {
                Err(Errno::EXIST) => Err(conflict(path)),
                renamed => renamed.map_err(failed),
            }?;
            fsync(&folder).map_err(failed)
        })();
        if written.is_err() {
            let _ = unlinkat(&folder, &staged, AtFlags::empty());
        }
        written
    }

    /// Opens the folder of a file; returns it and the file's name.
    fn parent<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        let opened = self.resolve(folder, OFlags::RDONLY | OFlags::DIRECTORY);
        let opened = opened.map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => {
                let error = ApiError::missing(format!("there is no folder {folder}"));
                error.remedy("make it first, or choose another")
            }
            error => cannot("open the folder of", path, error),
        });
        Ok((opened?, name))
    }

    fn open_file(&self, path: &str) -> Result<(ProjectFile, Stat)> {
        let (file, stat) = self.regular(path).map_err(|error| cannot("open", path, error))?;
        let mut bytes = vec![];
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| ApiError::from(Error::os("read", path, &error)))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let message = format!("{path} is longer than {FILE_BYTES_MAX} bytes");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message));
        }
        let version = version_of(&bytes);
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| ApiError::usage(format!("{path} is not text in UTF-8")))?;
        Ok((ProjectFile { text, version }, stat))
    }

    /// Opens a regular file; devices, pipes and folders are errors.
    fn regular(&self, path: &str) -> Result<(File, Stat), Errno> {
        // Without `NONBLOCK`, opening a pipe waits for a writer.
        let file = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((File::from(file), stat)),
            FileType::Directory => Err(Errno::ISDIR),
            _ => Err(Errno::ACCESS),
        }
    }

    /// Opens a path beneath the folder.
    fn resolve(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        // The kernel returns `AGAIN` if a rename interferes with the lookup.
        for _ in 0..8 {
            match openat2(self.folder.as_fd(), path, flags, Mode::empty(), within) {
                Err(Errno::AGAIN) => {}
                opened => return opened,
            }
        }
        Err(Errno::AGAIN)
    }
}

/// Fails unless the path is that of a flow or a script; see `check_path`.
pub fn check_name(path: &str) -> Result<()> {
    check_path(path)?;
    match [".json", ".py"].iter().any(|end| path.ends_with(end)) {
        true => Ok(()),
        false => Err(ApiError::forbidden(format!("{path} is neither a flow nor a script"))
            .remedy("flows end in .json, scripts in .py")),
    }
}

/// Fails unless a file of this path may be created: a flow, a script, or example data as CSV, which
/// is never replaced.
pub fn check_new_name(path: &str) -> Result<()> {
    if path.ends_with(".csv") { check_path(path) } else { check_name(path) }
}

/// Fails unless the path is relative, without hidden parts, control characters or backslashes.
fn check_path(path: &str) -> Result<()> {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    let is_odd = |letter: char| letter.is_control() || letter == '\\';
    if path.len() > PATH_BYTES_MAX || path.contains(is_odd) || !path.split('/').all(is_plain) {
        let error =
            ApiError::forbidden("this is not a name of a file beneath the project's folder");
        return Err(error.remedy("give a path from there, without `..` and hidden folders"));
    }
    Ok(())
}

/// The path of the draft of a file: a hidden file in the same folder.
pub fn draft_of(path: &str) -> Result<String> {
    check_name(path)?;
    Ok(match path.rsplit_once('/') {
        Some((folder, name)) => format!("{folder}/.{name}.draft"),
        None => format!(".{path}.draft"),
    })
}

fn version_of(bytes: &[u8]) -> String {
    hex(&digest(&SHA256, bytes).as_ref()[..16])
}

fn conflict(path: &str) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "conflict", format!("{path} has changed since it was read"))
        .remedy("look at what is there now, then save again, or under another name")
}

fn cannot(doing: &str, path: &str, error: Errno) -> ApiError {
    match error {
        Errno::NOENT | Errno::NOTDIR => ApiError::missing(format!("there is no file {path}")),
        // The path leads out of the folder, or through a magic link.
        Errno::XDEV | Errno::LOOP => {
            ApiError::forbidden(format!("{path} leads out of the project's folder"))
        }
        Errno::ISDIR | Errno::ACCESS | Errno::PERM => {
            ApiError::forbidden(format!("{path} is not a file that can be used so"))
        }
        Errno::NAMETOOLONG => {
            ApiError::usage("the name is too long").remedy("choose a shorter one")
        }
        error => Error::os(doing, path, &error.into()).into(),
    }
}
