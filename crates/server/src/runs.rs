//! The runs of a project: their records and the processes that this server has started. Each run is
//! a process of its own, because it executes user code.

pub mod perturbations;
pub mod process;
pub mod programs;
pub mod record;
pub mod view;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};

use euphrates_flow::Error;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::http::error::{ApiError, Result};
use programs::{PROCESS_POLL, Spawner, kill_group};
use record::{END, ORDER, RunCommand, RunRecord};

/// The largest number of records of ended runs.
pub const RECORDS_MAX: usize = 200;

/// How long a run may take to answer a command.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a run may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The runs of one project.
pub struct ProjectRuns {
    folder: PathBuf,
    /// Processes that this server has started, by run id.
    children: Mutex<BTreeMap<String, Child>>,
    /// Runs that are to stop, with the time of the request.
    stopping: Mutex<BTreeMap<String, Instant>>,
    spawner: Spawner,
    /// The number of the next command.
    next_command: AtomicU64,
}

impl ProjectRuns {
    /// The runs with records beneath this folder.
    pub fn new(root: &Path) -> euphrates_flow::Result<ProjectRuns> {
        let spawner = Spawner::start()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // Numbers are unique across servers.
        let next_command = AtomicU64::new(now.map_or(0, |now| now.as_micros() as u64));
        let folder = root.join(".euphrates").join("runs");
        let (children, stopping) = (Mutex::default(), Mutex::default());
        Ok(ProjectRuns { folder, children, stopping, spawner, next_command })
    }

    /// Creates the record of a new run, after removing the oldest ones.
    pub fn create_record(&self, id: &str) -> Result<RunRecord> {
        self.prune();
        Ok(RunRecord::create(&self.folder.join(id))?)
    }

    /// Starts the process of a run.
    pub fn start(&self, id: &str, command: Command) -> Result<()> {
        let child = self.spawn(command)?;
        self.children.lock().insert(id.to_string(), child);
        Ok(())
    }

    /// Starts a process; see `Spawner`.
    pub fn spawn(&self, command: Command) -> Result<Child> {
        self.spawner.spawn(command)
    }

    /// Asks a run to stop, and waits for its answer. `reap` kills it if it does not stop in time.
    pub fn stop(&self, id: &str) -> Result<Value> {
        self.stopping.lock().insert(id.to_string(), Instant::now());
        self.ask(id, &RunCommand::Stop)
    }

    /// The ids of all records, the newest first.
    pub fn ids(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut ids: Vec<String> = names.filter(|name| is_id(name)).collect();
        ids.sort_by(|a, b| b.cmp(a));
        ids
    }

    /// The record of a run.
    pub fn record(&self, id: &str) -> Result<RunRecord> {
        let record = self.folder_of(id).filter(|record| record.read(ORDER).is_some());
        record.ok_or_else(|| ApiError::missing(format!("there is no run {id}")))
    }

    /// A record, complete or not. The folder must not be reached through a symbolic link, which may
    /// be part of the project.
    fn folder_of(&self, id: &str) -> Option<RunRecord> {
        let folder = self.folder.join(id);
        let mut parts = folder.ancestors().take(3);
        let is_own = |part: &Path| fs::symlink_metadata(part).is_ok_and(|there| there.is_dir());
        (is_id(id) && parts.all(is_own)).then(|| RunRecord::at(&folder))
    }

    /// Whether the run has not ended.
    pub fn is_running(&self, id: &str, record: &RunRecord) -> bool {
        if record.read(END).is_some() {
            return false;
        }
        let mut children = self.children.lock();
        let own = children.get_mut(id).map(|child| matches!(child.try_wait(), Ok(None)));
        own.unwrap_or(false) || record.is_held()
    }

    /// The outcome of a run that has ended: what its record says, or else a failure.
    pub fn end(&self, id: &str, record: &RunRecord) -> Option<Value> {
        if let Some(end) = record.read(END) {
            return Some(end);
        }
        if self.is_running(id, record) {
            return None;
        }
        // The run may have ended between the two calls.
        record.read(END).or_else(|| {
            let message = "the process of the run has ended without a word";
            let remedy = "its log may say why; was it killed, or the machine out of memory?";
            Some(json!({
                "state": "failed",
                "error": {"kind": "failed", "message": message, "remedy": remedy},
            }))
        })
    }

    /// Sends a command to a run, and waits for its answer.
    pub fn ask(&self, id: &str, command: &RunCommand) -> Result<Value> {
        let record = self.record(id)?;
        let ended = || {
            let status = axum::http::StatusCode::CONFLICT;
            ApiError::new(status, "ended", format!("run {id} has ended"))
        };
        if !self.is_running(id, &record) {
            return Err(ended());
        }
        let number = self.next_command.fetch_add(1, SeqCst);
        record.send(command, number)?;
        let (answer, deadline) = (RunRecord::answer(number), Instant::now() + ANSWER_TIMEOUT);
        loop {
            if let Some(answered) = record.read(&answer) {
                record.remove_file(&answer);
                return match answered.get("error") {
                    Some(error) => Err(serde_json::from_value::<Error>(error.clone())
                        .unwrap_or_else(|_| Error::failed("the run did not say why not"))
                        .into()),
                    None => Ok(answered),
                };
            }
            if !self.is_running(id, &record) {
                return Err(ended());
            }
            if Instant::now() > deadline {
                return Err(Error::resource(format!("run {id} does not answer")).into());
            }
            std::thread::sleep(PROCESS_POLL);
        }
    }

    /// Removes the record of a run that has ended.
    pub fn remove(&self, id: &str) -> Result<()> {
        let record = self.record(id)?;
        if self.is_running(id, &record) {
            let status = axum::http::StatusCode::CONFLICT;
            let error = ApiError::new(status, "running", format!("run {id} has not ended"));
            return Err(error.remedy("stop it first"));
        }
        record.remove();
        Ok(())
    }

    /// Removes the oldest records of runs that have ended, and incomplete ones of killed servers.
    fn prune(&self) {
        for id in self.ids().into_iter().skip(RECORDS_MAX - 1) {
            if let Some(record) = self.folder_of(&id)
                && !self.is_running(&id, &record)
            {
                record.remove();
            }
        }
    }

    /// Reaps processes of this server that have ended, and kills those that did not stop in time.
    pub fn reap(&self) {
        let (mut children, mut stopping) = (self.children.lock(), self.stopping.lock());
        children.retain(|_, child| matches!(child.try_wait(), Ok(None)));
        stopping.retain(|id, _| children.contains_key(id));
        for (id, since) in stopping.iter() {
            if since.elapsed() > STOP_TIMEOUT
                && let Some(child) = children.get(id)
            {
                kill_group(child);
            }
        }
    }
}

fn is_id(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_records_are_pruned_with_the_oldest() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(".euphrates/runs");
        // A server was killed before it wrote the run request.
        fs::create_dir_all(folder.join("1-1-1")).unwrap();
        fs::write(folder.join("1-1-1/document.json.new"), "{").unwrap();
        for number in 2..=RECORDS_MAX {
            let record = RunRecord::create(&folder.join(format!("{number:x}-1-1"))).unwrap();
            record.write(ORDER, &json!({"name": "own"})).unwrap();
        }
        ProjectRuns::new(root.path()).unwrap().prune();
        assert!(!folder.join("1-1-1").exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), RECORDS_MAX - 1);
    }
}
