//! The reference that a component's rate is compared with, and the thresholds of slowness.

use super::sample::RateWindow;

/// Busy time over which a reference's rate is measured, at least.
pub(super) const PEER_EVIDENCE_NS: u64 = 400_000_000;
/// A rate below the reference by less than this many standard deviations of its step noise is not
/// slow.
const NOISE_SIGMAS: f64 = 4.0;
/// A component whose rate falls below this fraction of its reference's is slow.
pub(crate) const SLOW: f64 = 0.58;
/// The same threshold for the long windows, which tell small differences from noise.
pub(super) const SLOW_LONG: f64 = 0.66;
/// A slow component whose rate exceeds this fraction of its reference's has recovered. The gap to
/// `SLOW` keeps a component at the threshold from flapping.
const RECOVERED_RATIO: f64 = 0.78;
/// Lowers `SLOW` where only two peers are known: the reference is then the faster of the two, and
/// noise alone makes one of two the faster.
const TWO_PEER_MARGIN: f64 = 0.92;
/// `SLOW` for a component that is compared with its own past, which varies more than peers do.
const SLOW_ALONE: f64 = 0.34;
/// `RECOVERED_RATIO` for a component that is compared with its own past.
const RECOVERED_RATIO_ALONE: f64 = 0.5;
/// A component that computes for at least this fraction of its peers' processor time per busy
/// second is not slow but has the harder work.
pub(crate) const COMPUTES: f64 = 0.75;
/// Peers that compute for less than this fraction of their busy time do work whose cost processor
/// time does not measure.
pub(crate) const COMPUTES_MIN: f64 = 0.1;
/// Two mixes (fractions of the work that go out) further apart than this are different kinds of
/// work, as taking in and giving out are.
pub(crate) const MIX: f64 = 0.25;

/// The rate that a component should reach.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReferenceRate {
    /// Work per busy nanosecond.
    pub(super) rate: f64,
    pub(super) computes: Option<f64>,
    pub(super) grain: f64,
    pub(super) mix: Option<f64>,
    /// Whether the rates of exactly two components are known, with the one that is compared.
    pub(super) of_two: bool,
    /// Whether it is the component's own past.
    pub(super) alone: bool,
}

impl ReferenceRate {
    /// Busy time over which a recovery is measured: four steps of progress, at least
    /// `PEER_EVIDENCE_NS`.
    pub(super) fn recovery_ns(&self) -> u64 {
        let grain_ns = if self.rate > 0.0 { self.grain / self.rate } else { 0.0 };
        PEER_EVIDENCE_NS.max((4.0 * grain_ns) as u64)
    }

    pub(super) fn is_slow(&self, window: &RateWindow, slow: f64) -> bool {
        let expected = self.rate * window.busy_ns as f64;
        let missed = expected - window.rate * window.busy_ns as f64;
        let computes = match (window.computes, self.computes) {
            (Some(own), Some(peers)) if peers >= COMPUTES_MIN => own >= COMPUTES * peers,
            _ => false,
        };
        let slow = match self {
            ReferenceRate { alone: true, .. } => SLOW_ALONE,
            ReferenceRate { of_two: true, .. } => slow * TWO_PEER_MARGIN,
            _ => slow,
        };
        window.rate < slow * self.rate
            && missed * missed >= NOISE_SIGMAS * NOISE_SIGMAS * expected * self.grain
            && !computes
            && !self.is_other_work(window.mix)
    }

    pub(super) fn has_recovered(&self, window: &RateWindow) -> bool {
        let ratio = if self.alone { RECOVERED_RATIO_ALONE } else { RECOVERED_RATIO };
        window.rate > ratio * self.rate
    }

    pub(super) fn is_other_work(&self, mix: Option<f64>) -> bool {
        is_other(self.mix, mix)
    }
}

/// Whether two mixes stand for different kinds of work.
pub(super) fn is_other(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b).is_some_and(|(a, b)| (a - b).max(b - a) > MIX)
}
