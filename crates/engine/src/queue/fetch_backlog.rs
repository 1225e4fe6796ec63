//! The fetch backlog of this process: the requesters in other processes that wait only for it.
//!
//! All modules of the process share one backlog, since they share its processors: work that one of
//! them claims delays the requesters that another serves.

use std::time::{Duration, Instant};

use euphrates_flow::{Cancel, Result};
use euphrates_policy::straggler_throttle::StragglerThrottle;
use parking_lot::{Condvar, Mutex};

/// How long a claim waits before its module checks whether work is left at all. A straggler is to
/// do little besides serving.
const CLAIM_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The backlog, and whether work may be claimed while there is one.
#[derive(Debug)]
pub struct FetchBacklog {
    began: Instant,
    throttle: Mutex<StragglerThrottle>,
    /// A blocked requester has been served.
    served: Condvar,
}

impl Default for FetchBacklog {
    fn default() -> FetchBacklog {
        let (throttle, served) = Default::default();
        FetchBacklog { began: Instant::now(), throttle, served }
    }
}

impl FetchBacklog {
    /// The time since it was made: the clock of the throttle.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A requester reports that it waits for this process alone, and that this process is overdue.
    pub fn on_requester_blocked(&self) {
        self.throttle.lock().on_requester_blocked(self.now());
    }

    /// A blocked requester has been served completely, or has left.
    pub fn on_requester_served(&self) {
        self.throttle.lock().on_requester_served(self.now());
        self.served.notify_all();
    }

    /// Whether this process may claim work; waits at most a retry interval until it may. A
    /// straggler may not claim work that `is_shared` with other processes.
    pub fn may_claim(&self, is_shared: bool, cancel: &Cancel) -> Result<bool> {
        let mut throttle = self.throttle.lock();
        let until = self.now() + CLAIM_RETRY_INTERVAL;
        let declines = |one: &StragglerThrottle, now| {
            !one.may_claim(now) || is_shared && one.is_straggler(now)
        };
        while declines(&throttle, self.now()) {
            if self.now() >= until {
                return Ok(false);
            }
            cancel.wait(&self.served, &mut throttle)?;
        }
        Ok(true)
    }

    /// Whether this process is a straggler, which must not claim shared work.
    #[cfg(test)]
    pub fn is_straggler(&self) -> bool {
        self.throttle.lock().is_straggler(self.now())
    }

    /// Whether a consumer that has been idle since then may request a run.
    pub fn may_request_run(&self, since: Duration) -> bool {
        self.throttle.lock().may_request_run(self.now(), since)
    }
}
