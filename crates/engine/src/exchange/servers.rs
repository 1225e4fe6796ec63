//! Threads that answer requests: as many as are being answered, and those that have just answered.
//!
//! What they answer is made by no more of them at once than there are processors. More would end no
//! sooner but all late; and where a process is allowed little of a processor, the kernel would have
//! its signs of life wait until each of them has had some.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use euphrates_flow::{Error, Result};
use parking_lot::{Condvar, Mutex};

use crate::machine;

/// How long a thread without work waits for some: to start one takes as long as to answer a small
/// request.
const IDLE: Duration = Duration::from_secs(1);

/// What a thread does.
type Work = Box<dyn FnOnce() + Send>;

/// The threads of one exchange.
pub(super) struct Servers {
    state: Mutex<State>,
    more: Condvar,
    /// How many more may make something now.
    places: Mutex<usize>,
    place: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    /// Threads that have nothing to do.
    idle: usize,
}

impl Default for Servers {
    fn default() -> Servers {
        let places = Mutex::new(machine::cores());
        Servers { state: Mutex::default(), more: Condvar::new(), places, place: Condvar::new() }
    }
}

impl Servers {
    /// Makes something that needs a processor, and waits for nobody, when one may be had.
    pub fn make<R>(&self, make: impl FnOnce() -> R) -> R {
        let mut places = self.places.lock();
        while *places == 0 {
            self.place.wait(&mut places);
        }
        *places -= 1;
        drop(places);
        let _place = Place(self);
        make()
    }

    /// Has a thread do this at once. Fails when none is free, and none can be started.
    pub fn give(self: &Arc<Self>, work: Work) -> Result<()> {
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
        let started = thread::Builder::new().name("exchange".into()).spawn(serve);
        started
            .map(drop)
            .map_err(|error| Error::resource(format!("cannot start a thread: {error}")))
    }

    fn next(&self) -> Option<Work> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.idle += 1;
            self.more.wait_while_for(&mut state, |state| state.waiting.is_empty(), IDLE);
            state.idle -= 1;
        }
        state.waiting.pop_front()
    }
}

/// A place that somebody has, who may panic.
struct Place<'a>(&'a Servers);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.places.lock() += 1;
        self.0.place.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn all_work_is_done_at_once_even_if_it_waits_for_other_work() {
        let servers = Arc::new(Servers::default());
        for _ in 0..100 {
            let (done, told) = channel();
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
            servers.give(Box::new(wait)).unwrap();
            servers.give(Box::new(wake)).unwrap();
            assert_eq!(told.iter().count(), 2);
        }
    }

    #[test]
    fn no_more_is_made_at_once_than_there_are_processors() {
        let (servers, making) = (Servers::default(), AtomicUsize::new(0));
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
                    let made = catch_unwind(AssertUnwindSafe(|| servers.make(make)));
                    assert_eq!(made.is_ok(), number % 3 > 0);
                });
            }
        });
        assert_eq!(*servers.places.lock(), machine::cores());
    }
}
