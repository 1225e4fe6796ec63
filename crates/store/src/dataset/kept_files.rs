//! Complete files of a dataset that a later attempt at the same flow adopts.
//!
//! A staged folder with a journal (`journal.rs`) outlives its process. The next attempt adopts the
//! files of all journals with its key, and removes the files without a line, and what was staged
//! for another key. A line that a dying process did not finish is ignored, and so is one whose file
//! is gone or has another length.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use euphrates_flow::{Error, Result};
use euphrates_policy::unit_ledger::UnitLedger;
use rustix::fs::{FlockOperation, flock};

use super::journal::{self, CompleteFile, StagedStamp, is_journal, staged_of};
use super::tree::Tree;
use crate::commit::reservation::hidden_in;

/// Files of earlier attempts that another one adopts. The folders are locked until this is dropped.
pub struct KeptFiles {
    /// The durable rows, by unit.
    pub ledger: UnitLedger,
    /// The folders of the files, relative to which these have their place in the dataset.
    pub folders: Vec<PathBuf>,
    /// The number of files.
    pub files: usize,
    /// A number greater than that of any file of an earlier attempt.
    pub next_number: u64,
    _locks: Vec<File>,
}

/// What a dead process has left.
struct Left {
    folder: PathBuf,
    /// None if the folder is gone.
    lock: Option<File>,
    complete: Vec<CompleteFile>,
}

/// Adopts what dead processes have left of a flow with this key for a target (a folder), whose
/// input has this number of units. Removes what they have left besides, and for other keys.
///
/// ```
/// use euphrates_store::dataset::adopt_files;
///
/// let folder = tempfile::tempdir()?;
/// let kept = adopt_files(&folder.path().join("sales"), "4f1d", 12)?;
/// assert_eq!((kept.files, kept.ledger.left()), (0, vec![0..12]), "this is the first attempt");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn adopt_files(target: &Path, key: &str, units: u64) -> Result<KeptFiles> {
    let left = left_of(target, key);
    let files = files_there(&left)?;
    let there: BTreeSet<&StagedStamp> = files.iter().map(|(_, stamp)| stamp).collect();
    let all = || left.iter().flat_map(|left| &left.complete);
    // An attempt that died at its end may have moved files to another folder.
    let is_there =
        |complete: &&CompleteFile| complete.file.as_ref().is_none_or(|stamp| there.contains(stamp));
    let complete: Vec<&CompleteFile> = all().filter(is_there).collect();
    let mut ledger = UnitLedger::new(units);
    let notes: Vec<_> = complete.iter().map(|complete| complete.units.clone()).collect();
    let adopted = complete.into_iter().zip(ledger.adopt(&notes)).filter(|(_, adopted)| *adopted);
    let kept: BTreeSet<&StagedStamp> =
        adopted.filter_map(|(complete, _)| complete.file.as_ref()).collect();
    for (folder, stamp) in files.iter().filter(|(_, stamp)| !kept.contains(stamp)) {
        let path = folder.join(&stamp.path);
        fs::remove_file(&path).map_err(|error| Error::os("remove", &path, &error))?;
    }
    let next_number = all().map(|complete| complete.number + 1).max().unwrap_or(0);
    let files = kept.len();
    let locked = left.into_iter().filter_map(|left| Some((left.folder, left.lock?)));
    let (folders, locks) = locked.unzip();
    Ok(KeptFiles { ledger, folders, files, next_number, _locks: locks })
}

/// What dead processes have left for a target with this key. Removes what has another key.
fn left_of(target: &Path, key: &str) -> Vec<Left> {
    let dead = journals(target).into_iter().filter_map(|journal| {
        let folder = staged_of(&journal);
        let lock = free(&folder).ok()?;
        let Some(complete) = journal::read(&journal, key) else {
            remove(&folder, &journal);
            return None;
        };
        Some(Left { folder, lock, complete })
    });
    dead.collect()
}

/// The files of all folders, complete or not, each with its folder.
fn files_there(left: &[Left]) -> Result<Vec<(&Path, StagedStamp)>> {
    let mut there = vec![];
    for folder in left.iter().filter(|left| left.lock.is_some()).map(|left| &left.folder) {
        for file in Tree::of(folder)?.files {
            there.push((folder.as_path(), StagedStamp::of(folder, file)?));
        }
    }
    Ok(there)
}

/// Removes the journals for a target, and what dead processes have staged with them: its flow has
/// been published, or another one begins.
pub fn discard_files(target: &Path) {
    discard(journals(target).into_iter());
}

/// The same for all targets in a folder. Returns the number of staged folders removed.
///
/// ```
/// use euphrates_store::dataset::discard_all_files;
///
/// assert_eq!(discard_all_files(tempfile::tempdir()?.path()), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn discard_all_files(folder: &Path) -> usize {
    discard(hidden_in(folder).into_iter().filter(|path| is_journal(path)))
}

fn discard(journals: impl Iterator<Item = PathBuf>) -> usize {
    let dead = journals.map(|journal| (staged_of(&journal), journal));
    let dead = dead.filter(|(folder, _)| free(folder).is_ok());
    dead.map(|(folder, journal)| remove(&folder, &journal)).count()
}

fn remove(folder: &Path, journal: &Path) {
    let _ = fs::remove_dir_all(folder);
    let _ = fs::remove_file(journal);
}

/// The lock of a folder whose process is dead; none if the folder is gone. Fails if it is in use.
fn free(folder: &Path) -> io::Result<Option<File>> {
    let lock = match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    Ok(Some(lock))
}

/// The journals of processes that staged files for a target.
fn journals(target: &Path) -> Vec<PathBuf> {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let prefix = format!(".{}.", target.file_name().unwrap_or_default().to_string_lossy());
    let is_of_target = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        is_journal(path) && file.strip_prefix(&prefix).is_some_and(begins_with_run)
    };
    hidden_in(folder).into_iter().filter(is_of_target).collect()
}

/// Whether a text begins with the three numbers of a run, like `6f-1-0`, and not with the rest of
/// another target's name.
fn begins_with_run(text: &str) -> bool {
    let numbers: Vec<&str> = text.splitn(3, '-').collect();
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_hexdigit());
    let of_flow = |last: &&str| last.split(['-', '.']).next().is_some_and(is_hex);
    numbers.len() == 3
        && numbers[..2].iter().all(|it| is_hex(it))
        && numbers.last().is_some_and(of_flow)
}
