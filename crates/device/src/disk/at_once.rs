//! Parallel operations on several disks: each waits for its own disk, so a slow one delays no
//! other.

use std::panic::resume_unwind;
use std::thread;

use euphrates_flow::Result;
use euphrates_flow::sync::Mutex;

/// The most disks on which operations run at once.
const AT_ONCE_MAX: usize = 64;

/// Applies the operation to every item in any order, and returns when none is in flight. Fails if
/// one of them fails; the others may or may not have been done.
///
/// ```
/// use euphrates_device::disk::at_once;
/// use euphrates_flow::Error;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let sum = AtomicU64::new(0);
/// at_once(1..=10, |number| {
///     sum.fetch_add(number, Relaxed);
///     Ok(())
/// })?;
/// assert_eq!(sum.into_inner(), 55);
/// assert!(at_once([1, 2], |_| Err(Error::failed("a disk is lost"))).is_err());
/// # Ok::<(), Error>(())
/// ```
pub fn at_once<T: Send>(
    items: impl IntoIterator<Item = T>,
    act: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let items: Vec<T> = items.into_iter().collect();
    let threads = items.len().min(AT_ONCE_MAX);
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().next();
    let work = || -> Result<()> {
        while let Some(item) = next() {
            act(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        // The caller's thread takes part; where no thread can be started, it does all the work.
        let start = |_| thread::Builder::new().name("at once".into()).spawn_scoped(scope, work);
        let others: Vec<_> = (1..threads).map(start).filter_map(Result::ok).collect();
        let own = work();
        let ends =
            others.into_iter().map(|other| other.join().unwrap_or_else(|e| resume_unwind(e)));
        ends.fold(own, Result::and)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use euphrates_flow::Error;

    use super::*;

    #[test]
    fn operations_run_in_parallel_and_a_failure_is_returned() {
        let (together, done) = (Barrier::new(9), AtomicUsize::new(0));
        let act = |item: usize| {
            // Passed only if the other eight operations have begun, too.
            together.wait();
            done.fetch_add(1, Relaxed);
            if item == 4 { Err(Error::failed("this one")) } else { Ok(()) }
        };
        assert!(at_once(0..9, act).unwrap_err().to_string().contains("this one"));
        assert_eq!(done.into_inner(), 9);
        assert!(at_once(0..1000, |_| Ok(())).is_ok());
        assert!(at_once(0..0, |_: usize| Err(Error::failed("nothing to do"))).is_ok());
    }
}
