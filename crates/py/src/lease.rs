//! An instance's ports, lent to Python for as long as the instance runs.
//!
//! A Python object can outlive the call it was given to, and can be used from any thread; the ports
//! can do neither. A lease stands between: it ends when the instance does, and lets one thread in
//! at a time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Cancel, Error, Owner, Ports, Result, Row};

/// Ports on loan. Everything here may wait and is to be called detached.
pub struct Lease {
    ports: Mutex<Option<Lent>>,
    cancel: Arc<Cancel>,
    /// The instance's own thread, which the engine wakes when the flow is stopped.
    home: ThreadId,
    owner: Owner,
    /// No other loan of this process has it.
    number: u64,
    taken: Mutex<BTreeMap<usize, Taken>>,
}

/// What user code has taken of an input, for when it raises.
struct Taken {
    batches: usize,
    /// Before the last batch.
    rows: usize,
    last: RecordBatch,
    /// When it was, among what was taken of all inputs.
    turn: usize,
}

struct Lent(NonNull<Ports>);

// SAFETY: `Ports` may be used by any thread, one at a time, which the lease's lock sees to.
unsafe impl Send for Lent {}

thread_local! {
    /// The flow (its switch's address) that wakes this thread when it is stopped, if the thread is
    /// not an instance's own.
    static WOKEN_BY: Cell<usize> = const { Cell::new(0) };
}

impl Lease {
    /// Lends the ports while `act` runs. Afterwards nobody has them.
    pub fn lend<R>(ports: &mut Ports, act: impl FnOnce(&Arc<Lease>) -> R) -> R {
        let cancel = ports.setup().cancel.clone();
        let lent = Mutex::new(Some(Lent(NonNull::from(ports))));
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Relaxed);
        let (home, taken) = (thread::current().id(), Mutex::default());
        let lease =
            Arc::new(Lease { ports: lent, cancel, home, owner: Owner::here(), number, taken });
        let _ends = Ends(&lease);
        act(&lease)
    }

    /// Uses the ports; fails once the instance has ended.
    pub fn with<R>(&self, act: impl FnOnce(&mut Ports) -> Result<R>) -> Result<R> {
        self.owner.check("the flow")?;
        self.be_woken();
        match &mut *self.lock() {
            // SAFETY: the ports outlive the loan, and the lock keeps others out.
            Some(Lent(ports)) => act(unsafe { ports.as_mut() }),
            None => Err(Error::usage("the ports were used after `run` had returned")
                .remedy("use ports only inside `run`, and join threads that do")),
        }
    }

    /// User code has taken a batch of an input.
    pub fn took(&self, input: usize, batch: &RecordBatch) {
        let mut taken = self.taken();
        let turn = taken.values().map(|one| one.batches).sum();
        let before =
            taken.get(&input).map_or((0, 0), |one| (one.batches, one.rows + one.last.num_rows()));
        let (batches, rows) = (before.0 + 1, before.1);
        taken.insert(input, Taken { batches, rows, last: batch.clone(), turn });
    }

    /// The first row of what user code took last: it was at work on that, or on what it has kept.
    pub fn last_row(&self, inputs: &[String]) -> Option<Row> {
        let taken = self.taken();
        let filled = taken.iter().filter(|(_, one)| one.last.num_rows() > 0);
        let (input, Taken { batches, rows, last, .. }) = filled.max_by_key(|(_, one)| one.turn)?;
        let to = rows + last.num_rows() - 1;
        let name = inputs.get(*input).map_or("", String::as_str);
        let about = format!(
            "the first of the batch it took last (batch {} of input `{name}`, rows {rows} to \
             {to}); it cannot be told which",
            batches - 1
        );
        Some(Row::of(last, 0, about))
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<usize, Taken>> {
        self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The switch that stops its flow.
    pub fn cancel(&self) -> &Arc<Cancel> {
        &self.cancel
    }

    /// The number of the loan.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The end of a flow must reach threads that wait at its queues.
    fn be_woken(&self) {
        let flow = Arc::as_ptr(&self.cancel) as usize;
        if thread::current().id() != self.home && WOKEN_BY.replace(flow) != flow {
            self.cancel.wake_me();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Lent>> {
        self.ports.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Ends the loan, also when its user panics.
struct Ends<'a>(&'a Lease);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}
