//! Calls of user code, and which threads are inside user code of which flow. A cancelled flow can
//! interrupt these threads, and the first exception of a flow reaches the caller of `go`.

use std::collections::BTreeMap;
use std::ffi::c_long;
use std::sync::{Arc, Weak};

use euphrates_flow::{Cancel, Error, Kind, Owner, Result};
use parking_lot::Mutex;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::errors::from_exception;

/// The flow for which user code runs, by its cancel switch; `None` for a flow that is checked.
pub type CallingFlow<'a> = Option<&'a Arc<Cancel>>;

/// The caller during the check of a flow.
pub const CHECKING: CallingFlow<'static> = None;

/// A flow, as the address of its cancel switch; 0 for all that are being checked.
type FlowKey = usize;

#[derive(Default)]
struct Flow {
    /// Threads inside user code.
    threads: Vec<ThreadInside>,
    /// The first exception that user code raised, and the cancel switch of its flow: the weak
    /// reference keeps its address from being reused.
    cause: Option<(PyErr, Weak<Cancel>)>,
    /// The instances and functions of `on_stop`.
    stops: Vec<(u64, Py<PyAny>)>,
}

/// A thread inside user code.
#[derive(Clone, Copy)]
struct ThreadInside {
    /// Python's identifier.
    id: u64,
    /// Whether `interrupt` has raised an exception in it, which may be pending.
    is_interrupted: bool,
}

impl Flow {
    fn is_unused(&self) -> bool {
        self.threads.is_empty() && self.cause.is_none() && self.stops.is_empty()
    }

    /// Whether its exception will not be taken: a worker's flow ends without `take_cause`.
    fn is_abandoned(&self) -> bool {
        let of = self.cause.as_ref().map(|(_, of)| of);
        of.is_some_and(|of| of.strong_count() == 0) && self.threads.is_empty()
    }
}

/// The lock is held briefly, without any call that could release the GIL.
static FLOWS: Mutex<BTreeMap<FlowKey, Flow>> = Mutex::new(BTreeMap::new());

fn key(caller: CallingFlow) -> FlowKey {
    caller.map_or(0, |cancel| Arc::as_ptr(cancel) as usize)
}

/// Calls user code. An exception becomes an error, and is stored as its cause.
pub fn call<'py, T>(
    py: Python<'py>,
    caller: CallingFlow,
    code: impl FnOnce() -> PyResult<T>,
) -> Result<T> {
    let owner = Owner::here();
    let outcome = {
        let _inside = Inside::enter(py, key(caller));
        let outcome = code();
        if !owner.is_here() {
            exit_forked_child(py, outcome.err());
        }
        outcome
    };
    outcome.map_err(|exception| {
        let error = from_exception(py, &exception);
        // What user code raises because the flow is being stopped is an effect, not a cause.
        let is_effect = matches!(error.kind(), Kind::Closed | Kind::Interrupted)
            || caller.is_some_and(|cancel| cancel.is_cancelled());
        if !is_effect || caller.is_none() {
            // Without the frames of this crate.
            keep(caller, PyErr::from_value(exception.value(py).clone().into_any()));
        }
        error
    })
}

/// Exits a forked child that returns from user code. Its remaining frames belong to the parent: the
/// child would write the same files and send on the same connections.
fn exit_forked_child(py: Python<'_>, exception: Option<PyErr>) -> ! {
    let exception = exception.map(|exception| exception.into_value(py));
    // Does not return, unless the interpreter is shutting down.
    let forked = py.import("euphrates._processes.forked");
    let _ = forked.and_then(|forked| forked.call_method1("leave", (exception,)));
    // SAFETY: ends the process without running any of its code.
    unsafe { libc::_exit(1) }
}

/// The result of an instance. After a cancel, any error counts as the interruption, because
/// libraries report it by errors of their own.
pub fn instance_result(cancel: &Cancel, result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != Kind::Closed && cancel.is_cancelled() => {
            Err(Error::interrupted())
        }
        result => result,
    }
}

/// Runs `engine` detached, and marks this thread as outside of user code meanwhile.
pub fn outside<T: Send>(
    py: Python<'_>,
    cancel: &Arc<Cancel>,
    engine: impl FnOnce() -> T + Send,
) -> T {
    let (flow, thread) = (key(Some(cancel)), this_thread());
    let inside = remove(flow, thread);
    let value = py.detach(engine);
    if let Some(inside) = inside {
        FLOWS.lock().entry(flow).or_default().threads.push(inside);
    }
    value
}

/// Stores the first exception of a flow, and drops those of abandoned flows.
fn keep(caller: CallingFlow, exception: PyErr) {
    let late = {
        let mut flows = FLOWS.lock();
        let abandoned: Vec<Flow> = flows
            .extract_if(.., |key, flow| *key != 0 && flow.is_abandoned())
            .map(|(_, of)| of)
            .collect();
        let cause = &mut flows.entry(key(caller)).or_default().cause;
        let of = caller.map(Arc::downgrade).unwrap_or_default();
        let late = match cause {
            // A check replaces the exception of an earlier check.
            Some(_) if caller.is_some() => Some((exception, of)),
            cause => cause.replace((exception, of)),
        };
        (abandoned, late)
    };
    // Dropped after the lock is released, because a finalizer may run user code.
    drop(late);
}

