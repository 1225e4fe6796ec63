//! The process of a run: drives a flow as the command line does, tells its record how it goes four
//! times a second, and does what the record is asked for.

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

use crate::drawn::edge_of;
use crate::perturbed;
use crate::record::{DOCUMENT, END, HISTORY, LOG, ORDER, PROGRESS, Record, Wish};
use crate::schema::sample;
use crate::told::{failure, live};

/// How often wishes are looked for, how it goes is told, and its history.
const LOOK: Duration = Duration::from_millis(50);
const TELL: Duration = Duration::from_millis(250);
const TELL_HISTORY: Duration = Duration::from_secs(1);

/// How long rows are kept for nobody who asks.
const ROWS_KEPT: Duration = Duration::from_secs(15);

/// Bytes of a log; when there are more, it begins anew.
const LOG_BYTES_MAX: u64 = 8 << 20;

/// How a run is driven.
pub struct Drive<'a> {
    /// Its record.
    pub record: Record,
    /// What flows are made of.
    pub registry: &'a Registry,
    /// What it may use; asked for when what goes wrong can be written down.
    pub options: &'a dyn Fn() -> Result<Options>,
    /// The process it ends with, if it is to end with one.
    pub ends_with: Option<u32>,
    /// Whether somebody wants it to end.
    pub is_interrupted: &'a dyn Fn() -> bool,
}

/// Drives the run to its end, and writes down how that was.
pub fn drive(drive: Drive<'_>) -> Result<()> {
    let record = drive.record.clone();
    let _held = record.hold()?;
    limit(drive.ends_with)?;
    let began = Instant::now();
    let ended = run(drive);
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

/// Nothing of the user's data is left in a core file; and if it is to, it ends with its server.
fn limit(ends_with: Option<u32>) -> Result<()> {
    // Where that is not allowed, there are none anyway.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let Some(parent) = ends_with else { return Ok(()) };
    let set = set_parent_process_death_signal(Some(Signal::TERM));
    set.map_err(|error| Error::os("bind the run to", "its server", &error.into()))?;
    // It may have ended before.
    match getppid().map(|now| now.as_raw_nonzero().get().cast_unsigned()) == Some(parent) {
        true => Ok(()),
        false => Err(Error::interrupted()),
    }
}

/// What a run gives: the report, unless it was stopped, and the rows that it collected.
type Given = (Option<Report>, Value);

fn run(drive: Drive<'_>) -> Result<Given> {
    let Drive { record, registry, is_interrupted, .. } = drive;
    let mut options = (drive.options)()?;
    let document = record.read(DOCUMENT).unwrap_or_default();
    let document = Document::from_json(&document.to_string())?;
    let order = record.read(ORDER).unwrap_or_default();
    let of = |name: &str| order.get(name).cloned().filter(|value| !value.is_null());
    let malformed = |error| Error::usage(format!("the order of the run is malformed: {error}"));
    if let Some(variables) = of("variables") {
        options.variables = serde_json::from_value(variables).map_err(malformed)?;
    }
    if let Some(list) = of("perturbations") {
        options.perturbations = Perturbation::list_from_json(&list.to_string())?;
    }
    let running = start_unless(&document, registry, &options, is_interrupted)?;
    let mut driven = Driven {
        record,
        document,
        running,
        began: Instant::now(),
        perturbed: perturbed::List::default(),
        read: 0,
        open: BTreeMap::new(),
    };
    driven.perturbed.add(&options.perturbations, 0.0);
    let id = of("id").unwrap_or_default();
    let (mut next, mut next_history) = (Instant::now(), Instant::now());
    let stopped = loop {
        if driven.running.wait_for(LOOK) {
            break false;
        }
        if is_interrupted() || driven.wishes()? {
            driven.running.cancel();
            while !driven.running.wait_for(LOOK) {}
            break true;
        }
        let now = Instant::now();
        if now >= next {
            next = now + TELL;
            driven.tell(&id)?;
        }
        if now >= next_history {
            next_history = now + TELL_HISTORY;
            driven.record.write(HISTORY, &driven.running.history())?;
            driven.close_unasked(now);
        }
    };
    driven.end(&id, stopped)
}

struct Driven {
    record: Record,
    document: Document,
    running: Running,
    began: Instant,
    perturbed: perturbed::List,
    /// Bytes of wishes that have been read.
    read: u64,
    /// Queues of which rows are kept, by their positions in the document: those in the checked
    /// flow, and when somebody asked last.
    open: BTreeMap<usize, (usize, Instant)>,
}

impl Driven {
    fn tell(&self, id: &Value) -> Result<()> {
        let mut live = live(&self.running, &self.document)?;
        live["run"] = id.clone();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        live["perturbed"] = json!(self.perturbed.now(self.seconds()));
        live["at"] = json!(now.unwrap_or_default().as_secs_f64());
        self.record.write(PROGRESS, &live)
    }

    /// Does what it is asked for; says whether that is to stop.
    fn wishes(&mut self) -> Result<bool> {
        let (wishes, read) = self.record.wishes(self.read);
        self.read = read;
        let mut stop = false;
        for (number, wish) in wishes {
            let done = match wish {
                Wish::Stop => {
                    stop = true;
                    Ok(json!({}))
                }
                Wish::Perturb { perturbations } => self.perturb(&perturbations),
                Wish::Unperturb { number } => self.unperturb(number),
                Wish::Rows { queue } => self.rows(queue),
            };
            let answer = done.unwrap_or_else(|error| json!({"error": error}));
            self.record.write(&Record::answer(number), &answer)?;
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
        self.perturbed.add(&list, self.seconds());
        Ok(json!({}))
    }

    fn unperturb(&mut self, number: Option<u64>) -> Result<Value> {
        let others = match number {
            Some(number) => self.perturbed.end(number, self.seconds()).ok_or_else(|| {
                Error::usage(format!("nothing is perturbed as number {number}"))
                    .remedy("it may have ended by itself")
            })?,
            None => {
                self.perturbed.clear();
                vec![]
            }
        };
        self.running.clear_perturbations();
        self.running.perturb(&others)?;
        Ok(json!({}))
    }

    fn rows(&mut self, queue: usize) -> Result<Value> {
        let flow = self.running.flow();
        let edge = edge_of(&self.document, (&flow.nodes, &flow.edges), queue);
        let edge = edge.ok_or_else(|| {
            Error::usage(format!("the flow has no queue {queue}")).remedy("they count from 0")
        })?;
        self.open.insert(queue, (edge, Instant::now()));
        // Again each time: when a worker is lost, others take its place.
        self.running.keep_rows(edge, true);
        Ok(sample(&flow.edges[edge].schema, &self.running.rows(edge)?))
    }

    /// Rows are kept for those who look.
    fn close_unasked(&mut self, now: Instant) {
        let running = &self.running;
        self.open.retain(|_, (edge, asked)| {
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
            // Whoever writes there appends, and goes on at the beginning.
            let _ = file.set_len(0);
        }
    }

    fn end(mut self, id: &Value, stopped: bool) -> Result<Given> {
        // What it did last is what people see of it from now on.
        self.tell(id)?;
        self.record.write(HISTORY, &self.running.history())?;
        for queue in self.open.keys().copied().collect::<Vec<_>>() {
            let rows = self.rows(queue)?;
            self.record.write(&rows_of(queue), &rows)?;
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

/// Where the rows of a queue are kept when the run has ended.
pub fn rows_of(queue: usize) -> String {
    format!("rows-{queue}.json")
}
