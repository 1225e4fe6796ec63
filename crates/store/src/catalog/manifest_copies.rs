//! Copies of the manifests of mirrored collections, on the disks that hold their segments.
//!
//! The catalog decides which version is the newest. A copy becomes visible after its version has
//! been put into the catalog, so no copy describes an uncommitted version. Version *n* of `sales`
//! is `sales/.v/000000000n.TAG.json` below a disk's folder. A disk may serve several homes, so the
//! tag identifies the home.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use euphrates_flow::Result;

use super::folders::{VERSIONS, canonical_home};
use super::manifest_store::{clear, names_below};
use super::{Manifest, SegmentEntry};
use crate::segment::Damage;
use euphrates_device::disk::{Disks, at_once};
use euphrates_device::folder::{DiskFolder, EntryKind, StagedSmallFile};

/// Reads, writes and removes copies of manifests on the disks of a home.
#[derive(Debug, Default)]
pub(super) struct ManifestCopies {
    tag: String,
    disks: Vec<(String, Arc<dyn DiskFolder>)>,
}

/// Copies that are durable and not yet visible.
pub(super) struct DurableCopies(Vec<Box<dyn StagedSmallFile>>);

/// A copy of a manifest: its disk, the disk's folder, and its path there.
type ManifestCopy<'a> = (&'a str, &'a Arc<dyn DiskFolder>, PathBuf);

impl ManifestCopies {
    pub fn of(home: &Path) -> Result<ManifestCopies> {
        let disks = Disks::of(home)?;
        let disks = disks.folders().map(|(disk, folder)| (disk.name.clone(), folder.clone()));
        Ok(ManifestCopies { tag: tag(home), disks: disks.collect() })
    }

    /// The numbers of all versions of a name that have a copy.
    pub fn versions(&self, name: &str) -> BTreeSet<u64> {
        self.disks.iter().flat_map(|(_, folder)| self.on(&**folder, name)).collect()
    }

    /// All names below a folder of names that may have copies.
    pub fn names(&self, below: &str) -> BTreeSet<String> {
        self.disks.iter().flat_map(|(_, folder)| names_below(&**folder, below)).collect()
    }

    /// Reads a version from a copy, and returns the disk of that copy; damages of others are added
    /// to `damages`.
    pub fn read(
        &self,
        name: &str,
        version: u64,
        damages: &mut Vec<Damage>,
    ) -> Option<(Manifest, String)> {
        for (disk, folder) in &self.disks {
            let path = self.path(name, version);
            let Ok(text) = folder.read(&path) else { continue };
            let path = folder.place().join(path);
            match Manifest::decode_as(&text, name, version) {
                Ok(manifest) => return Some((manifest, disk.clone())),
                Err(error) => damages.push(damage(disk, path, error.message())),
            }
        }
        None
    }

    /// The damages of the copies of a manifest; a missing copy is one.
    pub fn damages(&self, manifest: &Manifest) -> Vec<Damage> {
        self.wrong_copies(manifest).into_iter().map(|(_, damage)| damage).collect()
    }

    fn wrong_copies(&self, manifest: &Manifest) -> Vec<(ManifestCopy<'_>, Damage)> {
        let (text, mut wrong) = (manifest.encode(), vec![]);
        for (disk, folder, path) in self.copies(manifest) {
            let what = match folder.read(&path) {
                Ok(copy) if copy == text => continue,
                Ok(_) => "the copy of the manifest is damaged".to_string(),
                Err(error) => format!("no copy of the manifest can be read: {error}"),
            };
            let damage = damage(disk, folder.place().join(&path), what);
            wrong.push(((disk, folder, path), damage));
        }
        wrong
    }

    /// Stages copies of a manifest that is about to become visible.
    pub fn prepare(&self, manifest: &Manifest) -> Result<DurableCopies> {
        self.write(manifest, self.copies(manifest).collect())
    }

    /// Publishes the copies of a visible manifest, and removes those of earlier versions. `verify`
    /// and the next start find what fails here.
    pub fn show(&self, manifest: &Manifest, prepared: DurableCopies) {
        let _ = at_once(prepared.0, |copy| copy.replace().map(drop));
        self.forget(manifest);
    }

