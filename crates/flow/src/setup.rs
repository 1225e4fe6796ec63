//! What an instance is given besides its ports: a share of memory, scratch space, and a way to
//! learn that the flow is over.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::Thread;

use crate::error::{Error, Result};

/// Resources of one instance.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which instance of its module this is, from 0.
    pub instance: usize,
    /// How many instances the module has.
    pub instances: usize,
    /// Whether all work is divided in advance, to show what that costs.
    pub is_divided: bool,
    /// The bytes this instance may hold beyond a few batches; only modules whose spec asks for
    /// memory get a share worth having.
    pub memory_bytes: usize,
    /// The memory budget of the whole flow in bytes.
    pub budget_bytes: usize,
    /// Folders for what does not fit the memory, each on a disk of its own; removed after the run.
    pub scratch: Vec<PathBuf>,
    /// Where collections and their catalog live.
    pub home: PathBuf,
    /// A name no other run has.
    pub run_id: String,
    /// The flow's end, if it comes early.
    pub cancel: Arc<Cancel>,
}

/// The one switch that stops a flow.
#[derive(Debug, Default)]
pub struct Cancel {
    cancelled: AtomicBool,
    threads: Mutex<Vec<Thread>>,
}

impl Cancel {
    /// Stops the flow: every `check` from now on fails, and every registered thread is woken.
    pub fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
        let threads = self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        threads.iter().for_each(Thread::unpark);
    }

    /// Whether the flow has been stopped.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    /// Fails if the flow has been stopped.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Has this thread unparked when the flow is stopped.
    pub fn wake_me(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        threads.push(std::thread::current());
    }
}
