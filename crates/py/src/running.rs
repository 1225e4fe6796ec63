//! A flow that has been started from Python.
//!
//! A thread of its own waits for it and ends it, so that its output appears as soon as it is
//! complete, and so that asking for progress never waits for whoever waits for the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use euphrates_engine::observe::progress::Progress;
use euphrates_engine::queue::policies::named;
use euphrates_engine::{Options, Report, start_unless};
use euphrates_flow::{Cancel, Document, Error, Owner, Perturbation, Result};
use euphrates_server::told;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cluster::Cluster;
use crate::errors::{OrRaise, raised};
use crate::registry;
use crate::tables::Table;
use crate::user_code::{CHECKING, interrupt, take_cause};

/// How often Python's signals are looked at, and progress is taken.
const LOOK: Duration = Duration::from_millis(50);

/// How a flow is run, as Python says it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunOptions {
    memory_bytes: Option<usize>,
    cores: Option<usize>,
    home: Option<PathBuf>,
    scratch: Vec<PathBuf>,
    workers: Option<usize>,
    queues: Option<String>,
    variables: Map<String, Value>,
    perturbations: Vec<Perturbation>,
    resume: bool,
}

impl RunOptions {
    /// The engine's options.
    pub fn parse(json: &str) -> Result<Options> {
        let given: RunOptions = serde_json::from_str(json)
            .map_err(|error| Error::usage(format!("the options are malformed: {error}")))?;
        Ok(Options {
            memory_bytes: given.memory_bytes,
            cores: given.cores,
            home: given.home,
            scratch: given.scratch,
            workers: given.workers,
            cluster: None,
            queue_policy: given.queues.as_deref().map(named).transpose()?,
            variables: given.variables.into_iter().collect(),
            perturbations: given.perturbations,
            resume: given.resume,
        })
    }
}

