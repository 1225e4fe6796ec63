//! How much is on its way to each of several disks: facts for `euphrates_policy::dealing`.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use euphrates_policy::dealing::Backlog;

/// What is on its way to the disks of one collection.
#[derive(Debug)]
pub struct Loads {
    state: Mutex<State>,
    less: Condvar,
}

#[derive(Debug)]
struct State {
    backlogs: Vec<Backlog>,
    /// When each disk's last request ended, or the first of those under way began.
    since: Vec<Instant>,
}

/// The share of one disk.
#[derive(Clone, Debug)]
pub struct Load {
    loads: Arc<Loads>,
    disk: usize,
}

impl Loads {
    /// Nothing is on its way to this many disks.
    pub fn new(disks: usize) -> Arc<Loads> {
        let (backlogs, since) = (vec![Backlog::default(); disks], vec![Instant::now(); disks]);
        Arc::new(Loads { state: Mutex::new(State { backlogs, since }), less: Condvar::new() })
    }

    /// The share of a disk.
    pub fn of(self: &Arc<Self>, disk: usize) -> Load {
        Load { loads: self.clone(), disk }
    }

    /// Asks `choose`, which is told the backlog of each disk, until it has an answer: again when
    /// one has become less, or when the time is up.
    pub fn choose<T>(
        &self,
        patience: Duration,
        choose: impl Fn(&[Backlog]) -> Option<T>,
    ) -> Option<T> {
        let state = self.lock();
        if let Some(chosen) = choose(&state.backlogs) {
            return Some(chosen);
        }
        let woken = self.less.wait_timeout(state, patience);
        let state = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        choose(&state.backlogs)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Load {
    /// A request is on its way.
    pub(crate) fn begin(&self, bytes: u64) {
        let State { backlogs, since } = &mut *self.loads.lock();
        let backlog = &mut backlogs[self.disk];
        if backlog.requests == 0 {
            since[self.disk] = Instant::now();
        }
        backlog.requests += 1;
        backlog.bytes += bytes;
    }

    /// It is done.
    pub(crate) fn end(&self, bytes: u64) {
        let State { backlogs, since } = &mut *self.loads.lock();
        let (backlog, now) = (&mut backlogs[self.disk], Instant::now());
        let took = now.duration_since(std::mem::replace(&mut since[self.disk], now));
        backlog.interval_ns = backlog.interval_ns / 2 + took.as_nanos() as u64 / 2;
        backlog.requests -= 1;
        backlog.bytes -= bytes;
        self.loads.less.notify_all();
    }
}
