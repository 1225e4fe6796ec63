//! Long rows are copied in turns.
//!
//! A reader copies a value several times (the text, the fields, the column), an operator too (keys,
//! hashes, parts), and a writer as well (the page, the compressed page). Beside short rows that is
//! nothing. Where a single row fills a good part of the memory budget, one instance of the process
//! makes copies at a time. The instance that has the turn computes, reads files and writes scratch,
//! and waits for no other instance, so the turn always passes on.

use std::sync::{Mutex, MutexGuard};

/// The right to copy long rows, until it is dropped.
pub type Turn = MutexGuard<'static, ()>;

/// Waits for the turn. A thread that has it must not ask again.
pub fn turn() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
