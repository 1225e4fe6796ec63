//! The record of a run: a folder that its process writes and servers read. A run therefore does not
//! depend on the server that started it, and a later server finds it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use euphrates_flow::{Error, Result};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The largest part of a file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The end of a log that is shown, in bytes and lines.
const LOG_BYTES_SHOWN: u64 = 256 << 10;
const LOG_LINES_SHOWN: usize = 1000;

/// The run request: id, name, variables and resources.
pub const ORDER: &str = "order.json";
/// The document of the flow.
pub const DOCUMENT: &str = "document.json";
/// The live statistics; see `run_view::live`.
pub const PROGRESS: &str = "progress.json";
/// The part of the live statistics that metrics are made from: `FlowTotals`.
pub const TOTALS: &str = "totals";
/// The history of throughput.
pub const HISTORY: &str = "history.json";
/// The outcome: state, seconds, and report or error.
pub const END: &str = "end.json";
/// Standard output and standard error of the process.
pub const LOG: &str = "log";
/// A lock file that the process holds while it runs.
const LOCK: &str = "lock";
/// Commands for the process, one JSON line each.
const COMMANDS: &str = "wishes";

/// The record of one run.
///
/// ```
/// use euphrates_server::run_record::{END, RunRecord};
/// use serde_json::json;
///
/// let folder = tempfile::tempdir()?;
/// let record = RunRecord::create(&folder.path().join("run"))?;
/// assert_eq!(record.read(END), None, "the run has no outcome yet");
/// record.write(END, &json!({"state": "done"}))?;
/// assert_eq!(record.read(END), Some(json!({"state": "done"})));
/// assert!(RunRecord::create(&folder.path().join("run")).is_err(), "it exists");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunRecord {
    folder: PathBuf,
}

/// A command for a running flow.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum RunCommand {
    /// Cancel the flow and end the run.
    Stop,
    /// Start perturbations besides those that are active.
    Perturb {
        /// A list as in `Perturbation::list_from_json`.
        perturbations: Value,
    },
    /// End one or all perturbations.
    #[serde(rename = "unperturb")]
    EndPerturbations {
        /// The number of the perturbation; all of them end if absent.
        number: Option<u64>,
    },
    /// Return the last rows of a queue.
    Rows {
        /// The position of the queue in the document.
        queue: usize,
    },
}

impl RunRecord {
    /// The record in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> RunRecord {
        RunRecord { folder: folder.into() }
    }

    /// Creates a record that only its owner can read.
    pub fn create(folder: &Path) -> Result<RunRecord> {
        let mut maker = fs::DirBuilder::new();
        let parents = folder
            .parent()
            .map_or(Ok(()), |parent| maker.mode(0o700).recursive(true).create(parent));
        // The folder itself must not exist.
        let made = parents.and_then(|()| maker.recursive(false).create(folder));
        made.map_err(|error| Error::os("make the folder", folder, &error))?;
        Ok(RunRecord::at(folder))
    }

    /// The path of a file of the record.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Replaces a file atomically, without syncing it: readers see the old or the new content, also
    /// if this process is killed.
    pub fn write(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let (path, staged) = (self.path(name), self.path(&format!("{name}.new")));
        let text = serde_json::to_vec(value).map_err(Error::failed)?;
        let written = fs::write(&staged, text).and_then(|()| fs::rename(&staged, &path));
        written.map_err(|error| Error::os("write", &path, &error))
    }

    /// The JSON content of a file; `None` if it is missing or malformed.
    pub fn read(&self, name: &str) -> Option<Value> {
        let mut text = vec![];
        let file = self.open(name).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Opens a file without following a symbolic link or waiting for a pipe.
    fn open(&self, name: &str) -> std::io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(self.path(name))
    }

    /// The modification time of a file.
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

    /// Locks the record until the returned file is dropped, which marks the run as running.
    pub fn hold(&self) -> Result<File> {
        let (path, failed) = (self.path(LOCK), |error| Error::os("hold", self.path(LOCK), &error));
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = file.map_err(failed)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed(error.into()))?;
        Ok(file)
    }

    /// Whether a process holds the lock.
    ///
    /// ```
    /// use euphrates_server::run_record::RunRecord;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let record = RunRecord::create(&folder.path().join("run"))?;
    /// let lock = record.hold()?;
    /// assert!(record.is_held(), "the run is running");
    /// drop(lock);
    /// assert!(!record.is_held());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_held(&self) -> bool {
        let Ok(file) = File::open(self.path(LOCK)) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Sends a command to the process; its answer has the same number.
    pub fn send(&self, command: &RunCommand, number: u64) -> Result<()> {
        let path = self.path(COMMANDS);
        let line = serde_json::to_string(&(number, command)).map_err(Error::failed)? + "\n";
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|error| Error::os("write", path, &error))
    }

    /// The commands after the first `read` bytes of the file, and the bytes that are read now.
    ///
    /// ```
    /// use euphrates_server::run_record::{RunCommand, RunRecord};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let record = RunRecord::create(&folder.path().join("run"))?;
    /// record.send(&RunCommand::Rows { queue: 0 }, 7)?;
    /// let (commands, read) = record.commands(0);
    /// assert!(matches!(commands[..], [(7, RunCommand::Rows { queue: 0 })]));
    /// assert!(record.commands(read).0.is_empty(), "nothing came after it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commands(&self, read: u64) -> (Vec<(u64, RunCommand)>, u64) {
        let unread = || {
            let mut file = File::open(self.path(COMMANDS)).ok()?;
            if file.metadata().ok()?.len() <= read {
                return None;
            }
            file.seek(SeekFrom::Start(read)).ok()?;
            let mut text = String::new();
            file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
            Some(text)
        };
        let text = unread().unwrap_or_default();
        // A partial line is read when it is complete.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let commands = whole.lines().filter_map(|line| serde_json::from_str(line).ok());
        (commands.collect(), read + whole.len() as u64)
    }

    /// The file of the answer to a command.
    pub fn answer(number: u64) -> String {
        format!("answer-{number}.json")
    }

    /// The file that keeps the rows of a queue after the run.
    pub fn rows(queue: usize) -> String {
        format!("rows-{queue}.json")
    }

    /// Removes a file; a missing one is no error.
    pub fn remove_file(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Removes the folder of the record.
    pub fn remove(self) {
        // A failed removal is retried when the next run starts.
        let _ = fs::remove_dir_all(self.folder);
    }
}
