//! The commit record of a flow with several outputs, in `commits/` of the home folder.
//!
//! The deciding process holds `RUN.lock` from before anything is reserved until all is published,
//! as long as it lives; the lock file lists where outputs are staged. `RUN.json` is the decision:
//! it appears by a rename, whole and synced, before anything is visible.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use euphrates_flow::{DecisionRef, Error, Result};
use euphrates_policy::commit::{Rank, Record};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::prepared::PreparedOutput;
use euphrates_device::durable::is_at;
use euphrates_device::private;

/// The folder of commit records in a home folder.
const FOLDER: &str = "commits";
/// A symbolic link whose target identifies the folder; one system call creates it atomically.
const ID: &str = "id";

/// One output of a decided flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecidedOutput {
    /// The module that produces it.
    pub module: String,
    /// The worker that alone can reach it; `None` if this process can.
    pub at: Option<String>,
    /// Whether that worker has published it.
    #[serde(default, rename = "is_kept")]
    pub is_published: bool,
    /// The prepared output to publish.
    pub output: PreparedOutput,
}

impl DecidedOutput {
    /// Its rank in the order in which the outputs of a flow are published.
    pub fn rank(&self) -> Rank {
        Rank { is_here: self.at.is_none(), replaces: self.output.replaces() }
    }
}

/// The content of a commit record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Decided {
    /// The flow's name, for messages.
    pub flow: String,
    /// All outputs, in the order in which they are published.
    pub outputs: Vec<DecidedOutput>,
}

/// The decision about one run's outputs, held by the process that makes it.
///
/// ```
/// use euphrates_store::commit::CommitDecision;
/// use euphrates_store::commit::decision::make_reference;
///
/// let home = tempfile::tempdir()?;
/// let reference = make_reference(home.path(), "run")?;
/// let mut decision = CommitDecision::begin(&reference, &[])?;
/// decision.decide("daily", &[])?;
/// decision.retract()?;
/// assert!(!decision.is_left(), "the next start finds nothing to complete");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CommitDecision {
    at: DecisionRef,
    _lock: File,
    /// Another process may have to complete it.
    is_left: bool,
}

/// Creates the folder of commit records, and returns the reference to a run's future decision.
pub fn make_reference(home: &Path, run_id: &str) -> Result<DecisionRef> {
    let folder = std::path::absolute(home.join(FOLDER));
    let folder = folder.map_err(|error| Error::os("find", home, &error))?;
    let failed = |error: io::Error| {
        Error::os("make the folder of commit records", &folder, &error)
            .remedy("a flow with several outputs needs a home folder that can be written to")
    };
    private::make_folders(&folder).map_err(failed)?;
    match std::os::unix::fs::symlink(run_id, folder.join(ID)) {
        // If the folder does not survive, its records are lost with it.
        Ok(()) => sync(home).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let folder_id = id_of(&folder).map_err(failed)?;
    Ok(DecisionRef { folder, folder_id, run_id: run_id.to_string() })
}

fn id_of(folder: &Path) -> io::Result<String> {
    Ok(fs::read_link(folder.join(ID))?.to_string_lossy().into_owned())
}

/// The state of a decision, as this process sees it.
pub(super) fn look(decision: &DecisionRef) -> Record {
    if id_of(&decision.folder).ok().as_ref() != Some(&decision.folder_id) {
        return Record::HomeUnseen;
    }
    let lock = File::open(lock_path(decision));
    let is_free = |lock: &File| flock(lock, FlockOperation::NonBlockingLockShared).is_ok();
    if lock.is_ok_and(|lock| !is_free(&lock)) {
        return Record::Open;
    }
    if record_path(decision).exists() { Record::Decided } else { Record::Absent }
}

pub(super) fn lock_path(at: &DecisionRef) -> PathBuf {
    at.folder.join(format!("{}.lock", at.run_id))
}

pub(super) fn record_path(at: &DecisionRef) -> PathBuf {
    at.folder.join(format!("{}.json", at.run_id))
}

fn staged_path(at: &DecisionRef) -> PathBuf {
    at.folder.join(format!("{}.new", at.run_id))
}

/// All decisions of a home folder that have a lock file or a record, those of live processes
/// included; none if the folder cannot be read.
pub(super) fn all_in(home: &Path) -> Vec<DecisionRef> {
    let Ok(folder) = std::path::absolute(home.join(FOLDER)) else { return vec![] };
    let (Ok(entries), Ok(folder_id)) = (fs::read_dir(&folder), id_of(&folder)) else {
        return vec![];
    };
    let run_id = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let (run_id, kind) = name.rsplit_once('.')?;
        ["lock", "json"].contains(&kind).then(|| run_id.to_string())
    };
    let run_ids: BTreeSet<String> = entries.flatten().filter_map(run_id).collect();
    let at = |run_id| DecisionRef { folder: folder.clone(), folder_id: folder_id.clone(), run_id };
    run_ids.into_iter().map(at).collect()
}

