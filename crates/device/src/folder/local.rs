//! A folder of a disk of this machine.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use euphrates_flow::Result;

use super::{
    AbandonedFolder, DiskFolder, EntryKind, FolderEntry, FolderFacts, FolderTree, HeldFolder,
    SmallFiles, StagedSmallFile, inside,
};
use crate::disk::DiskFile;
use crate::durable::{Durability, DurableFile, STAGED_SUFFIX, make_folder, remove_unheld};
use crate::private;
use crate::scratch::{AbandonedRun, LockedFolder, abandoned, hold, is_held};

/// A folder of this machine.
///
/// ```
/// use euphrates_device::folder::{LocalFolder, SmallFiles};
/// use std::path::Path;
///
/// let folder = tempfile::tempdir()?;
/// let disk = LocalFolder::new(folder.path());
/// disk.write(Path::new("sales/map"), b"blocks", true)?;
/// assert_eq!(disk.read(Path::new("sales/map"))?, b"blocks");
/// assert!(disk.read(Path::new("../map")).is_err(), "outside of the disk");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalFolder(PathBuf);

impl LocalFolder {
    /// The folder of this path, which may be missing.
    pub fn new(path: &Path) -> LocalFolder {
        LocalFolder(path.to_path_buf())
    }

    fn at(&self, path: &Path) -> io::Result<PathBuf> {
        inside(&self.0, path)
    }

    /// A path whose folder exists.
    fn prepared(&self, path: &Path) -> io::Result<PathBuf> {
        let path = self.at(path)?;
        path.parent().map_or(Ok(()), private::make_folders).map(|()| path)
    }
}

impl DiskFolder for LocalFolder {
    fn place(&self) -> &Path {
        &self.0
    }

    fn local(&self) -> Option<&Path> {
        Some(&self.0)
    }

    fn facts(&self) -> io::Result<FolderFacts> {
        let facts = fs::metadata(&self.0)?;
        if !facts.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let space = rustix::fs::statvfs(&self.0)?;
        Ok(FolderFacts {
            machine: String::new(),
            device: facts.dev(),
            inode: facts.ino(),
            bytes_all: space.f_blocks.saturating_mul(space.f_frsize),
            bytes_free: space.f_bavail.saturating_mul(space.f_frsize),
        })
    }

    fn make(&self) -> io::Result<()> {
        if self.0.is_dir() { Ok(()) } else { private::make_folders(&self.0) }
    }

    fn open(&self, path: &Path) -> io::Result<DiskFile> {
        DiskFile::open(&self.at(path)?)
    }

    fn create(&self, path: &Path) -> io::Result<DiskFile> {
        DiskFile::create(&self.prepared(path)?)
    }
}

impl SmallFiles for LocalFolder {
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        match fs::metadata(self.at(path)?) {
            Ok(facts) if facts.is_dir() => Ok(Some(EntryKind::Folder)),
            Ok(_) => Ok(Some(EntryKind::File)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        let mut entries = vec![];
        for entry in fs::read_dir(self.at(path)?)? {
            let entry = entry?;
            let kind = match entry.file_type()?.is_dir() {
                true => EntryKind::Folder,
                false => EntryKind::File,
            };
            // The store makes no other names.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(FolderEntry { name, kind });
            }
        }
        Ok(entries)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(self.at(path)?)
    }

    fn write(&self, path: &Path, bytes: &[u8], is_synced: bool) -> io::Result<()> {
        let mut file = File::create(self.prepared(path)?)?;
        file.write_all(bytes)?;
        if is_synced { file.sync_all() } else { Ok(()) }
    }

    fn stage(&self, path: &Path, bytes: &[u8]) -> Result<Box<dyn StagedSmallFile>> {
        let path =
            self.at(path).map_err(|error| euphrates_flow::Error::os("write", path, &error))?;
        Ok(Box::new(DurableFile::write(&path, bytes)?))
    }

    fn clear_staged(&self, path: &Path) -> usize {
        let Ok(entries) = self.list(path) else { return 0 };
        let hidden = entries.iter().map(|entry| &entry.name).filter(|name| name.starts_with('.'));
        let hidden: Vec<&String> = hidden.collect();
        // Another hidden name is that of a reservation, whose flow may need what it has staged.
        if hidden.iter().any(|name| !name.ends_with(STAGED_SUFFIX)) {
            return 0;
        }
        let folder = self.0.join(path);
        hidden.iter().filter(|name| remove_unheld(&folder.join(name), |_| false)).count()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(self.at(from)?, self.prepared(to)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(self.at(path)?)
    }
}

impl FolderTree for LocalFolder {
    fn hold(&self, parent: &Path, name: &str) -> Result<Box<dyn HeldFolder>> {
        let within = self.at(parent).and_then(|within| self.at(Path::new(name)).map(|_| within));
        let within =
            within.map_err(|error| euphrates_flow::Error::os("make the folder", parent, &error))?;
        let held = hold(&within, name)?;
        Ok(Box::new(HeldHere { path: parent.join(name), held }))
    }

