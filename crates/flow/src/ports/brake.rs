//! Slows an instance on purpose, by the decisions of `policy::slowdown`.
//!
//! The brake is called by the ports. The module works between two calls of the ports; the brake
//! then sleeps for the additional time that this work would have taken at the reduced speed, and
//! the sleep counts as busy time. Time spent waiting for a processor, and time stolen by the host
//! of a virtual machine, does not count as work: otherwise a busy machine would slow the instance
//! more than configured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use euphrates_policy::slowdown::{Slowing, Throttle};
use parking_lot::Mutex;

use crate::error::Result;
use crate::setup::{CANCEL_POLL_INTERVAL, Cancel};

/// The slowdowns of an instance; they can be changed while the instance runs.
#[derive(Debug, Default)]
pub struct Slowdowns {
    /// Number of changes. The brake compares it with the number it last saw, so that it locks
    /// `slowings` only after a change.
    changes: AtomicU64,
    slowings: Mutex<Vec<Slowing>>,
}

impl Slowdowns {
    /// Replaces the slowdowns from now on.
    pub fn set(&self, slowings: Vec<Slowing>) {
        *self.slowings.lock() = slowings;
        self.changes.fetch_add(1, SeqCst);
    }

    fn throttle(&self) -> Option<Throttle> {
        let slowings = self.slowings.lock();
        (!slowings.is_empty()).then(|| Throttle::new(slowings.clone()))
    }
}

/// Processor times of the calling thread since its start, and the time stolen from the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessorTimes {
    /// Time computed, without time stolen by the host.
    pub computed: Duration,
    /// Time spent runnable, waiting for a processor.
    pub delayed: Duration,
    /// How often the thread has blocked on anything else.
    pub waits: u64,
    /// Time that the host has stolen from all processors of this machine.
    pub stolen: Duration,
}

/// Applies the slowdowns to one instance.
#[derive(Clone, Debug)]
pub struct Brake {
    slowdowns: Arc<Slowdowns>,
    changes: u64,
    /// `None` if there are no slowdowns.
    throttle: Option<Throttle>,
    /// Start of the flow, from which the throttle counts.
    epoch: Instant,
    /// When the module last resumed, and its total wait time outside of the ports at that moment.
    free_since: Instant,
    waited_outside: Duration,
    /// Reads the processor times of the calling thread; `times_at_resume` is the value read when
    /// the module last resumed.
    read_times: fn() -> ProcessorTimes,
    times_at_resume: ProcessorTimes,
}

impl Brake {
    /// A brake for an instance of a flow that started at `epoch`. `read_times` reads the processor
    /// times of the calling thread.
    pub fn new(
        slowdowns: Arc<Slowdowns>,
        epoch: Instant,
        read_times: fn() -> ProcessorTimes,
    ) -> Brake {
        let (free_since, waited_outside) = (Instant::now(), Duration::ZERO);
        let times_at_resume = ProcessorTimes::default();
        let (changes, throttle) = (slowdowns.changes.load(SeqCst), slowdowns.throttle());
        Brake {
            slowdowns,
            changes,
            throttle,
            epoch,
            free_since,
            waited_outside,
            read_times,
            times_at_resume,
        }
    }

    /// Sleeps before a call of the ports. `waited_outside` is the instance's total wait time
    /// outside of them.
    pub(crate) fn stretch_work(&mut self, waited_outside: Duration, cancel: &Cancel) -> Result<()> {
        if self.apply_changes(waited_outside) || self.throttle.is_none() {
            return Ok(());
        }
        let now = Instant::now();
        self.hold(now, self.busy(now, waited_outside), cancel)?;
        self.waited_outside = waited_outside;
        Ok(())
    }

    /// How long the module has worked since it resumed.
    fn busy(&self, now: Instant, waited_outside: Duration) -> Duration {
        let times = (self.read_times)();
        let computed = times.computed.saturating_sub(self.times_at_resume.computed);
        if times.waits == self.times_at_resume.waits {
            return computed;
        }
        // The thread also blocked on reads or writes, which counts as work. The system does not say
        // how much of that wait was spent runnable; stolen time bounds it.
        let delayed = times.delayed.saturating_sub(self.times_at_resume.delayed);
        let stolen = times.stolen.saturating_sub(self.times_at_resume.stolen);
        let waited = waited_outside.saturating_sub(self.waited_outside) + delayed + stolen;
        now.saturating_duration_since(self.free_since).saturating_sub(waited).max(computed)
    }

