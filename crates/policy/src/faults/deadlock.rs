//! Deadlock detection: whether a flow will never make progress again.
//!
//! Queues are bounded, so a flow whose branches rejoin can deadlock: a module waits for space in a
//! queue whose consumer waits for data that the same module has yet to send on another queue. A
//! module that computes, or waits for a device, a program or the network, does not wait for another
//! module. If all instances wait for other modules, and no counter changes for a while, the flow is
//! deadlocked.

use core::time::Duration;

/// How long no progress must be made before a flow counts as deadlocked: far longer than a woken
/// thread waits for a processor, however busy the machine.
const STILL: Duration = Duration::from_secs(5);
/// The time that one poll adds, at most. A process that was stopped as a whole polls once
/// afterwards, and its time does not count.
const POLL_MAX: Duration = Duration::from_millis(50);

/// Detects the deadlock of one flow.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::deadlock::DeadlockDetector;
///
/// let mut watch = DeadlockDetector::default();
/// let mut is_deadlocked = |tick: u32, moved| {
///     watch.on_poll(tick * Duration::from_millis(50), true, moved, Duration::ZERO)
/// };
/// assert!((1..90).all(|tick| !is_deadlocked(tick, 7)));
/// assert!((90..200).any(|tick| is_deadlocked(tick, 7)));
/// assert!(!is_deadlocked(200, 8), "something has moved");
/// ```
#[derive(Clone, Debug, Default)]
pub struct DeadlockDetector {
    moved: u64,
    polled: Duration,
    still: Duration,
}

impl DeadlockDetector {
    /// Takes a poll of the flow: whether all instances wait for other modules, and a counter that
    /// changes with every movement. `timeout` is the longest heartbeat timeout of the flow's
    /// connections, since a message may be lost with one of them. Returns whether it is deadlocked.
    pub fn on_poll(
        &mut self,
        now: Duration,
        all_wait: bool,
        moved: u64,
        timeout: Duration,
    ) -> bool {
        let since = now.saturating_sub(self.polled).min(POLL_MAX);
        let still = all_wait && moved == self.moved;
        self.still = if still { self.still + since } else { Duration::ZERO };
        (self.polled, self.moved) = (now, moved);
        self.still >= STILL + timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    /// A watch and its clock.
    struct Watched(DeadlockDetector, Duration);

    impl Watched {
        fn new() -> Watched {
            Watched(DeadlockDetector::default(), NONE)
        }

        fn polls(&mut self, step: u64, time: Duration, all_wait: bool, moved: u64) -> bool {
            self.polls_with_timeout(step, time, all_wait, moved, NONE)
        }

        fn polls_with_timeout(
            &mut self,
            step: u64,
            time: Duration,
            all_wait: bool,
            moved: u64,
            timeout: Duration,
        ) -> bool {
            let end = self.1 + time;
            while self.1 < end {
                self.1 += Duration::from_millis(step);
                if self.0.on_poll(self.1, all_wait, moved, timeout) {
                    return true;
                }
            }
            false
        }
    }

    #[test]
    fn deadlock_needs_all_waiting_and_no_movement_for_long() {
        let (mut flow, almost) = (Watched::new(), STILL - POLL_MAX);
        assert!(!flow.polls(20, almost, true, 1));
        assert!(!flow.polls(20, almost, true, 2), "something moved");
        assert!(!flow.polls(20, almost, false, 2), "an instance works");
        assert!(!flow.polls(20, almost, true, 2));
        assert!(flow.polls(20, POLL_MAX, true, 2));
    }

    #[test]
    fn poll_interval_does_not_matter() {
        for step in [1, 10, 20, 50] {
            let mut flow = Watched::new();
            assert!(!flow.polls(step, STILL - 2 * POLL_MAX, true, 1), "every {step} ms");
            assert!(flow.polls(step, 3 * POLL_MAX, true, 1), "every {step} ms");
        }
    }

    #[test]
    fn time_in_which_the_process_was_stopped_does_not_count() {
        let mut flow = Watched::new();
        assert!(!flow.polls(20, POLL_MAX, true, 1));
        assert!(!flow.polls(3_600_000, POLL_MAX, true, 1), "it stood for an hour");
        assert!(!flow.polls(20, STILL - 4 * POLL_MAX, true, 1));
    }

    #[test]
    fn connection_timeout_delays_the_verdict() {
        let (mut flow, timeout) = (Watched::new(), Duration::from_secs(30));
        assert!(!flow.polls_with_timeout(20, timeout + STILL - POLL_MAX, true, 1, timeout));
        assert!(flow.polls_with_timeout(20, 2 * POLL_MAX, true, 1, timeout));
    }
}
