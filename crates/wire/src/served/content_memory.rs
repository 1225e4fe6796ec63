//! The memory of a server for content, which all its requests share.

use parking_lot::{Condvar, Mutex};

/// Memory for content of requests and answers, in bytes; more requests wait.
const CONTENT_BYTES_MAX: u64 = 256 << 20;

/// Memory for the content of requests, taken before it is allocated.
#[derive(Debug, Default)]
pub(super) struct ContentMemory {
    taken: Mutex<u64>,
    freed: Condvar,
}

/// Memory that a request has, until dropped.
pub(super) struct TakenMemory<'a>(&'a ContentMemory, u64);

impl ContentMemory {
    /// Waits until this many bytes are free; all of them, if it wants more than there are.
    pub fn take(&self, bytes: u64) -> TakenMemory<'_> {
        let bytes = bytes.min(CONTENT_BYTES_MAX);
        let mut taken = self.taken.lock();
        while *taken + bytes > CONTENT_BYTES_MAX {
            self.freed.wait(&mut taken);
        }
        *taken += bytes;
        TakenMemory(self, bytes)
    }
}

impl Drop for TakenMemory<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock() -= self.1;
        self.0.freed.notify_all();
    }
}
