//! Repair of a mirrored collection: rewrites damaged or lost copies from their mirrors.
//!
//! No file is changed. A new copy is staged next to the damaged one, one new version of the
//! manifest publishes it, and only then is the damaged file removed; so an interrupted repair has
//! no effect, and a good copy is never touched.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use serde::Serialize;

use super::name_reservation::NameReservation;
use super::reclaim::{CommitIntent, reclaim_disk, remove_segments};
use super::staged::{attempt, final_folder_of, move_folder, segments_folder};
use super::superseded::{Depth, sweep};
use super::verify::{CheckedCopy, check};
use super::version::{expect_durable, now};
use super::version_publication::commit_checked;
use crate::catalog::folders::STAGING;
use crate::catalog::{Catalog, CopyEntry, FoundCollection, Manifest, SegmentEntry};
use crate::segment::{Damage, Toc, toc_path, write_synced};
use euphrates_device::disk::{Disk, Disks, WriteBehind};
use euphrates_device::durable::Durability;
use euphrates_device::scratch::{LockedFolder, hold};

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// The number of copies that were checked.
    pub copies: usize,
    /// The damages that the repair has removed.
    pub repaired_damages: Vec<Damage>,
    /// The copies that were rewritten.
    pub rewritten: Vec<CopyEntry>,
    /// Bytes written to new copies.
    pub bytes: u64,
    /// The damages without a good copy, or in a segment that has such a damage.
    pub lost: Vec<Damage>,
}

/// Rewrites the damaged or lost copies of the newest version of a collection from its mirrors.
/// Fails, and changes nothing, if a disk cannot be written to or another writer was faster.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_store::collection::{CreateOptions, NewCollection, repair};
///
/// let home = tempfile::tempdir()?;
/// let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
/// let options = CreateOptions { run_id: "run".into(), ..CreateOptions::default() };
/// NewCollection::create(home.path(), "empty", &schema, options)?.commit(None)?;
/// let repaired = repair(home.path(), "empty", "run 2")?;
/// assert!(repaired.rewritten.is_empty() && repaired.lost.is_empty(), "nothing is damaged");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repair(home: &Path, name: &str, run_id: &str) -> Result<Repaired> {
    let catalog = Catalog::of(home)?;
    let found = catalog.find_existing(name)?;
    let of_manifest = catalog.damages(&found)?;
    let named = NameReservation::take(&catalog, name, run_id, None)?;
    let done = repair_manifests(home, &catalog, &found, run_id);
    named.release();
    let (newest, mut repaired) = done.map_err(|error| error.at(format!("collection {name}")))?;
    sweep(home, &catalog, &newest, Depth::UntilNothingRemoved);
    // A replacement of a lost disk may lack its copy of the manifest.
    catalog.recover(name)?;
    repaired.repaired_damages.splice(0..0, of_manifest);
    Ok(repaired)
}

/// Repairs the manifests first, which list what to check. Returns the newest version.
fn repair_manifests(
    home: &Path,
    catalog: &Catalog,
    found: &FoundCollection,
    run_id: &str,
) -> Result<(Manifest, Repaired)> {
    catalog.repair_manifests(found, run_id, now())?;
    let manifest = catalog.newest_readable(&found.name)?;
    let disks = Disks::of(home)?;
    let (newer, repaired) = RepairJob::new(home, &disks, &manifest, run_id).run(catalog)?;
    Ok((newer.unwrap_or(manifest), repaired))
}

struct RepairJob<'a> {
    home: &'a Path,
    disks: &'a Disks,
    manifest: &'a Manifest,
    run_id: &'a str,
    attempt: String,
}

/// Staging folders, by disk. Dropping them removes them.
#[derive(Default)]
struct Stagings(BTreeMap<String, (Disk, Option<LockedFolder>)>);

impl Stagings {
    /// Leaves them to the next reclaim.
    fn leave(&mut self) {
        self.0.values_mut().for_each(|(_, held)| drop(held.take()));
    }

    /// Removes the segments that have been moved out of them. Where that fails, the staging folder
    /// stays: the next start reads its note and removes the rest.
    fn take_back(&mut self, final_folder: &str) {
        for (disk, held) in self.0.values_mut() {
            if remove_segments(disk, final_folder).is_err() {
                drop(held.take());
            }
        }
    }
}

impl Drop for Stagings {
    fn drop(&mut self) {
        self.0.values_mut().filter_map(|(_, held)| held.take()).for_each(LockedFolder::remove);
    }
}

