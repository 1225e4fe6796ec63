//! The project's folder: nothing outside of it is read or written, whatever a name says, and
//! whatever links are put in its way meanwhile. The kernel resolves names (`openat2`), so what is
//! checked is what is opened.

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

use crate::gate::{hex, secret};
use crate::refusal::{Refusal, Result};

/// Bytes of a file that is edited.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

const PATH_BYTES_MAX: usize = 1024;

/// The folder, held open.
pub struct Root {
    folder: OwnedFd,
    /// Where it is.
    pub path: PathBuf,
}

/// A file's text, and what tells it from any other.
pub struct Text {
    /// What it says.
    pub text: String,
    /// The same for the same text.
    pub version: String,
}

impl Root {
    /// A folder that is there.
    pub fn open(path: &Path) -> euphrates_flow::Result<Root> {
        let cannot = |error: std::io::Error| Error::os("open the project's folder", path, &error);
        let path = path.canonicalize().map_err(cannot)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&path, flags, Mode::empty());
        let folder = folder.map_err(|error| cannot(error.into()))?;
        let root = Root { folder, path };
        root.resolve(".", OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|error| cannot(error.into()))?;
        Ok(root)
    }

    /// A folder in it, to be listed.
    pub fn folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { "." } else { path };
        self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The text of a file; the name has been checked.
    pub fn read(&self, path: &str) -> Result<Text> {
        Ok(self.open_file(path)?.0)
    }

    /// The first bytes of a file, if it is one.
    pub fn begin_of(&self, path: &str, bytes: u64) -> Option<(Vec<u8>, Stat)> {
        let (file, stat) = self.regular(path).ok()?;
        let mut begin = vec![];
        file.take(bytes).read_to_end(&mut begin).ok()?;
        Some((begin, stat))
    }

    /// What tells whether a file has been changed; nothing if it is not there.
    pub fn mark(&self, path: &str) -> Option<[i64; 3]> {
        let (_, stat) = self.regular(path).ok()?;
        Some([stat.st_mtime, stat.st_mtime_nsec as i64, stat.st_ino as i64])
    }

    /// Replaces a file, or makes one, at once and for good; if it is as `seen`. Gives the version.
    pub fn write(&self, path: &str, text: &str, seen: Option<&str>) -> Result<String> {
        if text.len() as u64 > FILE_BYTES_MAX {
            let message = format!("{path} would be longer than {FILE_BYTES_MAX} bytes");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message));
        }
        let mode = match (self.open_file(path), seen) {
            (Ok((there, _)), _) if seen != Some(&there.version) => {
                return Err(conflict(path).with("version", there.version).with("text", there.text));
            }
            // To replace it, its folder would do; whoever made it so meant it.
            (Ok((_, stat)), _) if stat.st_mode & 0o222 == 0 => {
                let refusal = Refusal::forbidden(format!("{path} may only be read"));
                return Err(refusal.remedy("save under another name, or make it writable"));
            }
            (Ok((_, stat)), _) => Mode::from_raw_mode(stat.st_mode & 0o777),
            (Err(no), Some(_)) if no.status == StatusCode::NOT_FOUND => {
                return Err(conflict(path).with("version", ()).with("text", ()));
            }
            (Err(no), _) if no.status != StatusCode::NOT_FOUND => return Err(no),
            (Err(_), _) => Mode::from_raw_mode(0o666),
        };
        self.replace(path, text, (mode, seen.is_none()))?;
        Ok(version_of(text.as_bytes()))
    }

    /// Removes a file; one that is not there is no failure.
    pub fn remove(&self, path: &str) -> Result<()> {
        let (folder, name) = self.parent(path)?;
        match unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(cannot("remove", path, error)),
        }
    }

    fn replace(&self, path: &str, text: &str, (mode, is_new): (Mode, bool)) -> Result<()> {
        let (folder, name) = self.parent(path)?;
        let staged = format!(".{name}.{}", &secret()?[..12]);
        let failed = |error: Errno| cannot("write", path, error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&folder, &staged, flags | OFlags::CLOEXEC, mode);
        let mut file = File::from(file.map_err(failed)?);
        let written = (|| {
            file.write_all(text.as_bytes())
                .map_err(|error| Refusal::from(Error::os("write", path, &error)))?;
            fsync(&file).map_err(failed)?;
            if !is_new {
                // What the umask took is given back: it is the file's own mode.
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

    fn parent<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        let opened = self.resolve(folder, OFlags::RDONLY | OFlags::DIRECTORY);
        let opened = opened.map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => {
                let refusal = Refusal::missing(format!("there is no folder {folder}"));
                refusal.remedy("make it first, or choose another")
            }
            error => cannot("open the folder of", path, error),
        });
        Ok((opened?, name))
    }

    fn open_file(&self, path: &str) -> Result<(Text, Stat)> {
        let (file, stat) = self.regular(path).map_err(|error| cannot("open", path, error))?;
        let mut bytes = vec![];
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| Refusal::from(Error::os("read", path, &error)))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let message = format!("{path} is longer than {FILE_BYTES_MAX} bytes");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message));
        }
        let version = version_of(&bytes);
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| Refusal::usage(format!("{path} is no text in UTF-8")))?;
        Ok((Text { text, version }, stat))
    }

    /// A file, and no device, pipe or folder.
    fn regular(&self, path: &str) -> Result<(File, Stat), Errno> {
        // A pipe without a writer must not be waited for.
        let file = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((File::from(file), stat)),
            FileType::Directory => Err(Errno::ISDIR),
            _ => Err(Errno::ACCESS),
        }
    }

    fn resolve(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        // Something was renamed while the kernel looked: it says so instead of guessing.
        for _ in 0..8 {
            match openat2(self.folder.as_fd(), path, flags, Mode::empty(), within) {
                Err(Errno::AGAIN) => {}
                opened => return opened,
            }
        }
        Err(Errno::AGAIN)
    }
}

/// Names are plain: what is hidden is not the project's, and what is odd is somebody's attempt.
pub fn check_name(path: &str) -> Result<()> {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    let is_odd = |letter: char| letter.is_control() || letter == '\\';
    let is_known = [".json", ".py"].iter().any(|end| path.ends_with(end));
    if path.len() > PATH_BYTES_MAX || path.contains(is_odd) || !path.split('/').all(is_plain) {
        let refusal = Refusal::forbidden("this is no name of a file beneath the project's folder");
        return Err(refusal.remedy("give a path from there, without `..` and hidden folders"));
    }
    match is_known {
        true => Ok(()),
        false => Err(Refusal::forbidden(format!("{path} is neither a flow nor a script"))
            .remedy("flows end in .json, scripts in .py")),
    }
}

/// Where unsaved work on a file is kept: beside it.
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

fn conflict(path: &str) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, "conflict", format!("{path} has changed since it was read"))
        .remedy("look at what is there now, then save again, or under another name")
}

fn cannot(doing: &str, path: &str, error: Errno) -> Refusal {
    match error {
        Errno::NOENT | Errno::NOTDIR => Refusal::missing(format!("there is no file {path}")),
        // Out of the folder, or by a link of the kernel's own.
        Errno::XDEV | Errno::LOOP => {
            Refusal::forbidden(format!("{path} leads out of the project's folder"))
        }
        Errno::ISDIR | Errno::ACCESS | Errno::PERM => {
            Refusal::forbidden(format!("{path} is not a file that can be used so"))
        }
        Errno::NAMETOOLONG => Refusal::usage("the name is too long").remedy("choose a shorter one"),
        error => Error::os(doing, path, &error.into()).into(),
    }
}
