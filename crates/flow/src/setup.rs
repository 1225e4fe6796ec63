//! The setup of an instance: its memory share, scratch space, coordination with other instances,
//! and cancellation.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::Thread;
use std::time::Duration;

use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;
use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::setup::claim_gate::ClaimGate;
use crate::setup::memory::MemoryAccount;

pub mod cache_grant;
pub mod claim_gate;
pub mod memory;
pub mod threads;

/// Names the record that decides whether the outputs of a run are published. A process that finds
/// an output prepared but not published reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRef {
    /// The folder of records, in the home folder of the program that runs the flow.
    pub folder: PathBuf,
    /// Distinguishes this folder from one of the same path on another machine.
    pub folder_id: String,
    /// The id of the run.
    pub run_id: String,
}

/// The resources of one instance.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The module's name in the flow.
    pub module: String,
    /// The name of the worker that runs it.
    pub worker: String,
    /// The number of the instance within its module, from 0.
    pub instance: usize,
    /// The number of instances of the module.
    pub instances: usize,
    /// Whether all instances are in this process.
    pub is_in_one_process: bool,
    /// The number of instances in this process.
    pub instances_here: usize,
    /// Whether all work is assigned in advance, to measure what that costs.
    pub is_statically_divided: bool,
    /// The memory that the module's instances in this process may hold beyond a few batches. Only
    /// modules whose spec asks for memory get a useful share.
    pub memory: MemoryAccount,
    /// The memory budget of the whole flow in bytes.
    pub budget_bytes: usize,
    /// The maximum bytes of a row that the instance puts.
    pub row_bytes_max: usize,
    /// Folders for spilled data, each on a disk of its own; removed after the run.
    pub scratch: Vec<PathBuf>,
    /// The folder of collections and their catalog.
    pub home: PathBuf,
    /// A name that is unique to this run.
    pub run_id: String,
    /// The record that decides whether the outputs are published, if the flow has several.
    pub decision: Option<DecisionRef>,
    /// Cancels the flow before its end.
    pub cancel: Arc<Cancel>,
    /// Coordination between all instances, in any process.
    pub coordination: Arc<dyn Coordination>,
    /// Exchange with the module's instances in other processes.
    pub exchange: Arc<dyn Exchange>,
    /// Holds back the claims of the module's instances in this process while it drains.
    pub claims: Arc<ClaimGate>,
}

impl Setup {
    /// The setup of an only instance without memory, folders and names; the others are made of it.
    pub fn alone(coordination: Arc<dyn Coordination>, cancel: Arc<Cancel>) -> Setup {
        Setup {
            module: String::new(),
            worker: String::new(),
            instance: 0,
            instances: 1,
            is_in_one_process: true,
            instances_here: 1,
            is_statically_divided: false,
            memory: MemoryAccount::alone(0),
            budget_bytes: 0,
            row_bytes_max: usize::MAX,
            scratch: vec![],
            home: PathBuf::new(),
            run_id: String::new(),
            decision: None,
            cancel,
            coordination,
            exchange: Arc::new(NoExchange),
            claims: Arc::default(),
        }
    }

    /// The error for a row of `bytes`, which is longer than the instance may put.
    pub fn row_too_long(&self, bytes: usize) -> Error {
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

    /// Takes the next number of this shared counter of the module, to claim a unit of work. Peers'
    /// pending fetches are served first.
    pub fn fetch_add(&self, name: &str) -> Result<u64> {
        while !self.exchange.may_take(false)? {}
        self.coordination.fetch_add(&format!("{}/{name}", self.module))
    }

    /// The value of this shared counter: how many numbers have been taken.
    pub fn load(&self, name: &str) -> Result<u64> {
        self.coordination.load(&format!("{}/{name}", self.module))
    }

    /// Waits until this process may claim another unit of work. It may not while peers are blocked
    /// on this process alone, nor, if the unit `is_shared` with other processes, while the
    /// straggler throttle or a drain holds it back. Returns false if no work `is_left` by then.
    pub fn may_take(&self, is_shared: bool, is_left: impl Fn() -> Result<bool>) -> Result<bool> {
        self.may_take_for(&self.claims, is_shared, is_left)
    }

    /// The same, for another module that claims work of this one.
    pub fn may_take_for(
        &self,
        claims: &ClaimGate,
        is_shared: bool,
        is_left: impl Fn() -> Result<bool>,
    ) -> Result<bool> {
        let check = || self.cancel.check();
        let passes = || if is_shared { claims.pass(check) } else { Ok(true) };
        while !self.exchange.may_take(is_shared)? || !passes()? {
            if !is_left()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All-gather: contributes a value, and waits for the values of all instances of the module, in
    /// their order. Fails with `Closed` if one of them has ended before all have contributed,
    /// because its consumers had enough: they are the consumers of all, unless the queue behind
    /// them is pairwise; then all-gathers never end early.
    pub fn all_gather(&self, name: &str, value: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let member = (self.instance, self.instances);
        self.coordination.all_gather(self.gather(name), member, value)
    }

    /// The value that one instance of the module proposes: the one that calls first, in any
    /// process. Others wait for its value only.
    pub fn agree(&self, name: &str, propose: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let proposers = format!("{}/{name}/proposers", self.module);
        let values = match self.coordination.fetch_add(&proposers)? {
            0 => self.coordination.all_gather(self.gather(name), (0, 1), propose()?)?,
            _ => self.observe(name)?,
        };
        let malformed = || Error::corrupt("an agreement has one value");
        values.into_iter().next().ok_or_else(malformed)
    }

    /// Waits for the values that all instances of the module contribute, without contributing one.
    /// Fails with `Closed` like [`Setup::all_gather`].
    pub fn observe(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        self.coordination.observe(self.gather(name))
    }

    /// Ends the all-gathers of the module, which this instance leaves because its consumers have
    /// had enough. For the engine.
    pub fn leave_gathers(&self) {
        self.coordination.leave_gathers(&self.module);
    }

    fn gather<'a>(&'a self, name: &'a str) -> GatherName<'a> {
        GatherName { module: &self.module, name }
    }
}

/// A stream of batches.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Exchange between the instances of one module in different processes: each process answers fetch
/// requests (see `ExchangeServer`) and receives messages.
pub trait Exchange: Debug + Send + Sync {
    /// The numbers of the other processes that have instances of the module.
    fn others(&self) -> Vec<usize>;

    /// The number of this process.
    fn me(&self) -> usize;

    /// The name of the worker that runs a process.
    fn name(&self, process: usize) -> &str;

    /// Sends a message to the module in another process (see `ExchangeServer::on_message`). Never
    /// waits. Messages to one process arrive in the order they were sent.
    fn send(&self, process: usize, message: &[u8], body: Vec<Buffer>);

    /// Fetches the answer of each other process to a request. All are asked at once, and the
    /// batches arrive as fast as they are consumed.
    fn fetch(&self, request: u64) -> Result<Vec<Batches>>;

    /// Whether this process may claim work. It may not while peers are blocked on this process
    /// alone, nor, if the work `is_shared`, while the straggler throttle holds it back. Waits for a
    /// while before it returns false.
    fn may_take(&self, is_shared: bool) -> Result<bool>;
}

/// The exchange of a module whose instances are all in one process.
///
/// ```
/// use euphrates_flow::{Exchange, NoExchange};
///
/// assert!(NoExchange.others().is_empty() && NoExchange.fetch(0)?.is_empty());
/// assert!(NoExchange.may_take(true)?, "there is no peer to wait for");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
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

    fn send(&self, _: usize, _: &[u8], _: Vec<Buffer>) {}

    fn fetch(&self, _: u64) -> Result<Vec<Batches>> {
        Ok(vec![])
    }

    fn may_take(&self, _: bool) -> Result<bool> {
        Ok(true)
    }
}

/// The name of an all-gather.
#[derive(Clone, Copy, Debug)]
pub struct GatherName<'a> {
    /// The module whose instances contribute.
    pub module: &'a str,
    /// Its name in the module.
    pub name: &'a str,
}

/// Coordination of instances in several processes, for small values that are exchanged rarely.
pub trait Coordination: Debug + Send + Sync {
    /// Takes the next number of a shared counter, from 0; each number is returned once.
    fn fetch_add(&self, name: &str) -> Result<u64>;

