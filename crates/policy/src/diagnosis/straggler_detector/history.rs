//! The history of one component: its latest samples, its earlier rates, its current slow episode.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::episode::{ComponentCounters, SlowEpisode};
use super::reference::{PEER_EVIDENCE_NS, ReferenceRate, is_other};
use super::sample::{Past, RateWindow, SampleDelta};

/// The interval at which `StragglerDetector::on_sample` is meant to be called.
pub const SAMPLE_INTERVAL_NS: u64 = 100_000_000;
/// Busy time over which a component's rate is measured, at least. A very slow component shows
/// within this time.
pub(super) const EVIDENCE_NS: u64 = 800_000_000;
/// Multiples of `EVIDENCE_NS` over which small slowdowns are measured.
pub(super) const EVIDENCE_LONG: [u64; 2] = [3, 9];
/// Samples older than this say nothing about the present and are dropped.
const AGE_MAX_NS: u64 = 20_000_000_000;
/// Samples kept per component, at most.
const SAMPLES_MAX: usize = 256;
/// Periods of its past that a component without peers needs before it can be compared with them.
const PAST_MIN: usize = 3;
/// Periods of its past kept per component, at most.
const PAST_MAX: usize = 16;

/// What is known of one component.
#[derive(Clone, Debug, Default)]
pub(super) struct ComponentHistory {
    pub(super) group: usize,
    pub(super) has_past: bool,
    last: Option<ComponentCounters>,
    /// The latest samples in which it was busy, oldest first.
    pub(super) steps: VecDeque<SampleDelta>,
    /// The complete periods of its past, oldest first.
    past: VecDeque<Past>,
    /// The period that has begun.
    period: SampleDelta,
    /// Since when its rate has been slow, or recovered while it is called slow.
    pub(super) turning_since_ns: Option<u64>,
    /// Its current slow episode.
    pub(super) slow: Option<SlowEpisode>,
    /// The rate of the reference it was last compared with.
    pub(super) compared: Option<f64>,
}

impl ComponentHistory {
    pub(super) fn new(group: usize, has_past: bool) -> ComponentHistory {
        ComponentHistory { group, has_past, ..ComponentHistory::default() }
    }

    pub(super) fn check(&self) {
        assert!(self.steps.len() <= SAMPLES_MAX && self.past.len() <= PAST_MAX);
    }

