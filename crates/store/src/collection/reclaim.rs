//! Garbage collection of staged files: reclaims what killed processes have left on disks.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use euphrates_flow::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::catalog::folders::{self, STAGING, VERSIONS, canonical_home};
use crate::catalog::{Catalog, CopyEntry, Existence, SegmentEntry};
use crate::commit::decision::is_decided;
use crate::commit::reservation::hidden_in;
use crate::commit::reserve;
use euphrates_device::disk::{Disk, Disks};
use euphrates_device::folder::{DiskFolder, LocalFolder};
use euphrates_device::scratch::{is_held, reclaim as reclaim_folders};
use euphrates_device::served::ServedHome;

use super::superseded::{Depth, sweep};

const INTENT_FILE: &str = "commit.json";
/// The folder of a home with the sessions in which several writers fill one striped file.
pub(crate) const SESSIONS: &str = "sessions";

/// The intent of a commit, written into its staging folder before the commit acts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommitIntent {
    /// The home in whose catalog the collection will appear.
    pub home: PathBuf,
    /// The collection's name in that catalog.
    pub name: String,
    /// The final folder of its segments, relative to the disk's folder.
    #[serde(rename = "place")]
    pub final_folder: String,
    /// The session that will publish it: its owner may have ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The client that has the session, if its disks are served: others cannot see its lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

impl CommitIntent {
    /// The intent of a writer with this home.
    pub(crate) fn of(
        home: &Path,
        name: &str,
        final_folder: &str,
        session: Option<&str>,
    ) -> Result<CommitIntent> {
        let served = ServedHome::of(home)?;
        Ok(CommitIntent {
            home: served.as_ref().map_or(home, |served| &served.home).to_path_buf(),
            name: name.to_string(),
            final_folder: final_folder.to_string(),
            session: session.map(str::to_string),
            client: served.map(|served| served.client),
        })
    }

    /// Writes the note into a staging folder of a disk.
    pub(crate) fn write_within(
        &self,
        disk: &dyn DiskFolder,
        staging: &Path,
        is_synced: bool,
    ) -> Result<()> {
        let path = staging.join(INTENT_FILE);
        let written = disk.write(&path, &self.encode()?, is_synced);
        written.map_err(|error| Error::os("write", disk.place().join(path), &error))
    }

    fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::usage(format!("{}: {error}", self.home.display())))
    }

    pub(crate) fn write(&self, staging: &Path) -> Result<()> {
        self.write_within(&LocalFolder::new(staging), Path::new(""), true)
    }

    /// Reads the note of a staging folder; `None` if its owner died before it wrote one.
    fn read(disk: &dyn DiskFolder, staging: &Path) -> Option<CommitIntent> {
        serde_json::from_slice(&disk.read(&staging.join(INTENT_FILE)).ok()?).ok()
    }
}

/// Removes what dead processes have staged on the home's disks. Returns the number of staging
/// folders that were removed.
///
/// ```
/// use euphrates_store::collection::reclaim;
///
/// let home = tempfile::tempdir()?;
/// assert_eq!(reclaim(home.path())?, 0, "nothing is staged");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reclaim(home: &Path) -> Result<usize> {
    let catalog = Catalog::of(home)?;
    let mut reclaimed = reclaim_sessions(home);
    // Fails unless it is empty, which is right.
    let _ = fs::remove_dir(home.join(SESSIONS));
    let disks = Disks::of(home)?;
    // Opening a disk makes its folder, and one that is missing has nothing to reclaim. What a disk
    // has that cannot be used now is reclaimed at the next start.
    for (disk, _) in disks.folders().filter(|(_, folder)| folder.facts().is_ok()) {
        if let Ok(disk) = disks.open(&disk.name) {
            reclaimed += reclaim_disk(home, &disk, &catalog);
        }
    }
    Ok(reclaimed)
}

/// Whether the process that began a session lives, and has not ended it.
pub(crate) fn is_session_open(home: &Path, id: &str) -> bool {
    is_held(&home.join(SESSIONS), id)
}

/// Removes the sessions of dead processes, but not what their writers have left on disks.
fn reclaim_sessions(home: &Path) -> usize {
    reclaim_folders(&home.join(SESSIONS))
}

/// Resolves the reservations of collections' names that dead flows have left. Returns their number.
pub fn reclaim_names(home: &Path) -> Result<usize> {
    Ok(Catalog::of(home)?.folder().map_or(0, reclaim_below))
}

