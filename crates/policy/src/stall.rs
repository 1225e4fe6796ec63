//! Whether a flow stands still for ever.
//!
//! Queues are bounded, so a flow whose branches meet again can lock up: one module waits for room
//! in a queue whose reader waits for something that has yet to come through the first. Whoever
//! works, or waits for a device, a program or the network, is not waiting for another module; so
//! when all wait for each other and go on doing so, nothing will ever move again.

use core::time::Duration;

/// How long nothing has moved before a flow is given up: far more than it takes to schedule a
/// thread that has been woken, however busy the machine.
const STILL: Duration = Duration::from_secs(5);
/// What one look may add to that. A process that was stopped as a whole looks once after it, and
/// is not blamed for the time it stood.
const LOOK_MAX: Duration = Duration::from_millis(50);

/// Watches a flow.
#[derive(Clone, Debug, Default)]
pub struct StallWatch {
    moved: u64,
    looked: Duration,
    still: Duration,
}

impl StallWatch {
    /// The flow is looked at, at this time of a clock: whether all its instances wait for others,
    /// and a number that changes with everything that moves. What they wait for may be on a
    /// connection that has fallen silent, and is given up after so long, if it has any. Returns
    /// whether the flow will stand still for ever.
    pub fn on_look(
        &mut self,
        now: Duration,
        all_wait: bool,
        moved: u64,
        silence: Duration,
    ) -> bool {
        let since = now.saturating_sub(self.looked).min(LOOK_MAX);
        let still = all_wait && moved == self.moved;
        self.still = if still { self.still + since } else { Duration::ZERO };
        (self.looked, self.moved) = (now, moved);
        self.still >= STILL + silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    /// Looks every `step`, for so long; whether the flow was given up.
    struct Watched(StallWatch, Duration);

    impl Watched {
        fn new() -> Watched {
            Watched(StallWatch::default(), NONE)
        }

        fn looks(&mut self, step: u64, time: Duration, all_wait: bool, moved: u64) -> bool {
            self.silent(step, time, all_wait, moved, NONE)
        }

        fn silent(
            &mut self,
            step: u64,
            time: Duration,
            all_wait: bool,
            moved: u64,
            silence: Duration,
        ) -> bool {
            let end = self.1 + time;
            while self.1 < end {
                self.1 += Duration::from_millis(step);
                if self.0.on_look(self.1, all_wait, moved, silence) {
                    return true;
                }
            }
            false
        }
    }

    #[test]
    fn a_flow_is_given_up_only_when_all_wait_and_nothing_moves_for_long() {
        let (mut flow, almost) = (Watched::new(), STILL - LOOK_MAX);
        assert!(!flow.looks(20, almost, true, 1));
        assert!(!flow.looks(20, almost, true, 2), "something moved");
        assert!(!flow.looks(20, almost, false, 2), "somebody works");
        assert!(!flow.looks(20, almost, true, 2));
        assert!(flow.looks(20, LOOK_MAX, true, 2));
    }

    #[test]
    fn it_does_not_matter_how_often_it_is_looked_at() {
        for step in [1, 10, 20, 50] {
            let mut flow = Watched::new();
            assert!(!flow.looks(step, STILL - 2 * LOOK_MAX, true, 1), "every {step} ms");
            assert!(flow.looks(step, 3 * LOOK_MAX, true, 1), "every {step} ms");
        }
    }

    #[test]
    fn a_process_that_was_stopped_is_not_blamed() {
        let mut flow = Watched::new();
        assert!(!flow.looks(20, LOOK_MAX, true, 1));
        assert!(!flow.looks(3_600_000, LOOK_MAX, true, 1), "it stood for an hour");
        assert!(!flow.looks(20, STILL - 4 * LOOK_MAX, true, 1));
    }

    #[test]
    fn a_flow_that_may_wait_for_a_silent_connection_is_given_up_after_that() {
        let (mut flow, silence) = (Watched::new(), Duration::from_secs(30));
        assert!(!flow.silent(20, silence + STILL - LOOK_MAX, true, 1, silence));
        assert!(flow.silent(20, 2 * LOOK_MAX, true, 1, silence));
    }
}
