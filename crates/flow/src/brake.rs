//! Stands still where `policy::throttle` says so: how an instance is made slow on purpose.
//!
//! It sits in the ports. Between two calls of them the module was busy; before the next one goes
//! on, the instance stands still for as long as that work was meant to take longer. Seen from
//! outside it is busy all this time, and slow. What it waited for a processor meanwhile was no
//! work, or a busy machine would make it slower than it is meant to be; nor was what the host of
//! this machine kept from it.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use euphrates_policy::throttle::{Slowing, Throttle};

use crate::error::Result;
use crate::setup::Cancel;

/// How long the end of a flow may take to be noticed by a thread that nobody wakes.
const LOOK: Duration = Duration::from_millis(50);

/// What an instance is slowed by; it can be changed while the instance runs.
#[derive(Debug, Default)]
pub struct Lever {
    /// How often it was changed: 0 for never, so that who is not slowed looks at this alone.
    changes: AtomicU64,
    slowings: Mutex<Vec<Slowing>>,
}

impl Lever {
    /// From now on it is these.
    pub fn set(&self, slowings: Vec<Slowing>) {
        *self.slowings.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = slowings;
        self.changes.fetch_add(1, SeqCst);
    }

    fn throttle(&self) -> Option<Throttle> {
        let slowings = self.slowings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        (!slowings.is_empty()).then(|| Throttle::new(slowings.clone()))
    }
}

/// What the calling thread has ever had of the processors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Had {
    /// How long it has computed, without what the host of the machine took from it.
    pub computed: Duration,
    /// How long it could have, but had to wait for a processor.
    pub delayed: Duration,
    /// How often it has waited for anything else.
    pub waits: u64,
    /// What the host of the machine has kept from all its processors.
    pub stolen: Duration,
}

/// What slows one instance.
#[derive(Clone, Debug)]
pub struct Brake {
    lever: Arc<Lever>,
    changes: u64,
    /// Nothing, if the lever has none.
    throttle: Option<Throttle>,
    /// The start of the flow, from which the throttle counts.
    epoch: Instant,
    /// When the module was last let go on, and how long it had waited aside of the ports then.
    free_since: Instant,
    aside: Duration,
    /// What the calling thread has had; and what it was then.
    look: fn() -> Had,
    had: Had,
}

impl Brake {
    /// A brake for an instance of a flow that started at this time. `look` says what the calling
    /// thread has had of the processors.
    pub fn new(lever: Arc<Lever>, epoch: Instant, look: fn() -> Had) -> Brake {
        let (free_since, aside, had) = (Instant::now(), Duration::ZERO, Had::default());
        let (changes, throttle) = (lever.changes.load(SeqCst), lever.throttle());
        Brake { lever, changes, throttle, epoch, free_since, aside, look, had }
    }

    /// Before a call of the ports. `aside` is what the instance has ever waited outside of them.
    pub(crate) fn stand_still(&mut self, aside: Duration, cancel: &Cancel) -> Result<()> {
        if self.is_changed(aside) || self.throttle.is_none() {
            return Ok(());
        }
        let now = Instant::now();
        self.hold(now, self.busy(now, aside), cancel)?;
        self.aside = aside;
        Ok(())
    }

    /// How long the module has worked since it was let go on.
    fn busy(&self, now: Instant, aside: Duration) -> Duration {
        let had = (self.look)();
        let computed = had.computed.saturating_sub(self.had.computed);
        if had.waits == self.had.waits {
            return computed;
        }
        // It has read or written, too, and waited for that: this is work. If it was kept from its
        // processor as well, nobody says for how long, but not for longer than all were.
        let delayed = had.delayed.saturating_sub(self.had.delayed);
        let stolen = had.stolen.saturating_sub(self.had.stolen);
        let waited = aside.saturating_sub(self.aside) + delayed + stolen;
        now.saturating_duration_since(self.free_since).saturating_sub(waited).max(computed)
    }

    /// After a call of the ports: the module goes on, unless it is paused.
    pub(crate) fn let_go(&mut self, cancel: &Cancel) -> Result<()> {
        if self.throttle.is_none() {
            return Ok(());
        }
        self.hold(Instant::now(), Duration::ZERO, cancel)
    }

