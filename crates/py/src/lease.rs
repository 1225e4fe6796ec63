//! A lease of an instance's ports to Python, which ends with the instance.
//!
//! A Python object can outlive the call that receives it, and any thread can use it; the ports
//! allow neither. The lease ends when the instance does, and admits one thread at a time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, ThreadId};

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Cancel, Error, Owner, Ports, Result, Row};
use parking_lot::Mutex;

/// Leased ports. All methods may block, so callers detach from the interpreter.
pub struct Lease {
    ports: Mutex<Option<Lent>>,
    cancel: Arc<Cancel>,
    /// The instance's own thread, which the engine wakes when the flow is cancelled.
    home: ThreadId,
    owner: Owner,
    /// Unique in this process.
    number: u64,
    taken: Mutex<BTreeMap<usize, ReceivedBatches>>,
}

/// What user code has received from an input, for the error message if it raises.
struct ReceivedBatches {
    batches: usize,
    /// Rows before the last batch.
    rows: usize,
    last: RecordBatch,
    /// The position of the last batch in the sequence of all inputs.
    turn: usize,
}

struct Lent(NonNull<Ports>);

// SAFETY: `Ports` may be used by any thread, one at a time, which the lease's lock sees to.
unsafe impl Send for Lent {}

thread_local! {
    /// The flow, as the address of its cancel switch, that wakes this thread when it is cancelled,
    /// if the thread is not an instance's own.
    static WOKEN_BY: Cell<usize> = const { Cell::new(0) };
}

impl Lease {
    /// Leases the ports while `act` runs.
    pub fn lend<R>(ports: &mut Ports, act: impl FnOnce(&Arc<Lease>) -> R) -> R {
        let cancel = ports.setup().cancel.clone();
        let lent = Mutex::new(Some(Lent(NonNull::from(ports))));
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Relaxed);
        let (home, taken) = (thread::current().id(), Mutex::default());
        let lease =
            Arc::new(Lease { ports: lent, cancel, home, owner: Owner::here(), number, taken });
        let _ends = LeaseEnd(&lease);
        act(&lease)
    }

    /// Uses the ports. Fails after the instance has ended.
    pub fn with<R>(&self, act: impl FnOnce(&mut Ports) -> Result<R>) -> Result<R> {
        self.owner.check("the flow")?;
        self.be_woken();
        match &mut *self.ports.lock() {
            // SAFETY: the ports outlive the lease, and the lock excludes other threads.
            Some(Lent(ports)) => act(unsafe { ports.as_mut() }),
            None => Err(Error::usage("the ports were used after `run` had returned")
                .remedy("use ports only inside `run`, and join threads that do")),
        }
    }

    /// Records that user code has received a batch from an input.
    pub fn took(&self, input: usize, batch: &RecordBatch) {
        let mut taken = self.taken.lock();
        let turn = taken.values().map(|one| one.batches).sum();
        let before =
            taken.get(&input).map_or((0, 0), |one| (one.batches, one.rows + one.last.num_rows()));
        let (batches, rows) = (before.0 + 1, before.1);
        taken.insert(input, ReceivedBatches { batches, rows, last: batch.clone(), turn });
    }

    /// The first row of the batch that user code received last, for an error that it raises.
    pub fn last_row(&self, inputs: &[String]) -> Option<Row> {
        let taken = self.taken.lock();
        let filled = taken.iter().filter(|(_, one)| one.last.num_rows() > 0);
        let (input, ReceivedBatches { batches, rows, last, .. }) =
            filled.max_by_key(|(_, one)| one.turn)?;
        let to = rows + last.num_rows() - 1;
        let name = inputs.get(*input).map_or("", String::as_str);
        let about = format!(
            "the first of the batch it took last (batch {} of input `{name}`, rows {rows} to \
             {to}); it cannot be told which",
            batches - 1
        );
        Some(Row::of(last, 0, about))
    }

    /// The cancel switch of the flow.
    pub fn cancel(&self) -> &Arc<Cancel> {
        &self.cancel
    }

    /// The number of the lease.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Registers the current thread to be woken when the flow is cancelled.
    fn be_woken(&self) {
        let flow = Arc::as_ptr(&self.cancel) as usize;
        if thread::current().id() != self.home && WOKEN_BY.replace(flow) != flow {
            self.cancel.register_thread();
        }
    }
}

/// Ends the lease when it is dropped, also after a panic.
struct LeaseEnd<'a>(&'a Lease);

impl Drop for LeaseEnd<'_> {
    fn drop(&mut self) {
        self.0.ports.lock().take();
    }
}
