//! Failure detector: the heartbeat timeout after which a peer is declared dead.
//!
//! A machine with an overloaded processor sends heartbeats late and irregularly: it is slow, not
//! dead. The timeout therefore adapts to the irregularity of past heartbeats, as in Chen et al.
//! (2002) and in accrual detectors (Hayashibara et al., 2004). It is derived from the longest
//! recent pause instead of a fitted distribution, because there are too few heartbeats to fit one.

use core::time::Duration;

/// The default timeout between two processes on one machine.
pub const LOCAL_TIMEOUT: Duration = Duration::from_secs(2);
/// The default timeout between machines, where a network may pause for seconds.
pub(crate) const REMOTE_TIMEOUT: Duration = Duration::from_secs(10);
/// The smallest configurable timeout. Heartbeats are sent every quarter of a second, and a busy
/// machine may delay several of them.
pub const CONFIGURED_TIMEOUT_MIN: Duration = Duration::from_secs(2);
/// The largest configurable timeout.
pub const CONFIGURED_TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// The timeout for a peer with regular heartbeats: `configured`, within its bounds, or the default
/// for the distance.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::failure_detector::{LOCAL_TIMEOUT, base_timeout};
///
/// assert_eq!(base_timeout(true, None), LOCAL_TIMEOUT);
/// let too_short = Some(Duration::from_millis(1));
/// assert_eq!(base_timeout(false, too_short), Duration::from_secs(2), "the smallest allowed");
/// ```
pub fn base_timeout(is_within_machine: bool, configured: Option<Duration>) -> Duration {
    let usual = if is_within_machine { LOCAL_TIMEOUT } else { REMOTE_TIMEOUT };
    configured.map_or(usual, |asked| asked.clamp(CONFIGURED_TIMEOUT_MIN, CONFIGURED_TIMEOUT_MAX))
}

/// How many times the longest recent pause the timeout allows on top of its base.
const PAUSES: u32 = 4;
/// A pause is remembered for one to two of these periods.
const MEMORY: Duration = Duration::from_secs(30);

/// The heartbeats of one peer. All times are of one clock of the observer.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::failure_detector::FailureDetector;
///
/// let ms = Duration::from_millis;
/// let mut detector = FailureDetector::new(ms(2000), ms(30_000), ms(0));
/// detector.on_heartbeat(ms(250));
/// assert_eq!(detector.timeout(), ms(2000), "heartbeats are regular");
/// detector.on_heartbeat(ms(1250));
/// assert_eq!(detector.timeout(), ms(2000 + 4 * 1000), "one came late");
/// ```
#[derive(Clone, Debug)]
pub struct FailureDetector {
    base: Duration,
    timeout_max: Duration,
    last: Duration,
    /// When the current memory period began.
    turned: Duration,
    /// The longest pauses of the current memory period and of the one before.
    longest: [Duration; 2],
}

impl FailureDetector {
    /// Starts at `now` with the timeout for regular heartbeats. Irregular ones raise it, to
    /// `timeout_max` at most, or to `base` if that is longer.
    pub fn new(base: Duration, timeout_max: Duration, now: Duration) -> FailureDetector {
        let timeout_max = timeout_max.max(base);
        FailureDetector { base, timeout_max, last: now, turned: now, longest: [Duration::ZERO; 2] }
    }

    /// Replaces the timeout for regular heartbeats.
    ///
    /// ```
    /// use core::time::Duration;
    /// use euphrates_policy::failure_detector::FailureDetector;
    ///
    /// let seconds = Duration::from_secs;
    /// let mut detector = FailureDetector::new(seconds(2), seconds(30), seconds(0));
    /// detector.set_base(seconds(60));
    /// assert_eq!(detector.timeout(), seconds(60), "beyond the bound for irregular heartbeats");
    /// ```
    pub fn set_base(&mut self, base: Duration) {
        (self.base, self.timeout_max) = (base, self.timeout_max.max(base));
    }