    /// How many numbers of the counter have been taken.
    fn load(&self, name: &str) -> Result<u64>;

    /// All-gather: contributes the value of a member (its number, and that of all members), and
    /// waits for those of all, in their order. Fails with `Closed` if one of the module's instances
    /// has left its gathers before all have contributed.
    fn all_gather(
        &self,
        gather: GatherName<'_>,
        member: (usize, usize),
        value: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>>;

    /// Waits for the values of all members, without being one of them; fails like `all_gather`.
    fn observe(&self, gather: GatherName<'_>) -> Result<Vec<Vec<u8>>>;

    /// Ends all gathers of a module that are not complete, now and later, because one of its
    /// instances will contribute to none any more. Never waits.
    fn leave_gathers(&self, module: &str);
}

/// How long a thread that cannot be unparked waits before it checks whether its flow has been
/// cancelled.
pub const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Cancels a flow and wakes its threads.
///
/// ```
/// use euphrates_flow::{Cancel, Kind};
///
/// let cancel = Cancel::default();
/// assert!(cancel.check().is_ok());
/// cancel.cancel();
/// assert_eq!(cancel.check().unwrap_err().kind(), Kind::Interrupted);
/// ```
#[derive(Debug, Default)]
pub struct Cancel {
    cancelled: AtomicBool,
    threads: Mutex<Vec<Thread>>,
}

impl Cancel {
    /// Cancels the flow: every `check` from now on fails, and every registered thread is unparked.
    pub fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
        self.unpark_threads();
    }

    /// Unparks every registered thread, so that it checks again what it waits for.
    pub fn unpark_threads(&self) {
        self.threads.lock().iter().for_each(Thread::unpark);
    }

    /// Whether the flow has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    /// Fails if the flow has been cancelled.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Waits for a notification of `changed`, at most [`CANCEL_POLL_INTERVAL`] long, then fails if
    /// the flow has been cancelled. The caller checks its condition before each call.
    pub fn wait<T>(&self, changed: &Condvar, state: &mut MutexGuard<'_, T>) -> Result<()> {
        self.check()?;
        changed.wait_for(state, CANCEL_POLL_INTERVAL);
        self.check()
    }

    /// Waits for a value, and fails if the flow is cancelled or all senders have been dropped.
    ///
    /// ```
    /// use euphrates_flow::{Cancel, Kind};
    /// use std::sync::mpsc::channel;
    ///
    /// let (sender, receiver) = channel();
    /// sender.send(7).unwrap();
    /// assert_eq!(Cancel::default().receive(&receiver)?, 7);
    /// drop(sender);
    /// let error = Cancel::default().receive(&receiver).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Interrupted);
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn receive<T>(&self, from: &Receiver<T>) -> Result<T> {
        loop {
            match from.recv_timeout(CANCEL_POLL_INTERVAL) {
                Ok(value) => return Ok(value),
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::interrupted()),
            }
        }
    }

    /// Registers the calling thread to be unparked when the flow is cancelled.
    pub fn register_thread(&self) {
        let mut threads = self.threads.lock();
        threads.push(std::thread::current());
    }
}
