//! How slow somebody is made, and when: perturbations on purpose (River 3.1.2, 3.2.2).
//!
//! The paper ran a job that steals three quarters of a processor, and a stream that competes for a
//! disk. Here the same is done to one instance or one disk without either: an instance that has
//! been busy owes the time that it would have taken had it been as slow as it is meant to be, and
//! stands still for the rest. What it did in one long stretch is made up for afterwards.

use alloc::vec::Vec;

/// When something is on: from `after` on for `lasts`, and again every `every`. Nanoseconds since
/// the start of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// When it begins.
    pub after_ns: u64,
    /// How long it lasts; `None` to the end.
    pub lasts_ns: Option<u64>,
    /// From one beginning to the next; `None` if it comes once. Longer than `lasts_ns`.
    pub every_ns: Option<u64>,
}

impl Pattern {
    /// Whether it is on at this time.
    pub fn is_on(&self, now_ns: u64) -> bool {
        let Some(into) = now_ns.checked_sub(self.after_ns) else { return false };
        let into = self.every_ns.map_or(into, |every| into % every.max(1));
        self.lasts_ns.is_none_or(|lasts| into < lasts)
    }

    /// When it next goes on or off; `u64::MAX` if never.
    pub fn next_change(&self, now_ns: u64) -> u64 {
        let Some(into) = now_ns.checked_sub(self.after_ns) else { return self.after_ns };
        let Some(lasts) = self.lasts_ns else { return u64::MAX };
        let (begin, into) = match self.every_ns.map(|every| every.max(1)) {
            Some(every) => (now_ns - into % every, into % every),
            None => (self.after_ns, into),
        };
        match self.every_ns {
            _ if into < lasts => begin.saturating_add(lasts),
            Some(every) => begin.saturating_add(every.max(1)),
            None => u64::MAX,
        }
    }
}

/// One thing that is done to an instance: the part of its speed that is left while it is on; 0
/// makes it stand still.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowing {
    /// When.
    pub pattern: Pattern,
    /// The part of the speed that is left, from 0 (included) to 1.
    pub left: f64,
}

/// Changes of speed that one decision looks at; what is beyond is left for the next.
const CHANGES_MAX: usize = 256;

/// Slows one instance.
#[derive(Clone, Debug)]
pub struct Throttle {
    slowings: Vec<Slowing>,
    /// Work, in nanoseconds at full speed, that has been done but not yet been stood still for.
    owed_ns: f64,
    /// Up to when the past has been paid for.
    paid_ns: u64,
}

impl Throttle {
    /// A throttle that does all of these; speeds multiply.
    pub fn new(slowings: Vec<Slowing>) -> Throttle {
        let throttle = Throttle { slowings, owed_ns: 0.0, paid_ns: 0 };
        throttle.check();
        throttle
    }

    /// The instance has been busy for so long until now (0 if it comes back from waiting for
    /// others): until when it is to stand still. At the speeds it is held to, it would have done
    /// this work just then.
    pub fn on_busy(&mut self, now_ns: u64, busy_ns: u64) -> u64 {
        // It began no sooner than the past has been paid for.
        let mut at = now_ns.saturating_sub(busy_ns).max(self.paid_ns.min(now_ns));
        self.owed_ns += busy_ns as f64;
        for _ in 0..CHANGES_MAX {
            let (speed, change) = (self.speed(at), self.next_change(at));
            let left_ns = change.saturating_sub(at) as f64;
            if self.owed_ns <= left_ns * speed {
                at = at.saturating_add(whole_ns(self.owed_ns, speed));
                self.owed_ns = 0.0;
                break;
            }
            if change == u64::MAX {
                // A pause without an end is refused when the flow is checked.
                self.owed_ns = 0.0;
                break;
            }
            self.owed_ns -= left_ns * speed;
            at = change;
        }
        self.paid_ns = self.pause_end(at.max(now_ns));
        self.check();
        self.paid_ns
    }

    /// When a pause that is on at this time ends.
    fn pause_end(&self, now_ns: u64) -> u64 {
        let mut at = now_ns;
        for _ in 0..CHANGES_MAX {
            if self.speed(at) > 0.0 || self.next_change(at) == u64::MAX {
                break;
            }
            at = self.next_change(at);
        }
        at
    }

    fn speed(&self, now_ns: u64) -> f64 {
        let on = self.slowings.iter().filter(|slowing| slowing.pattern.is_on(now_ns));
        on.map(|slowing| slowing.left).product()
    }

