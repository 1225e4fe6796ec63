//! Folders with all that is in them: what is there, its fingerprint, durability and removal.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use euphrates_flow::{Error, Result};

use super::journal::has_journal;

/// Above this number of files and folders one sync of the file system is faster than one of each.
const SYNCED_ONE_BY_ONE_MAX: usize = 32;

/// What a folder has, at any depth; of a folder, all that is above comes before.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Folders, relative to the root, without the root.
    pub folders: Vec<PathBuf>,
    /// All others: files and links, relative to the root.
    pub files: Vec<PathBuf>,
    /// Depends on all paths, on which files have them, and on when these were written.
    pub fingerprint: u64,
}

impl Tree {
    /// Lists a folder. Links are not followed.
    pub fn of(root: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        let (mut sum, mut left) = (0u64, vec![PathBuf::new()]);
        while let Some(folder) = left.pop() {
            let failed = |error: io::Error| Error::os("list", root.join(&folder), &error);
            for entry in fs::read_dir(root.join(&folder)).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let path = folder.join(entry.file_name());
                let about = entry.metadata().map_err(failed)?;
                let is_folder = about.is_dir();
                // A folder is another one when it is made again with links to its files.
                let version = (about.ino(), about.len(), about.mtime(), about.mtime_nsec());
                let mut hasher = DefaultHasher::new();
                (&path, (!is_folder).then_some(version)).hash(&mut hasher);
                sum = sum.wrapping_add(hasher.finish());
                if is_folder {
                    tree.folders.push(path.clone());
                    left.push(path);
                } else {
                    tree.files.push(path);
                }
            }
        }
        tree.fingerprint = sum;
        Ok(tree)
    }
}

/// Whether a folder has no entry, not even a hidden one.
pub(super) fn is_empty(folder: &Path) -> Result<bool> {
    let entries = fs::read_dir(folder).map_err(|error| Error::os("list", folder, &error))?;
    Ok(entries.into_iter().next().is_none())
}

/// Makes these files and folders durable, which are below the root, and the root.
pub(super) fn sync(root: &Path, paths: &[PathBuf]) -> Result<()> {
    let failed = |path: &Path, error: io::Error| Error::os("sync", path, &error);
    if paths.len() > SYNCED_ONE_BY_ONE_MAX {
        let folder = File::open(root).map_err(|error| failed(root, error))?;
        return rustix::fs::syncfs(&folder).map_err(|errno| failed(root, errno.into()));
    }
    for path in paths.iter().map(|path| root.join(path)).chain([root.to_path_buf()]) {
        let synced = File::open(&path).and_then(|open| open.sync_all());
        synced.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Removes what was staged: a file, or a folder with all that is in it. Fails if another attempt at
/// its flow may adopt it.
pub(crate) fn remove_staged(path: &Path) -> io::Result<()> {
    if has_journal(path) {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    match fs::symlink_metadata(path)?.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    }
}
