//! Samples of one component's work, and the windows that sum them up.

use super::episode::ComponentCounters;

/// What a component did between two samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SampleDelta {
    pub(super) at_ns: u64,
    pub(super) work_in: f64,
    pub(super) work_out: f64,
    pub(super) busy_ns: u64,
    pub(super) cpu_ns: Option<u64>,
}

/// A sum of consecutive steps, as rates.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateWindow {
    /// Work per busy nanosecond.
    pub(super) rate: f64,
    pub(super) busy_ns: u64,
    /// The fraction of busy time spent computing, if it is known.
    pub(super) computes: Option<f64>,
    /// The size of a step of progress, estimated as variance over mean of the work between samples.
    pub(super) grain: f64,
    /// The fraction of the work that went out; `None` if nothing moved.
    pub(super) mix: Option<f64>,
}

/// One period of a component's past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    /// Work per busy nanosecond.
    pub(super) rate: f64,
    pub(super) computes: Option<f64>,
    pub(super) mix: Option<f64>,
}

impl SampleDelta {
    /// The difference of two consecutive samples.
    pub(super) fn between(
        last: &ComponentCounters,
        facts: &ComponentCounters,
        now_ns: u64,
    ) -> SampleDelta {
        SampleDelta {
            at_ns: now_ns,
            work_in: facts.work_in.saturating_sub(last.work_in) as f64,
            work_out: facts.work_out.saturating_sub(last.work_out) as f64,
            busy_ns: facts.busy_ns.saturating_sub(last.busy_ns),
            cpu_ns: facts.cpu_ns.zip(last.cpu_ns).map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// The neutral element of `add`.
    pub(super) fn empty() -> SampleDelta {
        SampleDelta { cpu_ns: Some(0), ..SampleDelta::default() }
    }

    pub(super) fn work(&self) -> f64 {
        self.work_in + self.work_out
    }

    pub(super) fn add(&mut self, other: &SampleDelta) {
        self.work_in += other.work_in;
        self.work_out += other.work_out;
        self.busy_ns += other.busy_ns;
        self.cpu_ns = self.cpu_ns.zip(other.cpu_ns).map(|(a, b)| a + b);
    }

    /// The fraction of the work that went out; `None` if nothing moved.
    pub(super) fn mix(&self) -> Option<f64> {
        (self.work() > 0.0).then(|| self.work_out / self.work())
    }
}
