//! The liveness of a lane's other end: every frame it sends counts as a heartbeat.

use std::time::{Duration, Instant};

use euphrates_policy::failure_detector::FailureDetector;

use crate::heartbeat::{self, ADAPTIVE_TIMEOUT_MAX};

/// The frames of the other end, as heartbeats.
pub(super) struct Liveness {
    began: Instant,
    detector: FailureDetector,
    /// The timeout for regular heartbeats that this end applies, at least.
    base_min: Duration,
    timeout: Duration,
}

impl Liveness {
    /// Starts with the base timeout of this end or the one that the other end advertises, whichever
    /// is longer.
    pub fn new(base_min: Duration, advertised: Duration) -> Liveness {
        let timeout = base_min.max(heartbeat::capped(advertised));
        let detector = FailureDetector::new(timeout, ADAPTIVE_TIMEOUT_MAX, Duration::ZERO);
        Liveness { began: Instant::now(), detector, base_min, timeout }
    }

    /// The time without a frame after which the other end is lost.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// A frame has arrived; a heartbeat may advertise a new timeout. Returns the timeout from now
    /// on if it has changed.
    pub fn on_frame(&mut self, advertised: Option<Duration>) -> Option<Duration> {
        if let Some(advertised) = advertised {
            self.detector.set_base(self.base_min.max(heartbeat::capped(advertised)));
        }
        self.detector.on_heartbeat(self.began.elapsed());
        let timeout = self.detector.timeout();
        (std::mem::replace(&mut self.timeout, timeout) != timeout).then_some(timeout)
    }
}
