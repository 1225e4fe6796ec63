//! Who is inside user code, for which flow: so that a flow that is stopped can break out of
//! endless loops, and so that an exception is not lost on its way to whoever started the flow.

use std::collections::BTreeMap;
use std::ffi::c_long;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use euphrates_flow::{Cancel, Error, Kind, Owner, Result};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::errors::told;

/// For whom user code runs: the flow that this switch stops, or a flow that is being checked.
pub type Caller<'a> = Option<&'a Arc<Cancel>>;

/// Whoever checks a flow.
pub const CHECKING: Caller<'static> = None;

/// A flow, as the address of the switch that stops it; 0 for all that are being checked.
type FlowKey = usize;

#[derive(Default)]
struct Flow {
    /// Threads inside user code, as Python counts threads.
    threads: Vec<u64>,
    /// The first exception that user code raised, and the switch of its flow: while that is known
    /// here, no other has its address.
    cause: Option<(PyErr, Weak<Cancel>)>,
    /// What to call when the flow is stopped, and for which instance.
    stops: Vec<(u64, Py<PyAny>)>,
}

impl Flow {
    fn is_over(&self) -> bool {
        self.threads.is_empty() && self.cause.is_none() && self.stops.is_empty()
    }

    /// Whether nobody will ask for its exception: a worker's flow ends without that.
    fn is_gone(&self) -> bool {
        let of = self.cause.as_ref().map(|(_, of)| of);
        of.is_some_and(|of| of.strong_count() == 0) && self.threads.is_empty()
    }
}

static FLOWS: Mutex<BTreeMap<FlowKey, Flow>> = Mutex::new(BTreeMap::new());

/// Held for moments only, and nothing that could release the GIL is done meanwhile.
fn flows() -> MutexGuard<'static, BTreeMap<FlowKey, Flow>> {
    FLOWS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn key(caller: Caller) -> FlowKey {
    caller.map_or(0, |cancel| Arc::as_ptr(cancel) as usize)
}

/// Calls user code. An exception becomes an error, and is kept as its cause.
pub fn call<'py, T>(
    py: Python<'py>,
    caller: Caller,
    code: impl FnOnce() -> PyResult<T>,
) -> Result<T> {
    let owner = Owner::here();
    let outcome = {
        let _inside = Inside::enter(py, key(caller));
        let outcome = code();
        if !owner.is_here() {
            leave(py, outcome.err());
        }
        outcome
    };
    outcome.map_err(|exception| {
        let error = told(py, &exception);
        // What user code raises because the flow is being stopped is an effect, not a cause.
        let is_effect = matches!(error.kind(), Kind::Closed | Kind::Interrupted)
            || caller.is_some_and(|cancel| cancel.is_cancelled());
        if !is_effect || caller.is_none() {
            // As it is now, without our frames.
            keep(caller, PyErr::from_value(exception.value(py).clone().into_any()));
        }
        error
    })
}

/// Ends a forked child that returns from user code. The frames behind it belong to the parent: the
/// child would write the same files and send on the same connections.
fn leave(py: Python<'_>, exception: Option<PyErr>) -> ! {
    let exception = exception.map(|exception| exception.into_value(py));
    // Does not return, unless the interpreter is shutting down.
    let _ = py.import("euphrates._forked").and_then(|end| end.call_method1("leave", (exception,)));
    // SAFETY: ends the process without running any of its code.
    unsafe { libc::_exit(1) }
}

/// What an instance ended with. Libraries tell the end of a flow in words of their own; after it
/// every error is an echo of whatever ended the flow.
pub fn ended(cancel: &Cancel, result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != Kind::Closed && cancel.is_cancelled() => {
            Err(Error::interrupted())
        }
        result => result,
    }
}

/// Marks this thread as being outside of user code while `engine` runs, detached.
pub fn outside<T: Send>(
    py: Python<'_>,
    cancel: &Arc<Cancel>,
    engine: impl FnOnce() -> T + Send,
) -> T {
    let (flow, thread) = (key(Some(cancel)), this_thread());
    let was_inside = remove(flow, thread);
    let value = py.detach(engine);
    if was_inside {
        flows().entry(flow).or_default().threads.push(thread);
    }
    value
}

