//! A staged output file: written hidden, then reserved, then published atomically.
//!
//! A local file is staged under a hidden name in the folder of its target, and renamed when it is
//! published (`file.rs`). An object of a store is an upload in parts, completed when it is
//! published (`object.rs`). A striped file has a manifest, which publishes it (`striped.rs`). Until
//! then readers see the state before.

mod file;
mod object;
mod staged_files;
mod striped;
mod target;
mod upload;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow::buffer::Buffer;
use euphrates_flow::sync::{Mutex, MutexGuard};
use euphrates_flow::{DecisionRef, Error, Result};
use rustix::fs::{FlockOperation, flock};

use crate::append::StagedOutput;
use crate::commit::PreparedOutput;
use crate::commit::reservation::{self, ReservationMark, ReservedName};
use crate::commit::reserve;
use euphrates_device::disk::{Disk, DiskFile, WriteBehind};
use euphrates_device::durable::{STAGED_SUFFIX, is_at, sync_folder};
use euphrates_device::location::{Destination, destination, split_url};
use euphrates_device::private;
use euphrates_device::storage_options::StorageOptions;
use euphrates_device::striped::path_of_address;
use file::FileIdentity;
pub use file::FileOutput;
pub use object::ObjectOutput;
use staged_files::reclaim_of;
pub(crate) use staged_files::reclaim_staged;
use striped::StripedOutput;
use target::{appeared, exists_already, folder_of};
use upload::Upload;

/// Checks that a file may be written at `path`; changes nothing.
///
/// ```
/// use euphrates_device::storage_options::StorageOptions;
/// use euphrates_store::output::check;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("notes.txt");
/// std::fs::write(&path, "old")?;
/// let path = path.to_string_lossy();
/// let storage = StorageOptions::default();
/// assert!(check(&path, true, &storage).is_ok());
/// assert!(check(&path, false, &storage).is_err(), "it exists");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn check(path: &str, overwrite: bool, storage: &StorageOptions) -> Result<()> {
    match destination(path, storage)? {
        Destination::Local(path) => check_local(&path, overwrite).map(drop),
        Destination::Remote(object) => upload::check(&object, overwrite),
        Destination::Striped(path, storage) => striped::check(&path, overwrite, &storage),
    }
}

/// Stages a file. `run_id` distinguishes it from files that other runs stage for the
/// same place; `decision` names the record that decides whether it is published, if it is not the
/// flow's only output.
///
/// ```
/// use arrow::buffer::Buffer;
/// use euphrates_device::location::Destination;
/// use euphrates_store::output;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("notes.txt");
/// let place = Destination::Local(path.clone());
/// let staged = output::create(place, false, "run", None)?;
/// staged.write_at(0, &[Buffer::from(b"one")])?;
/// staged.sync_contents(3)?;
/// let prepared = staged.reserve()?.expect("a file of its own");
/// assert!(!path.exists());
/// prepared.publish()?;
/// assert_eq!(std::fs::read(&path)?, b"one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn create(
    place: Destination,
    overwrite: bool,
    run_id: &str,
    decision: Option<DecisionRef>,
) -> Result<Box<dyn StagedOutput>> {
    match place {
        Destination::Local(path) => {
            // Completes what a dead flow has decided, which may take the name.
            reclaim(folder_of(&fs::canonicalize(&path).unwrap_or_else(|_| path.clone())));
            let target = check_local(&path, overwrite)?;
            let mark = ReservationMark { run_id: run_id.to_string(), staged: None, decision };
            Ok(Box::new(StagedFile::create(target, overwrite, mark)?))
        }
        Destination::Remote(object) => {
            upload::check(&object, overwrite)?;
            Ok(Box::new(Upload::new(object, overwrite)))
        }
        Destination::Striped(path, storage) => {
            let run = (run_id, decision);
            Ok(Box::new(StripedOutput::create(&path, overwrite, &storage, run)?))
        }
    }
}

/// A local file that is staged in the folder of its target.
struct StagedFile {
    behind: WriteBehind,
    file: Arc<DiskFile>,
    staged: PathBuf,
    target: PathBuf,
    overwrite: bool,
    mark: ReservationMark,
    reserved: Mutex<Option<ReservedName>>,
    /// Another process may publish it.
    is_left: AtomicBool,
    /// Held as long as the process lives.
    _lock: File,
}

