//! A collection in the making: its segments stand in staging folders until a manifest shows them.
//!
//! On each disk, while its segments are synced: a note of what is about to happen. Then the commit:
//! the segments' folder renamed into its place; the manifest put if absent, and the staging folders
//! removed. Killed anywhere in between, the next start finds the note and either keeps what the
//! manifest shows, or removes it (`reclaim.rs`).
//!
//! A sync of a busy disk waits behind whatever others write there, so all that can be synced
//! together is: two waits in all, for all disks at once.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::datatypes::SchemaRef;
use euphrates_flow::{Error, Result};

use super::plan::Plan;
use super::reclaim::{Note, STAGING, reclaim_disk};
use super::segments::{NewSegment, NewSegments};
use crate::catalog::{
    Catalog, CopyEntry, Layout, Life, Manifest, SegmentEntry, Statistics, check_name,
};
use crate::disk::{Disk, Loads, at_once, named_disk};
use crate::scratch::{Held, hold};
use crate::segment::{Compression, Place, Segment, SegmentOptions, SharedSegment, toc_path};

/// How a collection is made.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The disks' names; the home's own if there are none.
    pub disks: Vec<String>,
    /// Copies of each segment, on as many disks.
    pub copies: usize,
    /// Where mirrors go; `chained` if it is not said.
    pub layout: Option<Layout>,
    /// Whether it may take the place of one that exists.
    pub overwrite: bool,
    /// How blocks are made smaller.
    pub compression: Option<Compression>,
    /// A name no other run has.
    pub run_id: String,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions {
            disks: vec![],
            copies: 1,
            layout: None,
            overwrite: false,
            compression: None,
            run_id: String::new(),
        }
    }
}

/// Something to do on a disk.
type Act<'a> = Box<dyn FnOnce() -> Result<()> + Send + 'a>;

/// A collection that nobody can see yet. Dropped before the commit, it leaves nothing behind.
#[derive(Debug)]
pub struct NewCollection {
    home: PathBuf,
    name: String,
    catalog: Catalog,
    /// The version it follows.
    before: Option<Manifest>,
    schema: SchemaRef,
    plan: Plan,
    options: CreateOptions,
    /// A folder on each disk.
    staging: Mutex<Option<Vec<Held>>>,
    /// Where the segments will be, from each disk's folder on.
    place: String,
    begun: AtomicUsize,
    has_notes: AtomicBool,
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    segments: Vec<(usize, SegmentEntry)>,
    is_interleaved: bool,
    statistics: Statistics,
}