/// Resolves the reservations of dead flows in a catalog's folder. Returns their number.
fn reclaim_below(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    let reclaimed = folders.map(|path| match path.file_name().is_some_and(|it| it == VERSIONS) {
        true => {
            let ended = reserve::reclaim(&hidden_in(&path));
            folders::remove_empty_versions(&path);
            ended
        }
        false => reclaim_below(&path),
    });
    reclaimed.sum()
}

/// As `reclaim`, at the start of any flow: fast where nothing is staged, and without an error,
/// since the next writer to such a disk reclaims again.
pub fn reclaim_at_start(home: &Path) {
    reclaim_sessions(home);
    let Ok(disks) = Disks::of(home) else { return };
    let staging = Path::new(STAGING);
    for (disk, folder) in disks.folders() {
        // The next writer to a served disk reclaims; a flow does not wait for workers.
        let is_local = folder.local().is_some();
        // A missing home stays missing: opening its disk or its catalog would make it.
        if !is_local || folder.list(staging).map_or(true, |all| all.is_empty()) {
            continue;
        }
        let (catalog, disk) = (Catalog::of(home), disks.open(&disk.name));
        if let (Ok(catalog), Ok(disk)) = (catalog, disk) {
            reclaim_disk(home, &disk, &catalog);
        }
    }
}

/// Removes the segments of superseded versions of all collections, and what dead writers of
/// manifests have left. Returns the number of removed files.
pub fn reclaim_superseded(home: &Path) -> Result<usize> {
    let catalog = Catalog::of(home)?;
    let mut removed = 0;
    for name in catalog.names()? {
        removed += catalog.recover(&name)?;
        // The files of a version with a damaged manifest are not known.
        if let Ok(Some(newest)) = catalog.newest(&name) {
            removed += sweep(home, &catalog, &newest, Depth::All);
        }
    }
    Ok(removed)
}

/// Removes the segments of a commit that has failed. After an error some are left, which only the
/// note in their staging folder records.
pub(crate) fn remove_segments(disk: &Disk, final_folder: &str) -> Result<()> {
    let folder = Path::new(final_folder);
    match disk.files().remove_folder(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Error::os("remove", disk.folder().join(folder), &error));
        }
        _ => disk.files().remove_empty(folder),
    }
    Ok(())
}

/// As `reclaim`, for one disk. A disk may serve several homes: once an attempt has recorded its
/// home in a note, only that home can decide whether it was committed.
pub(crate) fn reclaim_disk(home: &Path, disk: &Disk, catalog: &Catalog) -> usize {
    let abandoned = disk.files().abandoned(Path::new(STAGING)).into_iter();
    let is_removed = abandoned.map(|staging| {
        let note = CommitIntent::read(&**disk.files(), staging.path());
        let ended = note.map_or(Ok(()), |note| end_attempt(home, disk, catalog, &note));
        ended.is_ok() && staging.remove().is_ok()
    });
    is_removed.filter(|removed| *removed).count()
}

/// Removes what a dead writer has left beside its staging folder. Fails if that may be needed.
fn end_attempt(home: &Path, disk: &Disk, catalog: &Catalog, note: &CommitIntent) -> Result<()> {
    if canonical_home(&note.home) != canonical_home(home) {
        return Err(Error::usage("it belongs to another home"));
    }
    if let Some(id) = &note.session {
        let own = ServedHome::of(home)?.map(|served| served.client);
        if note.client != own {
            return Err(Error::usage("it belongs to a session of another client"));
        }
        if is_session_open(home, id) {
            return Err(Error::usage("it belongs to an open session"));
        }
    }
    let shown = catalog.newest(&note.name)?.is_some_and(|newest| {
        let mut copies = newest.segments.iter().flat_map(SegmentEntry::copies);
        let shown = |copy: CopyEntry| Path::new(&copy.path).starts_with(&note.final_folder);
        newest.life == Existence::Live && copies.any(shown)
    });
    if shown {
        // The process that published it may have died before this sync.
        catalog.sync(&note.name).durable(&note.name)?;
    }
    if !shown && is_decided(home, &note.final_folder) {
        return Err(Error::usage("it is to be published"));
    }
    if !shown {
        remove_segments(disk, &note.final_folder)?;
    }
    catalog.recover(&note.name).map(drop)
}