    /// Rewrites the copies of a visible manifest that are damaged or missing. Returns their
    /// damages.
    pub fn repair_manifests(&self, manifest: &Manifest) -> Result<Vec<Damage>> {
        let (copies, damages) = self.wrong_copies(manifest).into_iter().unzip();
        let name = format!("a copy of the manifest of collection `{}`", manifest.name);
        at_once(self.write(manifest, copies)?.0, |copy| copy.replace()?.durable(&name))?;
        self.forget(manifest);
        Ok(damages)
    }

    /// Removes the staged copies that dead writers of a name have left. Returns their number.
    pub fn clear(&self, name: &str) -> usize {
        self.disks.iter().map(|(_, folder)| clear(&**folder, name)).sum()
    }

    fn write(&self, manifest: &Manifest, copies: Vec<ManifestCopy<'_>>) -> Result<DurableCopies> {
        let text = manifest.encode();
        let pending = euphrates_flow::sync::Mutex::new(vec![]);
        let done = at_once(copies, |(_, folder, path)| {
            let written = folder.stage(&path, &text)?;
            pending.lock().push(written);
            Ok(())
        });
        let pending = pending.into_inner();
        // A disk of a striped file may be full; as many copies as it has of its map are enough.
        let copies_min = manifest.file.as_ref().map_or(usize::MAX, |file| file.parity + 1);
        if let Err(error) = done
            && pending.len() < copies_min
        {
            drop(pending);
            self.clear(&manifest.name);
            return Err(error);
        }
        Ok(DurableCopies(pending))
    }

    /// The copies of a manifest: on those disks of its segments that this process sees. Another
    /// worker writes the copies on its own disks.
    fn copies(&self, manifest: &Manifest) -> impl Iterator<Item = ManifestCopy<'_>> {
        let on: BTreeSet<String> = match &manifest.file {
            _ if manifest.copies() == 1 => BTreeSet::new(),
            None => manifest.disks().into_iter().map(String::from).collect(),
            // A disk that had no room for a copy of the map has none for this one.
            Some(_) => {
                let map = manifest.segments.first().map(SegmentEntry::copies);
                map.into_iter().flatten().map(|copy| copy.disk).collect()
            }
        };
        let (name, version) = (manifest.name.clone(), manifest.version);
        let own = self.disks.iter().filter(move |(disk, _)| on.contains(disk));
        own.filter_map(move |(disk, folder)| {
            let path = self.path(&name, version);
            let is_there = matches!(folder.kind(Path::new(&name)), Ok(Some(EntryKind::Folder)));
            is_there.then_some((disk.as_str(), folder, path))
        })
    }

    fn forget(&self, newest: &Manifest) {
        for (_, folder) in &self.disks {
            let versions = self.on(&**folder, &newest.name).into_iter();
            for version in versions.filter(|version| *version < newest.version) {
                let _ = folder.remove_file(&self.path(&newest.name, version));
            }
            folder.remove_empty(&Path::new(&newest.name).join(VERSIONS));
        }
    }

    fn on(&self, folder: &dyn DiskFolder, name: &str) -> BTreeSet<u64> {
        let entries = folder.list(&Path::new(name).join(VERSIONS)).unwrap_or_default();
        let version = |file: &str| {
            let (version, tag) = file.strip_suffix(".json")?.split_once('.')?;
            version.parse().ok().filter(|_| tag == self.tag)
        };
        entries.iter().filter_map(|entry| version(&entry.name)).collect()
    }

    fn path(&self, name: &str, version: u64) -> PathBuf {
        Path::new(name).join(VERSIONS).join(format!("{version:010}.{}.json", self.tag))
    }
}

/// The tag that distinguishes the files of one home on a disk from those of another.
pub(crate) fn tag(home: &Path) -> String {
    let home = canonical_home(home);
    format!("{:08x}", crc_fast::crc32_iscsi(home.as_os_str().as_encoded_bytes()))
}

fn damage(disk: &str, path: PathBuf, what: impl Into<String>) -> Damage {
    Damage { disk: disk.to_string(), path, block: None, what: what.into() }
}
