//! The connection of a child process to its worker. Requests are sent one at a time; a thread
//! receives messages, also while user code computes.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Cancel, Error, Result};
use euphrates_wire::{Caps, Frame, FrameReceiver, FrameSender};
use parking_lot::Mutex;
use pyo3::prelude::*;

use super::messages::{self, ChildMessage, Codec, WorkerMessage};
use crate::user_code::interrupt;

/// Rows of the instance's input that earlier processes received.
static ROWS_BEFORE: AtomicUsize = AtomicUsize::new(0);

/// The connection of this process; unset in a process that is no child of a worker.
static CHANNEL: OnceLock<Arc<WorkerChannel>> = OnceLock::new();

/// Rows of the instance's input that earlier processes received; 0 outside of a child process.
pub fn rows_before() -> usize {
    ROWS_BEFORE.load(Relaxed)
}

/// Sets the value of `rows_before`.
pub fn set_rows_before(rows: usize) {
    ROWS_BEFORE.store(rows, Relaxed);
}

/// Reports rows read from outside the flow to the worker. Returns false outside of a child process.
pub fn count_rows(rows: usize, bytes: usize) -> Result<bool> {
    let Some(channel) = CHANNEL.get() else { return Ok(false) };
    channel.ask(&ChildMessage::Count { rows, bytes }, None).map(|_| true)
}

/// A message of the worker and its frame, which may hold a batch.
pub type WorkerFrame = (WorkerMessage, Frame);

/// The connection to the worker.
pub struct WorkerChannel {
    out: Mutex<FrameSender<UnixStream>>,
    received: Mutex<mpsc::Receiver<WorkerFrame>>,
    /// The cancel switch of the current instance.
    cancel: Mutex<Option<Arc<Cancel>>>,
}

impl WorkerChannel {
    /// Takes over the socket, which is standard input, as the connection of this process.
    pub fn open() -> Result<&'static Arc<WorkerChannel>> {
        let lost = |error: std::io::Error| Error::os("use", "the line to the worker", &error);
        // User code must not read from the socket.
        let taken = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3);
        let taken: OwnedFd = taken.map_err(|error| lost(error.into()))?;
        let nothing = std::fs::File::open("/dev/null").map_err(lost)?;
        rustix::stdio::dup2_stdin(&nothing).map_err(|error| lost(error.into()))?;
        let out = UnixStream::from(taken);
        let read = out.try_clone().map_err(lost)?;
        let (sender, received) = channel();
        let opened = Arc::new(WorkerChannel {
            out: Mutex::new(FrameSender::new(out)),
            received: Mutex::new(received),
            cancel: Mutex::default(),
        });
        let reading = opened.clone();
        let read = move || reading.read(FrameReceiver::new(read, Caps::KNOWN), &sender);
        thread::Builder::new().name("worker".into()).spawn(read).map_err(lost)?;
        Ok(CHANNEL.get_or_init(|| opened))
    }

    /// Receives messages, also while user code computes. Exits the process when the worker is gone.
    fn read(&self, mut receiver: FrameReceiver<UnixStream>, sender: &mpsc::Sender<WorkerFrame>) {
        while let Ok(Some((message, frame))) = messages::receive(&mut receiver) {
            match message {
                WorkerMessage::Stop => self.stop(),
                message => drop(sender.send((message, frame))),
            }
        }
        // User code may hold any lock that an orderly exit would wait for.
        // SAFETY: ends the process without running any of its code.
        unsafe { libc::_exit(0) }
    }

    fn stop(&self) {
        let Some(cancel) = self.cancel.lock().clone() else { return };
        cancel.cancel();
        // On its own thread: C code may hold the GIL for long, and messages must still be received.
        let interrupting = move || Python::try_attach(|py| interrupt(py, &cancel));
        // If no thread can be started, the worker kills this process a little later.
        drop(thread::Builder::new().name("stop".into()).spawn(interrupting));
    }

    /// Sends a message without waiting for a reply.
    pub fn send(&self, message: &ChildMessage) -> Result<()> {
        messages::send(&mut self.out.lock(), message, None)
    }

    /// Sends a request, and waits for the reply.
    pub fn ask(
        &self,
        request: &ChildMessage,
        batch: Option<(&mut Codec, &RecordBatch)>,
    ) -> Result<WorkerFrame> {
        messages::send(&mut self.out.lock(), request, batch)?;
        let received = self.received.lock().recv();
        match received.map_err(|_| Error::interrupted())? {
            (WorkerMessage::Failed { error }, _) => Err(error),
            received => Ok(received),
        }
    }

    /// Receives the next message; an error after `timeout`, or if the worker is gone.
    pub fn receive(&self, timeout: Duration) -> Result<WorkerFrame, RecvTimeoutError> {
        self.received.lock().recv_timeout(timeout)
    }

    /// Sets the cancel switch of the current instance, which `Stop` cancels.
    pub fn set_cancel(&self, cancel: Option<Arc<Cancel>>) {
        *self.cancel.lock() = cancel;
    }
}
