//! A range that one thread fetches, and for which others may wait.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use euphrates_flow::sync::{Condvar, Mutex};

/// A fetch in progress.
pub(super) struct Flight {
    pub(super) range: Range<u64>,
    /// `Some(None)` if it has failed.
    outcome: Mutex<Option<Option<Bytes>>>,
    ended: Condvar,
}

impl Flight {
    pub(super) fn new(range: Range<u64>) -> Flight {
        Flight { range, outcome: Mutex::new(None), ended: Condvar::new() }
    }

    pub(super) fn land(&self, bytes: Bytes) {
        *self.outcome.lock() = Some(Some(bytes));
        self.ended.notify_all();
    }

    /// Ends it, unless it has ended well.
    pub(super) fn fail(&self) {
        self.outcome.lock().get_or_insert(None);
        self.ended.notify_all();
    }

    /// Its bytes, once it has ended; `None` if it has failed.
    pub(super) fn wait(&self) -> Option<Bytes> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Some(bytes) => return bytes.clone(),
                None => self.ended.wait(&mut outcome),
            }
        }
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.range)
    }
}