/// Removes and returns the exception that user code raised in a flow.
pub fn take_cause(caller: CallingFlow) -> Option<PyErr> {
    let flow = key(caller);
    let mut flows = FLOWS.lock();
    let cause = flows.get_mut(&flow).and_then(|flow| flow.cause.take());
    let cause = cause.map(|(exception, _)| exception);
    if flows.get(&flow).is_some_and(Flow::is_unused) {
        flows.remove(&flow);
    }
    cause
}

/// Interrupts the flow's user code: raises `KeyboardInterrupt` in every thread that is inside it,
/// and calls the functions of `on_stop`. A thread in C code notices the exception when it returns
/// to Python; the functions are for C code that would not return.
pub fn interrupt(py: Python<'_>, cancel: &Arc<Cancel>) {
    let flow = key(Some(cancel));
    let (threads, stops) = FLOWS.lock().get_mut(&flow).map_or_else(Default::default, |flow| {
        flow.threads.iter_mut().for_each(|thread| thread.is_interrupted = true);
        let stops = flow.stops.iter().map(|(_, stop)| stop.clone_ref(py));
        (flow.threads.clone(), stops.collect::<Vec<_>>())
    });
    let exception = py.get_type::<PyKeyboardInterrupt>();
    for thread in threads {
        // SAFETY: attached; the exception is a class; a thread that does not exist is not found.
        unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(thread.id as c_long, exception.as_ptr()) };
    }
    for stop in stops {
        call_stop(py, &stop);
    }
}

/// Registers a function that is called when the flow is cancelled, until `forget_stops` of the
/// instance.
///
/// It is for libraries that release the GIL and do not return. At the end of the interpreter,
/// Python would end such a thread by unwinding (`pthread_exit`), which aborts the process in C++
/// code that does not expect it.
pub fn on_stop(py: Python<'_>, cancel: &Arc<Cancel>, instance: u64, stop: Py<PyAny>) {
    let now = stop.clone_ref(py);
    FLOWS.lock().entry(key(Some(cancel))).or_default().stops.push((instance, stop));
    if cancel.is_cancelled() {
        call_stop(py, &now);
    }
}

/// Removes the functions of `on_stop` of an instance.
pub fn forget_stops(_attached: Python<'_>, cancel: &Arc<Cancel>, instance: u64) {
    let flow = key(Some(cancel));
    let mut flows = FLOWS.lock();
    let Some(entry) = flows.get_mut(&flow) else { return };
    let forgotten: Vec<_> = entry.stops.extract_if(.., |(of, _)| *of == instance).collect();
    if entry.is_unused() {
        flows.remove(&flow);
    }
    drop(flows);
    // Dropped after the lock is released, because a finalizer may run user code.
    drop(forgotten);
}

/// Calls a function of `on_stop`. Its exception is dropped, because the flow has its own outcome.
fn call_stop(py: Python<'_>, stop: &Py<PyAny>) {
    let _ = stop.call0(py);
}

/// Marks a thread as inside user code until it is dropped.
struct Inside {
    flow: FlowKey,
    thread: u64,
}

impl Inside {
    fn enter(_attached: Python<'_>, flow: FlowKey) -> Inside {
        let thread = this_thread();
        let inside = ThreadInside { id: thread, is_interrupted: false };
        FLOWS.lock().entry(flow).or_default().threads.push(inside);
        Inside { flow, thread }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if remove(self.flow, self.thread).is_some_and(|inside| inside.is_interrupted) {
            absorb_interrupt();
        }
    }
}

/// Lets a pending interrupt of this thread end code that does nothing, instead of the code that the
/// thread runs next. It is not cleared by `PyThreadState_SetAsyncExc` with null: until 3.13, that
/// leaves the interpreter with the mark of a pending exception and without one, so every call looks
/// for it, and a call that a debugger or a coverage tool traces (`sys.settrace`) looks for ever.
fn absorb_interrupt() {
    Python::attach(|py| drop(py.run(c"pass", None, None)));
}

fn remove(flow: FlowKey, thread: u64) -> Option<ThreadInside> {
    let mut flows = FLOWS.lock();
    let entry = flows.get_mut(&flow)?;
    let found = entry.threads.iter().position(|other| other.id == thread);
    let found = found.map(|at| entry.threads.swap_remove(at));
    if entry.is_unused() {
        flows.remove(&flow);
    }
    found
}

/// Python's identifier of this thread.
fn this_thread() -> u64 {
    // SAFETY: asks the operating system only.
    unsafe { pyo3::ffi::PyThread_get_thread_ident() as u64 }
}
