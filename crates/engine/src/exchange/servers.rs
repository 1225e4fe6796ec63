//! Threads that answer requests: as many as are being answered, and those that have just answered.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use euphrates_flow::{Error, Result};

use crate::mailbox::lock;

/// How long a thread without work waits for some: to start one takes as long as to answer a small
/// request.
const IDLE: Duration = Duration::from_secs(1);

/// What a thread does.
type Work = Box<dyn FnOnce() + Send>;

/// The threads of one exchange.
#[derive(Default)]
pub(super) struct Servers {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    /// Threads that have nothing to do.
    idle: usize,
}

impl Servers {
    /// Has a thread do this at once. Fails when none is free, and none can be started.
    pub fn give(self: &Arc<Self>, work: Work) -> Result<()> {
        let mut state = lock(&self.state);
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
        let mut state = lock(&self.state);
        if state.waiting.is_empty() {
            state.idle += 1;
            let waited =
                self.more.wait_timeout_while(state, IDLE, |state| state.waiting.is_empty());
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            state.idle -= 1;
        }
        state.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
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
}
