//! `/api/runs`: start, list, inspect, perturb and stop runs.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use euphrates_engine::machine;
use euphrates_flow::{Document, Error, Perturbation};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::error::{ApiError, Result};
use crate::http::request::ApiRequest;
use crate::runs::programs::command;
use crate::runs::record::{DOCUMENT, END, HISTORY, LOG, ORDER, PROGRESS, RunCommand, RunRecord};
use crate::runs::{ProjectRuns, RECORDS_MAX};
use crate::studio::Studio;

/// The largest number of runs at once.
const RUNNING_MAX: usize = 8;

/// The entry of a run in the list.
fn entry(runs: &ProjectRuns, id: &str, record: &RunRecord) -> Value {
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

/// `GET /api/runs`: the newest runs.
pub fn list(studio: &Arc<Studio>, _: &ApiRequest) -> Result<Value> {
    let runs = &studio.runs;
    let ids = runs.ids().into_iter().take(RECORDS_MAX);
    let records = ids.filter_map(|id| Some((runs.record(&id).ok()?, id)));
    let all: Vec<Value> = records.map(|(record, id)| entry(runs, &id, &record)).collect();
    studio.events.follow_running(&all);
    Ok(all.into())
}

/// `GET /api/runs/{id}`: a run with its document, log, statistics and outcome.
pub fn one(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let id = request.param("id");
    let record = studio.runs.record(id)?;
    let mut all = entry(&studio.runs, id, &record);
    studio.events.follow_running(std::slice::from_ref(&all));
    let end = record.read(END).unwrap_or_default();
    let order = record.read(ORDER).unwrap_or_default();
    all["perturbations"] = order["perturbations"].clone();
    all["document"] = record.read(DOCUMENT).unwrap_or_default();
    all["log"] = json!(record.log());
    let read = [("progress", record.read(PROGRESS)), ("history", record.read(HISTORY))];
    let ended = ["report", "collected"].map(|name| (name, end.get(name).cloned()));
    for (name, value) in read.into_iter().chain(ended) {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            all[name] = value;
        }
    }
    Ok(all)
}

/// The body of a run request. Absent resources get the machine's defaults.
#[derive(Deserialize)]
struct RunRequest {
    document: Value,
    #[serde(default)]
    variables: BTreeMap<String, Value>,
    cluster: Option<String>,
    threads: Option<usize>,
    memory: Option<Value>,
    perturbations: Option<Value>,
}

/// `POST /api/runs`: starts a run.
pub fn start(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let order: RunRequest = request.body()?;
    let document = Document::from_json(&order.document.to_string())?;
    if let Some(list) = &order.perturbations {
        Perturbation::list_from_json(&list.to_string())?;
    }
    let runs = &studio.runs;
    let is_running = |id: &String| runs.record(id).is_ok_and(|record| runs.is_running(id, &record));
    if runs.ids().iter().filter(|id| is_running(id)).count() >= RUNNING_MAX {
        let error = ApiError::too_many(format!("{RUNNING_MAX} runs are running already"));
        return Err(error.remedy("stop one of them"));
    }
    check_records_folder(&studio.folder.path)?;
    let id = machine::run_id();
    let record = runs.create_record(&id)?;
    prepared(&record, &id, &document.name, order, studio)
        .and_then(|command| runs.start(&id, command))
        .inspect_err(|_| record.clone().remove())?;
    studio.trust.add(&studio.folder.path)?;
    studio.events.follow(&id);
    Ok(json!({"id": id}))
}

/// Writes the run request to the record. Returns the command that runs it.
fn prepared(
    record: &RunRecord,
    id: &str,
    name: &str,
    order: RunRequest,
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
    let words = arguments(record, cluster, order.threads, order.memory.as_ref(), studio)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = command(&studio.settings, &studio.folder.path, &words);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(record.path(LOG));
    let log = log.map_err(|error| Error::os("write", record.path(LOG), &error))?;
    let second = log.try_clone().map_err(|error| Error::os("write", record.path(LOG), &error))?;
    command.stdout(log).stderr(second);
    Ok(command)
}

/// Fails if the folder of the records is a symbolic link, which may be part of the project.
fn check_records_folder(root: &Path) -> Result<()> {
    for part in [".euphrates", ".euphrates/runs"] {
        let path = root.join(part);
        if fs::symlink_metadata(&path).is_ok_and(|there| !there.is_dir()) {
            let error = ApiError::forbidden(format!("{} is not a folder", path.display()));
            return Err(error.remedy("remove it: records of runs are kept there"));
        }
    }
    Ok(())
}

/// The arguments of the command that runs the flow.
fn arguments(
    record: &RunRecord,
    cluster: Option<String>,
    threads: Option<usize>,
    memory: Option<&Value>,
    studio: &Studio,
) -> Result<Vec<String>> {
    let path = |path: PathBuf| {
        let text = path.into_os_string().into_string();
        text.map_err(|_| ApiError::usage("the project's folder has a name that is not text"))
    };
    let mut words = vec!["run".into(), path(record.path(DOCUMENT))?];
    words.extend(["--record".into(), path(record.path(""))?]);
    let optional = [
        // Joined to its option, so that the value cannot be another option.
        cluster.map(|words| format!("--cluster={words}")),
        threads.map(|threads| format!("--cores={threads}")),
        memory.and_then(|memory| match memory {
            Value::String(text) if !text.is_empty() => Some(format!("--memory={text}")),
            Value::Number(bytes) => Some(format!("--memory={bytes}")),
            _ => None,
        }),
        studio.settings.end_runs.then(|| format!("--ends-with={}", std::process::id())),
    ];
    words.extend(optional.into_iter().flatten());
    Ok(words)
}

/// `POST /api/runs/{id}/stop`: stops a run.
pub fn stop(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    studio.runs.stop(request.param("id"))
}

/// `DELETE /api/runs/{id}`: removes the record of a run that has ended.
pub fn remove(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    studio.runs.remove(request.param("id"))?;
    Ok(json!({}))
}

#[derive(Deserialize)]
struct PerturbRequest {
    perturbations: Value,
}

/// `POST /api/runs/{id}/perturb`: perturbs a run.
pub fn perturb(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let PerturbRequest { perturbations } = request.body()?;
    Perturbation::list_from_json(&perturbations.to_string())?;
    studio.runs.ask(request.param("id"), &RunCommand::Perturb { perturbations })
}

/// `DELETE /api/runs/{id}/perturb`: ends one perturbation, or all of them.
pub fn end_perturbations(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let number = request.query("number").ok().map(str::parse).transpose();
    let number = number.map_err(|_| ApiError::usage("`number` is not a number"))?;
    studio.runs.ask(request.param("id"), &RunCommand::EndPerturbations { number })
}

/// `GET /api/runs/{id}/rows`: the last rows of a queue.
pub fn rows(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let queue = request.query("queue")?.parse();
    let queue = queue.map_err(|_| ApiError::usage("`queue` is not a number"))?;
    let (runs, id) = (&studio.runs, request.param("id"));
    let record = runs.record(id)?;
    if runs.is_running(id, &record) {
        return runs.ask(id, &RunCommand::Rows { queue });
    }
    record.read(&RunRecord::rows(queue)).ok_or_else(|| {
        ApiError::missing("no rows of this queue were kept").remedy("look at them while it runs")
    })
}
