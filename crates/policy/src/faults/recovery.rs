//! Retry policy: whether a failed flow is attempted again.
//!
//! A dead worker or a failed connection is not caused by the flow, so the flow is retried a few
//! times. User code that crashes its process would crash every process that runs it, one after the
//! other. Crashes are therefore counted for each unit of work (a poison pill), and a unit that has
//! crashed its process twice is not retried.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;

/// Attempts at one flow, at most.
pub(crate) const ATTEMPTS_MAX: u32 = 4;
/// Crashes at one unit of work, at most; then it is not retried.
pub const CRASHES_MAX: u32 = 2;
/// Units with counts of their own, at most. All further units share one count.
const UNITS_MAX: usize = 1000;

/// What ended an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<'a> {
    /// A worker was lost.
    Worker,
    /// The connection between two processes failed.
    Link,
    /// The process that ran user code crashed while it worked on this unit.
    Crash(&'a str),
}

/// The decision after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Attempt the flow again.
    Retry,
    /// The flow has had all its attempts.
    TooManyAttempts,
    /// The unit has crashed [`CRASHES_MAX`] times.
    TooManyCrashes,
}

/// Counts crashes of one flow, or of one instance of a module.
///
/// ```
/// use euphrates_policy::recovery::Crashes;
///
/// let mut crashes = Crashes::default();
/// assert!(crashes.retries_after_crash("rows 0 to 9"));
/// assert!(crashes.retries_after_crash("rows 10 to 19"), "each unit has a count of its own");
/// assert!(!crashes.retries_after_crash("rows 0 to 9"), "it crashed for the second time");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Crashes {
    by_unit: BTreeMap<String, u32>,
}

impl Crashes {
    /// Counts a crash at a unit and returns the unit's total.
    pub fn on_crash(&mut self, unit: &str) -> u32 {
        let is_known = self.by_unit.contains_key(unit);
        let unit = if is_known || self.by_unit.len() < UNITS_MAX { unit } else { "" };
        let count = self.by_unit.entry(unit.to_owned()).or_insert(0);
        *count = count.saturating_add(1);
        *count
    }

    /// Counts a crash at a unit and returns whether to retry it.
    pub fn retries_after_crash(&mut self, unit: &str) -> bool {
        self.on_crash(unit) < CRASHES_MAX
    }
}

/// The faults of one flow.
///
/// ```
/// use euphrates_policy::recovery::{Fault, Recovery, Verdict};
///
/// let mut recovery = Recovery::default();
/// assert_eq!(recovery.on_fault(Fault::Worker), Verdict::Retry);
/// assert_eq!(recovery.on_fault(Fault::Crash("rows 0 to 9")), Verdict::Retry);
/// assert_eq!(recovery.on_fault(Fault::Crash("rows 0 to 9")), Verdict::TooManyCrashes);
/// ```
#[derive(Clone, Debug)]
pub struct Recovery {
    attempt: u32,
    /// Attempts that do not count against the limit.
    uncounted: u32,
    crashes: Crashes,
}

impl Default for Recovery {
    fn default() -> Recovery {
        Recovery { attempt: 1, uncounted: 0, crashes: Crashes::default() }
    }
}

impl Recovery {
    /// The number of the current attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Another attempt begins without a fault; it does not count against the limit.
    pub fn on_growth(&mut self) {
        self.attempt += 1;
        self.uncounted += 1;
    }

    /// The current attempt has found more completed units than the one before: earlier attempts
    /// count no more, since a flow that progresses ends, however often workers are lost.
    pub fn on_progress(&mut self) {
        self.uncounted = self.attempt - 1;
    }

    /// Decides after a fault. `Again` counts the next attempt.
    pub fn on_fault(&mut self, fault: Fault<'_>) -> Verdict {
        if let Fault::Crash(unit) = fault
            && !self.crashes.retries_after_crash(unit)
        {
            return Verdict::TooManyCrashes;
        }
        if self.attempt - self.uncounted >= ATTEMPTS_MAX {
            return Verdict::TooManyAttempts;
        }
        self.attempt += 1;
        Verdict::Retry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn lost_workers_are_retried_three_times() {
        let mut recovery = Recovery::default();
        let verdicts: Vec<_> = (0..4).map(|_| recovery.on_fault(Fault::Worker)).collect();
        use Verdict::{Retry, TooManyAttempts};
        assert_eq!(verdicts, [Retry, Retry, Retry, TooManyAttempts]);
    }

    #[test]
    fn flow_that_completes_units_is_retried_without_end() {
        let mut recovery = Recovery::default();
        for attempt in 1..50 {
            assert_eq!(
                (recovery.attempt(), recovery.on_fault(Fault::Worker)),
                (attempt, Verdict::Retry)
            );
            recovery.on_progress();
        }
        let verdicts: Vec<_> = (0..4).map(|_| recovery.on_fault(Fault::Link)).collect();
        assert_eq!(verdicts.last(), Some(&Verdict::TooManyAttempts), "it does not progress");
    }

    #[test]
    fn growth_takes_no_attempt_from_a_flow() {
        let mut recovery = Recovery::default();
        (0..20).for_each(|_| recovery.on_growth());
        assert_eq!(recovery.attempt(), 21);
        let verdicts: Vec<_> = (0..4).map(|_| recovery.on_fault(Fault::Worker)).collect();
        use Verdict::{Retry, TooManyAttempts};
        assert_eq!(verdicts, [Retry, Retry, Retry, TooManyAttempts]);
    }

    #[test]
    fn unit_that_crashed_twice_is_not_retried() {
        let mut recovery = Recovery::default();
        assert_eq!(recovery.on_fault(Fault::Crash("rows 0 to 9")), Verdict::Retry);
        assert_eq!(recovery.on_fault(Fault::Worker), Verdict::Retry);
        assert_eq!(recovery.on_fault(Fault::Crash("rows 10 to 19")), Verdict::Retry);
        assert_eq!(recovery.on_fault(Fault::Crash("rows 0 to 9")), Verdict::TooManyCrashes);
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Worker,
        Link,
        Crash(u8),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![Just(Event::Worker), Just(Event::Link), (0..4_u8).prop_map(Event::Crash)]
    }

    proptest! {
        #[test]
        fn attempts_and_crashes_are_bounded(
            events in prop::collection::vec(event(), 1..20)
        ) {
            let mut recovery = Recovery::default();
            let mut crashed = [0; 4];
            for event in events {
                let before = recovery.attempt();
                let name = |unit: u8| ["a", "b", "c", "d"][usize::from(unit)];
                let fault = match event {
                    Event::Worker => Fault::Worker,
                    Event::Link => Fault::Link,
                    Event::Crash(unit) => {
                        crashed[usize::from(unit)] += 1;
                        Fault::Crash(name(unit))
                    }
                };
                let verdict = recovery.on_fault(fault);
                prop_assert!(recovery.attempt() <= ATTEMPTS_MAX);
                prop_assert_eq!(recovery.attempt() > before, verdict == Verdict::Retry);
                if let Event::Crash(unit) = event {
                    let count = crashed[usize::from(unit)];
                    prop_assert_eq!(verdict == Verdict::TooManyCrashes, count >= CRASHES_MAX);
                }
                if verdict != Verdict::Retry {
                    break;
                }
            }
        }

        #[test]
        fn crash_counts_need_bounded_memory(
            units in prop::collection::vec(0..9999_u32, 0..3000)
        ) {
            let mut crashes = Crashes::default();
            for unit in units {
                crashes.on_crash(&alloc::format!("{unit}"));
            }
            prop_assert!(crashes.by_unit.len() <= UNITS_MAX + 1);
        }
    }
}
