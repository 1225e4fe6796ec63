//! A staged collection: its segments lie in staging folders until a manifest publishes them.
//!
//! The commit first writes a note of its intent on each disk, while the segments there are synced.
//! Then it renames the segments' folder into place, and prepares the next version (`version.rs`);
//! when its manifest is published, the staging folders are removed. If the process is killed in
//! between, the next start finds the note, and either keeps what the manifest lists, or removes it
//! (`reclaim.rs`).
//!
//! A sync of a busy disk waits behind all other writes to it, so the syncs are batched: two waits
//! in all, for all disks at once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use euphrates_flow::error::REMEDY_TAKEN;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result};

use super::create_options::CreateOptions;
use super::new_version::NewVersion;
use super::plan::SegmentPlan;
use super::reclaim::{CommitIntent, reclaim_disk, remove_segments};
use super::segments::{NewSegment, NewSegments};
use super::superseded::{Depth, sweep};
use super::version::{HeldVersion, StagedSegments, expect_durable, prepare_version};
use crate::catalog::folders::STAGING;
use crate::catalog::{
    Catalog, CopyEntry, Existence, Manifest, SegmentEntry, Statistics, check_name, tag,
};
use crate::commit::Durability;
use crate::mirroring::{Spot, Writers};
use crate::segment::{CopyTarget, Segment, SegmentOptions, SharedSegment, toc_path, write_synced};
use euphrates_device::disk::{Disk, Disks, HOME, Loads, at_once};
use euphrates_device::durable::make_folder;
use euphrates_device::private;
use euphrates_device::scratch::{LockedFolder, hold};

/// An operation on a disk.
type Act<'a> = Box<dyn FnOnce() -> Result<()> + Send + 'a>;

/// A collection that is not yet visible. Dropping it before the commit removes all that it has
/// staged.
#[derive(Debug)]
pub struct NewCollection {
    home: PathBuf,
    name: String,
    /// The version that it follows.
    before: Option<Manifest>,
    schema: SchemaRef,
    plan: SegmentPlan,
    options: CreateOptions,
    writers: Arc<Writers>,
    /// A folder on each disk of this process, and one at home for tables of contents that other
    /// processes could not read.
    staging: Mutex<Option<Vec<Staging>>>,
    /// The final folder of the segments, relative to each disk's folder.
    final_folder: String,
    begun: AtomicUsize,
    has_notes: AtomicBool,
    is_moved: AtomicBool,
    parts: Mutex<StagedSegments>,
}

/// The folder of a disk's files before publication.
#[derive(Debug)]
struct Staging {
    disk: Disk,
    held: LockedFolder,
}

impl NewCollection {
    /// Begins a collection of this (plain) schema. Fails if the name is taken and must not be
    /// overwritten.
    pub fn create(
        home: &Path,
        name: &str,
        schema: &SchemaRef,
        options: CreateOptions,
    ) -> Result<NewCollection> {
        NewCollection::create_among(home, name, schema, options, Arc::default())
    }

    /// As `create`, for several processes: each writes the segments of its own disks.
    pub fn create_among(
        home: &Path,
        name: &str,
        schema: &SchemaRef,
        options: CreateOptions,
        writers: Arc<Writers>,
    ) -> Result<NewCollection> {
        check_name(name)?;
        let catalog = Catalog::of(home)?;
        let before = catalog.predecessor_of_next(name)?;
        before.as_ref().map_or(Ok(()), Manifest::expect_collection)?;
        if !options.overwrite
            && before.as_ref().is_some_and(|before| before.life == Existence::Live)
        {
            let error = Error::usage(format!("there is a collection `{name}` already"));
            return Err(error.remedy(REMEDY_TAKEN));
        }
        let plan = SegmentPlan::new(home, &options)?;
        let own =
            plan.disks.iter().filter(|disk| writers.owners().elsewhere(disk.name()).is_none());
        let mut own: Vec<Disk> = own.cloned().collect();
        if writers.owners().are_several() {
            let at_home = Disks::of(home)?.open(HOME)?;
            if own.iter().all(|disk| disk.name() != at_home.name()) {
                own.push(at_home);
            }
        }
        let run = attempt(&options.run_id);
        let mut staging = vec![];
        for disk in own {
            reclaim_disk(home, &disk, &catalog);
            match hold(&disk.folder().join(STAGING), &run) {
                Ok(held) => staging.push(Staging { disk, held }),
                Err(error) => {
                    staging.into_iter().for_each(|staging| staging.held.remove());
                    return Err(error);
                }
            }
        }
        Ok(NewCollection {
            home: home.to_path_buf(),
            name: name.to_string(),
            before,
            schema: schema.clone(),
            plan,
            options,
            final_folder: final_folder_of(home, name, &run),
            writers,
            staging: Mutex::new(Some(staging)),
            begun: AtomicUsize::new(0),
            has_notes: AtomicBool::new(false),
            is_moved: AtomicBool::new(false),
            parts: Mutex::default(),
        })
    }

