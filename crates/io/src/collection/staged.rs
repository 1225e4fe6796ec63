//! A collection in the making: its segments stand in a staging folder until a manifest shows them.
//!
//! The commit: a note of what is about to happen, the segments' folder renamed into its place, the
//! manifest put if absent, the staging folder removed. Killed anywhere in between, the next start
//! finds the note and either keeps what the manifest shows, or removes it (`reclaim.rs`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::datatypes::SchemaRef;
use euphrates_flow::{Error, Result};

use super::reclaim::{Note, STAGING, reclaim_disk};
use crate::catalog::{Catalog, Layout, Life, Manifest, SegmentEntry, Statistics, check_name};
use crate::disk::{Disk, named_disk};
use crate::scratch::{Held, hold};
use crate::segment::{Compression, Segment, SegmentOptions, SharedSegment, toc_path};

/// How a collection is made.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// The disk's name; the home's own if `None`.
    pub disk: Option<String>,
    /// Whether it may take the place of one that exists.
    pub overwrite: bool,
    /// How blocks are made smaller.
    pub compression: Option<Compression>,
    /// A name no other run has.
    pub run_id: String,
}

/// A collection that nobody can see yet. Dropped before the commit, it leaves nothing behind.
#[derive(Debug)]
pub struct NewCollection {
    home: PathBuf,
    name: String,
    catalog: Catalog,
    /// The version it follows.
    before: Option<Manifest>,
    schema: SchemaRef,
    disk: Disk,
    options: CreateOptions,
    staging: Mutex<Option<Held>>,
    /// Where the segments will be, from the disk's folder on.
    place: String,
    begun: AtomicUsize,
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    segments: Vec<(usize, Segment)>,
    statistics: Statistics,
}