impl NewCollection {
    /// Begins a collection of this (plain) schema. Fails if there is one of this name and it may
    /// not be overwritten.
    pub fn create(
        home: &Path,
        name: &str,
        schema: &SchemaRef,
        options: CreateOptions,
    ) -> Result<NewCollection> {
        check_name(name)?;
        let catalog = Catalog::of(home)?;
        let before = catalog.newest(name)?;
        if !options.overwrite && before.as_ref().is_some_and(|before| before.life == Life::Live) {
            let error = Error::usage(format!("there is a collection `{name}` already"));
            return Err(error.remedy("choose another name, or overwrite it"));
        }
        let plan = Plan::new(home, &options)?;
        for disk in &plan.disks {
            reclaim_disk(home, disk, &catalog);
        }
        let run = attempt(&options.run_id);
        let hold = |disk: &Disk| hold(&disk.folder().join(STAGING), &run);
        let mut staging = vec![];
        for disk in &plan.disks {
            match hold(disk) {
                Ok(held) => staging.push(held),
                Err(error) => {
                    staging.into_iter().for_each(Held::remove);
                    return Err(error);
                }
            }
        }
        Ok(NewCollection {
            home: home.to_path_buf(),
            name: name.to_string(),
            catalog,
            before,
            schema: schema.clone(),
            plan,
            options,
            place: format!("{name}/@{run}"),
            staging: Mutex::new(Some(staging)),
            begun: AtomicUsize::new(0),
            has_notes: AtomicBool::new(false),
            parts: Mutex::default(),
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether it lies on several disks, to which all its writers deal their blocks.
    pub fn is_parallel(&self) -> bool {
        self.plan.disks.len() > 1
    }

    /// Begins a segment on the first disk. Segments stand in the collection in the order they were
    /// begun.
    pub fn segment(&self) -> Result<NewSegments> {
        let segment = self.begin(&[0], None)?;
        Ok(NewSegments::new(vec![segment], Loads::new(1)))
    }

    /// Begins the segments of all disks.
    pub fn segments(&self) -> Result<NewSegments> {
        let loads = Loads::new(self.plan.disks.len());
        let segments = self.plan.segments.iter().map(|disks| self.begin(disks, Some(&loads)));
        Ok(NewSegments::new(segments.collect::<Result<_>>()?, loads))
    }

    fn begin(&self, disks: &[usize], loads: Option<&Arc<Loads>>) -> Result<NewSegment> {
        let number = self.begun.fetch_add(1, Relaxed);
        let place = |&at: &usize| -> Result<Place> {
            let path = self.staged_folder(at)?.join(format!("{number}.arrow"));
            let load = loads.map(|loads| loads.of(at));
            Ok(Place { disk: self.plan.disks[at].clone(), path, load })
        };
        let places = disks.iter().map(place).collect::<Result<_>>()?;
        let options = SegmentOptions { compression: self.options.compression, scratch: false };
        let segment = SharedSegment::create_copies(places, &self.schema, options)?;
        Ok(NewSegment { number, disks: disks.to_vec(), segment })
    }

    /// Takes segments that are complete, and returns when the devices have them.
    pub fn add(&self, new: NewSegments) -> Result<()> {
        let is_interleaved = new.segments.len() > 1;
        let mut acts = self.notes(self.lock_staging().as_deref().unwrap_or_default());
        for NewSegment { number, disks, segment } in new.segments {
            acts.push(Box::new(move || {
                let entry = self.entry(&segment.finish()?, &disks)?;
                self.parts().segments.push((number, entry));
                Ok(())
            }));
        }
        at_once(acts, |act| act())?;
        self.parts().is_interleaved |= is_interleaved;
        Ok(())
    }

    /// Writing a note on each disk, for whoever asks first.
    fn notes(&self, staging: &[Held]) -> Vec<Act<'_>> {
        if self.has_notes.swap(true, Relaxed) {
            return vec![];
        }
        let note =
            Note { home: self.home.clone(), name: self.name.clone(), place: self.place.clone() };
        let note = Arc::new(note);
        let write = |held: &Held| -> Act<'_> {
            let (note, folder) = (note.clone(), held.folder.clone());
            Box::new(move || note.write(&folder))
        };
        staging.iter().map(write).collect()
    }

    /// Takes into account what values a writer has seen.
    pub fn add_statistics(&self, statistics: &Statistics) {
        self.parts().statistics.merge(statistics);
    }

    /// Makes the collection visible, at once. If its segments, one after the other, are a stream,
    /// `order` names the columns it is sorted by, as far as they are known. Fails, and leaves
    /// nothing behind, if another writer was faster.
    pub fn commit(&self, order: Option<Vec<String>>) -> Result<()> {
        let Some(staging) = self.lock_staging().take() else { return Ok(()) };
        let committed = self.commit_staged(&staging, order);
        if committed.is_err() {
            let mut places = self.plan.disks.iter().map(|disk| disk.folder().join(&self.place));
            places.by_ref().for_each(|place| drop(fs::remove_dir_all(place)));
        }
        staging.into_iter().for_each(Held::remove);
        committed?;
        if let Some(before) = &self.before {
            remove_files(&self.home, before, &BTreeSet::new());
        }
        Ok(())
    }

    /// Removes all that was staged, if it has not been committed.
    pub fn abandon(&self) {
        if let Some(staging) = self.lock_staging().take() {
            staging.into_iter().for_each(Held::remove);
        }
    }

    fn commit_staged(&self, staging: &[Held], order: Option<Vec<String>>) -> Result<()> {
        let manifest = self.manifest(order)?;
        at_once(self.notes(staging), |act| act())?;
        at_once(self.plan.disks.iter().zip(staging), |(disk, held)| {
            put_in_place(&segments_folder(&held.folder), &disk.folder().join(&self.place))
        })?;
        show(&self.catalog, &manifest)
    }

    fn manifest(&self, order: Option<Vec<String>>) -> Result<Manifest> {
        let mut parts = self.parts();
        parts.segments.sort_by_key(|(number, _)| *number);
        let segments: Vec<SegmentEntry> =
            parts.segments.iter().map(|(_, entry)| entry.clone()).collect();
        let mut manifest = Manifest {
            name: self.name.clone(),
            version: self.before.as_ref().map_or(0, |before| before.version) + 1,
            life: Life::Live,
            run_id: self.options.run_id.clone(),
            created: now(),
            columns: vec![],
            schema: String::new(),
            layout: self.plan.layout,
            ordered: order.is_some(),
            interleaved: order.is_some() && parts.is_interleaved,
            sort_keys: order.unwrap_or_default(),
            rows: segments.iter().map(|segment| segment.rows).sum(),
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            segments,
            statistics: parts.statistics.finish(&self.schema),
        };
        manifest.set_schema(&self.schema)?;
        Ok(manifest)
    }

    fn entry(&self, segment: &Segment, disks: &[usize]) -> Result<SegmentEntry> {
        let beside = toc_path(segment.path());
        let toc = fs::read(&beside).map_err(|error| Error::os("read", &beside, &error))?;
        let file = segment.path().file_name().unwrap_or_default().to_string_lossy();
        let path = format!("{}/{file}", self.place);
        let name = |&at: &usize| self.plan.disks[at].name().to_string();
        let mirror = |at| CopyEntry { disk: name(at), path: path.clone() };
        Ok(SegmentEntry {
            disk: name(&disks[0]),
            mirrors: disks[1..].iter().map(mirror).collect(),
            path,
            rows: segment.rows(),
            bytes: segment.bytes(),
            blocks: segment.blocks().len() as u64,
            toc_crc: crc_fast::crc32_iscsi(&toc),
        })
    }

    fn staged_folder(&self, disk: usize) -> Result<PathBuf> {
        let staging = self.lock_staging();
        let held = staging.as_ref().ok_or_else(|| Error::failed("the collection is complete"))?;
        Ok(segments_folder(&held[disk].folder))
    }

    fn lock_staging(&self) -> MutexGuard<'_, Option<Vec<Held>>> {
        self.staging.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for NewCollection {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Commits a manifest. A store that fails may have done it all the same, and one that tries again
/// by itself is then told that somebody was faster: so a failure is looked into.
pub(super) fn show(catalog: &Catalog, manifest: &Manifest) -> Result<()> {
    let Err(error) = catalog.commit(manifest) else { return Ok(()) };
    match catalog.newest(&manifest.name) {
        Ok(Some(newest)) if newest == *manifest => Ok(()),
        _ => Err(error),
    }
}

/// Moves a folder of segments from staging to where the manifest will say it is, durably.
pub(super) fn put_in_place(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent)
        .and_then(|()| fs::create_dir_all(from))
        .and_then(|()| fs::rename(from, to))
        .map_err(|error| Error::os("move the segments to", to, &error))?;
    at_once([to, parent], |folder| {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Error::os("sync the folder", folder, &error))
    })
}

/// A name no other attempt of any run has.
pub(super) fn attempt(run_id: &str) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("{run_id}-{:x}", NUMBER.fetch_add(1, Relaxed))
}