impl<'a> RepairJob<'a> {
    fn new(
        home: &'a Path,
        disks: &'a Disks,
        manifest: &'a Manifest,
        run_id: &'a str,
    ) -> RepairJob<'a> {
        RepairJob { home, disks, manifest, run_id, attempt: attempt(run_id) }
    }

    fn final_folder(&self) -> String {
        final_folder_of(self.home, &self.manifest.name, &self.attempt)
    }

    /// The new version, if there was a damage to repair.
    fn run(&self, catalog: &Catalog) -> Result<(Option<Manifest>, Repaired)> {
        let mut repaired = Repaired::default();
        let mut stagings = Stagings::default();
        let mut newer = Manifest {
            version: self.manifest.version + 1,
            run_id: self.run_id.to_string(),
            created: now(),
            ..self.manifest.clone()
        };
        for (number, entry) in newer.segments.iter_mut().enumerate() {
            let (toc, copies) = check(self.disks, entry);
            repaired.copies += copies.len();
            let damages = || copies.iter().flat_map(|copy| copy.damages.iter().cloned());
            let Some(source) = GoodCopies::new(toc, &copies) else {
                repaired.lost.extend(damages());
                continue;
            };
            let mut copies_now = vec![];
            for checked in &copies {
                if checked.damages.is_empty() {
                    copies_now.push(checked.entry.clone());
                    continue;
                }
                let rewritten = self.stage(catalog, &mut stagings, checked, number, &source)?;
                repaired.bytes += source.toc.segment_bytes;
                repaired.rewritten.push(rewritten.clone());
                copies_now.push(rewritten);
            }
            repaired.repaired_damages.extend(damages());
            set_copies(entry, copies_now);
        }
        if repaired.rewritten.is_empty() {
            return Ok((None, repaired));
        }
        self.commit(catalog, &mut stagings, &newer)?;
        Ok((Some(newer), repaired))
    }

    /// Stages a good copy in place of a damaged one. Returns its final location.
    fn stage(
        &self,
        catalog: &Catalog,
        stagings: &mut Stagings,
        damaged: &CheckedCopy,
        number: usize,
        source: &GoodCopies,
    ) -> Result<CopyEntry> {
        let name = &damaged.entry.disk;
        if !stagings.0.contains_key(name) {
            let disk = self.disks.open(name)?;
            reclaim_disk(self.home, &disk, catalog);
            let held = hold(&disk.folder().join(STAGING), &self.attempt)?;
            stagings.0.insert(name.clone(), (disk, Some(held)));
        }
        let (disk, held) = &stagings.0[name];
        let folder = segments_folder(&held.as_ref().expect("held until the end").folder);
        let file = format!("{number}.arrow");
        source.write(disk, &folder.join(&file))?;
        Ok(CopyEntry { disk: name.clone(), path: format!("{}/{file}", self.final_folder()) })
    }

    fn commit(&self, catalog: &Catalog, stagings: &mut Stagings, newer: &Manifest) -> Result<()> {
        let (name, final_folder) = (newer.name.clone(), self.final_folder());
        let note = CommitIntent {
            home: self.home.to_path_buf(),
            name,
            final_folder,
            session: None,
            client: None,
        };
        let held = |held: &Option<LockedFolder>| held.as_ref().map(|held| held.folder.clone());
        let folders = || stagings.0.values().filter_map(|(disk, one)| Some((disk, held(one)?)));
        folders().try_for_each(|(_, folder)| note.write(&folder))?;
        let moved = folders().try_for_each(|(disk, folder)| {
            move_folder(&segments_folder(&folder), &disk.folder().join(&note.final_folder))
        });
        match moved.and_then(|()| commit_checked(catalog, newer)) {
            Ok(durability) => {
                if !matches!(durability, Durability::Durable) {
                    // A loss of power may undo the publication, so the next reclaim has to decide.
                    stagings.leave();
                }
                expect_durable(durability, &format!("collection `{}`", note.name))
            }
            Err(error) => {
                stagings.take_back(&note.final_folder);
                Err(error)
            }
        }
    }
}

/// The copies that hold the good bytes of a segment.
struct GoodCopies<'a> {
    toc: Arc<Toc>,
    copies: &'a [CheckedCopy],
    /// The copy for the bytes outside all blocks.
    rest: usize,
    /// The copy for each block.
    blocks: Vec<usize>,
}

impl<'a> GoodCopies<'a> {
    /// The source, if every byte has a good copy.
    fn new(toc: Option<Arc<Toc>>, copies: &'a [CheckedCopy]) -> Option<GoodCopies<'a>> {
        let toc = toc?;
        let rest = copies.iter().position(|copy| copy.has_rest)?;
        let good = |block| copies.iter().position(|copy| copy.has(block));
        let blocks = (0..toc.blocks.len()).map(good).collect::<Option<_>>()?;
        Some(GoodCopies { toc, copies, rest, blocks })
    }

    /// Writes the whole segment and its table of contents, durably. Compares every block with its
    /// checksum again.
    fn write(&self, disk: &Disk, path: &Path) -> Result<()> {
        let file = disk.create(path)?;
        let behind = WriteBehind::new(disk, &file, None);
        let rest = self.copies[self.rest].copy.as_ref().expect("it has been read");
        for (at, gap) in rest.gaps().enumerate() {
            self.copy(self.rest, gap, &behind, |_| {})?;
            if let (Some(block), Some(&from)) = (self.toc.blocks.get(at), self.blocks.get(at)) {
                let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
                let range = block.offset..block.end();
                self.copy(from, range, &behind, |bytes| digest.update(bytes))?;
                if digest.finalize() as u32 != block.crc {
                    let error = Error::corrupt(format!("block {at} changed while it was read"));
                    return Err(error.at(&self.copies[from].entry.disk));
                }
            }
        }
        behind.wait()?;
        file.sync().map_err(|error| Error::os("sync", path, &error))?;
        write_synced(&toc_path(path), &self.toc.encode())
    }

    fn copy(
        &self,
        from: usize,
        range: std::ops::Range<u64>,
        behind: &WriteBehind,
        mut look: impl FnMut(&[u8]),
    ) -> Result<()> {
        let segment = self.copies[from].copy.as_ref().expect("it has been read");
        let file = segment.file()?;
        let mut at = range.start;
        segment.pieces(&file, range, |bytes: Buffer| {
            look(&bytes);
            let offset = at;
            at += bytes.len() as u64;
            behind.write(offset, &[bytes])
        })
    }
}

fn set_copies(entry: &mut SegmentEntry, mut copies: Vec<CopyEntry>) {
    entry.mirrors = copies.split_off(1);
    let primary = copies.remove(0);
    (entry.disk, entry.path) = (primary.disk, primary.path);
}
