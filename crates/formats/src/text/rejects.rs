//! What becomes of the records of a text that cannot be read.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

/// The most bytes of a rejected record's text that are kept.
const RECORD_TEXT_MAX: usize = 64 << 10;

/// Reads on behind records that cannot be read.
#[derive(Clone, Debug)]
pub struct ErrorPolicy {
    /// Whether a value that cannot be read becomes a null; if not, its record is left out.
    pub keeps_records: bool,
    /// Takes note of what cannot be read.
    pub rejected: Arc<RejectedRecords>,
}

/// A record, or a value of it, that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRecord {
    /// The file, as errors name it.
    pub file: String,
    /// The line with which the record begins, from 1.
    pub line: u64,
    /// The column that cannot be read; `None` if it is the record.
    pub column: Option<String>,
    /// What is wrong.
    pub reason: String,
    /// The beginning of the record's text.
    pub record: String,
}

impl RejectedRecord {
    /// The text of a record, without its line end; of a very long one, the beginning.
    pub(crate) fn text(record: &[u8]) -> String {
        let shown = &record[..record.len().min(RECORD_TEXT_MAX)];
        String::from_utf8_lossy(shown).trim_matches(['\r', '\n']).to_string()
    }
}

/// The rejected records of the readers of a process. A reader is a thread, and takes its own.
#[derive(Debug, Default)]
pub struct RejectedRecords {
    found: Mutex<HashMap<ThreadId, Vec<RejectedRecord>>>,
    count: AtomicU64,
}

impl RejectedRecords {
    /// Adds one of this thread.
    pub(crate) fn push(&self, rejected: RejectedRecord) {
        self.count.fetch_add(1, Relaxed);
        self.found.lock().entry(thread::current().id()).or_default().push(rejected);
    }

    /// Those that this thread has added since the last call.
    ///
    /// ```
    /// use euphrates_formats::rejects::RejectedRecords;
    ///
    /// assert!(RejectedRecords::default().take().is_empty());
    /// ```
    pub fn take(&self) -> Vec<RejectedRecord> {
        match self.count() {
            0 => vec![],
            _ => self.found.lock().remove(&thread::current().id()).unwrap_or_default(),
        }
    }

    /// The number of all so far.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }
}
