//! A flow that has been started from Python.
//!
//! A thread waits for the flow and finishes it, so that its output appears as soon as it is
//! complete, and so that a query of its progress does not wait for its end.

pub mod run_options;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_engine::observe::progress::FlowProgress;
use euphrates_engine::{Report, start_unless};
use euphrates_flow::{Cancel, Document, Error, Owner, Result, spawn_named};
use euphrates_server::run_view;
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;

use self::run_options::RunOptions;
use crate::cluster::Cluster;
use crate::data::classes::Table;
use crate::errors::{OrRaise, to_exception};
use crate::registry::registry;
use crate::user_code::{CHECKING, interrupt, take_cause};

/// Poll interval of Python's signals and of the progress.
const PROGRESS_POLL: Duration = Duration::from_millis(50);

/// Checks and starts a flow; does not wait for it.
#[pyfunction]
#[pyo3(signature = (document, options, cluster=None))]
pub fn start(
    py: Python<'_>,
    document: &str,
    options: &str,
    cluster: Option<&Cluster>,
) -> PyResult<Running> {
    // The exception of a signal handler during the start.
    let signal: Mutex<Option<PyErr>> = Mutex::default();
    let is_interrupted = || {
        let mut signal = signal.lock();
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
        let watched = shared.clone();
        spawn_named("euphrates", move || finish_flow(running, &document, &watched))?;
        Ok(Running { shared, owner: Owner::here() })
    });
    if let Some(error) = signal.into_inner() {
        return Err(error);
    }
    started.map_err(|error| to_exception(py, &error, take_cause(CHECKING)))
}

/// Waits for the flow, updates its progress, and finishes it.
fn finish_flow(mut running: euphrates_engine::Running, document: &Document, shared: &Shared) {
    loop {
        let ended = running.wait_for(PROGRESS_POLL);
        let progress = progress_json(&running.progress());
        if shared.set_progress(progress, ended) {
            let live = run_view::live(&running, document);
            shared.set_live(live.map(|live| live.to_string()).unwrap_or_default());
        }
        if ended {
            break;
        }
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| running.finish()));
    let outcome = outcome.unwrap_or_else(|_| Err(Error::failed("a module panicked at its end")));
    if shared.cancel.is_cancelled() {
        // User code that still runs is interrupted once more.
        Python::try_attach(|py| interrupt(py, &shared.cancel));
    }
    shared.state.lock().outcome = Some(RunOutcome::Here(Box::new(outcome)));
    shared.changed.notify_all();
}

/// The progress as JSON, with the text line for terminals.
fn progress_json(progress: &FlowProgress) -> String {
    let mut json = serde_json::to_value(progress).unwrap_or_default();
    json["line"] = progress.to_string().into();
    json.to_string()
}

/// A report as JSON and as text, and the collected tables by module.
type Finished = (String, String, Vec<(String, Table)>);

/// The state that the object in Python and the thread share.
struct Shared {
    cancel: Arc<Cancel>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The progress as JSON.
    progress: String,
    /// The live statistics as JSON, updated on request.
    live: String,
    /// Whether live statistics are requested.
    is_asked: bool,
    /// The number of updates of `live`.
    live_version: u64,
    outcome: Option<RunOutcome>,
}

enum RunOutcome {
    Here(Box<Result<Report>>),
    Taken,
}

impl Shared {
    /// Sets the progress. Returns whether live statistics are needed: on request, and at the end of
    /// the flow.
    fn set_progress(&self, progress: String, ended: bool) -> bool {
        let mut state = self.state.lock();
        state.progress = progress;
        std::mem::take(&mut state.is_asked) || ended
    }

    fn set_live(&self, live: String) {
        let mut state = self.state.lock();
        state.live = live;
        state.live_version += 1;
        self.changed.notify_all();
    }

    /// Waits for at most `time`; returns whether the flow has ended.
    fn wait(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| state.outcome.is_none(), time);
        state.outcome.is_some()
    }
}

/// A running flow. It is cancelled when the last reference is dropped.
#[pyclass(frozen, module = "euphrates._euphrates")]
pub struct Running {
    shared: Arc<Shared>,
    owner: Owner,
}

#[pymethods]
impl Running {
    /// The progress of every module as JSON, at most a tenth of a second old; empty at first.
    fn progress(&self, py: Python<'_>) -> PyResult<String> {
        self.check(py)?;
        Ok(py.detach(|| self.shared.state.lock().progress.clone()))
    }

    /// The live statistics of every instance and queue as JSON; after the end, the last ones.
    fn live(&self, py: Python<'_>) -> PyResult<String> {
        self.check(py)?;
        Ok(py.detach(|| {
            let mut state = self.shared.state.lock();
            state.is_asked = true;
            let before = state.live_version;
            let is_old =
                |state: &mut State| state.outcome.is_none() && state.live_version == before;
            self.shared.changed.wait_while(&mut state, is_old);
            state.live.clone()
        }))
    }

    /// The error as JSON, if the flow has failed and `finish` was not called.
    fn failure(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.check(py)?;
        Ok(py.detach(|| match &self.shared.state.lock().outcome {
            Some(RunOutcome::Here(result)) => {
                result.as_ref().as_ref().err().map(|error| run_view::failure(error).to_string())
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
    fn finish(&self, py: Python<'_>) -> PyResult<Finished> {
        self.watch(py, None, |_| Ok(()))?;
        let outcome = self.shared.state.lock().outcome.replace(RunOutcome::Taken);
        let cause = take_cause(Some(&self.shared.cancel));
        match outcome {
            Some(RunOutcome::Here(result)) => match *result {
                Ok(report) => {
                    let page = (report.to_json(), report.to_string());
                    let table = |(id, kept): (String, euphrates_flow::module::Collected)| {
                        (id, Table { schema: kept.schema, batches: kept.batches })
                    };
                    Ok((page.0, page.1, report.collected.into_iter().map(table).collect()))
                }
                Err(error) => Err(to_exception(py, &error, cause)),
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

    /// Waits for the end of the flow, and calls `look` at every poll.
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
            if py.detach(|| self.shared.wait(left.min(PROGRESS_POLL))) {
                return Ok(true);
            }
            look(py)?;
            if self.shared.cancel.is_cancelled() {
                // Repeated, because user code may catch the exception, or start after it.
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