/// A segment of a new collection, to be written by one thread or several.
pub struct NewSegment {
    number: usize,
    segment: SharedSegment,
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
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        check_name(name)?;
        let catalog = Catalog::of(home)?;
        let before = catalog.newest(name)?;
        if !options.overwrite && before.as_ref().is_some_and(|before| before.life == Life::Live) {
            let error = Error::usage(format!("there is a collection `{name}` already"));
            return Err(error.remedy("choose another name, or overwrite it"));
        }
        let disk = named_disk(home, options.disk.as_deref())?;
        reclaim_disk(home, &disk, &catalog);
        let run = format!("{}-{:x}", options.run_id, NUMBER.fetch_add(1, Relaxed));
        let staging = hold(&disk.folder().join(STAGING), &run)?;
        Ok(NewCollection {
            home: home.to_path_buf(),
            name: name.to_string(),
            catalog,
            before,
            schema: schema.clone(),
            disk,
            options,
            place: format!("{name}/@{run}"),
            staging: Mutex::new(Some(staging)),
            begun: AtomicUsize::new(0),
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

    /// Begins a segment. Segments stand in the collection in the order they were begun.
    pub fn segment(&self) -> Result<NewSegment> {
        let number = self.begun.fetch_add(1, Relaxed);
        let path = self.staged_folder()?.join(format!("{number}.arrow"));
        let options = SegmentOptions { compression: self.options.compression, scratch: false };
        let segment = SharedSegment::create(&self.disk, &path, &self.schema, options)?;
        Ok(NewSegment { number, segment })
    }

    /// Takes a segment that is complete, and returns when the device has it.
    pub fn add(&self, new: NewSegment) -> Result<()> {
        let segment = new.segment.finish()?;
        self.parts().segments.push((new.number, segment));
        Ok(())
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
            let _ = fs::remove_dir_all(self.disk.folder().join(&self.place));
        }
        staging.remove();
        committed?;
        if let Some(before) = &self.before {
            remove_files(&self.home, before);
        }
        Ok(())
    }

    /// Removes all that was staged, if it has not been committed.
    pub fn abandon(&self) {
        if let Some(staging) = self.lock_staging().take() {
            staging.remove();
        }
    }

    fn commit_staged(&self, staging: &Held, order: Option<Vec<String>>) -> Result<()> {
        let manifest = self.manifest(order)?;
        let (home, name, place) = (self.home.clone(), self.name.clone(), self.place.clone());
        Note { home, name, place }.write(&staging.folder)?;
        let (from, to) = (segments_folder(&staging.folder), self.disk.folder().join(&self.place));
        let parent = to.parent().unwrap_or(Path::new("/"));
        let synced = |path: &Path| File::open(path).and_then(|folder| folder.sync_all());
        fs::create_dir_all(parent)
            .and_then(|()| fs::create_dir_all(&from))
            .and_then(|()| synced(&from))
            .and_then(|()| fs::rename(&from, &to))
            .and_then(|()| synced(parent))
            .map_err(|error| Error::os("move the segments to", &to, &error))?;
        self.show(&manifest)
    }

    /// Commits the manifest. A store that fails may have done it all the same, and one that
    /// tries again by itself is then told that somebody was faster: so a failure is looked into.
    fn show(&self, manifest: &Manifest) -> Result<()> {
        let Err(error) = self.catalog.commit(manifest) else { return Ok(()) };
        match self.catalog.newest(&self.name) {
            Ok(Some(newest)) if newest == *manifest => Ok(()),
            _ => Err(error),
        }
    }

    fn manifest(&self, order: Option<Vec<String>>) -> Result<Manifest> {
        let mut parts = self.parts();
        parts.segments.sort_by_key(|(number, _)| *number);
        let segments: Vec<SegmentEntry> =
            parts.segments.iter().map(|(_, segment)| self.entry(segment)).collect::<Result<_>>()?;
        let mut manifest = Manifest {
            name: self.name.clone(),
            version: self.before.as_ref().map_or(0, |before| before.version) + 1,
            life: Life::Live,
            run_id: self.options.run_id.clone(),
            created: now(),
            columns: vec![],
            schema: String::new(),
            layout: Layout::Plain,
            ordered: order.is_some(),
            sort_keys: order.unwrap_or_default(),
            rows: segments.iter().map(|segment| segment.rows).sum(),
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            segments,
            statistics: parts.statistics.finish(&self.schema),
        };
        manifest.set_schema(&self.schema)?;
        Ok(manifest)
    }

    fn entry(&self, segment: &Segment) -> Result<SegmentEntry> {
        let beside = toc_path(segment.path());
        let toc = fs::read(&beside).map_err(|error| Error::os("read", &beside, &error))?;
        let file = segment.path().file_name().unwrap_or_default().to_string_lossy();
        Ok(SegmentEntry {
            disk: self.disk.name().to_string(),
            path: format!("{}/{file}", self.place),
            rows: segment.rows(),
            bytes: segment.bytes(),
            blocks: segment.blocks().len() as u64,
            toc_crc: crc_fast::crc32_iscsi(&toc),
        })
    }

    fn staged_folder(&self) -> Result<PathBuf> {
        let staging = self.lock_staging();
        let held = staging.as_ref().ok_or_else(|| Error::failed("the collection is complete"))?;
        Ok(segments_folder(&held.folder))
    }

    fn lock_staging(&self) -> MutexGuard<'_, Option<Held>> {
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

impl std::ops::Deref for NewSegment {
    type Target = SharedSegment;

    fn deref(&self) -> &SharedSegment {
        &self.segment
    }
}

fn segments_folder(staging: &Path) -> PathBuf {
    staging.join("segments")
}

fn now() -> u64 {
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

/// Removes the files of a version that is no longer the newest. What cannot be removed is left:
/// nothing refers to it.
pub(super) fn remove_files(home: &Path, manifest: &Manifest) {
    for entry in &manifest.segments {
        let Ok(disk) = named_disk(home, Some(&entry.disk)) else { continue };
        let path = disk.folder().join(&entry.path);
        let _ = fs::remove_file(toc_path(&path));
        let _ = fs::remove_file(&path);
        // The folders above, as long as they are empty.
        let above = path.ancestors().skip(1).take_while(|above| *above != disk.folder());
        let _ = above.map(fs::remove_dir).take_while(|removed| removed.is_ok()).count();
    }
}