/// Takes the lock of a decision whose process is dead.
pub(super) fn lock_dead(at: &DecisionRef) -> Option<File> {
    let path = lock_path(at);
    // A record whose lock file was lost has no owner either.
    let lock = File::options().read(true).append(true).create(true).open(&path).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    is_at(&lock, &path).then_some(lock)
}

/// The folders in which a dead flow has staged outputs, from its lock file.
pub(super) fn folders_of(at: &DecisionRef) -> Vec<PathBuf> {
    let text = fs::read(lock_path(at)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The record, if one has been written.
pub(super) fn read(at: &DecisionRef) -> Result<Option<Decided>> {
    let path = record_path(at);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::os("read", &path, &error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        Error::corrupt(format!("a commit record cannot be read: {error}"))
            .at(path.display())
            .remedy("remove it to give up the outputs it is about")
    })
}

/// Whether files below this folder, relative to their disk's folder, belong to a version that has
/// been decided but not published; also if a record cannot be read, because it may list them.
pub fn is_decided(home: &Path, folder: &str) -> bool {
    let of = |decided: &DecidedOutput| match &decided.output {
        PreparedOutput::Collection(version) => version.has(folder),
        _ => false,
    };
    // A record that cannot be read may list them.
    let says = |at: &DecisionRef| match read(at) {
        Ok(decided) => decided.is_some_and(|decided| decided.outputs.iter().any(of)),
        Err(_) => true,
    };
    all_in(home).iter().any(says)
}

/// Writes a record, whole and durable on return.
pub(super) fn write(at: &DecisionRef, decided: &Decided) -> Result<()> {
    let (staged, path) = (staged_path(at), record_path(at));
    let text = serde_json::to_vec(decided).map_err(Error::failed)?;
    let written = File::create(&staged)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&staged, &path))
        .and_then(|()| sync(&at.folder));
    written.map_err(|error| Error::os("record the commit in", &path, &error))
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Removes the record durably, which retracts the decision.
pub(super) fn retract(at: &DecisionRef) -> Result<()> {
    let path = record_path(at);
    let removed = fs::remove_file(&path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    });
    removed
        .and_then(|()| sync(&at.folder))
        .map_err(|error| Error::os("take back the commit in", &path, &error))
}

/// Removes the files of a decision from its folder, the lock last.
pub(super) fn forget(at: &DecisionRef) {
    let _ = fs::remove_file(staged_path(at));
    let _ = fs::remove_file(record_path(at));
    let _ = fs::remove_file(lock_path(at));
}

impl CommitDecision {
    /// Begins a commit, before anything is reserved. `folders` are those in which outputs are
    /// staged.
    pub fn begin(at: &DecisionRef, folders: &[PathBuf]) -> Result<CommitDecision> {
        let path = lock_path(at);
        let failed = |error: io::Error| Error::os("record the commit in", &path, &error);
        let lock = loop {
            let lock = File::create(&path).map_err(failed)?;
            flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
            // A resolving process may have seen the file before it was locked, and removed it.
            if is_at(&lock, &path) {
                break lock;
            }
        };
        let decision = CommitDecision { at: at.clone(), _lock: lock, is_left: false };
        let text = serde_json::to_vec(folders).map_err(Error::failed)?;
        (&decision._lock).write_all(&text).map_err(failed)?;
        Ok(decision)
    }

    /// Decides to publish all of these outputs. After an error nothing is decided, unless `is_left`
    /// returns true: then the outcome is unknown.
    pub fn decide(&mut self, flow: &str, outputs: &[DecidedOutput]) -> Result<()> {
        let decided = Decided { flow: flow.to_string(), outputs: outputs.to_vec() };
        write(&self.at, &decided).inspect_err(|_| drop(self.retract()))
    }

    /// Retracts the decision; only valid while nothing has been published.
    pub fn retract(&mut self) -> Result<()> {
        let retracted = retract(&self.at);
        self.is_left = retracted.is_err();
        retracted
    }

    /// Leaves the decision to the next start.
    pub fn leave(&mut self) {
        self.is_left = true;
    }

    /// Whether the next start has to complete the decision, or to find out its outcome.
    pub fn is_left(&self) -> bool {
        self.is_left
    }
}

impl Drop for CommitDecision {
    fn drop(&mut self) {
        if !self.is_left {
            forget(&self.at);
        }
    }
}