pub(super) fn segments_folder(staging: &Path) -> PathBuf {
    staging.join("segments")
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The version that says that a collection is no more.
pub(super) fn tombstone(last: &Manifest, run_id: &str) -> Manifest {
    Manifest {
        version: last.version + 1,
        life: Life::Removed,
        run_id: run_id.to_string(),
        created: now(),
        rows: 0,
        bytes: 0,
        segments: vec![],
        statistics: Default::default(),
        ..last.clone()
    }
}

/// Removes the files of a version that is no longer the newest, but those to `keep`. What cannot
/// be removed is left: nothing refers to it.
pub(super) fn remove_files(home: &Path, manifest: &Manifest, keep: &BTreeSet<(String, String)>) {
    for CopyEntry { disk, path } in manifest.segments.iter().flat_map(SegmentEntry::copies) {
        if keep.contains(&(disk.clone(), path.clone())) {
            continue;
        }
        let Ok(disk) = named_disk(home, Some(&disk)) else { continue };
        let path = disk.folder().join(&path);
        let _ = fs::remove_file(toc_path(&path));
        let _ = fs::remove_file(&path);
        // The folders above, as long as they are empty.
        let above = path.ancestors().skip(1).take_while(|above| *above != disk.folder());
        let _ = above.map(fs::remove_dir).take_while(|removed| removed.is_ok()).count();
    }
}
