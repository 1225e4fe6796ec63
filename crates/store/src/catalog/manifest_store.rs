//! Storage of manifests: a folder, which a worker may serve, or a prefix of an object store.
//!
//! Both put a version only if it is absent. In a folder its bytes are synced before it gets its
//! name, and the folder after that, so a visible version is whole, also after a loss of power.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use euphrates_flow::{Error, Result};
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use super::folders::VERSIONS;
use crate::output::reclaim_staged;
use euphrates_device::durable::{Durability, make_folder};
use euphrates_device::folder::{DiskFolder, EntryKind, LocalFolder};
use euphrates_device::remote;

/// The address of a catalog that a worker serves: its home says where that is.
pub(crate) const SERVED: &str = "served";

/// A folder, or a prefix of an object store.
#[derive(Debug)]
pub(super) enum ManifestStore {
    Folder(Arc<dyn DiskFolder>),
    /// A store, the prefix, and the URL from which both are opened.
    Store(Arc<dyn ObjectStore>, Path, String),
}

impl ManifestStore {
    pub fn folder(folder: &FilePath) -> Result<ManifestStore> {
        make_folder(folder)?;
        let absolute = std::path::absolute(folder);
        let absolute = absolute.map_err(|error| Error::os("find", folder, &error))?;
        Ok(ManifestStore::Folder(Arc::new(LocalFolder::new(&absolute))))
    }

    /// The folder or URL from which it is opened again.
    pub fn address(&self) -> String {
        match self {
            ManifestStore::Folder(folder) => match folder.local() {
                Some(path) => path.display().to_string(),
                None => SERVED.to_string(),
            },
            ManifestStore::Store(_, _, url) => url.clone(),
        }
    }

    /// What it lists, and what the copies on disks have; these alone if a worker serves it that is
    /// out of reach.
    pub fn with_copies<T: Ord>(
        &self,
        listed: Result<BTreeSet<T>>,
        mut copies: BTreeSet<T>,
    ) -> Result<BTreeSet<T>> {
        match listed {
            Ok(listed) => copies.extend(listed),
            Err(_) if self.is_served() && !copies.is_empty() => {}
            Err(error) => return Err(error),
        }
        Ok(copies)
    }

    /// Whether it is a folder at a worker.
    pub fn is_served(&self) -> bool {
        matches!(self, ManifestStore::Folder(folder) if folder.local().is_none())
    }

    /// The numbers of all versions of a name.
    pub fn versions(&self, name: &str) -> Result<BTreeSet<u64>> {
        match self {
            ManifestStore::Folder(folder) => {
                let versions = FilePath::new(name).join(VERSIONS);
                let entries = match folder.list(&versions) {
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok([].into()),
                    listed => listed,
                };
                let place = folder.place().join(&versions);
                let entries = entries.map_err(|error| Error::os("list", place, &error))?;
                Ok(entries.iter().filter_map(|entry| version_of(&entry.name)).collect())
            }
            ManifestStore::Store(store, prefix, _) => {
                let folder = versions_of(prefix, name);
                let listed = remote::wait(store.list_with_delimiter(Some(&folder)));
                let listed = listed.map_err(|error| failed(&error).at(name))?;
                let names = listed.objects.iter().filter_map(|object| object.location.filename());
                Ok(names.filter_map(version_of).collect())
            }
        }
    }

    /// The names of folders directly in a folder of names: each has versions, or names below it.
    pub fn children(&self, folder: &str) -> Result<BTreeSet<String>> {
        let name = |child: &str| match folder {
            "" => child.to_string(),
            _ => format!("{folder}/{child}"),
        };
        let is_name = |child: &str| !child.starts_with(['.', '@']);
        match self {
            ManifestStore::Folder(root) => {
                let entries = root.list(FilePath::new(folder)).unwrap_or_default();
                let names = entries.iter().map(|entry| &entry.name);
                Ok(names.filter(|child| is_name(child)).map(|child| name(child)).collect())
            }
            ManifestStore::Store(store, prefix, _) => {
                let below: Path = prefix.parts().chain(Path::from(folder).parts()).collect();
                let listed = remote::wait(store.list_with_delimiter(Some(&below)));
                let listed = listed.map_err(|error| failed(&error).at(folder))?;
                let children = listed.common_prefixes.iter().filter_map(Path::filename);
                Ok(children.filter(|child| is_name(child)).map(name).collect())
            }
        }
    }

