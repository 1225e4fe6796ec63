//! The files that one process stages for a dataset, in a hidden folder beside the target, with a
//! journal if another attempt at the flow may adopt them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow::buffer::Buffer;
use euphrates_device::disk::{Disk, DiskFile, WriteBehind};
use euphrates_device::durable::{STAGED_SUFFIX, is_at};
use euphrates_device::private;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result};
use euphrates_policy::unit_ledger::UnitRows;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock};

use super::journal::{CompleteFile, Journal, StagedStamp};
use super::{DatasetTarget, tree};

/// A hidden folder of files. The process holds a lock on it as long as it lives, so others can tell
/// what dead processes have left.
#[derive(Debug)]
pub struct StagedPart {
    folder: PathBuf,
    disk: Disk,
    lock: File,
    /// The files that are complete, relative to the folder.
    files: Mutex<Vec<PathBuf>>,
    /// The journal, if another attempt may adopt the files; none any more when abandoned.
    journal: Mutex<Option<Journal>>,
    /// Another process may publish it.
    is_left: AtomicBool,
}

impl StagedPart {
    /// An empty part. `run_id` distinguishes it from those of other runs and processes. Its
    /// complete files outlive the process if there is a `key`, by which another attempt finds them.
    /// Fails if the file system cannot exchange the names of two folders where the target has to be
    /// replaced.
    ///
    /// ```
    /// use arrow::buffer::Buffer;
    /// use euphrates_store::dataset::{DatasetTarget, SaveMode, StagedPart};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("sales");
    /// let target = DatasetTarget::check(&path.to_string_lossy(), SaveMode::Error)?;
    /// let part = StagedPart::create(&target, "run", None)?;
    /// let file = part.file("city=Ur".as_ref(), "part.csv")?;
    /// file.append(&[Buffer::from(b"n\n1\n")])?;
    /// part.add(file)?;
    /// part.sync()?;
    /// assert!(part.folder().join("city=Ur/part.csv").exists() && !path.exists());
    /// part.abandon();
    /// assert!(!part.folder().exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(target: &DatasetTarget, run_id: &str, key: Option<&str>) -> Result<StagedPart> {
        let folder = format!(".{}.{run_id}.{STAGED_SUFFIX}", target.name());
        let folder = target.folder().join(folder);
        let failed = |error: io::Error| Error::os("make the folder", &folder, &error);
        let lock = loop {
            private::make_folder(&folder).map_err(failed)?;
            // A process that cleans up may have removed it before it was locked. Where a file
            // system has no locks, no process does.
            let lock = match File::open(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(failed)?,
            };
            if flock(&lock, FlockOperation::LockExclusive).is_err() || is_at(&lock, &folder) {
                break lock;
            }
        };
        let disk = Disk::of(&folder)?;
        let (files, is_left) = (Mutex::default(), AtomicBool::default());
        let part = StagedPart { folder, disk, lock, files, journal: Mutex::default(), is_left };
        if target.path.exists() && !tree::is_empty(&target.path)? {
            part.check_exchange().inspect_err(|_| part.abandon())?;
        }
        let journal = key.map(|key| Journal::create(&part.folder, key)).transpose();
        *part.journal.lock() = journal.inspect_err(|_| part.abandon())?;
        Ok(part)
    }

    /// Fails if the file system cannot exchange the names of folders.
    fn check_exchange(&self) -> Result<()> {
        let [one, other] = ["1", "2"].map(|name| self.folder.join(name));
        let failed = |error: io::Error| Error::os("make a folder in", &self.folder, &error);
        [&one, &other].into_iter().try_for_each(fs::create_dir).map_err(failed)?;
        let exchanged = rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
        [&one, &other].into_iter().try_for_each(fs::remove_dir).map_err(failed)?;
        exchanged.map_err(|errno| {
            let message = format!(
                "the file system of {} cannot exchange folders, so readers would see half of \
                 the files: {}",
                self.folder.display(),
                io::Error::from(errno)
            );
            Error::usage(message).remedy("save to a folder that does not exist yet")
        })
    }

    /// Begins a file of this name in a folder of the dataset, empty for the root.
    pub fn file(&self, folder: &Path, name: &str) -> Result<DataFile> {
        let relative = folder.join(name);
        let path = self.folder.join(&relative);
        let inside = self.folder.join(folder);
        let made = fs::create_dir_all(&inside);
        made.map_err(|error| Error::os("make the folder", &inside, &error))?;
        let file = self.disk.create(&path)?;
        let behind = WriteBehind::new(&self.disk, &file, None);
        Ok(DataFile { relative, behind, file, bytes: Mutex::new(0) })
    }

    /// Ends a file: it is part of the dataset.
    pub fn add(&self, file: DataFile) -> Result<()> {
        self.end(file).map(drop)
    }

    /// Ends a file that holds rows of these units, or units without rows. It outlives the process
    /// from now on. `number` is that in its name.
    pub fn add_units(
        &self,
        file: Option<DataFile>,
        number: u64,
        units: Vec<UnitRows>,
    ) -> Result<()> {
        let path = file.map(|file| self.end(file)).transpose()?;
        tree::sync(&self.folder, path.as_slice())?;
        let file = path.map(|path| StagedStamp::of(&self.folder, path)).transpose()?;
        let mut journal = self.journal.lock();
        let journal = journal.as_mut().ok_or_else(Error::interrupted)?;
        journal.add(&CompleteFile { file, number, units })
    }

    /// Ends a file. Returns its path, relative to the folder.
    fn end(&self, file: DataFile) -> Result<PathBuf> {
        file.behind.wait()?;
        let failed =
            |error: io::Error| Error::os("write", self.folder.join(&file.relative), &error);
        let (length, bytes) = (file.file.bytes().map_err(failed)?, *file.bytes.lock());
        if length != bytes {
            let message = format!("{length} bytes are on disk where {bytes} were written");
            return Err(Error::corrupt(message).at(file.relative.display()));
        }
        file.file.publish().map_err(failed)?;
        self.files.lock().push(file.relative.clone());
        Ok(file.relative)
    }

    /// Makes the files durable.
    pub fn sync(&self) -> Result<()> {
        tree::sync(&self.folder, &self.files.lock())
    }

    /// The hidden folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number of files.
    pub fn file_count(&self) -> usize {
        self.files.lock().len()
    }

    /// Leaves the files to the process that publishes them.
    pub fn leave(&self) {
        self.is_left.store(true, Relaxed);
    }

    /// Removes the files, unless they have been published or left. Those in a journal are left to
    /// the next attempt; threads that have not ended add no more.
    pub fn abandon(&self) {
        if self.is_left.load(Relaxed) || !is_at(&self.lock, &self.folder) {
            return;
        }
        match self.journal.lock().take() {
            Some(journal) if journal.has_files() => {
                self.leave();
                let _ = flock(&self.lock, FlockOperation::Unlock);
                return;
            }
            journal => journal.into_iter().for_each(Journal::remove),
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A file of a dataset that is being written, by one instance.
#[derive(Debug)]
pub struct DataFile {
    relative: PathBuf,
    behind: WriteBehind,
    file: Arc<DiskFile>,
    bytes: Mutex<u64>,
}

impl DataFile {
    /// Writes the parts behind all others, and returns the offset at which they begin.
    pub fn append(&self, parts: &[Buffer]) -> Result<u64> {
        let mut bytes = self.bytes.lock();
        let offset = *bytes;
        self.behind.write(offset, parts)?;
        *bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(offset)
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> u64 {
        *self.bytes.lock()
    }
}