impl StagedFile {
    fn create(target: PathBuf, overwrite: bool, mark: ReservationMark) -> Result<StagedFile> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|error| Error::os("find", path, &error))
        };
        // The process that publishes it may have another working directory.
        let target = absolute(&target)?;
        let name = target.file_name().expect("checked").to_string_lossy();
        let staged = format!(".{name}.{}.{STAGED_SUFFIX}", mark.run_id);
        let staged = target.with_file_name(staged);
        let disk = Disk::of(&staged)?;
        let (file, lock) = create_locked(&disk, &staged)?;
        let behind = WriteBehind::new(&disk, &file, None);
        let mark = ReservationMark { staged: Some(staged.clone()), ..mark };
        let (reserved, is_left) = (Mutex::default(), AtomicBool::default());
        Ok(StagedFile {
            behind,
            file,
            staged,
            target,
            overwrite,
            mark,
            reserved,
            is_left,
            _lock: lock,
        })
    }

    fn reserved(&self) -> MutexGuard<'_, Option<ReservedName>> {
        self.reserved.lock()
    }
}

impl StagedOutput for StagedFile {
    fn write_at(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        self.behind.write(offset, parts)
    }

    fn sync_contents(&self, bytes: u64) -> Result<()> {
        self.behind.wait()?;
        let failed = |error: io::Error| Error::os("write", &self.staged, &error);
        let length = self.file.bytes().map_err(failed)?;
        if length != bytes {
            let message = format!("{length} bytes are on disk where {bytes} were written");
            return Err(Error::corrupt(message).at(self.staged.display()));
        }
        // The new file keeps the permissions of the old one.
        let old = fs::metadata(&self.target).map(|old| old.permissions());
        let mode = old.unwrap_or_else(|_| private::usual());
        fs::set_permissions(&self.staged, mode).map_err(failed)?;
        if self.mark.decision.is_some() {
            return self.file.sync().map_err(failed);
        }
        // A folder that cannot be synced is detected now, while nothing is visible. The disk
        // flushes once for both.
        std::thread::scope(|scope| {
            let folder = scope.spawn(|| sync_folder(folder_of(&self.target)));
            self.file.sync().map_err(failed)?;
            folder.join().expect("it does not panic")
        })
    }

    fn reserve(&self) -> Result<Option<PreparedOutput>> {
        let name = self.target.display().to_string();
        let folder = folder_of(&self.target);
        let mut reserved = self.reserved();
        let path = reservation::beside(&self.target);
        let taken = reserved.insert(reserve::reserve(path, &name, &self.mark)?);
        if !self.overwrite && fs::symlink_metadata(&self.target).is_ok() {
            return Err(appeared(&name));
        }
        if self.mark.decision.is_some() {
            // The record may decide to publish this output after a loss of power.
            sync_folder(folder)?;
        }
        let identity = FileIdentity::of(&self.staged);
        Ok(Some(PreparedOutput::File(FileOutput {
            staged: self.staged.clone(),
            target: self.target.clone(),
            replaces: self.overwrite,
            reservation: taken.path().to_path_buf(),
            run_id: self.mark.run_id.clone(),
            identity: identity.map_err(|error| Error::os("look at", &self.staged, &error))?,
        })))
    }

    fn leave(&self) {
        self.is_left.store(true, Relaxed);
    }

    fn abandon(&self) {
        // After the publication neither exists.
        if !self.is_left.load(Relaxed) {
            let _ = fs::remove_file(&self.staged);
            self.reserved().iter().for_each(ReservedName::remove);
        }
    }
}

/// Creates a file and locks it, which shows that its owner is alive. A reclaiming process may have
/// seen it before it was locked.
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
        // Where a file system has no locks, no process reclaims.
        if flock(&lock, FlockOperation::LockExclusive).is_err() || is_at(&lock, staged) {
            return Ok((file, lock));
        }
    }
}

/// Removes what dead processes have staged in a folder, and completes what they had decided.
/// Returns the number of files.
pub fn reclaim(folder: &Path) -> usize {
    let hidden = reservation::hidden_in(folder);
    let resolved = reserve::reclaim(&hidden);
    resolved + reclaim_of(&hidden)
}

