//! The beginning of a session: the version that it follows, its disks, and a segment on each.

use std::path::Path;

use euphrates_device::disk::{Disks, at_once};
use euphrates_device::served::ServedHome;
use euphrates_flow::error::REMEDY_TAKEN;
use euphrates_flow::{Error, Owner, Result};
use euphrates_parity::BLOCKS_MAX;
use euphrates_policy::io_path::IoPath;

use super::dirty::{DIRTY_BYTES_MAX, DirtyStripes};
use super::options::{StripedOptions, disks_for, open_usable};
use super::placement::{DiskHealth, SEGMENT_FILE, SegmentPurpose, WritableDisk, WritableDisks};
use super::single::SingleBlocks;
use super::version::disk_marker::mark_disk;
use super::version::newest::NewestVersion;
use super::version::{StripeSegment, StripedVersion};
use super::writer::StripedWriter;
use crate::catalog::folders::STAGING;
use crate::catalog::{Catalog, Existence, FileEntry, Manifest, SegmentEntry, check_name};
use crate::collection::{CommitIntent, attempt, final_folder_of, reclaim_disk, segments_folder};

/// The version that a new file follows, and its layout. Fails if the name is taken or stripes have
/// more blocks than there are disks.
pub(super) fn plan(
    home: &Path,
    name: &str,
    options: &StripedOptions,
) -> Result<(Option<Manifest>, FileEntry)> {
    check_name(name)?;
    let StripedOptions { data, parity, block_bytes, overwrite, .. } = options;
    if *data == 0 || data.saturating_add(*parity) > BLOCKS_MAX {
        let error = Error::usage(format!("a stripe cannot have {data} + {parity} blocks"));
        return Err(error.remedy(format!("choose data >= 1, and data + parity <= {BLOCKS_MAX}")));
    }
    let before = Catalog::of(home)?.predecessor_of_next(name)?;
    before.as_ref().map_or(Ok(()), Manifest::expect_file)?;
    let is_taken = before.as_ref().is_some_and(|before| before.life == Existence::Live);
    if is_taken && !overwrite {
        let error = Error::usage(format!("there is a striped file `{name}` already"));
        return Err(error.remedy(REMEDY_TAKEN));
    }
    let layout = FileEntry {
        data: *data,
        parity: *parity,
        block_bytes: *block_bytes as u64,
        bytes: 0,
        disks: disks_for(home, options)?,
    };
    Ok((before, layout))
}

impl StripedWriter {
    /// Begins a new file. Fails if stripes have more blocks than there are disks.
    pub fn create(home: &Path, name: &str, options: StripedOptions) -> Result<StripedWriter> {
        let (before, layout) = plan(home, name, &options)?;
        let disks = layout.disks.clone();
        let version = StripedVersion::empty(home, name, layout)?;
        StripedWriter::begin(
            home,
            before,
            version,
            (&disks, &options.run_id),
            SegmentPurpose::Version,
        )
    }

    /// Fails if `create` would, or if a flow cannot commit the file; changes nothing.
    pub(crate) fn check(home: &Path, name: &str, options: &StripedOptions) -> Result<()> {
        if ServedHome::of(home)?.is_some() {
            // The record of the commit would be in a home that other clients do not see.
            let error = Error::usage("flows do not write striped files to served disks");
            return Err(error.remedy("save a local file, then `euphrates file put`"));
        }
        plan(home, name, options).map(drop)
    }

    /// Begins to change the newest version of a file, of which the changed stripes are replaced.
    pub fn update(home: &Path, name: &str, run_id: &str) -> Result<StripedWriter> {
        StripedWriter::update_on(home, name, run_id, &[])
    }

    /// As `update`; new blocks may go to these disks as well.
    pub(super) fn update_on(
        home: &Path,
        name: &str,
        run_id: &str,
        more: &[String],
    ) -> Result<StripedWriter> {
        let NewestVersion { found, manifest, mut version } = NewestVersion::open(home, name)?;
        let mut disks = version.layout.disks.clone();
        for disk in more.iter().filter(|disk| !manifest.disks().contains(disk.as_str())) {
            version.add_disk(home, disk)?;
            disks.push(disk.clone());
        }
        version.layout.disks.clone_from(&disks);
        // A damaged newest version keeps its number, and is replaced.
        let before = Manifest { version: found.version, ..manifest };
        StripedWriter::begin(home, Some(before), version, (&disks, run_id), SegmentPurpose::Version)
    }

    /// Begins to write segments to these disks.
    pub(super) fn begin(
        home: &Path,
        before: Option<Manifest>,
        mut version: StripedVersion,
        (disks, run_id): (&[String], &str),
        purpose: SegmentPurpose<'_>,
    ) -> Result<StripedWriter> {
        let (catalog, all, attempt) = (Catalog::of(home)?, Disks::of(home)?, attempt(run_id));
        let final_folder = final_folder_of(home, &version.name, &attempt);
        let (session, is_log) = match purpose {
            SegmentPurpose::Version => (None, false),
            SegmentPurpose::Share { session } => (Some(session), false),
            SegmentPurpose::Log { session } => (Some(session), true),
        };
        let note = CommitIntent::of(home, &version.name, &final_folder, session)?;
        let mut writable = writable_disks(&version);
        let segments_before = version.segments.len();
        at_once(writable.iter_mut().filter(|disk| disks.contains(&disk.name)), |disk| {
            let opened = open_usable(home, &all, &disk.name).and_then(|opened| {
                mark_disk(home, &disk.name, &**opened.files())?;
                reclaim_disk(home, &opened, &catalog);
                disk.open(&opened, &attempt, &note, is_log)
            });
            opened.unwrap_or_else(|error| disk.fail(DiskHealth::Failed, error));
            Ok(())
        })?;
        let folder = match is_log {
            true => format!("{STAGING}/{attempt}/{}", segments_folder(Path::new("")).display()),
            false => final_folder.clone(),
        };
        for (number, disk) in writable.iter_mut().enumerate() {
            let Some(file) = disk.file.clone() else { continue };
            disk.segment = version.segments.len() as u32;
            version.disks[number].disk.clone_from(&disk.disk);
            let entry = SegmentEntry {
                disk: disk.name.clone(),
                path: format!("{folder}/{SEGMENT_FILE}"),
                rows: 0,
                bytes: 0,
                blocks: 0,
                toc_crc: 0,
                mirrors: vec![],
            };
            let (file, path) = (Some(file), IoPath::Buffered);
            version.segments.push(StripeSegment { disk: number, entry, file, path });
        }
        Ok(StripedWriter {
            home: home.to_path_buf(),
            before,
            run_id: run_id.to_string(),
            final_folder,
            version,
            writable: WritableDisks::new(writable, is_log),
            is_moved: false,
            dirty: DirtyStripes::new(DIRTY_BYTES_MAX),
            singles: SingleBlocks::default(),
            segments_before,
            has_failed: false,
            owner: Owner::here(),
        })
    }
}

/// The disks of a version, to none of which anything can be written yet.
fn writable_disks(version: &StripedVersion) -> Vec<WritableDisk> {
    let mut workers: Vec<&str> = vec![];
    let mut writable = vec![];
    for disk in &version.disks {
        let known = workers.iter().position(|known| *known == disk.worker);
        let worker = known.unwrap_or_else(|| {
            workers.push(&disk.worker);
            workers.len() - 1
        });
        writable.push(WritableDisk::new(&disk.name, worker as u32));
    }
    writable
}