/// Keeps the first exception of a flow, and none of flows that are gone.
fn keep(caller: Caller, exception: PyErr) {
    let late = {
        let mut flows = flows();
        let gone: Vec<Flow> = flows
            .extract_if(.., |key, flow| *key != 0 && flow.is_gone())
            .map(|(_, of)| of)
            .collect();
        let cause = &mut flows.entry(key(caller)).or_default().cause;
        let of = caller.map(Arc::downgrade).unwrap_or_default();
        let late = match cause {
            // What a check raised is stale once another check raises.
            Some(_) if caller.is_some() => Some((exception, of)),
            cause => cause.replace((exception, of)),
        };
        (gone, late)
    };
    // Only now: what they hold may run code of its own when it goes.
    drop(late);
}

/// Forgets a flow, and gives the exception that user code raised in it, if any.
pub fn take_cause(caller: Caller) -> Option<PyErr> {
    let flow = key(caller);
    let mut flows = flows();
    let cause = flows.get_mut(&flow).and_then(|flow| flow.cause.take());
    let cause = cause.map(|(exception, _)| exception);
    if flows.get(&flow).is_some_and(Flow::is_over) {
        flows.remove(&flow);
    }
    cause
}

/// Breaks off the flow's user code: raises `KeyboardInterrupt` in every thread that is inside it,
/// and calls what has been given to `on_stop`. A thread that waits in C code notices the first
/// when it comes back from there; the second is for code that would not come back.
pub fn interrupt(py: Python<'_>, cancel: &Arc<Cancel>) {
    let flow = key(Some(cancel));
    let (threads, stops) = flows().get(&flow).map_or_else(Default::default, |flow| {
        let stops = flow.stops.iter().map(|(_, stop)| stop.clone_ref(py));
        (flow.threads.clone(), stops.collect::<Vec<_>>())
    });
    let exception = py.get_type::<PyKeyboardInterrupt>();
    for thread in threads {
        // SAFETY: attached; the exception is a class; a thread that does not exist is not found.
        unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(thread as c_long, exception.as_ptr()) };
    }
    for stop in stops {
        break_off(py, &stop);
    }
}

/// Has `stop` called whenever the flow is stopped, until `forget_stops` of the instance.
///
/// A library that releases the GIL and never comes back would be left behind, and when the
/// interpreter ends under it, Python ends its thread by unwinding (`pthread_exit`); C++ that does
/// not expect this aborts the process. So such a library has to be told.
pub fn on_stop(py: Python<'_>, cancel: &Arc<Cancel>, instance: u64, stop: Py<PyAny>) {
    let now = stop.clone_ref(py);
    flows().entry(key(Some(cancel))).or_default().stops.push((instance, stop));
    if cancel.is_cancelled() {
        break_off(py, &now);
    }
}

/// Ends what `on_stop` began for an instance.
pub fn forget_stops(_attached: Python<'_>, cancel: &Arc<Cancel>, instance: u64) {
    let flow = key(Some(cancel));
    let mut flows = flows();
    let Some(entry) = flows.get_mut(&flow) else { return };
    let forgotten: Vec<_> = entry.stops.extract_if(.., |(of, _)| *of == instance).collect();
    if entry.is_over() {
        flows.remove(&flow);
    }
    drop(flows);
    // Only now: what they hold may run code of its own when it goes.
    drop(forgotten);
}

/// What it raises has nobody to go to: the flow is over, and says why itself.
fn break_off(py: Python<'_>, stop: &Py<PyAny>) {
    let _ = stop.call0(py);
}

/// From entering user code to leaving it.
struct Inside {
    flow: FlowKey,
    thread: u64,
}

impl Inside {
    fn enter(_attached: Python<'_>, flow: FlowKey) -> Inside {
        let thread = this_thread();
        flows().entry(flow).or_default().threads.push(thread);
        Inside { flow, thread }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if remove(self.flow, self.thread) && self.flow != 0 {
            // An interrupt that came too late must not hit what this thread does next.
            // SAFETY: `Inside` lives only while the thread is attached.
            unsafe {
                pyo3::ffi::PyThreadState_SetAsyncExc(self.thread as c_long, std::ptr::null_mut())
            };
        }
    }
}

fn remove(flow: FlowKey, thread: u64) -> bool {
    let mut flows = flows();
    let Some(entry) = flows.get_mut(&flow) else { return false };
    let found = entry.threads.iter().position(|other| *other == thread);
    if let Some(found) = found {
        entry.threads.swap_remove(found);
    }
    if entry.is_over() {
        flows.remove(&flow);
    }
    found.is_some()
}

/// This thread, as Python counts threads.
fn this_thread() -> u64 {
    // SAFETY: asks the operating system only.
    unsafe { pyo3::ffi::PyThread_get_thread_ident() as u64 }
}
