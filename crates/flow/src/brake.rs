//! Stands still where `policy::throttle` says so: how an instance is made slow on purpose.
//!
//! It sits in the ports. Between two calls of them the module was busy; before the next one goes
//! on, the instance stands still for as long as that work was meant to take longer. Seen from
//! outside it is busy all this time, and slow. What it waited for a processor meanwhile was no
//! work, or a busy machine would make it slower than it is meant to be.

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
    /// How long the calling thread has ever waited for a processor; and what it was then.
    delay: fn() -> Duration,
    delayed: Duration,
}

impl Brake {
    /// A brake for an instance of a flow that started at this time. `delay` says how long the
    /// calling thread has ever waited for a processor.
    pub fn new(throttle: Throttle, epoch: Instant, delay: fn() -> Duration) -> Brake {
        let (free_since, zero) = (Instant::now(), Duration::ZERO);
        Brake { throttle, epoch, free_since, aside: zero, delay, delayed: zero }
    }

    /// Before a call of the ports. `aside` is what the instance has ever waited outside of them.
    pub(crate) fn stand_still(&mut self, aside: Duration, cancel: &Cancel) -> Result<()> {
        let now = Instant::now();
        let delayed = (self.delay)().saturating_sub(self.delayed);
        let waited = aside.saturating_sub(self.aside) + delayed;
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
                (self.free_since, self.delayed) = (Instant::now(), (self.delay)());
                return Ok(());
            }
            cancel.check()?;
            std::thread::park_timeout(left.min(LOOK));
        }
    }
}

#[cfg(test)]
mod tests {
    use euphrates_policy::throttle::{Pattern, Slowing};

    use super::*;

    const WORK: Duration = Duration::from_millis(20);

    /// How long the thread stands still after work of which a part was waiting for a processor.
    fn stands_still(delay: fn() -> Duration) -> Duration {
        let pattern = Pattern { after_ns: 0, lasts_ns: None, every_ns: None };
        let throttle = Throttle::new(vec![Slowing { pattern, left: 0.25 }]);
        let (mut brake, cancel) = (Brake::new(throttle, Instant::now(), delay), Cancel::default());
        brake.let_go(&cancel).unwrap();
        std::thread::sleep(WORK);
        let begun = Instant::now();
        brake.stand_still(Duration::ZERO, &cancel).unwrap();
        begun.elapsed()
    }

    #[test]
    fn work_takes_longer_and_waiting_for_a_processor_is_no_work() {
        fn never() -> Duration {
            Duration::ZERO
        }
        fn always() -> Duration {
            thread_local!(static SINCE: Instant = Instant::now());
            SINCE.with(Instant::elapsed)
        }
        assert!(stands_still(never) >= 3 * WORK);
        assert!(stands_still(always) < 3 * WORK);
    }
}