    /// After a call of the ports: resumes the module unless it is paused.
    pub(crate) fn resume(&mut self, cancel: &Cancel) -> Result<()> {
        if self.throttle.is_none() {
            return Ok(());
        }
        self.hold(Instant::now(), Duration::ZERO, cancel)
    }

    /// Whether the slowdowns have changed since the last call. Work done before the change is not
    /// stretched.
    fn apply_changes(&mut self, waited_outside: Duration) -> bool {
        let changes = self.slowdowns.changes.load(SeqCst);
        if changes == self.changes {
            return false;
        }
        self.changes = changes;
        self.throttle = self.slowdowns.throttle();
        (self.free_since, self.times_at_resume) = (Instant::now(), (self.read_times)());
        self.waited_outside = waited_outside;
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
                (self.free_since, self.times_at_resume) = (Instant::now(), (self.read_times)());
                return Ok(());
            }
            cancel.check()?;
            if self.slowdowns.changes.load(SeqCst) != self.changes {
                // The slowdowns have changed: the rest of the sleep is skipped.
                return Ok(());
            }
            std::thread::park_timeout(left.min(CANCEL_POLL_INTERVAL));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use euphrates_policy::slowdown::Pattern;

    use super::*;

    const WORK: Duration = Duration::from_millis(20);

    fn elapsed() -> Duration {
        thread_local!(static SINCE: Instant = Instant::now());
        SINCE.with(Instant::elapsed)
    }

    /// A thread that blocks once between two readings.
    fn reads() -> ProcessorTimes {
        thread_local!(static WAITS: Cell<u64> = const { Cell::new(0) });
        WAITS.set(WAITS.get() + 1);
        ProcessorTimes { waits: WAITS.get(), ..ProcessorTimes::default() }
    }

    /// How long the brake sleeps after what looks like `WORK`.
    fn stretched(look: fn() -> ProcessorTimes) -> Duration {
        let pattern = Pattern { after_ns: 0, lasts_ns: None, every_ns: None };
        let slowdowns = Arc::new(Slowdowns::default());
        slowdowns.set(vec![Slowing { pattern, speed_left: 0.25 }]);
        let (mut brake, cancel) = (Brake::new(slowdowns, Instant::now(), look), Cancel::default());
        brake.resume(&cancel).unwrap();
        std::thread::sleep(WORK);
        let begun = Instant::now();
        brake.stretch_work(Duration::ZERO, &cancel).unwrap();
        begun.elapsed()
    }

    #[test]
    fn slowdown_changes_while_instance_runs() {
        let pattern = Pattern { after_ns: 0, lasts_ns: None, every_ns: None };
        let (slowdowns, cancel) = (Arc::new(Slowdowns::default()), Cancel::default());
        let mut brake = Brake::new(slowdowns.clone(), Instant::now(), reads);
        let mut pass = || {
            let begun = Instant::now();
            std::thread::sleep(WORK);
            brake.stretch_work(Duration::ZERO, &cancel).unwrap();
            brake.resume(&cancel).unwrap();
            begun.elapsed()
        };
        pass();
        slowdowns.set(vec![Slowing { pattern, speed_left: 0.1 }]);
        // Work that began before the change is not stretched.
        pass();
        assert!(pass() >= 10 * WORK);
        slowdowns.set(vec![]);
        assert!(pass() < 10 * WORK && pass() < 10 * WORK);
    }

    #[test]
    fn only_work_is_stretched_not_processor_waits() {
        fn always_delayed() -> ProcessorTimes {
            ProcessorTimes { delayed: elapsed(), ..reads() }
        }
        fn always_stolen() -> ProcessorTimes {
            ProcessorTimes { stolen: elapsed(), ..reads() }
        }
        fn computes() -> ProcessorTimes {
            ProcessorTimes { computed: elapsed(), ..ProcessorTimes::default() }
        }
        assert!(stretched(reads) >= 3 * WORK);
        assert!(stretched(computes) >= 3 * WORK);
        assert!(stretched(always_delayed) < 3 * WORK);
        assert!(stretched(always_stolen) < 3 * WORK);
        // Neither computed nor blocked: another thread had the processor.
        assert!(stretched(ProcessorTimes::default) < 3 * WORK);
    }
}
