//! A pool of threads that answer requests: one for each request in progress, and idle ones.
//!
//! At most one of them per processor computes at a time. More would not increase throughput, but
//! delay every answer; and in a process with a small CPU quota, its heartbeats would be delayed
//! until the kernel has scheduled each of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::{Result, spawn_named};
use parking_lot::{Condvar, Mutex};

use crate::machine;

/// How long an idle thread stays: starting one takes as long as answering a small request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The answer to one request.
type AnswerTask = Box<dyn FnOnce() + Send>;

/// The threads of one exchange.
pub(super) struct ServerPool {
    state: Mutex<State>,
    more: Condvar,
    /// Processors that no thread of the pool computes on.
    free: Mutex<usize>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<AnswerTask>,
    /// Threads that wait for work.
    idle: usize,
}

impl Default for ServerPool {
    fn default() -> ServerPool {
        let free = Mutex::new(machine::cores());
        ServerPool { state: Mutex::default(), more: Condvar::new(), free, freed: Condvar::new() }
    }
}

impl ServerPool {
    /// Runs a computation once a processor is free. It must not wait for other threads.
    pub fn compute<R>(&self, compute: impl FnOnce() -> R) -> R {
        let mut free = self.free.lock();
        while *free == 0 {
            self.freed.wait(&mut free);
        }
        *free -= 1;
        drop(free);
        let _permit = Permit(self);
        compute()
    }

    /// Runs work on a thread at once. Fails when none is idle, and none can be started.
    pub fn run(self: &Arc<Self>, work: AnswerTask) -> Result<()> {
        let mut state = self.state.lock();
        if state.waiting.len() < state.idle {
            state.waiting.push_back(work);
            self.more.notify_one();
            return Ok(());
        }
        drop(state);
        let servers = self.clone();
        let serve = move || {
            let mut next = Some(work);
            while let Some(work) = next {
                work();
                next = servers.next();
            }
        };
        spawn_named("exchange", serve).map(drop)
    }

    fn next(&self) -> Option<AnswerTask> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.idle += 1;
            self.more.wait_while_for(&mut state, |state| state.waiting.is_empty(), IDLE_TIMEOUT);
            state.idle -= 1;
        }
        state.waiting.pop_front()
    }
}

/// Returns its processor when dropped, also by a panic.
struct Permit<'a>(&'a ServerPool);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn work_that_waits_for_other_work_finishes() {
        let servers = Arc::new(ServerPool::default());
        for _ in 0..100 {
            let (done, finished) = channel();
            let (first, second) = (channel::<()>(), channel::<()>());
            let (waits, wakes) = (first.1, second.0);
            let tell = done.clone();
            let wait = move || {
                waits.recv().unwrap();
                wakes.send(()).unwrap();
                tell.send(()).unwrap();
            };
            let wake = move || {
                first.0.send(()).unwrap();
                second.1.recv().unwrap();
                done.send(()).unwrap();
            };
            servers.run(Box::new(wait)).unwrap();
            servers.run(Box::new(wake)).unwrap();
            assert_eq!(finished.iter().count(), 2);
        }
    }

    #[test]
    fn computations_are_limited_to_processors() {
        let (servers, making) = (ServerPool::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for number in 0..100 {
                let making = &making;
                let make = move || {
                    assert!(making.fetch_add(1, SeqCst) < machine::cores());
                    thread::sleep(Duration::from_millis(1));
                    making.fetch_sub(1, SeqCst);
                    assert!(number % 3 > 0);
                };
                let servers = &servers;
                scope.spawn(move || {
                    let made = catch_unwind(AssertUnwindSafe(|| servers.compute(make)));
                    assert_eq!(made.is_ok(), number % 3 > 0);
                });
            }
        });
        assert_eq!(*servers.free.lock(), machine::cores());
    }
}