    /// The peer has sent a heartbeat, or any other frame.
    pub fn on_heartbeat(&mut self, now: Duration) {
        let turns = now.saturating_sub(self.turned).as_secs() / MEMORY.as_secs();
        if turns > 0 {
            let before = if turns == 1 { self.longest[0] } else { Duration::ZERO };
            (self.longest, self.turned) = ([Duration::ZERO, before], now);
        }
        self.longest[0] = self.longest[0].max(now.saturating_sub(self.last));
        self.last = now;
    }

    /// The current timeout: the peer is dead if it sends nothing for that long.
    pub fn timeout(&self) -> Duration {
        let [current, before] = self.longest;
        let longest = current.max(before);
        // Shorter pauses are ordinary scheduling delay: they keep the base.
        if longest * PAUSES <= self.base {
            return self.base;
        }
        (self.base + longest * PAUSES).min(self.timeout_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn regular() -> FailureDetector {
        FailureDetector::new(ms(2000), ms(30_000), ms(0))
    }

    #[test]
    fn base_timeout_depends_on_distance_and_configuration() {
        let seconds = |is_within, asked: Option<u64>| {
            base_timeout(is_within, asked.map(Duration::from_secs)).as_secs()
        };
        assert_eq!([seconds(true, None), seconds(false, None)], [2, 10]);
        assert_eq!([seconds(true, Some(60)), seconds(false, Some(3))], [60, 3]);
        assert_eq!([seconds(true, Some(0)), seconds(false, Some(99_999))], [2, 3600]);
    }

    #[test]
    fn five_second_pause_between_machines_is_tolerated() {
        let regular = base_timeout(false, None);
        let mut detector = FailureDetector::new(regular, ms(30_000), ms(0));
        (1..100).for_each(|beat| detector.on_heartbeat(ms(beat * 250)));
        assert!(ms(5000) < detector.timeout());
        detector.on_heartbeat(ms(99 * 250 + 5000));
        assert_eq!(detector.timeout(), ms(30_000), "irregular heartbeats raise the timeout");
    }

    #[test]
    fn regular_peer_keeps_the_base_timeout() {
        let mut detector = regular();
        (1..1000).for_each(|beat| detector.on_heartbeat(ms(beat * 300)));
        assert_eq!(detector.timeout(), ms(2000));
        detector.on_heartbeat(ms(999 * 300 + 600));
        assert_eq!(detector.timeout(), ms(4400));
    }

    #[test]
    fn timeout_grows_with_ever_longer_pauses() {
        let (mut detector, mut now, mut pause) = (regular(), 0, 250);
        while pause < 20_000 {
            assert!(ms(pause) < detector.timeout(), "{pause} ms");
            now += pause;
            detector.on_heartbeat(ms(now));
            pause = pause * 2 + pause / 2;
        }
        assert_eq!(detector.timeout(), ms(30_000));
    }

    #[test]
    fn announced_base_timeout_replaces_the_first() {
        let mut detector = regular();
        detector.on_heartbeat(ms(250));
        detector.set_base(ms(20_000));
        assert_eq!(detector.timeout(), ms(20_000));
        detector.on_heartbeat(ms(15_000));
        assert_eq!(detector.timeout(), ms(30_000));
        let mut detector = regular();
        detector.set_base(ms(20_000));
        detector.set_base(ms(2000));
        assert_eq!(detector.timeout(), ms(2000));
    }

    #[test]
    fn old_pauses_are_forgotten() {
        let mut detector = regular();
        detector.on_heartbeat(ms(1500));
        assert_eq!(detector.timeout(), ms(8000));
        (1..100).for_each(|beat| detector.on_heartbeat(ms(1500 + beat * 250)));
        assert_eq!(detector.timeout(), ms(8000));
        (100..260).for_each(|beat| detector.on_heartbeat(ms(1500 + beat * 250)));
        assert_eq!(detector.timeout(), ms(2000));
        detector.on_heartbeat(ms(900_000));
        assert_eq!(detector.timeout(), ms(30_000));
    }
}
