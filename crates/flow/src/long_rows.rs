//! Lets one thread of a process at a time copy long rows, to bound memory.
//!
//! A reader copies a value several times (the text, the fields, the column), as do an operator
//! (keys, hashes, parts) and a writer (the page, the compressed page). For short rows that is
//! negligible. If a single row fills a large part of the memory budget, only one instance of the
//! process may make copies at a time. The holder of the lock computes, reads files and writes
//! scratch, but never waits for another instance, so it always releases the lock.

use parking_lot::{Mutex, MutexGuard};

/// The right to copy long rows, until it is dropped.
pub type LongRowTurn = MutexGuard<'static, ()>;

/// Acquires the lock for copies of long rows. It is not reentrant.
///
/// ```
/// use euphrates_flow::long_rows::turn;
///
/// let first = turn();
/// let other = std::thread::spawn(|| drop(turn()));
/// drop(first); // Before, the other thread waits.
/// assert!(other.join().is_ok());
/// ```
pub fn turn() -> LongRowTurn {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}
