//! Perturbation: slows an instance or a disk down on purpose, at given times (River 3.1.2, 3.2.2).
//!
//! The paper ran a job that takes three quarters of a processor, and a stream that competes for a
//! disk. Here an instance that has been busy is paused for the additional time that the same work
//! would have taken at the reduced speed. The pause comes after the work.

use alloc::vec::Vec;

/// The times of a perturbation, in nanoseconds since the start of the flow.
///
/// ```
/// use euphrates_policy::slowdown::Pattern;
///
/// let pattern = Pattern { after_ns: 100, lasts_ns: Some(10), every_ns: Some(50) };
/// assert_eq!([99, 100, 110, 150].map(|now_ns| pattern.is_on(now_ns)), [false, true, false, true]);
/// assert_eq!(pattern.next_change(100), 110);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// When it first begins.
    pub after_ns: u64,
    /// How long it lasts; `None` for the rest of the flow.
    pub lasts_ns: Option<u64>,
    /// The period from one beginning to the next, longer than `lasts_ns`; `None` if it does not
    /// repeat.
    pub every_ns: Option<u64>,
}

impl Pattern {
    /// Whether the perturbation is on at `now_ns`.
    pub fn is_on(&self, now_ns: u64) -> bool {
        let Some(into) = now_ns.checked_sub(self.after_ns) else { return false };
        let into = self.every_ns.map_or(into, |every| into % every.max(1));
        self.lasts_ns.is_none_or(|lasts| into < lasts)
    }

    /// When it next begins or ends; `u64::MAX` if never.
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

/// One perturbation of an instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowing {
    /// The times of the perturbation.
    pub pattern: Pattern,
    /// The fraction of the speed that is left, from 0 (a pause) to 1.
    pub speed_left: f64,
}

/// Changes of speed per decision, at most; later ones are left for the next decision.
const CHANGES_MAX: usize = 256;

/// Slows one instance down.
///
/// ```
/// use euphrates_policy::slowdown::{Pattern, Slowing, Throttle};
///
/// let always = Pattern { after_ns: 0, lasts_ns: None, every_ns: None };
/// let mut throttle = Throttle::new(vec![Slowing { pattern: always, speed_left: 0.5 }]);
/// assert_eq!(throttle.on_busy(1000, 1000), 2000, "pause until twice the time has passed");
/// ```
#[derive(Clone, Debug)]
pub struct Throttle {
    slowings: Vec<Slowing>,
    /// Work done, in nanoseconds at full speed, that has not been paid for by a pause.
    owed_ns: f64,
    /// The time up to which all work has been paid for.
    paid_ns: u64,
}

impl Throttle {
    /// Combines perturbations; their fractions multiply.
    pub fn new(slowings: Vec<Slowing>) -> Throttle {
        let throttle = Throttle { slowings, owed_ns: 0.0, paid_ns: 0 };
        throttle.check();
        throttle
    }

    /// The instance has been busy for `busy_ns` until `now_ns`; `busy_ns` is 0 if it has waited for
    /// others. Returns the time until which it must pause: when the same work would be done at the
    /// reduced speed.
    pub fn on_busy(&mut self, now_ns: u64, busy_ns: u64) -> u64 {
        // The work began no earlier than everything before was paid for.
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
                // The check of a flow refuses a pause without an end.
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

    /// The end of a pause that is on at `now_ns`, or `now_ns`.
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
        on.map(|slowing| slowing.speed_left).product()
    }

    fn next_change(&self, now_ns: u64) -> u64 {
        let changes = self.slowings.iter().map(|slowing| slowing.pattern.next_change(now_ns));
        changes.min().unwrap_or(u64::MAX)
    }

    fn check(&self) {
        assert!(self.slowings.iter().all(|slowing| (0.0..=1.0).contains(&slowing.speed_left)));
        assert!(self.owed_ns >= 0.0);
    }
}

/// The time that work takes at a speed, rounded up.
fn whole_ns(work_ns: f64, speed: f64) -> u64 {
    let lasts = if work_ns > 0.0 { work_ns / speed } else { 0.0 };
    let whole = lasts as u64;
    if (whole as f64) < lasts { whole + 1 } else { whole }
}

/// The lowest rate limit of a disk that is on at `now_ns`, in bytes per second; `None` without one.
///
/// ```
/// use euphrates_policy::slowdown::{Pattern, held_rate};
///
/// let always = Pattern { after_ns: 0, lasts_ns: None, every_ns: None };
/// let later = Pattern { after_ns: 1000, ..always };
/// let holds = [(always, 50_000_000), (later, 10_000_000)];
/// assert_eq!(held_rate(&holds, 0), Some(50_000_000));
/// assert_eq!(held_rate(&holds, 1000), Some(10_000_000), "the lowest");
/// ```
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
    fn pattern_reports_its_state_and_its_next_change() {
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
    fn quarter_speed_takes_four_times_as_long() {
        let slowing = Slowing { pattern: pattern(0, None, None), speed_left: 0.25 };
        let mut throttle = Throttle::new(vec![slowing]);
        let until = throttle.on_busy(SECOND, SECOND);
        assert!(until.abs_diff(4 * SECOND) < 10, "{until}");
        assert_eq!(throttle.on_busy(until + 5, 0), until + 5, "waiting costs nothing");
    }

    #[test]
    fn only_the_perturbed_part_of_long_work_is_paid_for() {
        let slowing = Slowing { pattern: pattern(2, Some(3), None), speed_left: 0.25 };
        let mut throttle = Throttle::new(vec![slowing]);
        let until = throttle.on_busy(10 * SECOND, 10 * SECOND);
        assert!(until.abs_diff(12_250_000_000) < 10, "{until}");
    }

    #[test]
    fn pause_holds_an_instance_until_its_end() {
        let pause = Slowing { pattern: pattern(3, Some(2), Some(10)), speed_left: 0.0 };
        let mut throttle = Throttle::new(vec![pause]);
        assert_eq!(throttle.on_busy(2 * SECOND, SECOND), 2 * SECOND);
        assert_eq!(throttle.on_busy(4 * SECOND, 0), 5 * SECOND);
        let until = throttle.on_busy(14 * SECOND, 2 * SECOND);
        assert!(until.abs_diff(16 * SECOND) < 10, "one second of work was left: {until}");
    }

    #[test]
    fn lowest_active_rate_applies_to_a_disk() {
        let holds = [(pattern(0, None, None), 50), (pattern(2, Some(1), None), 5)];
        assert_eq!(held_rate(&holds, SECOND), Some(50));
        assert_eq!(held_rate(&holds, 2 * SECOND), Some(5));
        assert_eq!(held_rate(&holds[1..], 3 * SECOND), None);
    }
}
