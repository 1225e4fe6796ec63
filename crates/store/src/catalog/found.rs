//! What the catalog knows of a collection when some of it may be damaged.

use euphrates_flow::{Error, Result};

use super::{Life, Manifest};
use crate::segment::Damage;
use euphrates_device::disk::Disks;

/// A collection, as far as it can be read.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// The number of its newest version.
    pub version: u64,
    /// The newest version, or the last before it that can be read, if one can.
    pub manifest: Option<Manifest>,
    /// What is wrong with the newest manifest and its copies, as far as that was seen.
    pub damages: Vec<Damage>,
    /// The disk whose copy was read.
    pub(super) copy: Option<String>,
    /// Where the newest version is.
    path: String,
}

impl Found {
    pub(super) fn new(name: &str, version: u64, path: String) -> Found {
        let (name, manifest, damages, copy) = (name.to_string(), None, vec![], None);
        Found { name, version, manifest, damages, copy, path }
    }

    /// Whether there is such a collection, or may be: what is damaged may say so.
    pub fn exists(&self) -> bool {
        !self.manifest.as_ref().is_some_and(|manifest| manifest.life == Life::Removed)
    }

    /// The version to read. Fails if the newest is damaged, and nothing stands in for it.
    pub fn current(self) -> Result<Manifest> {
        match self.manifest {
            Some(manifest) => Ok(manifest),
            None => Err(self.damaged()),
        }
    }

    /// The newest version, and no other.
    pub(super) fn newest(self) -> Result<Manifest> {
        match self.manifest {
            Some(manifest) if manifest.version == self.version => Ok(manifest),
            _ => Err(self.damaged()),
        }
    }

    /// What a new version follows and replaces.
    pub(super) fn before(self) -> Manifest {
        let version = self.version;
        match self.manifest {
            Some(manifest) => Manifest { version, ..manifest },
            None => Manifest::unreadable(&self.name, version),
        }
    }

    /// What to tell whoever reads it, if it is not as it should be.
    pub fn warning(&self) -> Option<String> {
        let (manifest, what) = (self.manifest.as_ref()?, self.what()?);
        let read = match &self.copy {
            Some(disk) => format!("its copy on disk {disk} is read"),
            None => format!("version {} is read in its place", manifest.version),
        };
        let (name, version) = (&self.name, self.version);
        Some(format!(
            "collection {name}: {what} (version {version}); {read}; \
             `euphrates repair {name}` mends it"
        ))
    }

    fn what(&self) -> Option<&str> {
        self.damages.first().map(|damage| damage.what.as_str())
    }

    fn damaged(&self) -> Error {
        let what = self.what().unwrap_or("the manifest is damaged");
        let (name, version) = (&self.name, self.version);
        let message =
            format!("{what}; it is version {version}, of which there is no good copy to read");
        let remedy = format!(
            "restore it from a backup, write the collection again with `overwrite`, or remove it: \
             `euphrates rm {name}`"
        );
        Error::corrupt(message).remedy(remedy).at(&self.path)
    }
}

impl Manifest {
    /// Whether its segments are still there: of each a copy that can be seen, or one that another
    /// worker has. Without disks to look at they are taken to be.
    pub(super) fn has_segments(&self, disks: Option<&Disks>) -> bool {
        let Some(disks) = disks else { return self.life == Life::Live };
        let owners = disks.owners();
        let is_there = |disk: &str, path: &str| {
            let named = disks.named().iter().find(|named| named.name == disk);
            match named.map(|disk| &disk.folder).filter(|folder| folder.exists()) {
                Some(folder) => folder.join(path).exists(),
                None => owners.contains_key(disk),
            }
        };
        let mut segments = self.segments.iter();
        let whole = segments
            .all(|segment| segment.copies().iter().any(|copy| is_there(&copy.disk, &copy.path)));
        self.life == Life::Live && whole
    }
}
