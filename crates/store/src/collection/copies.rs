//! The copies of a segment, with those that cannot be opened as `None`.
//!
//! All copies have the same bytes, so one whole table of contents describes them all; a copy is
//! lost only if its file cannot be opened.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use euphrates_flow::{Error, Kind, Result};

use crate::catalog::{CopyEntry, SegmentEntry};
use crate::segment::{Damage, Segment, Toc, toc_path};
use euphrates_device::disk::{DiskFile, Disks, HOME};

/// The worker that owns each disk, by the disk's name.
pub(super) type WorkerByDisk = BTreeMap<String, String>;

/// A segment and its copies.
#[derive(Clone, Debug)]
pub struct SegmentCopies {
    /// The table of contents, which describes every copy.
    pub toc: Arc<Toc>,
    /// The primary first; `None` for a copy that cannot be opened.
    pub copies: Vec<Option<Arc<Segment>>>,
    /// The names of the disks, in the order of `copies`.
    pub disks: Vec<String>,
    path: String,
    damages: Vec<Damage>,
    /// Open files, so that the copies stay readable as long as this exists.
    _files: Vec<Arc<DiskFile>>,
}

impl SegmentCopies {
    /// Opens the copies of a segment. Fails if neither this process nor the owner of a disk can
    /// read one.
    pub(super) fn open(
        disks: &Disks,
        owners: &WorkerByDisk,
        entry: &SegmentEntry,
    ) -> Result<SegmentCopies> {
        let copies = entry.copies();
        let is_owned = copies.iter().any(|copy| owners.contains_key(&copy.disk));
        if let ([only], false) = (copies.as_slice(), is_owned) {
            let (segment, file) = open_whole(disks, entry, only)?;
            return Ok(SegmentCopies {
                toc: segment.toc().clone(),
                copies: vec![Some(segment)],
                disks: vec![only.disk.clone()],
                path: only.path.clone(),
                damages: vec![],
                _files: vec![file],
            });
        }
        let mut damages = vec![];
        let toc = copies.iter().fold(None, |found, copy| match read_toc(disks, entry, copy) {
            Ok(toc) => found.or(Some(Arc::new(toc))),
            Err(error) => {
                damages.push(damage(copy, &error));
                found
            }
        });
        let at_home = || is_owned.then(|| toc_at_home(disks, entry).ok().map(Arc::new)).flatten();
        let Some(toc) = toc.or_else(at_home) else { return Err(no_copy_error(entry, &damages)) };
        let mut opened = vec![];
        for copy in &copies {
            let segment = open_copy(disks, &toc, copy);
            if let Err(error) = &segment {
                damages.retain(|damage| damage.disk != copy.disk);
                damages.push(damage(copy, error));
            }
            opened.push(segment.ok());
        }
        if opened.iter().all(Option::is_none) && !is_owned {
            return Err(no_copy_error(entry, &damages));
        }
        let files = opened.iter().flatten().map(|(_, file)| file.clone()).collect();
        let copies = opened.into_iter().map(|copy| copy.map(|(segment, _)| segment)).collect();
        let disks = entry.copies().into_iter().map(|copy| copy.disk).collect();
        let path = entry.path.clone();
        Ok(SegmentCopies { toc, copies, disks, path, damages, _files: files })
    }

    /// The segment, of which only some blocks are read. The flags are by block.
    pub(super) fn keeping(self, is_kept: &[bool]) -> SegmentCopies {
        let toc = Arc::new(self.toc.keeping(is_kept));
        let copies = self.copies.iter().map(|copy| Some(Arc::new(copy.as_ref()?.with_toc(&toc))));
        SegmentCopies { copies: copies.collect(), toc, ..self }
    }

    /// The file of the primary, relative to its disk's folder.
    pub fn path(&self) -> String {
        self.path.clone()
    }

    /// The damages that opening the copies has found.
    pub fn damages(&self) -> impl Iterator<Item = &Damage> {
        self.damages.iter()
    }