    fn is_held(&self, parent: &Path, name: &str) -> bool {
        self.at(&parent.join(name)).is_ok() && is_held(&self.0.join(parent), name)
    }

    fn abandoned(&self, parent: &Path) -> Vec<Box<dyn AbandonedFolder>> {
        let Ok(within) = self.at(parent) else { return vec![] };
        let of = |run: AbandonedRun| -> Option<Box<dyn AbandonedFolder>> {
            let path = parent.join(run.folder().file_name()?);
            Some(Box::new(AbandonedHere { path, run }))
        };
        abandoned(&within).filter_map(of).collect()
    }

    fn move_folder(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.at(from)?, self.at(to)?);
        let parent = to.parent().unwrap_or(&self.0);
        make_folder(parent).map_err(io::Error::other)?;
        fs::create_dir_all(&from)?;
        fs::rename(&from, &to)?;
        [&to, parent].into_iter().try_for_each(|folder| File::open(folder)?.sync_all())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(self.at(path)?)?.sync_all()
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        // The folder itself belongs to the disk.
        match path.file_name() {
            Some(_) => fs::remove_dir_all(self.at(path)?),
            None => Err(ErrorKind::InvalidInput.into()),
        }
    }

    fn remove_empty(&self, path: &Path) {
        let is_gone = |above: &Path| match self.at(above).and_then(fs::remove_dir) {
            Err(error) => error.kind() == ErrorKind::NotFound,
            Ok(()) => true,
        };
        let above = path.ancestors().take_while(|above| !above.as_os_str().is_empty());
        let _ = above.take_while(|above| is_gone(above)).count();
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

impl StagedSmallFile for DurableFile {
    fn publish(self: Box<Self>) -> Result<Option<Durability>> {
        DurableFile::publish(*self)
    }

    fn replace(self: Box<Self>) -> Result<Durability> {
        DurableFile::replace(*self)
    }
}

#[derive(Debug)]
struct HeldHere {
    path: PathBuf,
    held: LockedFolder,
}

impl HeldFolder for HeldHere {
    fn path(&self) -> &Path {
        &self.path
    }

    fn remove(self: Box<Self>) {
        self.held.remove();
    }
}

struct AbandonedHere {
    path: PathBuf,
    run: AbandonedRun,
}

impl AbandonedFolder for AbandonedHere {
    fn path(&self) -> &Path {
        &self.path
    }

    fn remove(self: Box<Self>) -> io::Result<()> {
        self.run.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_reaches_a_path_outside_of_the_folder() {
        let top = tempfile::tempdir().unwrap();
        let (folder, secret) = (top.path().join("disk"), top.path().join("secret"));
        fs::create_dir(&folder).unwrap();
        fs::write(&secret, "s").unwrap();
        let disk = LocalFolder::new(&folder);
        let absolute = secret.to_str().unwrap();
        for path in ["../secret", "a/../../secret", absolute, ".."].map(Path::new) {
            assert!(disk.read(path).is_err(), "{path:?}");
            assert!(disk.write(path, b"x", false).is_err());
            assert!(disk.stage(path, b"x").is_err());
            assert!(disk.open(path).is_err() && disk.create(path).is_err());
            assert!(disk.list(path).is_err() && disk.kind(path).is_err());
            assert!(disk.link(path, Path::new("mine")).is_err());
            assert!(disk.move_folder(path, Path::new("mine")).is_err());
            assert!(disk.move_folder(Path::new("mine"), path).is_err());
            assert!(disk.remove_file(path).is_err() && disk.remove_folder(path).is_err());
            assert!(disk.hold(path, "a").is_err());
            assert!(disk.hold(Path::new("s"), path.to_str().unwrap()).is_err());
            assert!(disk.abandoned(path).is_empty() && !disk.is_held(path, "a"));
        }
        assert!(disk.remove_folder(Path::new("")).is_err(), "the disk's own folder");
        assert_eq!(fs::read(&secret).unwrap(), b"s");
    }

    #[test]
    fn folder_of_a_dead_owner_is_abandoned_and_that_of_a_living_one_is_not() {
        let top = tempfile::tempdir().unwrap();
        let disk = LocalFolder::new(top.path());
        let staging = Path::new(".staging");
        let held = disk.hold(staging, "66108e58a676d-1-0-0").unwrap();
        assert!(disk.abandoned(staging).is_empty());
        drop(held);
        let abandoned = disk.abandoned(staging);
        assert_eq!(abandoned.len(), 1);
        assert!(disk.abandoned(staging).is_empty(), "nobody else gets it meanwhile");
        abandoned.into_iter().for_each(|folder| folder.remove().unwrap());
        assert!(disk.list(staging).unwrap().is_empty());
    }
}