    /// Adds a sample. A late one only replaces the counters.
    pub(super) fn on_facts(&mut self, now_ns: u64, facts: ComponentCounters, late: bool) {
        let last = self.last.replace(facts);
        while self.steps.front().is_some_and(|step| now_ns - step.at_ns > AGE_MAX_NS) {
            self.steps.pop_front();
        }
        let Some(last) = last.filter(|_| !late) else { return };
        let step = SampleDelta::between(&last, &facts, now_ns);
        if step.busy_ns == 0 && step.work() == 0.0 {
            return;
        }
        if self.steps.len() == SAMPLES_MAX {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }

    /// The shortest window of latest samples with `busy_ns` of busy time and `steps_min` steps of
    /// progress.
    pub(super) fn window(&self, busy_ns: u64, steps_min: usize) -> Option<RateWindow> {
        let mut sum = SampleDelta::empty();
        let mut steps = 0;
        for step in self.steps.iter().rev() {
            sum.add(step);
            steps += usize::from(step.work() > 0.0);
            if sum.busy_ns >= busy_ns && steps >= steps_min {
                let busy = sum.busy_ns as f64;
                return Some(RateWindow {
                    rate: sum.work() / busy,
                    busy_ns: sum.busy_ns,
                    computes: sum.cpu_ns.map(|cpu| cpu as f64 / busy),
                    grain: if steps_min > 0 { self.grain() } else { 0.0 },
                    mix: sum.mix(),
                });
            }
        }
        None
    }

    /// The size of a step of progress: the variance over the mean of the work between samples,
    /// which is the step size if steps of one size come at random (a Poisson process).
    pub(super) fn grain(&self) -> f64 {
        let mut all = SampleDelta::default();
        self.steps.iter().for_each(|step| all.add(step));
        let rate = all.work() / all.busy_ns.max(1) as f64;
        let off = self.steps.iter().map(|step| step.work() - rate * step.busy_ns as f64);
        off.map(|off| off * off).sum::<f64>() / all.work().max(1.0)
    }

    /// Whether its latest busy sample is too old to judge it by.
    pub(super) fn is_forgotten(&self, now_ns: u64) -> bool {
        self.steps.back().is_none_or(|step| now_ns - step.at_ns > AGE_MAX_NS / 4)
    }

    /// Begins an episode, dated back to where lost busy time began to accumulate.
    pub(super) fn begin(
        &mut self,
        component: usize,
        reference: &ReferenceRate,
        window: &RateWindow,
    ) {
        self.turning_since_ns = None;
        let middle = (reference.rate + window.rate) / 2.0;
        let limit_ns = EVIDENCE_LONG[0] * EVIDENCE_NS.max(reference.recovery_ns());
        let onset = self.turn(limit_ns, |step| middle * step.busy_ns as f64 - step.work());
        let since = self.steps.range(onset..);
        let from_ns = since
            .clone()
            .next()
            .map_or(0, |step| step.at_ns - step.busy_ns.min(SAMPLE_INTERVAL_NS));
        self.slow = Some(SlowEpisode {
            component,
            from_ns,
            to_ns: None,
            work: since.clone().map(SampleDelta::work).sum(),
            expected: since.map(|step| reference.rate * step.busy_ns as f64).sum(),
            alone: reference.alone,
        });
    }

    /// Ends an episode, dated back to where work beyond the slow rate began to accumulate, or at
    /// `now_ns` if it did not. `None` if the episode would end before it began: with large steps,
    /// noise can cause both.
    pub(super) fn ended(&self, episode: SlowEpisode, now_ns: u64) -> Option<SlowEpisode> {
        let reference = self.compared.unwrap_or(0.0);
        let middle = (episode.factor().map_or(0.0, |factor| 1.0 / factor) + 1.0) / 2.0;
        let fair = middle * reference;
        let turn = self.turn(AGE_MAX_NS, |step| step.work() - fair * step.busy_ns as f64);
        let well = || self.steps.range(turn..);
        let well_ns: u64 = well().map(|step| step.busy_ns).sum();
        let first = well().next().filter(|_| well_ns >= PEER_EVIDENCE_NS);
        let to_ns = first.map_or(now_ns, |first| first.at_ns.saturating_sub(SAMPLE_INTERVAL_NS));
        if to_ns <= episode.from_ns {
            return None;
        }
        let ended = SlowEpisode { to_ns: Some(to_ns), ..episode };
        if first.is_none() {
            return Some(ended);
        }
        let work = episode.work - well().map(SampleDelta::work).sum::<f64>();
        let expected = episode.expected - reference * well_ns as f64;
        let whole = work >= 0.0 && expected > work;
        Some(if whole { SlowEpisode { work, expected, ..ended } } else { ended })
    }

    /// The index of the sample, within the latest `busy_max_ns` of busy time, from which the sum of
    /// `gain` is largest.
    pub(super) fn turn(&self, busy_max_ns: u64, gain: impl Fn(&SampleDelta) -> f64) -> usize {
        let (mut gained, mut gained_most, mut turn) = (0.0, 0.0, self.steps.len());
        let mut busy_ns = 0;
        for (at, step) in self.steps.iter().enumerate().rev() {
            busy_ns += step.busy_ns;
            if busy_ns > busy_max_ns {
                break;
            }
            gained += gain(step);
            if gained > gained_most {
                (gained_most, turn) = (gained, at);
            }
        }
        turn
    }

    /// The median of its past periods.
    pub(super) fn own_past(&self) -> Option<ReferenceRate> {
        if self.past.len() < PAST_MIN || !self.has_past {
            return None;
        }
        let mut past: Vec<Past> = self.past.iter().copied().collect();
        past.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let Past { rate, computes, mix } = past[past.len() / 2];
        let grain = self.grain().min(rate * SAMPLE_INTERVAL_NS as f64);
        Some(ReferenceRate { rate, computes, grain, mix, of_two: false, alone: true })
    }

    /// Adds a sample to its past, unless it is slow or may be about to be. A change of the kind of
    /// work starts a new past.
    pub(super) fn remember(&mut self, step: &SampleDelta) {
        if self.slow.is_some() || self.turning_since_ns.is_some() {
            self.period = SampleDelta::empty();
            return;
        }
        self.period.add(step);
        if self.period.busy_ns < EVIDENCE_NS {
            return;
        }
        let period = core::mem::replace(&mut self.period, SampleDelta::empty());
        let (busy, mix) = (period.busy_ns as f64, period.mix());
        if self.past.back().is_some_and(|past| is_other(past.mix, mix)) {
            self.past.clear();
        }
        if self.past.len() == PAST_MAX {
            self.past.pop_front();
        }
        let computes = period.cpu_ns.map(|cpu| cpu as f64 / busy);
        self.past.push_back(Past { rate: period.work() / busy, computes, mix });
    }
}
