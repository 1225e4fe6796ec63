//! What an instance is given besides its ports: a share of memory, scratch space, and a way to
//! learn that the flow is over.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::Thread;

use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Names the record that decides whether the outputs of one run are published. Whoever finds an
/// output prepared but not published looks there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRef {
    /// The folder of records, in the home folder of the program that runs the flow.
    pub folder: PathBuf,
    /// What tells this folder from one of the same path on another machine.
    pub folder_id: String,
    /// The run.
    pub run_id: String,
}

/// Resources of one instance.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The module's name in the flow.
    pub module: String,
    /// The name of the worker it runs at.
    pub worker: String,
    /// Which instance of its module this is, from 0.
    pub instance: usize,
    /// How many instances the module has.
    pub instances: usize,
    /// Whether all of them are in this process.
    pub is_whole: bool,
    /// How many of them are in this process.
    pub instances_here: usize,
    /// Whether all work is divided in advance, to show what that costs.
    pub is_divided: bool,
    /// The bytes this instance may hold beyond a few batches; only modules whose spec asks for
    /// memory get a share worth having.
    pub memory_bytes: usize,
    /// The memory budget of the whole flow in bytes.
    pub budget_bytes: usize,
    /// The bytes a row may have that the instance puts.
    pub row_bytes_max: usize,
    /// Folders for what does not fit the memory, each on a disk of its own; removed after the run.
    pub scratch: Vec<PathBuf>,
    /// Where collections and their catalog live.
    pub home: PathBuf,
    /// A name no other run has.
    pub run_id: String,
    /// Where it is decided whether outputs are published, if the flow has several.
    pub decision: Option<DecisionRef>,
    /// The flow's end, if it comes early.
    pub cancel: Arc<Cancel>,
    /// What the instances agree on, wherever they are.
    pub commons: Arc<dyn Commons>,
    /// What the module's instances in other processes have.
    pub exchange: Arc<dyn Exchange>,
}

impl Setup {
    /// The error of a row of this length, which is longer than the instance may put.
    pub fn refuse_row(&self, bytes: usize) -> Error {
        let mib = |bytes: usize| format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64);
        let message = format!(
            "a row has {}; with memory={}MiB no row of this flow may have more than {}, since \
             each instance and each queue may hold one",
            mib(bytes),
            self.budget_bytes >> 20,
            mib(self.row_bytes_max)
        );
        let wanted = (self.budget_bytes >> 20) * bytes.div_ceil(self.row_bytes_max.max(1));
        Error::resource(message).remedy(format!(
            "give the flow more memory (`memory=\"{wanted}MiB\"`), or fewer instances (`cores=`)"
        ))
    }

    /// The next number of this name, of those that the module's instances share: of what is done
    /// next by whoever is free. What others wait for comes first.
    pub fn next(&self, name: &str) -> Result<u64> {
        while !self.exchange.may_take(false)? {}
        self.commons.next(&format!("{}/{name}", self.module))
    }

    /// How many numbers of this name have been given.
    pub fn given(&self, name: &str) -> Result<u64> {
        self.commons.given(&format!("{}/{name}", self.module))
    }

    /// Waits until this process may take one more of what whoever is free takes: while others wait
    /// for this process alone, and, if what is taken `is_shared` with others, for as long as it is
    /// to leave it to them. Not if nothing is left by then.
    pub fn may_take(&self, is_shared: bool, is_left: impl Fn() -> Result<bool>) -> Result<bool> {
        while !self.exchange.may_take(is_shared)? {
            if !is_left()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Brings a value, and waits for those of all the module's instances: in their order.
    pub fn gather(&self, name: &str, value: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let name = format!("{}/{name}", self.module);
        self.commons.gather(&name, self.instance, self.instances, value)
    }

    /// Waits for the values that all the module's instances bring, without bringing one.
    pub fn learn(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        self.commons.learn(&format!("{}/{name}", self.module))
    }
}

/// Batches, one after the other.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// What instances of one module have that are in other processes: each process gives what it is
/// asked for (see `Placed::serve`).
pub trait Exchange: Debug + Send + Sync {
    /// The numbers of the other processes that have instances of the module.
    fn others(&self) -> Vec<usize>;

    /// The number of this process.
    fn me(&self) -> usize;

    /// The name of the worker that a process is.
    fn name(&self, process: usize) -> &str;

    /// Tells the module in another process something (see `Placed::on_told`). Never waits; what is
    /// told to one process comes in the order it was told.
    fn tell(&self, process: usize, letter: &[u8], body: Vec<Buffer>);

    /// What each of the others makes of a request. All are asked at once; the batches come as fast
    /// as they are taken.
    fn fetch(&self, request: u64) -> Result<Vec<Batches>>;

    /// Whether this process may take something for itself. While others wait for it alone it may
    /// not, nor, if that `is_shared` with others, when they have waited for so long that it is to
    /// leave work to them. Waits for a while before it says no.
    fn may_take(&self, is_shared: bool) -> Result<bool>;
}

/// Of a module whose instances are all in one process.
#[derive(Debug)]
pub struct NoExchange;

impl Exchange for NoExchange {
    fn others(&self) -> Vec<usize> {
        vec![]
    }

    fn me(&self) -> usize {
        0
    }

    fn name(&self, _: usize) -> &str {
        ""
    }

    fn tell(&self, _: usize, _: &[u8], _: Vec<Buffer>) {}

    fn fetch(&self, _: u64) -> Result<Vec<Batches>> {
        Ok(vec![])
    }

    fn may_take(&self, _: bool) -> Result<bool> {
        Ok(true)
    }
}

/// What instances in several processes agree on: small things, seldom.
pub trait Commons: Debug + Send + Sync {
    /// The next number of this name, from 0: every number goes to one who asks.
    fn next(&self, name: &str) -> Result<u64>;

    /// How many numbers of this name have been given.
    fn given(&self, name: &str) -> Result<u64>;

    /// Brings the value of one of so many members, and waits for those of all: in their order.
    fn gather(
        &self,
        name: &str,
        member: usize,
        members: usize,
        value: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>>;

    /// Waits for the values that all members bring, for somebody who is none.
    fn learn(&self, name: &str) -> Result<Vec<Vec<u8>>>;
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
