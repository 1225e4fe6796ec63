//! The device queue: requests in, completions out, a few threads between.
//!
//! The interface is completion-shaped, as that of a ring is: a request owns its buffer until it
//! completes, and completions carry the tag of their request and come in any order.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use euphrates_policy::device::{Rate, Way};

use super::file::DiskFile;
use crate::buffer::PooledBuffer;

/// Requests that are with the device at once: enough to keep one busy, few enough to keep its
/// order and the buffers bounded.
pub const THREADS_MAX: usize = 4;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Fills the buffer, or as much of it as the file has from the offset on.
    Read,
    /// Writes all of the buffer.
    Write,
}

/// One request to a device. With [`Way::Direct`], offset and length are multiples of
/// [`DiskFile::align_bytes`].
#[derive(Debug)]
pub struct Request {
    /// Read or write.
    pub op: Op,
    /// The file.
    pub file: Arc<DiskFile>,
    /// Where in the file.
    pub offset: u64,
    /// What is read into or written from; its length is the request's.
    pub buffer: PooledBuffer,
    /// Through the cache or past it.
    pub way: Way,
    /// Comes back in the completion.
    pub tag: u64,
}

/// The end of a request.
#[derive(Debug)]
pub struct Completion {
    /// Of the request.
    pub tag: u64,
    /// Of the request.
    pub buffer: PooledBuffer,
    /// Bytes read or written.
    pub done: io::Result<usize>,
}

/// What is done with a completion, on a thread of the queue: brief, and never waiting.
pub(super) type Then = Box<dyn FnOnce(Completion) + Send>;

/// A queue and its threads, which start with the first request and end when the queue is dropped.
pub(super) struct Queue(Arc<Shared>);

struct Shared {
    name: String,
    state: Mutex<State>,
    work: Condvar,
    rate: Option<Mutex<Rate>>,
    began: Instant,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(Request, Then)>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Queue {
    pub(super) fn new(name: &str, bytes_per_second: Option<u64>) -> Queue {
        Queue(Arc::new(Shared {
            name: name.to_string(),
            state: Mutex::default(),
            work: Condvar::new(),
            rate: bytes_per_second.map(|rate| Mutex::new(Rate::new(rate))),
            began: Instant::now(),
        }))
    }

    /// Hands a request over. `then` is called with its completion, whatever happens.
    pub(super) fn submit(&self, request: Request, then: Then) {
        let mut state = self.0.lock();
        state.jobs.push_back((request, then));
        if state.idle >= state.jobs.len() || state.threads == THREADS_MAX {
            drop(state);
            return self.0.work.notify_one();
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
            let mut state = self.0.lock();
            state.threads -= 1;
            let orphan = if state.threads == 0 { state.jobs.pop_front() } else { None };
            drop(state);
            if let Some((request, then)) = orphan {
                self.0.serve(request, then);
            }
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The life of a thread: serves until the queue is closed and empty.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some((request, then)) = state.jobs.pop_front() {
                drop(state);
                self.serve(request, then);
                state = self.lock();
                continue;
            }
            if state.closed {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            state.idle -= 1;
        }
    }

    fn serve(&self, request: Request, then: Then) {
        self.wait_for_turn(request.buffer.len() as u64);
        let Request { op, file, offset, mut buffer, way, tag } = request;
        let result = match op {
            Op::Read => file.read(way, offset, &mut buffer),
            Op::Write => file.write(way, offset, &buffer).map(|()| buffer.len()),
        };
        then(Completion { tag, buffer, done: result });
    }

    fn wait_for_turn(&self, bytes: u64) {
        let Some(rate) = &self.rate else { return };
        let now = self.began.elapsed();
        let start = {
            let mut rate = rate.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            Duration::from_nanos(rate.start_at(now.as_nanos() as u64, bytes))
        };
        if start > now {
            std::thread::sleep(start - now);
        }
    }
}
