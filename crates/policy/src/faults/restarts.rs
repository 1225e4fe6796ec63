//! Restart policy: a dead process is restarted at once, but at most a few times per window.
//!
//! The limit prevents a crash loop from using up the machine.

use core::time::Duration;

/// Restarts within a window, at most.
const RESTARTS_MAX: usize = 3;
/// The length of the sliding window.
const WINDOW: Duration = Duration::from_secs(30);

/// The restarts of one process. All times are of one clock.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::restarts::Restarts;
///
/// let mut restarts = Restarts::default();
/// (0..3).for_each(|second| restarts.on_restart(Duration::from_secs(second)));
/// assert_eq!(restarts.wait(Duration::from_secs(3)), Duration::from_secs(27));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Restarts {
    /// The times of the last restarts, oldest first.
    last: [Option<Duration>; RESTARTS_MAX],
}

impl Restarts {
    /// The time to wait before the next restart; zero while the window has room.
    pub fn wait(&self, now: Duration) -> Duration {
        self.last[0].map_or(Duration::ZERO, |oldest| (oldest + WINDOW).saturating_sub(now))
    }

    /// The process is restarted at `now`.
    pub fn on_restart(&mut self, now: Duration) {
        self.last.rotate_left(1);
        self.last[RESTARTS_MAX - 1] = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn fourth_restart_in_a_window_waits() {
        let mut restarts = Restarts::default();
        for second in 0..3 {
            let now = Duration::from_secs(second);
            assert_eq!(restarts.wait(now), Duration::ZERO);
            restarts.on_restart(now);
        }
        assert_eq!(restarts.wait(Duration::from_secs(3)), Duration::from_secs(27));
        assert_eq!(restarts.wait(Duration::from_secs(30)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn no_window_has_more_than_three_restarts(
            lives in prop::collection::vec(0..40_000_u64, 1..60)
        ) {
            let (mut restarts, mut now) = (Restarts::default(), Duration::ZERO);
            let mut began: Vec<Duration> = Vec::new();
            for life in lives {
                now += Duration::from_millis(life) + restarts.wait(now);
                now += restarts.wait(now);
                restarts.on_restart(now);
                began.push(now);
            }
            for four in began.windows(RESTARTS_MAX + 1) {
                prop_assert!(four[RESTARTS_MAX] - four[0] >= WINDOW);
            }
        }
    }
}
