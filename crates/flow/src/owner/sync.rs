//! Locks that forked children can use.
//!
//! They wait in the kernel. Those of `parking_lot` list waiting threads in a table of the process:
//! a child that is forked while another thread uses the table finds a part of it locked by a thread
//! that it does not have, and waits forever at its own locks. What a child may use after a fork,
//! files and disks, therefore has these locks.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

/// A lock that is not poisoned: a panic of its holder releases it.
///
/// ```
/// use euphrates_flow::sync::Mutex;
///
/// let names = Mutex::new(vec!["one"]);
/// names.lock().push("two");
/// assert_eq!(names.into_inner(), ["one", "two"]);
/// ```
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

/// The value of a [`Mutex`] while it is locked.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized>(Option<std::sync::MutexGuard<'a, T>>);

/// Wakes threads that wait for a change of the value of a [`Mutex`].
///
/// ```
/// use euphrates_flow::sync::{Condvar, Mutex};
///
/// let (is_done, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *is_done.lock() = true;
///         changed.notify_all();
///     });
///     let mut done = is_done.lock();
///     while !*done {
///         changed.wait(&mut done);
///     }
/// });
/// ```
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

/// Whether a wait has ended because its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimedOut(bool);

impl<T> Mutex<T> {
    /// An unlocked value.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// The value of a lock that nobody can hold any more.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until no other thread holds the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The value, to which there is no other reference.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is only empty while it waits")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is only empty while it waits")
    }
}

impl Condvar {
    /// Nobody waits.
    pub const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    /// Unlocks the value, waits for a notification, and locks it again. May return without one.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("it is locked");
        guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// As `wait`, for at most this time.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimedOut {
        let held = guard.0.take().expect("it is locked");
        let waited = self.0.wait_timeout(held, time).unwrap_or_else(PoisonError::into_inner);
        guard.0 = Some(waited.0);
        WaitTimedOut(waited.1.timed_out())
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl WaitTimedOut {
    /// Whether the time was over.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_of_the_holder_releases_the_lock() {
        let value = Mutex::new(1);
        let panicked = std::panic::catch_unwind(|| {
            *value.lock() = 2;
            let _held = value.lock_and_panic();
        });
        assert!(panicked.is_err());
        assert_eq!(*value.lock(), 2);
    }

    impl Mutex<i32> {
        fn lock_and_panic(&self) -> MutexGuard<'_, i32> {
            let _held = self.lock();
            panic!("while it is held");
        }
    }

    #[test]
    fn wait_ends_with_its_time_and_holds_the_lock() {
        let (value, changed) = (Mutex::new(5), Condvar::new());
        let mut held = value.lock();
        assert!(changed.wait_for(&mut held, Duration::from_millis(1)).timed_out());
        *held += 1;
        drop(held);
        assert_eq!(value.into_inner(), 6);
    }
}
