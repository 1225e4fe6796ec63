//! Runs, each in a process of its own: nothing of the user's is run in this one.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use euphrates_engine::machine;
use euphrates_flow::{Document, Error, Perturbation};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::child::rows_of;
use crate::record::{DOCUMENT, END, HISTORY, LOG, ORDER, PROGRESS, Record, Wish};
use crate::refusal::{Refusal, Result};
use crate::routes::Call;
use crate::{Setting, Studio, lock};

/// Runs at once, and records that are kept.
const RUNNING_MAX: usize = 8;
const RECORDS_MAX: usize = 200;

/// How long a run may take to answer a wish, and one that is to stop to have done so.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
const STOP_WAIT: Duration = Duration::from_secs(10);
/// How often a process is looked at.
pub const LOOK: Duration = Duration::from_millis(10);

/// The runs of one project.
pub struct Runs {
    folder: PathBuf,
    /// Processes that this server has started.
    children: Mutex<BTreeMap<String, Child>>,
    /// Runs that are to stop, and since when.
    stopping: Mutex<BTreeMap<String, Instant>>,
    starter: Sender<(Command, Sender<std::io::Result<Child>>)>,
    wishes: AtomicU64,
}

impl Runs {
    /// Those with records beneath this folder.
    pub fn new(root: &Path) -> euphrates_flow::Result<Runs> {
        let (starter, wanted) = channel::<(Command, Sender<std::io::Result<Child>>)>();
        // A process that is to end with its parent ends with the thread that started it: this one
        // lives as long as the server.
        let thread = std::thread::Builder::new().name("starter".into()).spawn(move || {
            for (mut command, tell) in wanted {
                // Who asked for it waits.
                let _ = tell.send(command.spawn());
            }
        });
        thread.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // No number of a server before this one.
        let wishes = AtomicU64::new(now.map_or(0, |now| now.as_micros() as u64));
        let folder = root.join(".euphrates").join("runs");
        let (children, stopping) = (Mutex::default(), Mutex::default());
        Ok(Runs { folder, children, stopping, starter, wishes })
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
    pub fn record(&self, id: &str) -> Result<Record> {
        let record = self.folder_of(id).filter(|record| record.read(ORDER).is_some());
        record.ok_or_else(|| Refusal::missing(format!("there is no run {id}")))
    }

    /// The folder of a record, also of one that was never completed; not where a link leads that
    /// came with the project.
    fn folder_of(&self, id: &str) -> Option<Record> {
        let folder = self.folder.join(id);
        let mut parts = folder.ancestors().take(3);
        let is_own = |part: &Path| fs::symlink_metadata(part).is_ok_and(|there| there.is_dir());
        (is_id(id) && parts.all(is_own)).then(|| Record::at(&folder))
    }

    /// Whether it has not ended.
    pub fn is_running(&self, id: &str, record: &Record) -> bool {
        if record.read(END).is_some() {
            return false;
        }
        let mut children = lock(&self.children);
        let own = children.get_mut(id).map(|child| matches!(child.try_wait(), Ok(None)));
        own.unwrap_or(false) || record.is_held()
    }

    /// How it ended: as it wrote down, or without a word.
    pub fn end(&self, id: &str, record: &Record) -> Option<Value> {
        if let Some(end) = record.read(END) {
            return Some(end);
        }
        if self.is_running(id, record) {
            return None;
        }
        // It may have ended in between.
        record.read(END).or_else(|| {
            let message = "the process of the run has ended without a word";
            let remedy = "its log may say why; was it killed, or the machine out of memory?";
            Some(json!({
                "state": "failed",
                "error": {"kind": "failed", "message": message, "remedy": remedy},
            }))
        })
    }

    /// Starts a process that lives at most as long as the server if it is bound to that.
    pub fn spawn(&self, command: Command) -> Result<Child> {
        let (tell, told) = channel();
        let gone = || Refusal::from(Error::failed("the thread that starts processes is gone"));
        self.starter.send((command, tell)).map_err(|_| gone())?;
        let started = told.recv().map_err(|_| gone())?;
        Ok(started.map_err(|error| Error::os("start", "the process of a run", &error))?)
    }

    /// Asks a run for something, and waits for what it says.
    fn ask(&self, id: &str, wish: &Wish) -> Result<Value> {
        let record = self.record(id)?;
        let ended = || {
            let status = axum::http::StatusCode::CONFLICT;
            Refusal::new(status, "ended", format!("run {id} has ended"))
        };
        if !self.is_running(id, &record) {
            return Err(ended());
        }
        let number = self.wishes.fetch_add(1, SeqCst);
        record.wish(wish, number)?;
        let (answer, deadline) = (Record::answer(number), Instant::now() + ANSWER_WAIT);
        loop {
            if let Some(said) = record.read(&answer) {
                record.forget(&answer);
                return match said.get("error") {
                    Some(error) => Err(serde_json::from_value::<Error>(error.clone())
                        .unwrap_or_else(|_| Error::failed("the run did not say why not"))
                        .into()),
                    None => Ok(said),
                };
            }
            if !self.is_running(id, &record) {
                return Err(ended());
            }
            if Instant::now() > deadline {
                return Err(Error::resource(format!("run {id} does not answer")).into());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Removes the oldest records of runs that have ended, so that there is a bound to what is
    /// kept, and with them those that a server did not complete because it was killed.
    fn prune(&self) {
        for id in self.ids().into_iter().skip(RECORDS_MAX - 1) {
            if let Some(record) = self.folder_of(&id)
                && !self.is_running(&id, &record)
            {
                record.remove();
            }
        }
    }

    /// Buries processes of this server that have ended, and ends those that were to stop and have
    /// not. What another server has started ends by itself.
    pub fn reap(&self) {
        let (mut children, mut stopping) = (lock(&self.children), lock(&self.stopping));
        children.retain(|_, child| matches!(child.try_wait(), Ok(None)));
        stopping.retain(|id, _| children.contains_key(id));
        for (id, since) in stopping.iter() {
            if since.elapsed() > STOP_WAIT
                && let Some(child) = children.get(id)
            {
                kill_group(child);
            }
        }
    }
}

/// Ends a process and what it has started. It may have ended by itself meanwhile.
pub fn kill_group(child: &Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn is_id(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain)
}

/// A command of this program, which ends neither with a terminal nor by its signals.
pub fn command(setting: &Setting, root: &Path, words: &[&str]) -> Command {
    let mut program = setting.program.iter();
    let mut command =
        Command::new(program.next().map_or("euphrates".as_ref(), |name| name.as_os_str()));
    command.args(program).args(words).envs(setting.environment.iter().map(|(a, b)| (a, b)));
    command.current_dir(root).stdin(Stdio::null()).process_group(0);
    command
}

/// A run, as the list has it.
fn entry(runs: &Runs, id: &str, record: &Record) -> Value {
    let order = record.read(ORDER).unwrap_or_default();
    let end = runs.end(id, record);
    let of =
        |value: &Option<Value>, name: &str| value.as_ref().and_then(|one| one.get(name).cloned());
    let progress = || record.read(PROGRESS);
    let seconds = of(&end, "seconds").or_else(|| of(&progress(), "seconds"));
    let mut entry = json!({
        "id": id,
        "name": order["name"],
        "state": of(&end, "state").unwrap_or(json!("running")),
        "started": order["started"],
        "seconds": seconds.unwrap_or(json!(0.0)),
        "cluster": order["cluster"],
        "variables": order["variables"],
    });
    if let Some(error) = of(&end, "error") {
        entry["error"] = error;
    }
    entry
}

/// `GET /api/runs`
pub fn list(studio: &Arc<Studio>, _: &Call) -> Result<Value> {
    let runs = &studio.runs;
    let ids = runs.ids().into_iter().take(RECORDS_MAX);
    let known = ids.filter_map(|id| Some((runs.record(&id).ok()?, id)));
    let all: Vec<Value> = known.map(|(record, id)| entry(runs, &id, &record)).collect();
    studio.events.look_out_for(&all);
    Ok(all.into())
}

/// `GET /api/runs/{id}`
pub fn one(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let id = call.param("id");
    let record = studio.runs.record(id)?;
    let mut all = entry(&studio.runs, id, &record);
    studio.events.look_out_for(std::slice::from_ref(&all));
    let end = record.read(END).unwrap_or_default();
    let order = record.read(ORDER).unwrap_or_default();
    all["perturbations"] = order["perturbations"].clone();
    all["document"] = record.read(DOCUMENT).unwrap_or_default();
    all["log"] = json!(record.log());
    let read = [("progress", record.read(PROGRESS)), ("history", record.read(HISTORY))];
    let told = ["report", "collected"].map(|name| (name, end.get(name).cloned()));
    for (name, value) in read.into_iter().chain(told) {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            all[name] = value;
        }
    }
    Ok(all)
}

/// A run that is wanted. What is absent suits the machine.
#[derive(Deserialize)]
struct Order {
    document: Value,
    #[serde(default)]
    variables: BTreeMap<String, Value>,
    cluster: Option<String>,
    threads: Option<usize>,
    memory: Option<Value>,
    perturbations: Option<Value>,
}

/// `POST /api/runs`
pub fn start(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let order: Order = call.body()?;
    let document = Document::from_json(&order.document.to_string())?;
    if let Some(list) = &order.perturbations {
        Perturbation::list_from_json(&list.to_string())?;
    }
    let runs = &studio.runs;
    let is_running = |id: &String| runs.record(id).is_ok_and(|record| runs.is_running(id, &record));
    if runs.ids().iter().filter(|id| is_running(id)).count() >= RUNNING_MAX {
        let refusal = Refusal::too_many(format!("{RUNNING_MAX} runs are running already"));
        return Err(refusal.remedy("stop one of them"));
    }
    own_folder(&studio.root.path)?;
    runs.prune();
    let id = machine::run_id();
    let record = Record::create(&runs.folder.join(&id))?;
    let child = prepared(&record, &id, &document.name, order, studio)
        .and_then(|command| runs.spawn(command))
        .inspect_err(|_| record.clone().remove())?;
    lock(&runs.children).insert(id.clone(), child);
    studio.trust.give(&studio.root.path)?;
    studio.events.follow(&id);
    Ok(json!({"id": id}))
}

/// Writes down what is to be run. Returns the command that runs it.
fn prepared(
    record: &Record,
    id: &str,
    name: &str,
    order: Order,
    studio: &Studio,
) -> Result<Command> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let cluster = order.cluster.filter(|words| !words.is_empty());
    record.write(DOCUMENT, &order.document)?;
    record.write(
        ORDER,
        &json!({
            "id": id,
            "name": name,
            "started": now.as_secs_f64(),
            "cluster": cluster.clone().unwrap_or_default(),
            "variables": order.variables,
            "threads": order.threads,
            "memory": order.memory,
            "perturbations": order.perturbations,
        }),
    )?;
    let words = words_of(record, cluster, order.threads, order.memory.as_ref(), studio)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = command(&studio.setting, &studio.root.path, &words);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(record.path(LOG));
    let log = log.map_err(|error| Error::os("write", record.path(LOG), &error))?;
    let second = log.try_clone().map_err(|error| Error::os("write", record.path(LOG), &error))?;
    command.stdout(log).stderr(second);
    Ok(command)
}

/// Records lie in the project's own folder: not where a link that came with it leads.
fn own_folder(root: &Path) -> Result<()> {
    for part in [".euphrates", ".euphrates/runs"] {
        let path = root.join(part);
        if fs::symlink_metadata(&path).is_ok_and(|there| !there.is_dir()) {
            let refusal = Refusal::forbidden(format!("{} is no folder", path.display()));
            return Err(refusal.remedy("remove it: records of runs are kept there"));
        }
    }
    Ok(())
}

fn words_of(
    record: &Record,
    cluster: Option<String>,
    threads: Option<usize>,
    memory: Option<&Value>,
    studio: &Studio,
) -> Result<Vec<String>> {
    let path = |path: PathBuf| {
        let text = path.into_os_string().into_string();
        text.map_err(|_| Refusal::usage("the project's folder has a name that is no text"))
    };
    let mut words = vec!["run".into(), path(record.path(DOCUMENT))?];
    words.extend(["--record".into(), path(record.path(""))?]);
    let given = [
        // Joined to its option: whatever it says, it is no other option.
        cluster.map(|words| format!("--cluster={words}")),
        threads.map(|threads| format!("--threads={threads}")),
        memory.and_then(|memory| match memory {
            Value::String(text) if !text.is_empty() => Some(format!("--memory={text}")),
            Value::Number(bytes) => Some(format!("--memory={bytes}")),
            _ => None,
        }),
        studio.setting.end_runs.then(|| format!("--ends-with={}", std::process::id())),
    ];
    words.extend(given.into_iter().flatten());
    Ok(words)
}

/// `POST /api/runs/{id}/stop`
pub fn stop(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let id = call.param("id");
    lock(&studio.runs.stopping).insert(id.to_string(), Instant::now());
    studio.runs.ask(id, &Wish::Stop)
}

#[derive(Deserialize)]
struct Perturb {
    perturbations: Value,
}

/// `POST /api/runs/{id}/perturb`
pub fn perturb(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let Perturb { perturbations } = call.body()?;
    Perturbation::list_from_json(&perturbations.to_string())?;
    studio.runs.ask(call.param("id"), &Wish::Perturb { perturbations })
}

/// `DELETE /api/runs/{id}/perturb`
pub fn unperturb(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let number = call.query("number").ok().map(str::parse).transpose();
    let number = number.map_err(|_| Refusal::usage("`number` is no number"))?;
    studio.runs.ask(call.param("id"), &Wish::Unperturb { number })
}

/// `GET /api/runs/{id}/rows`
pub fn rows(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let queue = call.query("queue")?.parse();
    let queue = queue.map_err(|_| Refusal::usage("`queue` is no number"))?;
    let (runs, id) = (&studio.runs, call.param("id"));
    let record = runs.record(id)?;
    if runs.is_running(id, &record) {
        return runs.ask(id, &Wish::Rows { queue });
    }
    record.read(&rows_of(queue)).ok_or_else(|| {
        Refusal::missing("no rows of this queue were kept").remedy("look at them while it runs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_never_completed_goes_with_the_oldest() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(".euphrates/runs");
        // A server was killed before it wrote what is to be run.
        fs::create_dir_all(folder.join("1-1-1")).unwrap();
        fs::write(folder.join("1-1-1/document.json.new"), "{").unwrap();
        for number in 2..=RECORDS_MAX {
            let record = Record::create(&folder.join(format!("{number:x}-1-1"))).unwrap();
            record.write(ORDER, &json!({"name": "own"})).unwrap();
        }
        Runs::new(root.path()).unwrap().prune();
        assert!(!folder.join("1-1-1").exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), RECORDS_MAX - 1);
    }
}
