//! The fetch backlog of this process: how many requesters in other processes wait for it alone.
//!
//! All modules of the process share one, since they share its processors: whatever one of them
//! claims delays the requesters that another serves.

use std::time::{Duration, Instant};

use euphrates_flow::{Cancel, Result};
use euphrates_policy::straggler_throttle::StragglerThrottle;
use parking_lot::{Condvar, Mutex};

/// How long a claim waits before its module checks whether work is left at all. A straggler is to
/// do little besides serving.
const CLAIM_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// The backlog, and what may be claimed meanwhile.
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

    /// Whether this process is a straggler, and leaves shared work to others.
    #[cfg(test)]
    pub fn is_straggler(&self) -> bool {
        self.throttle.lock().is_straggler(self.now())
    }

    /// Whether a consumer that has been idle since then may ask for a run.
    pub fn may_request_run(&self, since: Duration) -> bool {
        self.throttle.lock().may_request_run(self.now(), since)
    }
}
