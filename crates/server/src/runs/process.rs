//! The process of a run: runs a flow, writes its live statistics to its record four times a second,
//! and executes the commands of the record.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, Instant, SystemTime};

use euphrates_engine::{Options, Report, Running, start_unless};
use euphrates_flow::row::last_texts;
use euphrates_flow::tap::ROWS_MAX;
use euphrates_flow::{Document, Error, Kind, Perturbation, Registry, Result};
use rustix::process::{
    Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit,
};
use serde_json::{Value, json};

use super::perturbations::ActivePerturbations;
use super::record::{DOCUMENT, END, HISTORY, LOG, ORDER, PROGRESS, RunCommand, RunRecord, TOTALS};
use super::view::{failure, live};
use crate::flow_map::checked_queue;
use crate::table_json::sample;

/// Poll interval of commands.
const COMMAND_POLL: Duration = Duration::from_millis(50);
/// Interval between two writes of the live statistics, and of the history.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
const HISTORY_INTERVAL: Duration = Duration::from_secs(1);

/// How long a queue keeps rows after the last request for them.
const ROWS_KEPT: Duration = Duration::from_secs(15);

/// The largest log, in bytes; a larger one is truncated to nothing.
const LOG_BYTES_MAX: u64 = 8 << 20;

/// The parameters of the process of a run.
pub struct RunProcess<'a> {
    /// The record of the run.
    pub record: RunRecord,
    /// The modules that the flow can use.
    pub registry: &'a Registry,
    /// The engine options; called when the record can store an error.
    pub options: &'a dyn Fn() -> Result<Options>,
    /// The pid of the parent process with which the run ends, if it is to end with it.
    pub ends_with: Option<u32>,
    /// Whether the process was interrupted.
    pub is_interrupted: &'a dyn Fn() -> bool,
}

/// Runs the flow to its end, and writes the outcome to the record.
pub fn run(process: RunProcess<'_>) -> Result<()> {
    let record = process.record.clone();
    let _held = record.hold()?;
    prepare_process(process.ends_with)?;
    let began = Instant::now();
    let ended = run_flow(process);
    let seconds = began.elapsed().as_secs_f64();
    let end = match &ended {
        Ok((report, collected)) => {
            let state = if report.is_some() { "done" } else { "stopped" };
            json!({"state": state, "seconds": seconds, "report": report, "collected": collected})
        }
        Err(error) => {
            let state = if error.kind() == Kind::Interrupted { "stopped" } else { "failed" };
            json!({"state": state, "seconds": seconds, "error": failure(error)})
        }
    };
    record.write(END, &end)?;
    ended.map(drop)
}

/// Disables core files, which would contain user data, and binds the process to its parent.
fn prepare_process(ends_with: Option<u32>) -> Result<()> {
    // Where this is not permitted, no core file is written either.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let Some(parent) = ends_with else { return Ok(()) };
    let set = set_parent_process_death_signal(Some(Signal::TERM));
    set.map_err(|error| Error::os("bind the run to", "its server", &error.into()))?;
    // The parent may have ended before the call.
    match getppid().map(|now| now.as_raw_nonzero().get().cast_unsigned()) == Some(parent) {
        true => Ok(()),
        false => Err(Error::interrupted()),
    }
}

/// The report, unless the run was stopped, and the collected rows by module.
type ProcessOutcome = (Option<Report>, Value);

fn run_flow(process: RunProcess<'_>) -> Result<ProcessOutcome> {
    let RunProcess { record, registry, is_interrupted, .. } = process;
    let mut options = (process.options)()?;
    let document = record.read(DOCUMENT).unwrap_or_default();
    let document = Document::from_json(&document.to_string())?;
    let order = record.read(ORDER).unwrap_or_default();
    let setting = |name: &str| order.get(name).cloned().filter(|value| !value.is_null());
    let malformed = |error| Error::usage(format!("the order of the run is malformed: {error}"));
    if let Some(variables) = setting("variables") {
        options.variables = serde_json::from_value(variables).map_err(malformed)?;
    }
    if let Some(list) = setting("perturbations") {
        options.perturbations = Perturbation::list_from_json(&list.to_string())?;
    }
    let running = start_unless(&document, registry, &options, is_interrupted)?;
    let mut active = ActiveRun {
        record,
        document,
        running,
        began: Instant::now(),
        perturbations: ActivePerturbations::default(),
        command_bytes: 0,
        sampled: BTreeMap::new(),
    };
    active.perturbations.add(&options.perturbations, 0.0);
    let id = setting("id").unwrap_or_default();
    let (mut next, mut next_history) = (Instant::now(), Instant::now());
    let stopped = loop {
        if active.running.wait_for(COMMAND_POLL) {
            break false;
        }
        if is_interrupted() || active.execute_commands()? {
            active.running.cancel();
            while !active.running.wait_for(COMMAND_POLL) {}
            break true;
        }
        let now = Instant::now();
        if now >= next {
            next = now + PROGRESS_INTERVAL;
            active.write_progress(&id)?;
        }
        if now >= next_history {
            next_history = now + HISTORY_INTERVAL;
            active.record.write(HISTORY, &active.running.history())?;
            active.stop_unused_samples(now);
        }
    };
    active.end(&id, stopped)
}

