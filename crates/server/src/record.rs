//! What is kept of a run, in a folder of its own: the process of the run writes there, and whoever
//! shows the run reads there. So a run does not depend on the server that started it, and a server
//! that comes later finds it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use euphrates_flow::{Error, Result};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bytes of one file of a record.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes and lines of a log that are shown: the last ones.
const LOG_BYTES_SHOWN: u64 = 256 << 10;
const LOG_LINES_SHOWN: usize = 1000;

/// What is to be run: its name and settings.
pub const ORDER: &str = "order.json";
/// The flow.
pub const DOCUMENT: &str = "document.json";
/// How it goes.
pub const PROGRESS: &str = "progress.json";
/// How it went so far.
pub const HISTORY: &str = "history.json";
/// How it ended.
pub const END: &str = "end.json";
/// What it wrote.
pub const LOG: &str = "log";
const LOCK: &str = "lock";
const WISHES: &str = "wishes";

/// A record.
#[derive(Clone, Debug)]
pub struct Record {
    folder: PathBuf,
}

/// What a running flow is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Wish {
    /// To stop.
    Stop,
    /// To be perturbed.
    Perturb {
        /// How.
        perturbations: Value,
    },
    /// To be perturbed no longer.
    Unperturb {
        /// Which perturbation it is that ends; all of them, if absent.
        number: Option<u64>,
    },
    /// To show the last rows of a queue, by its position in the document.
    Rows {
        /// Which.
        queue: usize,
    },
}

impl Record {
    /// The record in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Record {
        Record { folder: folder.into() }
    }

    /// A new one, for its owner alone.
    pub fn create(folder: &Path) -> Result<Record> {
        let mut maker = fs::DirBuilder::new();
        let parents = folder
            .parent()
            .map_or(Ok(()), |parent| maker.mode(0o700).recursive(true).create(parent));
        // Itself must be new.
        let made = parents.and_then(|()| maker.recursive(false).create(folder));
        made.map_err(|error| Error::os("make the folder", folder, &error))?;
        Ok(Record::at(folder))
    }

    /// Where a file of it is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Replaces a file at once: whoever reads it meanwhile sees the old one, also if this process
    /// is killed. It is not synced, as no output depends on it.
    pub fn write(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let (path, staged) = (self.path(name), self.path(&format!("{name}.new")));
        let text = serde_json::to_vec(value).map_err(Error::failed)?;
        let written = fs::write(&staged, text).and_then(|()| fs::rename(&staged, &path));
        written.map_err(|error| Error::os("write", &path, &error))
    }

    /// A file's content, if there is such a file.
    pub fn read(&self, name: &str) -> Option<Value> {
        let mut text = vec![];
        let file = self.open(name).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// A file of its own: no link to another, nor a pipe to wait for.
    fn open(&self, name: &str) -> std::io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(self.path(name))
    }

    /// When a file was written last.
    pub fn written(&self, name: &str) -> Option<std::time::SystemTime> {
        fs::metadata(self.path(name)).ok()?.modified().ok()
    }

    /// The last lines of the log.
    pub fn log(&self) -> Vec<String> {
        let read = || {
            let mut file = self.open(LOG)?;
            let length = file.metadata()?.len();
            let from = length.saturating_sub(LOG_BYTES_SHOWN);
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = vec![];
            file.take(LOG_BYTES_SHOWN).read_to_end(&mut bytes)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines: Vec<String> =
                text.lines().skip(usize::from(from > 0)).map(String::from).collect();
            Ok::<_, std::io::Error>(lines)
        };
        let mut lines = read().unwrap_or_default();
        lines.split_off(lines.len().saturating_sub(LOG_LINES_SHOWN))
    }

    /// Holds the record for as long as the file lives: its run is running.
    pub fn hold(&self) -> Result<File> {
        let (path, failed) = (self.path(LOCK), |error| Error::os("hold", self.path(LOCK), &error));
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = file.map_err(failed)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed(error.into()))?;
        Ok(file)
    }

    /// Whether somebody holds it.
    pub fn is_held(&self) -> bool {
        let Ok(file) = File::open(self.path(LOCK)) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Asks the run for something; gives the number of the wish.
    pub fn wish(&self, wish: &Wish, number: u64) -> Result<()> {
        let path = self.path(WISHES);
        let line = serde_json::to_string(&(number, wish)).map_err(Error::failed)? + "\n";
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|error| Error::os("write", path, &error))
    }

    /// What has been asked for behind so many bytes, and how many there are now.
    pub fn wishes(&self, read: u64) -> (Vec<(u64, Wish)>, u64) {
        let unread = || {
            let mut file = File::open(self.path(WISHES)).ok()?;
            if file.metadata().ok()?.len() <= read {
                return None;
            }
            file.seek(SeekFrom::Start(read)).ok()?;
            let mut text = String::new();
            file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
            Some(text)
        };
        let text = unread().unwrap_or_default();
        // A line that is being written is read when it is whole.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let wishes = whole.lines().filter_map(|line| serde_json::from_str(line).ok());
        (wishes.collect(), read + whole.len() as u64)
    }

    /// Where the answer to a wish is.
    pub fn answer(number: u64) -> String {
        format!("answer-{number}.json")
    }

    /// Forgets a file; one that is not there is no failure.
    pub fn forget(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Forgets all.
    pub fn remove(self) {
        // What cannot be removed is tried again when the next run is started.
        let _ = fs::remove_dir_all(self.folder);
    }
}
