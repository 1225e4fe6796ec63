//! A file in the making, as `append` writes it: staged, then made visible at once.
//!
//! Locally a hidden file beside the target, renamed at the commit. In an object store an upload in
//! parts, completed at the commit. Until then whoever looks sees what was there before.

mod upload;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::append::Target;
use crate::disk::{Disk, DiskFile, WriteBehind};
use crate::location::{Destination, destination};
use upload::Upload;

/// What a local file is staged as: hidden, so that readers of the folder pass it over, and of a
/// name nobody else uses, so that what the dead have left can be removed.
const STAGED_SUFFIX: &str = "euphrates-part";

/// Checks that a file may be written at `path`; touches nothing.
pub fn check(path: &str, overwrite: bool) -> Result<()> {
    match destination(path)? {
        Destination::Local(path) => check_local(&path, overwrite).map(drop),
        Destination::Remote(object) => upload::check(&object, overwrite),
    }
}

/// Stages a file for `path`. `run_id` keeps it apart from what others stage for the same path.
pub fn create(path: &str, overwrite: bool, run_id: &str) -> Result<Box<dyn Target>> {
    match destination(path)? {
        Destination::Local(path) => Ok(Box::new(StagedFile::create(&path, overwrite, run_id)?)),
        Destination::Remote(object) => {
            upload::check(&object, overwrite)?;
            Ok(Box::new(Upload::new(object, overwrite)))
        }
    }
}

fn exists_already(name: &str) -> Error {
    Error::usage(format!("{name} exists already"))
        .remedy("choose another name, or ask to overwrite")
}

/// A settled file beside its target, as any process that sees both can make it visible.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Staged {
    staged: PathBuf,
    target: PathBuf,
    overwrite: bool,
    /// Another machine may have another file of that name.
    inode: u64,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified_ns: i64,
}

impl Staged {
    /// Renames it, if it can be seen from here; says whether that is so.
    pub fn commit(&self) -> Result<bool> {
        if !self.is_at(&self.staged) {
            return Ok(false);
        }
        show(&self.staged, &self.target, self.overwrite)?;
        Ok(true)
    }

    /// Whether it is visible under its own name, and has not changed since.
    pub fn is_shown(&self) -> bool {
        self.is_at(&self.target)
    }

    fn is_at(&self, path: &Path) -> bool {
        let own = (self.inode, self.bytes, self.modified_ns);
        fs::symlink_metadata(path).is_ok_and(|seen| identity_of(&seen) == own)
    }
}

fn identity_of(meta: &fs::Metadata) -> (u64, u64, i64) {
    (meta.ino(), meta.len(), meta.mtime() * 1_000_000_000 + meta.mtime_nsec())
}

/// A local file beside its target.
struct StagedFile {
    behind: WriteBehind,
    file: Arc<DiskFile>,
    staged: PathBuf,
    target: PathBuf,
    overwrite: bool,
    /// Held as long as its process lives.
    _lock: File,
}

impl StagedFile {
    fn create(path: &Path, overwrite: bool, run_id: &str) -> Result<StagedFile> {
        let target = check_local(path, overwrite)?;
        let name = target.file_name().expect("checked").to_string_lossy();
        let staged = target.with_file_name(format!(".{name}.{run_id}.{STAGED_SUFFIX}"));
        reclaim(folder_of(&target));
        let disk = Disk::of(&staged)?;
        let (file, lock) = create_locked(&disk, &staged)?;
        if let Ok(old) = fs::metadata(&target) {
            // Who may read the old file may read the new one.
            let _ = fs::set_permissions(&staged, old.permissions());
        }
        let behind = WriteBehind::new(&disk, &file, None);
        Ok(StagedFile { behind, file, staged, target, overwrite, _lock: lock })
    }
}

impl Target for StagedFile {
    fn write_at(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        self.behind.write(offset, parts)
    }

    fn settle(&self, bytes: u64) -> Result<()> {
        self.behind.wait()?;
        let failed = |error: io::Error| Error::os("write", &self.staged, &error);
        let length = self.file.bytes().map_err(failed)?;
        if length != bytes {
            let message = format!("{length} bytes are on disk where {bytes} were written");
            return Err(Error::corrupt(message).at(self.staged.display()));
        }
        self.file.sync().map_err(failed)
    }

    fn commit(&self) -> Result<()> {
        show(&self.staged, &self.target, self.overwrite)
    }

    fn staged(&self) -> Option<Staged> {
        // Who reads it may stand elsewhere.
        let staged = std::path::absolute(&self.staged).ok()?;
        let target = std::path::absolute(&self.target).ok()?;
        let meta = fs::symlink_metadata(&staged).ok()?;
        let (inode, bytes, modified_ns) = identity_of(&meta);
        Some(Staged { staged, target, overwrite: self.overwrite, inode, bytes, modified_ns })
    }

    fn abandon(&self) {
        // After a commit the staged name is gone, and removing it changes nothing.
        let _ = fs::remove_file(&self.staged);
    }
}

/// Makes a staged file visible under its own name.
fn show(staged: &Path, target: &Path, overwrite: bool) -> Result<()> {
    let renamed = match overwrite {
        true => rustix::fs::renameat(CWD, staged, CWD, target),
        false => rename_new(staged, target),
    };
    match renamed {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(exists_already(&target.display().to_string())),
        Err(errno) => return Err(Error::os("rename to", target, &errno.into())),
    }
    let folder = folder_of(target);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::os("sync", folder, &error))
}