    /// The (plain) schema of its batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether it lies on several disks, over which all its writers spread their blocks.
    pub fn is_parallel(&self) -> bool {
        self.plan.disks.len() > 1
    }

    /// Begins a segment on the first disk. Segments are ordered as they were begun.
    pub fn begin_segment(&self) -> Result<NewSegments> {
        let loads = Loads::new(self.plan.disks.len());
        let segment = self.begin(&[0], &loads)?;
        Ok(NewSegments::new(vec![segment], loads))
    }

    /// Begins the segments of all disks of this process.
    pub fn begin_segments(&self) -> Result<NewSegments> {
        let loads = Loads::new(self.plan.disks.len());
        let owners = self.writers.owners();
        let is_own = |(number, disks): &(usize, &Vec<usize>)| {
            let owner = owners.owner(self.plan.disks[disks[0]].name());
            owner.unwrap_or_else(|| owners.in_turn(*number)) == owners.me()
        };
        let own = self.plan.segments.iter().enumerate().filter(is_own);
        let segments = own.map(|(_, disks)| self.begin(disks, &loads));
        Ok(NewSegments::new(segments.collect::<Result<_>>()?, loads))
    }

    /// Segments for a single writer: on all disks, or on the only one.
    pub fn begin_for_single_writer(&self) -> Result<NewSegments> {
        if self.is_parallel() { self.begin_segments() } else { self.begin_segment() }
    }

    fn begin(&self, disks: &[usize], loads: &Arc<Loads>) -> Result<NewSegment> {
        let number = self.begun.fetch_add(1, Relaxed);
        let file = format!("{number}.arrow");
        let target = |&at: &usize| -> Result<CopyTarget> {
            let disk = &self.plan.disks[at];
            let load = Some(loads.of(at));
            if let Some(far) = self.writers.remote(disk.name(), &file) {
                return Ok(CopyTarget::There(far, load));
            }
            Ok(CopyTarget::Here(disk.clone(), self.staged_folder(disk.name())?.join(&file), load))
        };
        let targets = disks.iter().map(target).collect::<Result<_>>()?;
        let options = SegmentOptions { compression: self.options.compression, scratch: false };
        let segment = SharedSegment::create_copies(targets, &self.schema, options)?;
        Ok(NewSegment { number, disks: disks.to_vec(), segment })
    }

    /// Handles a message of another process that writes the collection. A malformed one is an
    /// error.
    pub fn on_message(self: &Arc<Self>, process: usize, bytes: &[u8], body: &Buffer) -> Result<()> {
        // The names of files from different processes must differ.
        self.writers.on_message(process, bytes, body, &|disk, file| {
            let file = format!("of-{process}-{file}");
            let found = self.plan.disks.iter().find(|own| own.name() == disk);
            let disk = found.ok_or_else(|| Error::failed("a disk of another collection"))?;
            let path = self.staged_folder(disk.name())?.join(&file);
            Ok(Spot {
                disk: disk.clone(),
                path,
                final_path: format!("{}/{file}", self.final_folder),
            })
        })
    }

