//! Acts on several disks at once: a sync waits for its disk, and a slow one holds up no other.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

use euphrates_flow::Result;

/// Disks that are waited for at once at most.
const AT_ONCE_MAX: usize = 64;

/// Does something with each of these, in any order, and returns when nothing is under way. Fails
/// if one of them does; others may have been done, or not.
pub fn at_once<T: Send>(
    items: impl IntoIterator<Item = T>,
    act: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let items: Vec<T> = items.into_iter().collect();
    let threads = items.len().min(AT_ONCE_MAX);
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
    let work = || -> Result<()> {
        while let Some(item) = next() {
            act(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        // The caller is the first of them; where there are no more threads, the only one.
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
    fn all_are_under_way_together_and_a_failure_is_told() {
        let (together, done) = (Barrier::new(9), AtomicUsize::new(0));
        let act = |item: usize| {
            // Passed only if the other eight are here, too.
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
