//! The device queue: accepts requests, executes them on a few threads, and returns completions.
//!
//! The interface is completion-based, as that of an I/O ring is: a request owns its buffer until it
//! completes, and completions carry the tag of their request and arrive in any order.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use euphrates_policy::io_path::{IoPath, Rate};

use super::file::DiskFile;
use super::meter::{DiskMeter, Op};
use crate::buffer::PooledBuffer;

/// The most requests in flight at a device: enough to keep one busy, few enough to keep its order
/// and the buffers bounded.
pub const THREADS_MAX: usize = 4;

/// One request to a device. With [`IoPath::Direct`], offset and length are multiples of
/// [`DiskFile::align_bytes`].
#[derive(Debug)]
pub struct DeviceRequest {
    /// The direction: read or write.
    pub op: Op,
    /// The open file to read or write.
    pub file: Arc<DiskFile>,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The memory to read into or write from; its length is the request's.
    pub buffer: PooledBuffer,
    /// Through the page cache, or direct.
    pub path: IoPath,
    /// The caller's identifier, which the completion returns.
    pub tag: u64,
}

/// The result of a request, which returns its buffer.
#[derive(Debug)]
pub struct Completion {
    /// The tag of the request.
    pub tag: u64,
    /// The buffer of the request.
    pub buffer: PooledBuffer,
    /// Bytes read or written, or the error of the system call.
    pub done: io::Result<usize>,
}

/// A callback for a completion, on a thread of the queue: it must be brief and never wait.
pub(super) type Then = Box<dyn FnOnce(Completion) + Send>;

/// A queue and its threads, which start with the first request and end when the queue is dropped.
pub(super) struct DeviceQueue(Arc<Shared>);

struct Shared {
    name: String,
    state: Mutex<State>,
    work: Condvar,
    pace: Mutex<ThrottlePace>,
    /// Signals a change of the rate: waiting requests compute their turns anew.
    paced: Condvar,
    began: Instant,
}

#[derive(Debug, Default)]
struct ThrottlePace {
    rate: Option<Rate>,
    bytes_per_second: Option<u64>,
    changes: u64,
}

struct Job {
    request: DeviceRequest,
    then: Then,
    meter: Arc<DiskMeter>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl DeviceQueue {
    pub(super) fn new(name: &str) -> DeviceQueue {
        DeviceQueue(Arc::new(Shared {
            name: name.to_string(),
            state: Mutex::default(),
            work: Condvar::new(),
            pace: Mutex::default(),
            paced: Condvar::new(),
            began: Instant::now(),
        }))
    }

    /// Sets the rate limit in bytes per second, or removes it.
    pub(super) fn set_rate(&self, bytes_per_second: Option<u64>) {
        let mut pace = locked(&self.0.pace);
        if pace.bytes_per_second != bytes_per_second {
            pace.rate = bytes_per_second.map(Rate::new);
            pace.bytes_per_second = bytes_per_second;
            pace.changes += 1;
            self.0.paced.notify_all();
        }
    }

    /// Hands a request to the queue, which calls `then` with its completion in every case.
    pub(super) fn submit(&self, request: DeviceRequest, then: Then, meter: &Arc<DiskMeter>) {
        meter.begin(request.op);
        let mut state = locked(&self.0.state);
        state.jobs.push_back(Job { request, then, meter: meter.clone() });
        if state.idle >= state.jobs.len() || state.threads == THREADS_MAX {
            drop(state);
            self.0.work.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        self.start();
    }

    /// Starts a thread; if the system refuses and there is none at all, the caller does the work.
    fn start(&self) {
        let shared = self.0.clone();
        let builder = std::thread::Builder::new().name(format!("disk {}", shared.name));
        if builder.spawn(move || shared.work()).is_err() {
            let mut state = locked(&self.0.state);
            state.threads -= 1;
            let orphan = if state.threads == 0 { state.jobs.pop_front() } else { None };
            drop(state);
            if let Some(job) = orphan {
                self.0.serve(job);
            }
        }
    }
}

impl fmt::Debug for DeviceQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Drop for DeviceQueue {
    fn drop(&mut self) {
        locked(&self.0.state).closed = true;
        self.0.work.notify_all();
    }
}

impl Shared {
    /// The loop of a thread: serves requests until the queue is closed and empty.
    fn work(&self) {
        let mut state = locked(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                self.serve(job);
                state = locked(&self.state);
                continue;
            }
            if state.closed {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn serve(&self, job: Job) {
        let Job { request, then, meter } = job;
        self.take_time(request.buffer.len() as u64);
        let DeviceRequest { op, file, offset, mut buffer, path, tag } = request;
        let result = match op {
            Op::Read => file.read(path, offset, &mut buffer),
            Op::Write => file.write(path, offset, &buffer).map(|()| buffer.len()),
        };
        meter.end(op, result.as_ref().map_or(0, |bytes| *bytes as u64));
        then(Completion { tag, buffer, done: result });
    }

    /// Delays for the time that a disk of the queue's rate would take.
    fn take_time(&self, bytes: u64) {
        let mut pace = locked(&self.pace);
        loop {
            let now = self.began.elapsed();
            let Some(rate) = &mut pace.rate else { return };
            let done = Duration::from_nanos(rate.done_at(now.as_nanos() as u64, bytes));
            let changes = pace.changes;
            while pace.changes == changes {
                let left = done.saturating_sub(self.began.elapsed());
                if left.is_zero() {
                    return;
                }
                let waited = self.paced.wait_timeout(pace, left);
                pace = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Locks of the standard library, which wait in the kernel: those of `parking_lot` list waiting
/// threads in memory of the process, and a forked child would find threads there that it lacks.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