    fn next_change(&self, now_ns: u64) -> u64 {
        let changes = self.slowings.iter().map(|slowing| slowing.pattern.next_change(now_ns));
        changes.min().unwrap_or(u64::MAX)
    }

    fn check(&self) {
        assert!(self.slowings.iter().all(|slowing| (0.0..=1.0).contains(&slowing.left)));
        assert!(self.owed_ns >= 0.0);
    }
}

/// How long this much work takes, rounded up.
fn whole_ns(work_ns: f64, speed: f64) -> u64 {
    let lasts = if work_ns > 0.0 { work_ns / speed } else { 0.0 };
    let whole = lasts as u64;
    if (whole as f64) < lasts { whole + 1 } else { whole }
}

/// The slowest of the rates a disk is held to now, in bytes per second; `None` if to none.
pub fn held_rate(holds: &[(Pattern, u64)], now_ns: u64) -> Option<u64> {
    holds.iter().filter(|(pattern, _)| pattern.is_on(now_ns)).map(|(_, rate)| *rate).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const SECOND: u64 = 1_000_000_000;

    fn pattern(after: u64, lasts: Option<u64>, every: Option<u64>) -> Pattern {
        let ns = |seconds: u64| seconds * SECOND;
        Pattern { after_ns: ns(after), lasts_ns: lasts.map(ns), every_ns: every.map(ns) }
    }

    #[test]
    fn a_pattern_is_on_when_it_says_and_knows_its_next_change() {
        let on = |pattern: Pattern| -> vec::Vec<u64> {
            (0..30).filter(|second| pattern.is_on(second * SECOND)).collect()
        };
        assert_eq!(on(pattern(2, Some(3), None)), vec![2, 3, 4]);
        assert_eq!(on(pattern(2, Some(1), Some(10))), vec![2, 12, 22]);
        assert_eq!(on(pattern(28, None, None)), vec![28, 29]);
        let changes = |pattern: Pattern| {
            let next = |at: &u64| Some(pattern.next_change(*at));
            let all = core::iter::successors(Some(0), next).skip(1).take(4);
            all.map(|at| at / SECOND).collect::<vec::Vec<_>>()
        };
        assert_eq!(changes(pattern(2, Some(1), Some(10))), vec![2, 3, 12, 13]);
        assert_eq!(changes(pattern(2, Some(3), None))[..2], [2, 5]);
        assert_eq!(pattern(2, Some(3), None).next_change(5 * SECOND), u64::MAX);
    }

    #[test]
    fn three_quarters_taken_are_four_times_as_long() {
        let slowing = Slowing { pattern: pattern(0, None, None), left: 0.25 };
        let mut throttle = Throttle::new(vec![slowing]);
        let until = throttle.on_busy(SECOND, SECOND);
        assert!(until.abs_diff(4 * SECOND) < 10, "{until}");
        assert_eq!(throttle.on_busy(until + 5, 0), until + 5, "waiting costs nothing");
    }

    #[test]
    fn a_long_stretch_is_made_up_for_only_as_far_as_it_was_slow() {
        let slowing = Slowing { pattern: pattern(2, Some(3), None), left: 0.25 };
        let mut throttle = Throttle::new(vec![slowing]);
        let until = throttle.on_busy(10 * SECOND, 10 * SECOND);
        assert!(until.abs_diff(12_250_000_000) < 10, "{until}");
    }

    #[test]
    fn a_pause_holds_whoever_comes_into_it() {
        let pause = Slowing { pattern: pattern(3, Some(2), Some(10)), left: 0.0 };
        let mut throttle = Throttle::new(vec![pause]);
        assert_eq!(throttle.on_busy(2 * SECOND, SECOND), 2 * SECOND);
        assert_eq!(throttle.on_busy(4 * SECOND, 0), 5 * SECOND);
        let until = throttle.on_busy(14 * SECOND, 2 * SECOND);
        assert!(until.abs_diff(16 * SECOND) < 10, "one second of work was left: {until}");
    }

    #[test]
    fn a_disk_is_held_to_the_slowest_rate_that_is_on() {
        let holds = [(pattern(0, None, None), 50), (pattern(2, Some(1), None), 5)];
        assert_eq!(held_rate(&holds, SECOND), Some(50));
        assert_eq!(held_rate(&holds, 2 * SECOND), Some(5));
        assert_eq!(held_rate(&holds[1..], 3 * SECOND), None);
    }
}
