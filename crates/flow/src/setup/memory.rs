//! Memory accounting of the modules of a process, in bytes: accounts, and reservations on them. The
//! division between modules is a policy ([`euphrates_policy::memory_arbiter`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use euphrates_policy::memory_arbiter::{MemoryArbiter, Position};
use parking_lot::Mutex;

/// The memory of one module in one process.
///
/// ```
/// use euphrates_flow::MemoryAccount;
///
/// let [join, sort] = MemoryAccount::divide(90 << 20, [2, 2]);
/// let rows = join.reservation();
/// rows.grow(60 << 20);
/// assert_eq!(sort.limit_bytes(), 30 << 20, "for both instances");
/// assert_eq!(sort.share_bytes(), 15 << 20, "for each");
/// drop(rows);
/// assert_eq!(sort.limit_bytes(), 90 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct MemoryAccount {
    arbiter: Arc<Mutex<MemoryArbiter>>,
    module: usize,
    instances: usize,
}

impl MemoryAccount {
    /// Accounts of modules that do not feed each other, with these numbers of instances, which
    /// divide `total_bytes`.
    pub fn divide<const N: usize>(total_bytes: usize, instances: [usize; N]) -> [Self; N] {
        let arbiter = Arc::new(Mutex::new(MemoryArbiter::new(total_bytes)));
        instances.map(|instances| MemoryAccount::new(&arbiter, instances, Position::Last))
    }

    /// The account of one more module, with this many instances in the process.
    pub fn new(
        arbiter: &Arc<Mutex<MemoryArbiter>>,
        instances: usize,
        position: Position,
    ) -> MemoryAccount {
        let module = arbiter.lock().add(instances, position);
        MemoryAccount { arbiter: arbiter.clone(), module, instances: instances.max(1) }
    }

    /// The account of a module with a single instance that has all of `total_bytes`.
    pub fn alone(total_bytes: usize) -> MemoryAccount {
        let [account] = MemoryAccount::divide(total_bytes, [1]);
        account
    }

    /// The bytes that all instances in this process may hold together, at the moment. It falls when
    /// other modules hold more: an instance queries it each time it receives rows.
    pub fn limit_bytes(&self) -> usize {
        self.arbiter.lock().limit_bytes(self.module)
    }

    /// The same for what the instances give up before their first output.
    pub fn intake_limit_bytes(&self) -> usize {
        self.arbiter.lock().intake_limit_bytes(self.module)
    }

    /// The part of [`MemoryAccount::intake_limit_bytes`] for one instance.
    pub fn intake_share_bytes(&self) -> usize {
        self.intake_limit_bytes() / self.instances
    }

    /// The part of the limit for one instance.
    pub fn share_bytes(&self) -> usize {
        self.limit_bytes() / self.instances
    }

    /// The share of an instance that cannot follow a changing limit.
    pub fn even_share_bytes(&self) -> usize {
        self.arbiter.lock().even_share_bytes()
    }

    /// Bytes that all instances hold.
    pub fn held_bytes(&self) -> usize {
        self.arbiter.lock().held_bytes(self.module)
    }

    /// A reservation of no bytes.
    pub fn reservation(&self) -> MemoryReservation {
        MemoryReservation { account: self.clone(), bytes: AtomicUsize::new(0) }
    }

    /// Runs `change`, which resizes a reservation and returns its bytes before and after, and
    /// records the difference in the arbiter. Returns the bytes after.
    fn change(&self, change: impl FnOnce() -> (usize, usize)) -> usize {
        let mut arbiter = self.arbiter.lock();
        let (before, now) = change();
        let held_bytes = arbiter.held_bytes(self.module) + now - before;
        arbiter.set(self.module, held_bytes);
        now
    }
}

/// Bytes that a part of a module holds, until it is dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    account: MemoryAccount,
    bytes: AtomicUsize,
}

impl MemoryReservation {
    /// The bytes that are reserved.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Reserves `bytes` in place of those before.
    pub fn resize(&self, bytes: usize) {
        if self.bytes() != bytes {
            self.account.change(|| (self.bytes.swap(bytes, Relaxed), bytes));
        }
    }

    /// Reserves `bytes` more; returns all that are reserved.
    pub fn grow(&self, bytes: usize) -> usize {
        self.account.change(|| {
            let before = self.bytes.fetch_add(bytes, Relaxed);
            (before, before + bytes)
        })
    }

    /// Releases `bytes` of those reserved, or all if fewer are reserved: bytes of batches are
    /// estimates, which change when batches are joined.
    pub fn shrink(&self, bytes: usize) {
        self.account.change(|| {
            let before = self.bytes();
            let now = before.saturating_sub(bytes);
            self.bytes.store(now, Relaxed);
            (before, now)
        });
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservation_never_shrinks_below_nothing() {
        let account = MemoryAccount::alone(1 << 20);
        let reservation = account.reservation();
        reservation.grow(100);
        reservation.shrink(101);
        assert_eq!((reservation.bytes(), account.held_bytes()), (0, 0));
    }
}
