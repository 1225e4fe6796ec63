//! A mutex lock that ignores poisoning: a panic of one request must not block the others.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex, poisoned or not.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
