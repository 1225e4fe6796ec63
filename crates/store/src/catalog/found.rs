//! The result of a catalog lookup: a collection's state, of which parts may be damaged.

use std::collections::BTreeSet;
use std::path::Path;

use euphrates_flow::{Error, Result};

use super::{Existence, Manifest, SegmentEntry};
use crate::segment::Damage;
use euphrates_device::disk::Disks;

/// A collection, as far as its manifests can be read.
#[derive(Clone, Debug)]
pub struct FoundCollection {
    /// The collection's name, as looked up.
    pub name: String,
    /// The number of its newest version.
    pub version: u64,
    /// The newest version; if it is damaged, the last earlier one that can be read and whose
    /// segments exist; `None` if there is neither.
    pub manifest: Option<Manifest>,
    /// The damages of the newest manifest and its copies that the lookup has met.
    pub damages: Vec<Damage>,
    /// The disk of the copy that was read, if one was.
    pub(super) copy: Option<String>,
    /// The path or URL of the newest version.
    path: String,
}

impl FoundCollection {
    pub(super) fn new(name: &str, version: u64, path: String) -> FoundCollection {
        let (name, manifest, damages, copy) = (name.to_string(), None, vec![], None);
        FoundCollection { name, version, manifest, damages, copy, path }
    }

    /// Whether the collection exists, or may exist: an unreadable manifest may describe one.
    pub fn exists(&self) -> bool {
        !self.manifest.as_ref().is_some_and(|manifest| manifest.life == Existence::Removed)
    }

    /// Whether it is a striped file.
    pub fn is_file(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.file.is_some())
    }

    /// What it is, and the command that repairs it.
    fn kind(&self) -> (&'static str, &'static str) {
        match self.is_file() {
            true => ("striped file", "euphrates file"),
            false => ("collection", "euphrates"),
        }
    }

    /// The version to read. Fails if the newest is damaged and has no substitute.
    pub fn current(self) -> Result<Manifest> {
        match self.manifest {
            Some(manifest) => Ok(manifest),
            None => Err(self.damaged()),
        }
    }

    /// The newest version; fails where only a substitute can be read.
    pub(super) fn newest(self) -> Result<Manifest> {
        match self.manifest {
            Some(manifest) if manifest.version == self.version => Ok(manifest),
            _ => Err(self.damaged()),
        }
    }

    /// The version that a new one follows and replaces.
    pub(super) fn before(self) -> Manifest {
        let version = self.version;
        match self.manifest {
            Some(manifest) => Manifest { version, ..manifest },
            None => Manifest::unreadable(&self.name, version),
        }
    }

    /// A warning for readers of the collection, if a manifest is damaged.
    pub fn warning(&self) -> Option<String> {
        let (manifest, what) = (self.manifest.as_ref()?, self.what()?);
        let read = match &self.copy {
            Some(disk) => format!("its copy on disk {disk} is read"),
            None => format!("version {} is read in its place", manifest.version),
        };
        let (name, version, (kind, command)) = (&self.name, self.version, self.kind());
        Some(format!(
            "{kind} {name}: {what} (version {version}); {read}; \
             `{command} repair {name}` repairs it"
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
    /// Whether its segments still exist: each has a copy that this process sees, or one that
    /// another worker owns. Without a list of disks they are assumed to exist.
    pub(super) fn has_segments(&self, disks: Option<&Disks>) -> bool {
        let Some(disks) = disks else { return self.life == Existence::Live };
        let owners = disks.owners();
        let is_there = |disk: &str, path: &str| {
            let folder = disks.folder(disk).map(|(_, folder)| folder);
            match folder.filter(|folder| folder.facts().is_ok()) {
                Some(folder) => matches!(folder.kind(Path::new(path)), Ok(Some(_))),
                None => owners.contains_key(disk),
            }
        };
        let has_copy = |segment: &SegmentEntry| {
            segment.copies().iter().any(|copy| is_there(&copy.disk, &copy.path))
        };
        let is_whole = match &self.file {
            None => self.segments.iter().all(has_copy),
            Some(file) => {
                let missing = self.segments.iter().skip(1).filter(|segment| !has_copy(segment));
                let disks: BTreeSet<&str> = missing.map(|segment| segment.disk.as_str()).collect();
                self.segments.first().is_some_and(has_copy) && disks.len() <= file.parity
            }
        };
        self.life == Existence::Live && is_whole
    }
}
