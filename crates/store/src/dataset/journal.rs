//! The journal of a staged folder: a header with the key of the flow, and a line for each file that
//! is complete and durable, with the rows that it holds, by unit of the flow's input
//! (`policy::unit_ledger`). It lies beside the folder, which outlives its process if it has one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use euphrates_device::durable::{STAGED_SUFFIX, sync_folder};
use euphrates_device::private;
use euphrates_flow::{Error, Result};
use euphrates_policy::unit_ledger::UnitRows;
use serde::{Deserialize, Serialize};

/// The suffix of a journal; its name is that of the staged folder otherwise.
const JOURNAL_SUFFIX: &str = "euphrates-units";

/// The first line of a journal.
#[derive(Serialize, Deserialize)]
struct JournalHeader {
    key: String,
}

/// The line of a file.
#[derive(Serialize, Deserialize)]
struct FileLine {
    file: Option<StagedStamp>,
    number: u64,
    /// The fields of `UnitRows`.
    units: Vec<(u64, u64, u64, bool)>,
}

/// Distinguishes a file from others of its name. A rename keeps it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct StagedStamp {
    /// Relative to the dataset.
    pub path: PathBuf,
    pub bytes: u64,
    pub inode: u64,
}

/// A file that is complete, and what it holds.
#[derive(Debug)]
pub(super) struct CompleteFile {
    /// None if units without rows have ended.
    pub file: Option<StagedStamp>,
    /// The number in its name.
    pub number: u64,
    /// The rows that it holds.
    pub units: Vec<UnitRows>,
}

impl StagedStamp {
    /// The stamp of the file at this path in a folder.
    pub fn of(folder: &Path, path: PathBuf) -> Result<StagedStamp> {
        let whole = folder.join(&path);
        let about = fs::metadata(&whole).map_err(|error| Error::os("look at", &whole, &error))?;
        Ok(StagedStamp { path, bytes: about.len(), inode: about.ino() })
    }
}

/// The open journal of a live process.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    has_files: bool,
}

impl Journal {
    /// Begins the journal of this staged folder.
    pub fn create(staged: &Path, key: &str) -> Result<Journal> {
        let path = journal_of(staged);
        let failed = |error: io::Error| Error::os("write", &path, &error);
        let opened = private::options().append(true).create_new(true).open(&path);
        let mut journal = Journal { file: opened.map_err(failed)?, path, has_files: false };
        journal.write(&JournalHeader { key: key.into() })?;
        Ok(journal)
    }

    /// Adds a file, which must be durable. When this returns, it outlives the process.
    pub fn add(&mut self, complete: &CompleteFile) -> Result<()> {
        let units = complete.units.iter().map(|it| (it.unit, it.first, it.rows, it.is_last));
        let (file, number) = (complete.file.clone(), complete.number);
        self.write(&FileLine { file, number, units: units.collect() })?;
        if !self.has_files {
            self.path.parent().map_or(Ok(()), sync_folder)?;
            self.has_files = true;
        }
        Ok(())
    }

    /// Whether it has a file that is worth keeping.
    pub fn has_files(&self) -> bool {
        self.has_files
    }

    /// Removes the journal: what is staged does not outlive the process.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }

    fn write(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(Error::failed)?;
        text.push(b'\n');
        // A process that dies meanwhile leaves an unfinished line, which is the last.
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        written.map_err(|error| Error::os("write", &self.path, &error))
    }
}

/// The files in a journal with this key, as far as their lines are whole.
pub(super) fn read(journal: &Path, key: &str) -> Option<Vec<CompleteFile>> {
    let text = fs::read_to_string(journal).ok()?;
    let mut lines = text.split_inclusive('\n').map_while(|line| line.strip_suffix('\n'));
    let header: JournalHeader = serde_json::from_str(lines.next()?).ok()?;
    let complete = |line: FileLine| {
        let units = line.units.into_iter();
        let units =
            units.map(|(unit, first, rows, is_last)| UnitRows { unit, first, rows, is_last });
        CompleteFile { file: line.file, number: line.number, units: units.collect() }
    };
    let files = lines.map_while(|line| serde_json::from_str(line).ok().map(complete));
    (header.key == key).then(|| files.collect())
}

/// Whether a staged path outlives its process.
pub(super) fn has_journal(staged: &Path) -> bool {
    journal_of(staged).exists()
}

/// Whether a path is that of a journal.
pub(super) fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == JOURNAL_SUFFIX)
}

/// The staged folder of a journal.
pub(super) fn staged_of(journal: &Path) -> PathBuf {
    journal.with_extension(STAGED_SUFFIX)
}

fn journal_of(staged: &Path) -> PathBuf {
    staged.with_extension(JOURNAL_SUFFIX)
}
