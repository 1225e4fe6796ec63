//! What this process owes the others of its flow: all its modules together, since they share its
//! processor, and whatever one of them takes keeps those waiting whom another serves.

use std::time::{Duration, Instant};

use euphrates_flow::{Cancel, Result};
use euphrates_policy::precedence::Precedence;
use parking_lot::{Condvar, Mutex};

/// How often who waits looks whether the flow was cancelled.
pub const LOOK: Duration = Duration::from_millis(50);
/// How long who may take nothing waits before he can see whether there is anything left to take:
/// who is slow is to do little else than serve.
const WAIT: Duration = Duration::from_millis(250);

/// What is owed.
#[derive(Debug)]
pub struct Debts {
    began: Instant,
    precedence: Mutex<Precedence>,
    /// Somebody has been given all he waited for.
    given: Condvar,
}

impl Default for Debts {
    fn default() -> Debts {
        Debts { began: Instant::now(), precedence: Mutex::default(), given: Condvar::new() }
    }
}

impl Debts {
    /// The time, on the clock of all that is decided here.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Somebody waits for this process alone.
    pub fn on_awaited(&self) {
        self.precedence.lock().on_awaited(self.now());
    }

    /// One of those who waited has been given all he waits for, or has left.
    pub fn on_given(&self) {
        self.precedence.lock().on_given(self.now());
        self.given.notify_all();
    }

    /// Whether something may be taken, which `is_shared` with others or not; waits for that, but
    /// not for long.
    pub fn may_take(&self, is_shared: bool, cancel: &Cancel) -> Result<bool> {
        let mut precedence = self.precedence.lock();
        let until = self.now() + WAIT;
        let leaves = |one: &Precedence, now| !one.may_take(now) || is_shared && one.is_behind(now);
        while leaves(&precedence, self.now()) {
            cancel.check()?;
            if self.now() >= until {
                return Ok(false);
            }
            self.given.wait_for(&mut precedence, LOOK);
        }
        Ok(true)
    }

    /// Whether work is to be left to others, if there is work that they can do.
    pub fn is_behind(&self) -> bool {
        self.precedence.lock().is_behind(self.now())
    }

    /// Whether a run may be asked for by who has had time for one since then.
    pub fn may_ask(&self, since: Duration) -> bool {
        self.precedence.lock().may_ask(self.now(), since)
    }
}