    /// The first copy that this process can open. Fails if all are on disks of other workers.
    pub fn first(&self) -> Result<&Arc<Segment>> {
        self.copies.iter().flatten().next().ok_or_else(|| {
            Error::resource(format!("segment {} is on disk {}", self.path, self.disks.join(", ")))
                .remedy("read it at the worker that has this disk: see disks.json")
        })
    }
}

/// Opens a segment without mirrors: file and table of contents must exist.
fn open_whole(
    disks: &Disks,
    entry: &SegmentEntry,
    copy: &CopyEntry,
) -> Result<(Arc<Segment>, Arc<DiskFile>)> {
    let toc = Arc::new(read_toc(disks, entry, copy)?);
    let (segment, file) = open_copy(disks, &toc, copy)?;
    segment.expect_length(file.bytes())?;
    Ok((segment, file))
}

/// Reads a copy's table of contents; fails unless it is the one that was written.
pub(super) fn read_toc(disks: &Disks, entry: &SegmentEntry, copy: &CopyEntry) -> Result<Toc> {
    let path = disks.open(&copy.disk)?.folder().join(&copy.path);
    let toc = toc_beside(entry, copy, &path)?;
    std::fs::metadata(&path).map_err(|error| failed(copy, &path, &error))?;
    Ok(toc)
}

/// Reads the table of contents from the home's own disk. Writers put a copy there if several
/// processes write the collection, because not all of them see every disk.
fn toc_at_home(disks: &Disks, entry: &SegmentEntry) -> Result<Toc> {
    let copy = CopyEntry { disk: HOME.into(), path: entry.path.clone() };
    let path = disks.open(HOME)?.folder().join(&copy.path);
    toc_beside(entry, &copy, &path)
}

fn toc_beside(entry: &SegmentEntry, copy: &CopyEntry, path: &Path) -> Result<Toc> {
    let beside = toc_path(path);
    let toc = std::fs::read(&beside).map_err(|error| failed(copy, &beside, &error))?;
    if crc_fast::crc32_iscsi(&toc) != entry.toc_crc {
        return Err(Error::corrupt("the table of contents is not the one that was written")
            .remedy("run `euphrates verify`")
            .at(beside.display()));
    }
    Toc::decode(&toc).map_err(|error| error.remedy("run `euphrates verify`").at(beside.display()))
}

pub(super) fn open_copy(
    disks: &Disks,
    toc: &Arc<Toc>,
    copy: &CopyEntry,
) -> Result<(Arc<Segment>, Arc<DiskFile>)> {
    let disk = disks.open(&copy.disk)?;
    let path = disk.folder().join(&copy.path);
    let segment = Arc::new(Segment::copy_of(toc, &disk, &path));
    std::fs::metadata(&path).map_err(|error| failed(copy, &path, &error))?;
    let file = segment.file()?;
    Ok((segment, file))
}

fn failed(copy: &CopyEntry, path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::corrupt(format!("{} is missing", path.display()))
            .remedy(format!("is disk `{}` in its place? See disks.json", copy.disk)),
        _ => Error::os("read", path, error),
    }
}

/// The damage of a copy as a whole.
pub(super) fn damage(copy: &CopyEntry, error: &Error) -> Damage {
    Damage {
        disk: copy.disk.clone(),
        path: copy.path.clone().into(),
        block: None,
        what: error.message().to_string(),
    }
}

fn no_copy_error(entry: &SegmentEntry, damages: &[Damage]) -> Error {
    let told: Vec<String> = damages.iter().map(Damage::to_string).collect();
    let error = format!("no copy of segment {} can be read: {}", entry.path, told.join("; "));
    let disks: Vec<String> = entry.copies().iter().map(|copy| format!("`{}`", copy.disk)).collect();
    let places = match disks.as_slice() {
        [one] => format!("is disk {one} in its place?"),
        several => format!("are disks {} in their places?", several.join(", ")),
    };
    Error::new(Kind::Corrupt, error).remedy(places + " See disks.json")
}