/// Checks and starts a flow; does not wait for it.
#[pyfunction]
#[pyo3(signature = (document, options, cluster=None))]
pub fn start(
    py: Python<'_>,
    document: &str,
    options: &str,
    cluster: Option<&Cluster>,
) -> PyResult<Running> {
    // What a signal's handler raised while the flow was being started.
    let signal: Mutex<Option<PyErr>> = Mutex::default();
    let is_interrupted = || {
        let mut signal = signal.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if signal.is_none() {
            *signal = Python::attach(|py| py.check_signals()).err();
        }
        signal.is_some()
    };
    let started = py.detach(|| -> Result<Running> {
        let mut options = RunOptions::parse(options)?;
        options.cluster = cluster.map(Cluster::workers).transpose()?;
        let document = Document::from_json(document)?;
        let running = start_unless(&document, &registry(), &options, &is_interrupted)?;
        let shared = Arc::new(Shared {
            cancel: running.canceller(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let conducted = shared.clone();
        std::thread::Builder::new()
            .name("euphrates".into())
            .spawn(move || conduct(running, &document, &conducted))
            .map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        Ok(Running { shared, owner: Owner::here() })
    });
    if let Some(error) = signal.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        return Err(error);
    }
    started.map_err(|error| raised(py, &error, take_cause(CHECKING)))
}

/// Waits for the flow and ends it.
fn conduct(mut running: euphrates_engine::Running, document: &Document, shared: &Shared) {
    loop {
        let ended = running.wait_for(LOOK);
        let progress = in_words(&running.progress());
        if shared.take(progress, ended) {
            let live = told::live(&running, document);
            shared.tell(live.map(|live| live.to_string()).unwrap_or_default());
        }
        if ended {
            break;
        }
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| running.finish()));
    let outcome = outcome.unwrap_or_else(|_| Err(Error::failed("a module panicked at its end")));
    if shared.cancel.is_cancelled() {
        // Whoever has been left behind need not go on for ever.
        Python::try_attach(|py| interrupt(py, &shared.cancel));
    }
    shared.lock().outcome = Some(Outcome::Here(Box::new(outcome)));
    shared.changed.notify_all();
}

/// As JSON, with the line that people see.
fn in_words(progress: &Progress) -> String {
    let mut told = serde_json::to_value(progress).unwrap_or_default();
    told["line"] = progress.to_string().into();
    told.to_string()
}

/// A report as JSON and as text, and what was collected.
type Told = (String, String, Vec<(String, Table)>);

struct Shared {
    cancel: Arc<Cancel>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// JSON.
    progress: String,
    /// In detail, for whoever asks.
    live: String,
    is_asked: bool,
    /// How often somebody was told.
    looks: u64,
    outcome: Option<Outcome>,
}

enum Outcome {
    Here(Box<Result<Report>>),
    Taken,
}

impl Shared {
    /// Held for moments only.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the progress, and says whether more is to be told: when somebody has asked, and at the
    /// end, for whoever comes later.
    fn take(&self, progress: String, ended: bool) -> bool {
        let mut state = self.lock();
        state.progress = progress;
        std::mem::take(&mut state.is_asked) || ended
    }

    fn tell(&self, live: String) {
        let mut state = self.lock();
        state.live = live;
        state.looks += 1;
        self.changed.notify_all();
    }

    /// Waits at most this long; `true` when the flow has ended.
    fn wait(&self, time: Duration) -> bool {
        let waiting = |state: &mut State| state.outcome.is_none();
        let waited = self.changed.wait_timeout_while(self.lock(), time, waiting);
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0.outcome.is_some()
    }
}

/// A flow that has been started. When the last reference to it goes, it is cancelled.
#[pyclass(frozen, module = "euphrates._euphrates")]
pub struct Running {
    shared: Arc<Shared>,
    owner: Owner,
}

#[pymethods]
impl Running {
    /// Where every module stands, as JSON, not older than a tenth of a second; empty at first.
    fn progress(&self, py: Python<'_>) -> PyResult<String> {
        self.check(py)?;
        Ok(py.detach(|| self.shared.lock().progress.clone()))
    }

    /// How every instance and queue goes now, as JSON; when it has ended, how they went.
    fn live(&self, py: Python<'_>) -> PyResult<String> {
        self.check(py)?;
        Ok(py.detach(|| {
            let mut state = self.shared.lock();
            state.is_asked = true;
            let before = state.looks;
            let is_owed = |state: &mut State| state.outcome.is_none() && state.looks == before;
            let told = self.shared.changed.wait_while(state, is_owed);
            told.unwrap_or_else(|poisoned| poisoned.into_inner()).live.clone()
        }))
    }

    /// How it failed, as JSON, if it has ended so and `finish` was not called.
    fn failure(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.check(py)?;
        Ok(py.detach(|| match &self.shared.lock().outcome {
            Some(Outcome::Here(result)) => {
                result.as_ref().as_ref().err().map(|error| told::failure(error).to_string())
            }
            _ => None,
        }))
    }

    /// Waits for the end, at most this many seconds; says whether it has come. Python's signals
    /// are handled meanwhile: what a handler raises comes out of here, and the flow goes on.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.watch(py, timeout, |py| py.check_signals())
    }

    /// Stops the flow: no output will appear.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.check(py)?;
        self.shared.cancel.cancel();
        interrupt(py, &self.shared.cancel);
        Ok(())
    }

    /// Stops the flow and waits for its end, at most this many seconds, whatever signals come.
    fn stop(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        self.cancel(py)?;
        self.watch(py, Some(timeout), |_| Ok(()))
    }

    /// The report of a flow that has ended, as JSON and as text, and what it collected, by module.
    /// Can be called once.
    fn finish(&self, py: Python<'_>) -> PyResult<Told> {
        self.watch(py, None, |_| Ok(()))?;
        let outcome = self.shared.lock().outcome.replace(Outcome::Taken);
        let cause = take_cause(Some(&self.shared.cancel));
        match outcome {
            Some(Outcome::Here(result)) => match *result {
                Ok(report) => {
                    let page = (report.to_json(), report.to_string());
                    let table = |(id, kept): (String, euphrates_flow::module::Collected)| {
                        (id, Table { schema: kept.schema, batches: kept.batches })
                    };
                    Ok((page.0, page.1, report.collected.into_iter().map(table).collect()))
                }
                Err(error) => Err(raised(py, &error, cause)),
            },
            _ => Err(Error::usage("the report has already been taken")).or_raise(py),
        }
    }
}

impl Running {
    /// Fails in a forked child: the flow runs in the parent.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.owner.check("the flow").or_raise(py)
    }

    fn watch(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        look: impl Fn(Python<'_>) -> PyResult<()>,
    ) -> PyResult<bool> {
        self.check(py)?;
        let forever = Duration::from_secs(1 << 32);
        let time = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
        let deadline = Instant::now() + time.unwrap_or(forever);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if py.detach(|| self.shared.wait(left.min(LOOK))) {
                return Ok(true);
            }
            look(py)?;
            if self.shared.cancel.is_cancelled() {
                // Once is not enough: user code may swallow it, or enter after it.
                interrupt(py, &self.shared.cancel);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.owner.is_here() {
            self.shared.cancel.cancel();
        }
    }
}
