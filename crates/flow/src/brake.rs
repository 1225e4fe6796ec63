//! Stands still where `policy::throttle` says so: how an instance is made slow on purpose.
//!
//! It sits in the ports. Between two calls of them the module was busy; before the next one goes
//! on, the instance stands still for as long as that work was meant to take longer. Seen from
//! outside it is busy all this time, and slow.

use std::time::{Duration, Instant};

use euphrates_policy::throttle::Throttle;

use crate::error::Result;
use crate::setup::Cancel;

/// How long the end of a flow may take to be noticed by a thread that nobody wakes.
const LOOK: Duration = Duration::from_millis(50);

/// What slows one instance.
#[derive(Clone, Debug)]
pub struct Brake {
    throttle: Throttle,
    /// The start of the flow, from which the throttle counts.
    epoch: Instant,
    /// When the module was last let go on, and how long it had waited aside of the ports then.
    free_since: Instant,
    aside: Duration,
}

impl Brake {
    /// A brake for an instance of a flow that started at this time.
    pub fn new(throttle: Throttle, epoch: Instant) -> Brake {
        Brake { throttle, epoch, free_since: Instant::now(), aside: Duration::ZERO }
    }

    /// Before a call of the ports. `aside` is what the instance has ever waited outside of them.
    pub(crate) fn stand_still(&mut self, aside: Duration, cancel: &Cancel) -> Result<()> {
        let now = Instant::now();
        let waited = aside.saturating_sub(self.aside);
        let busy = now.saturating_duration_since(self.free_since).saturating_sub(waited);
        self.hold(now, busy, cancel)?;
        self.aside = aside;
        Ok(())
    }

    /// After a call of the ports: the module goes on, unless it is paused.
    pub(crate) fn let_go(&mut self, cancel: &Cancel) -> Result<()> {
        self.hold(Instant::now(), Duration::ZERO, cancel)
    }

    fn hold(&mut self, now: Instant, busy: Duration, cancel: &Cancel) -> Result<()> {
        let since_epoch = now.saturating_duration_since(self.epoch);
        let until = self.throttle.on_busy(since_epoch.as_nanos() as u64, busy.as_nanos() as u64);
        let until = self.epoch + Duration::from_nanos(until);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.free_since = Instant::now();
                return Ok(());
            }
            cancel.check()?;
            std::thread::park_timeout(left.min(LOOK));
        }
    }
}
