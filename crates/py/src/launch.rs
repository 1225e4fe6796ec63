//! The Python class of programs on the workers of a cluster, and the list of what runs there.

use std::time::Duration;

use euphrates_engine::cluster::launch::{self as launching, LaunchEvent};
use euphrates_engine::cluster::launch::{LaunchOrder, OutputStream, ProgramEnd};
use euphrates_engine::cluster::process_list;
use euphrates_flow::{Error, Owner};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::errors::OrRaise;

/// Running programs. They end when the last reference is dropped, unless they are detached.
#[pyclass(frozen, module = "euphrates._euphrates")]
pub struct Launch {
    launch: Option<launching::Launch>,
    owner: Owner,
}

/// An event: its kind, the rank of the program, a text, and the bytes written or the exit code.
type Event = (&'static str, usize, String, Option<Py<PyAny>>);

/// Starts programs on the workers of a cluster, and returns when they run.
#[pyfunction]
pub fn launch(
    py: Python<'_>,
    cluster: &Cluster,
    order: &str,
    on: Vec<String>,
    per_worker: usize,
) -> PyResult<Launch> {
    let launched = py.detach(|| {
        let order: LaunchOrder = serde_json::from_str(order)
            .map_err(|error| Error::usage(format!("the program is malformed: {error}")))?;
        launching::launch(&*cluster.workers()?, &order, &on, per_worker)
    });
    launched.map(|launch| Launch { launch: Some(launch), owner: Owner::here() }).or_raise(py)
}

/// The programs and flows on a cluster, as JSON.
#[pyfunction]
pub fn processes(py: Python<'_>, cluster: &Cluster) -> PyResult<String> {
    let listed = py.detach(|| process_list::list(&*cluster.workers()?)).or_raise(py)?;
    let entries: Vec<Value> = listed.iter().map(|entry| entry.to_json()).collect();
    Ok(json!(entries).to_string())
}

/// Ends the programs and flows with these ids, or all if there are none. Returns what has ended and
/// how, as JSON.
#[pyfunction]
pub fn kill(
    py: Python<'_>,
    cluster: &Cluster,
    ids: Vec<String>,
    at_once: bool,
) -> PyResult<String> {
    let killed =
        py.detach(|| process_list::kill(&*cluster.workers()?, &ids, at_once)).or_raise(py)?;
    let ended =
        |(entry, end): &process_list::Killed| json!([entry.to_json(), end.as_ref().map(code)]);
    Ok(json!(killed.iter().map(ended).collect::<Vec<_>>()).to_string())
}

#[pymethods]
impl Launch {
    /// The id in the list of `processes`.
    #[getter]
    fn id(&self) -> String {
        self.launch().id().to_string()
    }

    /// The worker and the name of each program.
    fn places(&self) -> Vec<(String, String)> {
        let slots = self.launch().slots().iter();
        slots.map(|slot| (slot.worker.clone(), slot.name.clone())).collect()
    }

    /// Waits for the next event, for at most this many seconds.
    fn step(&self, py: Python<'_>, seconds: f64) -> PyResult<Event> {
        self.check(py)?;
        let within = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Ok(match py.detach(|| self.launch().step(within)) {
            LaunchEvent::Wrote { rank, stream, bytes } => {
                let stream = if stream == OutputStream::Stdout { "stdout" } else { "stderr" };
                let bytes = PyBytes::new(py, &bytes).into_any().unbind();
                ("wrote", rank, stream.into(), Some(bytes))
            }
            LaunchEvent::Ended { rank, end: ProgramEnd::Lost(error) } => {
                ("lost", rank, error.to_string(), None)
            }
            LaunchEvent::Ended { rank, end } => {
                let code = code(&end).and_then(|code| code.into_pyobject(py).ok());
                ("ended", rank, end.to_string(), code.map(|code| code.into_any().unbind()))
            }
            LaunchEvent::Quiet => ("quiet", 0, String::new(), None),
            LaunchEvent::Over => ("over", 0, String::new(), None),
        })
    }

    /// Fails in a forked child: the programs are the parent's.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.owner.check("the launch").or_raise(py)
    }

    /// Interrupts all programs; kills them if `at_once`.
    fn stop(&self, py: Python<'_>, at_once: bool) -> PyResult<()> {
        self.check(py)?;
        py.detach(|| self.launch().stop(at_once));
        Ok(())
    }

    /// Sends bytes to the standard input of all programs; returns whether any may read more.
    fn feed(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<bool> {
        self.check(py)?;
        // Python keeps the bytes alive during the call.
        Ok(py.detach(|| self.launch().feed(bytes)))
    }
}

impl Launch {
    fn launch(&self) -> &launching::Launch {
        self.launch.as_ref().expect("it is there until this goes")
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // A drop would send on the parent's connections.
            std::mem::forget(self.launch.take());
        }
    }
}

/// The exit code in Python's convention: a signal is a negative number.
fn code(end: &ProgramEnd) -> Option<i32> {
    match end {
        ProgramEnd::Exited(code) => Some(*code),
        ProgramEnd::Killed(signal) => Some(-signal),
        ProgramEnd::Lost(_) => None,
    }
}