    /// Whether it is slowed by something else since the last call. What was done before that is not
    /// made up for.
    fn is_changed(&mut self, aside: Duration) -> bool {
        let changes = self.lever.changes.load(SeqCst);
        if changes == self.changes {
            return false;
        }
        self.changes = changes;
        self.throttle = self.lever.throttle();
        (self.free_since, self.had) = (Instant::now(), (self.look)());
        self.aside = aside;
        true
    }

    fn hold(&mut self, now: Instant, busy: Duration, cancel: &Cancel) -> Result<()> {
        let Some(throttle) = &mut self.throttle else { return Ok(()) };
        let since_epoch = now.saturating_duration_since(self.epoch);
        let until = throttle.on_busy(since_epoch.as_nanos() as u64, busy.as_nanos() as u64);
        let until = self.epoch + Duration::from_nanos(until);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                (self.free_since, self.had) = (Instant::now(), (self.look)());
                return Ok(());
            }
            cancel.check()?;
            if self.lever.changes.load(SeqCst) != self.changes {
                // Whoever is let go need not wait for the end of what slowed it.
                return Ok(());
            }
            std::thread::park_timeout(left.min(LOOK));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use euphrates_policy::throttle::Pattern;

    use super::*;

    const WORK: Duration = Duration::from_millis(20);

    fn elapsed() -> Duration {
        thread_local!(static SINCE: Instant = Instant::now());
        SINCE.with(Instant::elapsed)
    }

    /// Like a thread that waits for something at each look.
    fn reads() -> Had {
        thread_local!(static WAITS: Cell<u64> = const { Cell::new(0) });
        WAITS.set(WAITS.get() + 1);
        Had { waits: WAITS.get(), ..Had::default() }
    }

    /// How long the thread stands still after what it looks as if it had worked.
    fn stands_still(look: fn() -> Had) -> Duration {
        let pattern = Pattern { after_ns: 0, lasts_ns: None, every_ns: None };
        let lever = Arc::new(Lever::default());
        lever.set(vec![Slowing { pattern, left: 0.25 }]);
        let (mut brake, cancel) = (Brake::new(lever, Instant::now(), look), Cancel::default());
        brake.let_go(&cancel).unwrap();
        std::thread::sleep(WORK);
        let begun = Instant::now();
        brake.stand_still(Duration::ZERO, &cancel).unwrap();
        begun.elapsed()
    }

    #[test]
    fn what_slows_an_instance_can_be_changed_while_it_runs() {
        let pattern = Pattern { after_ns: 0, lasts_ns: None, every_ns: None };
        let (lever, cancel) = (Arc::new(Lever::default()), Cancel::default());
        let mut brake = Brake::new(lever.clone(), Instant::now(), reads);
        let mut pass = || {
            let begun = Instant::now();
            std::thread::sleep(WORK);
            brake.stand_still(Duration::ZERO, &cancel).unwrap();
            brake.let_go(&cancel).unwrap();
            begun.elapsed()
        };
        pass();
        lever.set(vec![Slowing { pattern, left: 0.1 }]);
        // Work that was begun before is not made up for.
        pass();
        assert!(pass() >= 10 * WORK);
        lever.set(vec![]);
        assert!(pass() < 10 * WORK && pass() < 10 * WORK);
    }

    #[test]
    fn work_takes_longer_and_waiting_for_a_processor_is_no_work() {
        fn always_delayed() -> Had {
            Had { delayed: elapsed(), ..reads() }
        }
        fn always_stolen() -> Had {
            Had { stolen: elapsed(), ..reads() }
        }
        fn computes() -> Had {
            Had { computed: elapsed(), ..Had::default() }
        }
        assert!(stands_still(reads) >= 3 * WORK);
        assert!(stands_still(computes) >= 3 * WORK);
        assert!(stands_still(always_delayed) < 3 * WORK);
        assert!(stands_still(always_stolen) < 3 * WORK);
        // Neither computed nor waited for anything: somebody else had the processor.
        assert!(stands_still(Had::default) < 3 * WORK);
    }
}