    /// Adds complete segments, and returns when the devices have them.
    pub fn add(&self, new: NewSegments) -> Result<()> {
        let is_interleaved = new.segments.len() > 1 || new.is_part();
        let mut acts = self.notes(self.staging.lock().as_deref().unwrap_or_default());
        for NewSegment { number, disks, segment } in new.segments {
            acts.push(Box::new(move || {
                let (segment, remote_paths) = segment.finish_copies()?;
                let entry = self.entry(&segment, &disks, remote_paths)?;
                self.parts.lock().segments.push((number, entry));
                Ok(())
            }));
        }
        at_once(acts, |act| act())?;
        self.parts.lock().is_interleaved |= is_interleaved;
        Ok(())
    }

    /// The operations that write a note on each disk; none after the first call.
    fn notes(&self, staging: &[Staging]) -> Vec<Act<'_>> {
        if self.has_notes.swap(true, Relaxed) {
            return vec![];
        }
        let note = CommitIntent {
            home: self.home.clone(),
            name: self.name.clone(),
            final_folder: self.final_folder.clone(),
            session: None,
            client: None,
        };
        let note = Arc::new(note);
        let write = |Staging { held, .. }: &Staging| -> Act<'_> {
            let (note, folder) = (note.clone(), held.folder.clone());
            Box::new(move || note.write(&folder))
        };
        staging.iter().map(write).collect()
    }

    /// Adds the statistics of a writer.
    pub fn add_statistics(&self, statistics: &Statistics) {
        self.parts.lock().statistics.merge(statistics);
    }

    /// Publishes the collection atomically. `order` is `None` for an unordered collection, and for
    /// a stream its sort columns, as far as they are known. Does nothing if the collection has been
    /// committed or removed. If another writer was faster, fails and removes all that was staged.
    pub fn commit(&self, order: Option<Vec<String>>) -> Result<()> {
        if self.staging.lock().is_none() {
            return Ok(());
        }
        let published = self.publish(order);
        let (version, held, durability) = published.inspect_err(|_| self.abandon())?;
        held.release();
        match durability {
            Durability::Durable => {
                self.on_published();
                version.clean();
            }
            // A loss of power may undo the publication, so the next reclaim has to decide.
            Durability::Unknown(_) | Durability::Unanswered(_) => drop(self.leave()),
        }
        expect_durable(durability, &format!("collection `{}`", self.name))
    }

    fn publish(&self, order: Option<Vec<String>>) -> Result<(NewVersion, HeldVersion, Durability)> {
        let parts = vec![self.prepare()?];
        let (name, before) = (self.name.as_str(), self.before.as_ref());
        let how = (&self.options, order);
        let (version, held) = prepare_version(&self.home, name, before, &self.schema, how, parts)?;
        match version.publish() {
            Ok(durability) => Ok((version, held, durability)),
            Err(error) => {
                held.release();
                Err(error)
            }
        }
    }

    /// Removes all that was staged, if it has not been committed.
    pub fn abandon(&self) {
        self.writers.close();
        let is_moved = self.is_moved.load(Relaxed);
        for staging in self.staging.lock().take().into_iter().flatten() {
            let removed = match is_moved {
                true => remove_segments(&staging.disk, &self.final_folder),
                false => Ok(()),
            };
            // The note in its folder records for the next start what is left.
            if removed.is_ok() {
                staging.held.remove();
            }
        }
    }

    /// Waits for all mirrors, then moves the segments and the mirrors stored here to their final
    /// folders. The caller or another process then publishes a manifest that lists them. No
    /// manifest lists them yet: they are reclaimed if this process dies, unless the committing
    /// process shares their locks.
    pub fn prepare(&self) -> Result<StagedSegments> {
        self.writers.finish()?;
        let staging = self.staging.lock();
        let staging = staging
            .as_ref()
            .ok_or_else(|| Error::failed("the collection has already been prepared or removed"))?;
        self.is_moved.store(true, Relaxed);
        self.move_segments(staging)?;
        let mut parts = std::mem::take(&mut *self.parts.lock());
        let locks = staging.iter().map(|staging| staging.held.lock_path().to_path_buf());
        parts.locks = locks.collect();
        Ok(parts)
    }

    /// Cleans up after the publication: another process has published what was staged here, and
    /// removed the version before where it could reach it.
    pub fn on_published(&self) {
        self.writers.close();
        if self.writers.owners().are_several() {
            // The next start finds what cannot be done now.
            let _ = self.clean_own_disks();
        }
        if let Some(staging) = self.staging.lock().take() {
            staging.into_iter().for_each(|staging| staging.held.remove());
        }
    }

    /// Copies the manifest to the disks of this process, and removes what it has replaced there.
    fn clean_own_disks(&self) -> Result<()> {
        let catalog = Catalog::of(&self.home)?;
        catalog.recover(&self.name)?;
        if let Some(newest) = catalog.newest(&self.name)? {
            sweep(&self.home, &catalog, &newest, Depth::UntilNothingRemoved);
        }
        Ok(())
    }

    /// If a manifest may already list its segments, leaves them in place for the next reclaim to
    /// decide. Returns whether that is so.
    pub fn leave(&self) -> bool {
        let is_moved = self.is_moved.load(Relaxed);
        if is_moved {
            self.staging.lock().take();
        }
        is_moved
    }

    fn move_segments(&self, staging: &[Staging]) -> Result<()> {
        at_once(self.notes(staging), |act| act())?;
        at_once(staging, |Staging { disk, held }| {
            move_folder(&segments_folder(&held.folder), &disk.folder().join(&self.final_folder))
        })
    }

    fn entry(
        &self,
        segment: &Segment,
        disks: &[usize],
        remote_paths: Vec<Option<String>>,
    ) -> Result<SegmentEntry> {
        let beside = toc_path(segment.path());
        let toc = fs::read(&beside).map_err(|error| Error::os("read", &beside, &error))?;
        let file = segment.path().file_name().unwrap_or_default();
        if self.writers.owners().are_several() {
            // Other processes see the home, if not this disk.
            let at_home = self.staged_folder(HOME)?;
            private::make_folders(&at_home).map_err(|error| Error::os("make", &at_home, &error))?;
            write_synced(&toc_path(&at_home.join(file)), &toc)?;
        }
        let path = format!("{}/{}", self.final_folder, file.to_string_lossy());
        let name = |&at: &usize| self.plan.disks[at].name().to_string();
        let mirrors = disks[1..].iter().zip(remote_paths).map(|(at, remote)| CopyEntry {
            disk: name(at),
            path: remote.unwrap_or_else(|| path.clone()),
        });
        Ok(SegmentEntry {
            disk: name(&disks[0]),
            mirrors: mirrors.collect(),
            path: path.clone(),
            rows: segment.rows(),
            bytes: segment.bytes(),
            blocks: segment.blocks().len() as u64,
            toc_crc: crc_fast::crc32_iscsi(&toc),
        })
    }

    fn staged_folder(&self, disk: &str) -> Result<PathBuf> {
        let staging = self.staging.lock();
        let all = staging.as_ref().ok_or_else(|| Error::failed("the collection is complete"))?;
        let found = all.iter().find(|staging| staging.disk.name() == disk);
        let found = found.ok_or_else(|| Error::failed(format!("disk {disk} is elsewhere")))?;
        Ok(segments_folder(&found.held.folder))
    }
}

impl Drop for NewCollection {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Moves a folder of segments from staging to its final folder, durably.
pub(crate) fn move_folder(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().unwrap_or(Path::new("/"));
    make_folder(parent)?;
    fs::create_dir_all(from)
        .and_then(|()| fs::rename(from, to))
        .map_err(|error| Error::os("move the segments to", to, &error))?;
    at_once([to, parent], |folder| {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Error::os("sync the folder", folder, &error))
    })
}

/// The final folder of an attempt's segments, relative to each disk's folder.
pub(crate) fn final_folder_of(home: &Path, name: &str, attempt: &str) -> String {
    format!("{name}/@{attempt}.{}", tag(home))
}

/// A name that no other attempt of any run has.
pub(crate) fn attempt(run_id: &str) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("{run_id}-{:x}", NUMBER.fetch_add(1, Relaxed))
}

pub(crate) fn segments_folder(staging: &Path) -> PathBuf {
    staging.join("segments")
}