    /// All names below a folder of names that have versions; the root is the empty name.
    pub fn names(&self, below: &str) -> Result<BTreeSet<String>> {
        let (store, prefix) = match self {
            ManifestStore::Folder(folder) => {
                if self.is_served() {
                    let reached = folder.facts();
                    reached.map_err(|error| Error::os("list", folder.place(), &error))?;
                }
                return Ok(names_below(&**folder, below));
            }
            ManifestStore::Store(store, prefix, _) => (store, prefix),
        };
        let start: Path = prefix.parts().chain(Path::from(below).parts()).collect();
        let listed = remote::wait(store.list(Some(&start)).try_collect::<Vec<_>>());
        let listed = listed.map_err(|error| failed(&error))?;
        let name = |location: &Path| {
            let below = location.prefix_match(prefix)?;
            let parts: Vec<String> = below.map(|part| part.as_ref().to_string()).collect();
            let (file, above) = parts.split_last()?;
            let (versions, name) = above.split_last()?;
            (versions == VERSIONS && version_of(file).is_some()).then(|| name.join("/"))
        };
        Ok(listed.iter().filter_map(|object| name(&object.location)).collect())
    }

    /// The text of a version; `Corrupt` if it is missing or cannot be read.
    pub fn read(&self, name: &str, version: u64) -> Result<Vec<u8>> {
        let missing = || Error::corrupt("the manifest is missing");
        match self {
            ManifestStore::Folder(folder) => {
                folder.read(&file_within(name, version)).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => missing(),
                    ErrorKind::PermissionDenied => {
                        Error::os("read", self.path(name, version), &error)
                    }
                    _ => Error::corrupt(format!("the manifest cannot be read: {error}")),
                })
            }
            ManifestStore::Store(store, prefix, _) => {
                let location = location(prefix, name, version);
                let read = remote::wait(async { store.get(&location).await?.bytes().await });
                match read {
                    Ok(text) => Ok(text.to_vec()),
                    Err(object_store::Error::NotFound { .. }) => Err(missing()),
                    Err(error) => Err(failed(&error).at(&location)),
                }
            }
        }
    }

    /// Puts a version; `None` if its number is taken. An error of a folder of this machine means
    /// that it is not visible.
    pub fn put(&self, name: &str, version: u64, text: &[u8]) -> Result<Option<Durability>> {
        match self {
            ManifestStore::Folder(folder) => {
                let staged = folder.stage(&file_within(name, version), text);
                let done = staged.and_then(|staged| staged.publish());
                if done.is_err() {
                    self.clear(name);
                }
                done
            }
            ManifestStore::Store(store, prefix, _) => {
                let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
                let location = location(prefix, name, version);
                let payload = PutPayload::from(text.to_vec());
                match remote::wait(store.put_opts(&location, payload, options)) {
                    Ok(_) => Ok(Some(Durability::Durable)),
                    Err(object_store::Error::AlreadyExists { .. }) => Ok(None),
                    Err(error) => Err(failed(&error).at(name)),
                }
            }
        }
    }

    /// Puts a version in place of any of its number.
    pub fn replace(&self, name: &str, version: u64, text: &[u8]) -> Result<Durability> {
        match self {
            ManifestStore::Folder(folder) => {
                folder.stage(&file_within(name, version), text)?.replace()
            }
            ManifestStore::Store(store, prefix, _) => {
                let payload = PutPayload::from(text.to_vec());
                let put = remote::wait(store.put(&location(prefix, name, version), payload));
                put.map(|_| Durability::Durable).map_err(|error| failed(&error).at(name))
            }
        }
    }

    /// Syncs the visible versions of a name.
    pub fn sync(&self, name: &str) -> Durability {
        match self {
            ManifestStore::Folder(folder) => {
                let versions = FilePath::new(name).join(VERSIONS);
                match folder.sync_folder(&versions) {
                    Ok(()) => Durability::Durable,
                    Err(error) => {
                        let place = folder.place().join(versions);
                        Durability::Unknown(Error::os("sync the folder", place, &error))
                    }
                }
            }
            ManifestStore::Store(..) => Durability::Durable,
        }
    }

    /// Removes the staged files that dead writers of a name have left. Returns their number.
    pub fn clear(&self, name: &str) -> usize {
        let ManifestStore::Folder(folder) = self else { return 0 };
        clear(&**folder, name)
    }

    /// The path or URL of a version, for messages.
    pub fn path(&self, name: &str, version: u64) -> String {
        match self {
            ManifestStore::Folder(folder) => {
                folder.place().join(file_within(name, version)).display().to_string()
            }
            ManifestStore::Store(_, prefix, _) => location(prefix, name, version).to_string(),
        }
    }
}

