//! Lets one thread of a process at a time copy long rows, to bound memory.
//!
//! A reader copies a value several times (the text, the fields, the column), as do an operator
//! (keys, hashes, parts) and a writer (the page, the compressed page). For short rows that is
//! negligible. If a single row fills a good part of the memory budget, only one instance of the
//! process may make copies at a time. The holder of the lock computes, reads files and writes
//! scratch, and waits for no other instance, so it always releases the lock.

use parking_lot::{Mutex, MutexGuard};

/// The right to copy long rows, until it is dropped.
pub type LongRowTurn = MutexGuard<'static, ()>;

/// Waits for the right to copy long rows. A thread that holds it must not ask again.
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