/// The folder in which a file for `path` is staged, or its name reserved; `None` if it is remote.
///
/// ```
/// use euphrates_device::storage_options::StorageOptions;
/// use euphrates_store::output::folder;
/// use std::path::Path;
///
/// let storage = StorageOptions::default();
/// assert_eq!(folder("/data/days.csv", &storage).as_deref(), Some(Path::new("/data")));
/// assert_eq!(folder("s3://bucket/days.csv", &storage), None);
/// ```
pub fn folder(path: &str, storage: &StorageOptions) -> Option<PathBuf> {
    if let Some(path) = path_of_address(path) {
        return striped::reserved_in(path, storage);
    }
    let Ok(None) = split_url(path) else { return None };
    let path = PathBuf::from(path.strip_prefix("file://").unwrap_or(path));
    let path = fs::canonicalize(&path).unwrap_or(path);
    std::path::absolute(folder_of(&path)).ok()
}

/// Removes what dead processes have staged where a file for `path` is staged.
pub fn reclaim_beside(path: &str, storage: &StorageOptions) {
    match (path_of_address(path), folder(path, storage)) {
        (Some(_), _) => striped::reclaim_home(storage),
        (None, Some(folder)) => drop(reclaim(&folder)),
        (None, None) => {}
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
            // A dangling link, or one to an end of a pipe as `/dev/stdout` is.
            if fs::symlink_metadata(path).is_ok() {
                let error = Error::usage(format!("{name} is a link to what is not a file"));
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

    fn create(path: &str, overwrite: bool, run_id: &str) -> Result<Box<dyn StagedOutput>> {
        super::create(Destination::Local(path.into()), overwrite, run_id, None)
    }

    fn publish(target: &dyn StagedOutput) -> Result<()> {
        let output = target.reserve()?.expect("a file is an output of its own");
        output.publish().map(drop)
    }

    fn write(target: &dyn StagedOutput, text: &str) -> Result<()> {
        let (left, right) = text.as_bytes().split_at(text.len() / 2);
        target.write_at(left.len() as u64, &[Buffer::from(right), Buffer::from(b"")])?;
        target.write_at(0, &[Buffer::from(left)])?;
        target.sync_contents(text.len() as u64)
    }

    fn check(path: &str, overwrite: bool) -> Result<()> {
        super::check(path, overwrite, &StorageOptions::default())
    }

    #[test]
    fn file_appears_atomically_at_the_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.txt").display().to_string();
        let staged = create(&path, false, "run1").unwrap();
        write(staged.as_ref(), "hello, world").unwrap();
        assert_eq!(names(folder.path()), [".out.txt.run1.euphrates-part"]);
        staged.abandon();
        assert_eq!(names(folder.path()), Vec::<String>::new());

        let staged = create(&path, false, "run2").unwrap();
        write(staged.as_ref(), "hello, world").unwrap();
        publish(staged.as_ref()).unwrap();
        staged.abandon();
        assert_eq!(names(folder.path()), ["out.txt"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello, world");
    }

    #[test]
    fn existing_file_is_replaced_only_with_overwrite_and_at_the_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out").display().to_string();
        let late = create(&path, false, "run").unwrap();
        write(late.as_ref(), "late").unwrap();
        fs::write(&path, "old").unwrap();
        assert_eq!(publish(late.as_ref()).unwrap_err().kind(), Kind::Failed);
        late.abandon();
        assert_eq!(check(&path, false).unwrap_err().kind(), Kind::Usage);
        check(&path, true).unwrap();
        let staged = create(&path, true, "run").unwrap();
        write(staged.as_ref(), "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        publish(staged.as_ref()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn path_that_cannot_be_a_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        for path in [format!("{root}"), format!("{root}/none/x"), "/dev/null".into(), "x/".into()] {
            let error = check(&path, true).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{path}");
            assert!(error.advice().is_some(), "{path}");
        }
    }

    #[test]
    fn output_through_a_link_keeps_the_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let staged = create(&link.display().to_string(), true, "run").unwrap();
        write(staged.as_ref(), "new").unwrap();
        publish(staged.as_ref()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
    }
}