/// A new file whose owner is alive. Whoever reclaims may have seen it before it was locked.
fn create_locked(disk: &Disk, staged: &Path) -> Result<(Arc<DiskFile>, File)> {
    loop {
        if staged.exists() {
            let error = Error::usage("two modules of this flow write the same file");
            return Err(error.remedy("give each its own").at(staged.display()));
        }
        let file = disk.create(staged)?;
        let failed = |error: io::Error| Error::os("open", staged, &error);
        let lock = match File::open(staged) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.map_err(failed)?,
        };
        // Where a file system has no locks, nobody reclaims.
        if flock(&lock, FlockOperation::LockExclusive).is_err() || is_at(&lock, staged) {
            return Ok((file, lock));
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
    let there = fs::metadata(path).map(identity);
    file.metadata().map(identity).is_ok_and(|held| there.is_ok_and(|there| there == held))
}

/// Removes what processes that no longer live have staged in a folder. Returns how many files went.
pub fn reclaim(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let is_staged = |name: &str| {
        name.starts_with('.')
            && name.strip_suffix(STAGED_SUFFIX).is_some_and(|name| name.ends_with('.'))
    };
    let staged = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(is_staged);
    let removed = entries.flatten().filter(staged).filter(|entry| {
        let path = entry.path();
        let is_free = |lock: File| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        File::open(&path).is_ok_and(is_free) && fs::remove_file(&path).is_ok()
    });
    removed.count()
}

/// Removes what processes that no longer live have staged where a file for `path` is staged.
pub fn reclaim_beside(path: &str) {
    if let Ok(Destination::Local(path)) = destination(path) {
        reclaim(folder_of(&fs::canonicalize(&path).unwrap_or(path)));
    }
}

/// Renames unless the target exists, also where the file system cannot do so in one call.
fn rename_new(from: &Path, to: &Path) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::link(from, to)?;
            rustix::fs::unlink(from)
        }
        result => result,
    }
}

/// The file to write, with links followed; an error if it must not be written.
fn check_local(path: &Path, overwrite: bool) -> Result<PathBuf> {
    let name = path.display().to_string();
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.file_name().is_none() || name.ends_with('/') {
                return Err(Error::usage(format!("{name:?} names no file")).remedy("add a name"));
            }
            // A link to nothing, or to an end of a pipe as `/dev/stdout` is.
            if fs::symlink_metadata(path).is_ok() {
                let error = Error::usage(format!("{name} is a link to what is no file"));
                return Err(error.remedy("name a file, or use `copy-out` for standard output"));
            }
            let folder = folder_of(path);
            return match folder.is_dir() {
                true => Ok(path.to_path_buf()),
                false => Err(Error::usage(format!("there is no folder {folder:?}"))
                    .remedy("create it, or check the path")),
            };
        }
        Err(error) => return Err(Error::os("write", path, &error)),
    };
    let meta = fs::metadata(&target).map_err(|error| Error::os("write", path, &error))?;
    if meta.is_dir() {
        return Err(Error::usage(format!("{name} is a folder")).remedy("name a file in it"));
    }
    if !meta.is_file() {
        let error = Error::usage(format!("{name} is no regular file, and would be replaced"));
        return Err(error.remedy("name a file, or use `copy-out` for standard output"));
    }
    if !overwrite { Err(exists_already(&name)) } else { Ok(target) }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn write(target: &dyn Target, text: &str) -> Result<()> {
        let (left, right) = text.as_bytes().split_at(text.len() / 2);
        target.write_at(left.len() as u64, &[Buffer::from(right), Buffer::from(b"")])?;
        target.write_at(0, &[Buffer::from(left)])?;
        target.settle(text.len() as u64)
    }

    #[test]
    fn a_file_appears_whole_at_the_commit_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.txt").display().to_string();
        let staged = create(&path, false, "run1").unwrap();
        write(staged.as_ref(), "hello, world").unwrap();
        assert_eq!(names(folder.path()), [".out.txt.run1.euphrates-part"]);
        staged.abandon();
        assert_eq!(names(folder.path()), Vec::<String>::new());

        let staged = create(&path, false, "run2").unwrap();
        write(staged.as_ref(), "hello, world").unwrap();
        staged.commit().unwrap();
        staged.abandon();
        assert_eq!(names(folder.path()), ["out.txt"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello, world");
    }

    #[test]
    fn an_existing_file_is_replaced_only_if_asked_for_and_only_at_the_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out").display().to_string();
        let late = create(&path, false, "run").unwrap();
        write(late.as_ref(), "late").unwrap();
        fs::write(&path, "old").unwrap();
        assert_eq!(late.commit().unwrap_err().kind(), Kind::Usage);
        late.abandon();
        assert_eq!(check(&path, false).unwrap_err().kind(), Kind::Usage);
        check(&path, true).unwrap();
        let staged = create(&path, true, "run").unwrap();
        write(staged.as_ref(), "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        staged.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn what_cannot_be_a_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        for path in [format!("{root}"), format!("{root}/none/x"), "/dev/null".into(), "x/".into()] {
            let error = check(&path, true).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{path}");
            assert!(error.advice().is_some(), "{path}");
        }
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let staged = create(&link.display().to_string(), true, "run").unwrap();
        write(staged.as_ref(), "new").unwrap();
        staged.commit().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
    }
}