/// All names below a folder of names that have a folder of versions, or an empty folder: a killed
/// process leaves one before it writes anything.
pub(super) fn names_below(folder: &dyn DiskFolder, below: &str) -> BTreeSet<String> {
    let (mut names, mut open) = (BTreeSet::new(), vec![below.to_string()]);
    while let Some(above) = open.pop() {
        let Ok(entries) = folder.list(FilePath::new(&above)) else { continue };
        if entries.is_empty() && !above.is_empty() {
            names.insert(above.clone());
        }
        for entry in entries.into_iter().filter(|entry| entry.kind == EntryKind::Folder) {
            match entry.name.as_str() {
                VERSIONS => drop(names.insert(above.clone())),
                // No slug begins with these: staging folders, and folders of segments.
                name if name.starts_with(['.', '@']) => {}
                name if above.is_empty() => open.push(name.to_string()),
                name => open.push(format!("{above}/{name}")),
            }
        }
    }
    names
}

/// Removes the staged files that dead writers of a name have left below a folder, and the folders
/// that this empties.
pub(super) fn clear(folder: &dyn DiskFolder, name: &str) -> usize {
    let versions = FilePath::new(name).join(VERSIONS);
    let removed = match folder.local() {
        Some(root) => clear_local(&root.join(&versions)),
        None => folder.clear_staged(&versions),
    };
    folder.remove_empty(&versions);
    removed
}

fn clear_local(versions: &FilePath) -> usize {
    let mut removed = reclaim_staged(versions);
    // The staged names of releases up to 0.1: the version's name, `#` and a number.
    for entry in fs::read_dir(versions).into_iter().flatten().flatten() {
        let is_staged = |name: &str| {
            let (version, number) = name.split_once('#')?;
            (version_of(version).is_some() && number.parse::<u64>().is_ok()).then_some(())
        };
        if entry.file_name().to_str().and_then(is_staged).is_some() {
            removed += usize::from(fs::remove_file(entry.path()).is_ok());
        }
    }
    removed
}

fn file_within(name: &str, version: u64) -> PathBuf {
    FilePath::new(name).join(VERSIONS).join(file_of(version))
}

fn file_of(version: u64) -> String {
    format!("{version:010}.json")
}

fn version_of(file: &str) -> Option<u64> {
    file.strip_suffix(".json")?.parse().ok()
}

fn versions_of(prefix: &Path, name: &str) -> Path {
    let below = Path::from(format!("{name}/{VERSIONS}"));
    prefix.parts().chain(below.parts()).collect()
}

fn location(prefix: &Path, name: &str, version: u64) -> Path {
    versions_of(prefix, name).join(file_of(version))
}

fn failed(error: &object_store::Error) -> Error {
    use object_store::Error::*;
    let message = format!("the catalog cannot be used: {error}");
    match error {
        PermissionDenied { .. } | Unauthenticated { .. } => {
            Error::usage(message).remedy("check the credentials and the permission to write there")
        }
        _ => Error::resource(message).remedy("check that the catalog's store is there"),
    }
}