/// A running flow and its record.
struct ActiveRun {
    record: RunRecord,
    document: Document,
    running: Running,
    began: Instant,
    perturbations: ActivePerturbations,
    /// Bytes of commands that have been read.
    command_bytes: u64,
    /// Queues that keep rows, by position in the document: the position in the checked flow, and
    /// the time of the last request.
    sampled: BTreeMap<usize, (usize, Instant)>,
}

impl ActiveRun {
    fn write_progress(&self, id: &Value) -> Result<()> {
        let mut live = live(&self.running, &self.document)?;
        live["run"] = id.clone();
        live[TOTALS] = json!(self.running.totals());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        live["perturbed"] = json!(self.perturbations.active(self.seconds()));
        live["at"] = json!(now.unwrap_or_default().as_secs_f64());
        self.record.write(PROGRESS, &live)
    }

    /// Executes the new commands; returns whether the run is to stop.
    fn execute_commands(&mut self) -> Result<bool> {
        let (commands, read) = self.record.commands(self.command_bytes);
        self.command_bytes = read;
        let mut stop = false;
        for (number, command) in commands {
            let done = match command {
                RunCommand::Stop => {
                    stop = true;
                    Ok(json!({}))
                }
                RunCommand::Perturb { perturbations } => self.perturb(&perturbations),
                RunCommand::EndPerturbations { number } => self.end_perturbations(number),
                RunCommand::Rows { queue } => self.rows(queue),
            };
            let answer = done.unwrap_or_else(|error| json!({"error": error}));
            self.record.write(&RunRecord::answer(number), &answer)?;
        }
        self.bound_log();
        Ok(stop)
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn perturb(&mut self, wanted: &Value) -> Result<Value> {
        let list = Perturbation::list_from_json(&wanted.to_string())?;
        self.running.perturb(&list)?;
        self.perturbations.add(&list, self.seconds());
        Ok(json!({}))
    }

    fn end_perturbations(&mut self, number: Option<u64>) -> Result<Value> {
        let others = match number {
            Some(number) => self.perturbations.end(number, self.seconds()).ok_or_else(|| {
                Error::usage(format!("nothing is perturbed as number {number}"))
                    .remedy("it may have ended by itself")
            })?,
            None => {
                self.perturbations.clear();
                vec![]
            }
        };
        self.running.clear_perturbations();
        self.running.perturb(&others)?;
        Ok(json!({}))
    }

    fn rows(&mut self, queue: usize) -> Result<Value> {
        let flow = self.running.flow();
        let edge = checked_queue(&self.document, (&flow.nodes, &flow.edges), queue);
        let edge = edge.ok_or_else(|| {
            Error::usage(format!("the flow has no queue {queue}")).remedy("they count from 0")
        })?;
        self.sampled.insert(queue, (edge, Instant::now()));
        // Repeated with each request, because a replacement of a lost worker does not know it.
        self.running.keep_rows(edge, true);
        Ok(sample(&flow.edges[edge].schema, &self.running.rows(edge)?))
    }

    /// Stops keeping rows of queues that have not been requested recently.
    fn stop_unused_samples(&mut self, now: Instant) {
        let running = &self.running;
        self.sampled.retain(|_, (edge, asked)| {
            let is_wanted = now.saturating_duration_since(*asked) < ROWS_KEPT;
            if !is_wanted {
                running.keep_rows(*edge, false);
            }
            is_wanted
        });
    }

    fn bound_log(&self) {
        let length = std::fs::metadata(self.record.path(LOG)).map_or(0, |metadata| metadata.len());
        if length > LOG_BYTES_MAX
            && let Ok(file) = File::options().write(true).open(self.record.path(LOG))
        {
            // The log is opened for appending, so the next write is at the beginning.
            let _ = file.set_len(0);
        }
    }

    fn end(mut self, id: &Value, stopped: bool) -> Result<ProcessOutcome> {
        // The last statistics stay in the record.
        self.write_progress(id)?;
        self.record.write(HISTORY, &self.running.history())?;
        for queue in self.sampled.keys().copied().collect::<Vec<_>>() {
            let rows = self.rows(queue)?;
            self.record.write(&RunRecord::rows(queue), &rows)?;
        }
        if stopped {
            return Ok((None, json!({})));
        }
        let report = self.running.finish()?;
        let mut collected = json!({});
        for (id, rows) in &report.collected {
            collected[id] = sample(&rows.schema, &last_texts(&rows.batches, ROWS_MAX)?);
        }
        Ok((Some(report), collected))
    }
}
