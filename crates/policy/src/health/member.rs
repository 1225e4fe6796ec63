//! What has been seen of one component: its latest looks, its past, its spell.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{
    AGE_MAX_NS, EVIDENCE_LONG, EVIDENCE_NS, Facts, LOOK_NS, LOOKS_MAX, PAST_MAX, PAST_MIN,
    PEER_EVIDENCE_NS, Reference, Spell, is_other,
};

/// One look's worth of a component.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) at_ns: u64,
    pub(super) work_in: f64,
    pub(super) work_out: f64,
    pub(super) busy_ns: u64,
    pub(super) cpu_ns: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub(super) group: usize,
    pub(super) has_past: bool,
    pub(super) last: Option<Facts>,
    /// The latest looks at which it was busy.
    pub(super) steps: VecDeque<Step>,
    /// The periods of its own past, and the one that has begun.
    pub(super) past: VecDeque<Past>,
    pub(super) period: Step,
    /// Since when its rate has been low, or good again while it is called slow.
    pub(super) turning_since_ns: Option<u64>,
    /// Its spell, if it is slow, and the rate it was last compared with.
    pub(super) slow: Option<Spell>,
    pub(super) compared: Option<f64>,
}

/// A period of a component's past: work in a busy nanosecond, and what kind of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    pub(super) rate: f64,
    pub(super) computes: Option<f64>,
    pub(super) mix: Option<f64>,
}

/// What the latest looks say of a component together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) rate: f64,
    pub(super) busy_ns: u64,
    pub(super) computes: Option<f64>,
    /// The size of the steps in which it makes progress, as their spread tells it: the variance
    /// of what is done between two looks beside its mean.
    pub(super) grain: f64,
    /// The part of it that went out; `None` if nothing moved.
    pub(super) mix: Option<f64>,
}

impl Member {
    pub(super) fn on_facts(&mut self, now_ns: u64, facts: Facts, late: bool) {
        let last = self.last.replace(facts);
        while self.steps.front().is_some_and(|step| now_ns - step.at_ns > AGE_MAX_NS) {
            self.steps.pop_front();
        }
        let Some(last) = last.filter(|_| !late) else { return };
        let busy_ns = facts.busy_ns.saturating_sub(last.busy_ns);
        let step = Step {
            at_ns: now_ns,
            work_in: facts.work_in.saturating_sub(last.work_in) as f64,
            work_out: facts.work_out.saturating_sub(last.work_out) as f64,
            busy_ns,
            cpu_ns: facts.cpu_ns.zip(last.cpu_ns).map(|(now, then)| now.saturating_sub(then)),
        };
        if busy_ns == 0 && step.work() == 0.0 {
            return;
        }
        if self.steps.len() == LOOKS_MAX {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }

    /// The latest looks that make up so much busy time and so many steps of progress, if there are.
    pub(super) fn window(&self, busy_ns: u64, steps_min: usize) -> Option<Window> {
        let mut sum = Step { cpu_ns: Some(0), ..Step::default() };
        let mut steps = 0;
        for step in self.steps.iter().rev() {
            sum.add(step);
            steps += usize::from(step.work() > 0.0);
            if sum.busy_ns >= busy_ns && steps >= steps_min {
                let busy = sum.busy_ns as f64;
                return Some(Window {
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

    /// The variance of what it does between two looks beside its mean; of steps of one size that
    /// come by chance, this is their size.
    pub(super) fn grain(&self) -> f64 {
        let mut all = Step::default();
        self.steps.iter().for_each(|step| all.add(step));
        let rate = all.work() / all.busy_ns.max(1) as f64;
        let off = self.steps.iter().map(|step| step.work() - rate * step.busy_ns as f64);
        off.map(|off| off * off).sum::<f64>() / all.work().max(1.0)
    }

    /// Nothing has been seen of it for so long that nothing can be said.
    pub(super) fn is_forgotten(&self, now_ns: u64) -> bool {
        self.steps.back().is_none_or(|step| now_ns - step.at_ns > AGE_MAX_NS / 4)
    }

    /// It is slow, and has been since the busy time that it lost began to add up.
    pub(super) fn begin(&mut self, component: usize, reference: &Reference, window: &Window) {
        self.turning_since_ns = None;
        let middle = (reference.rate + window.rate) / 2.0;
        let limit_ns = EVIDENCE_LONG[0] * EVIDENCE_NS.max(reference.recovery_ns());
        let onset = self.turn(limit_ns, |step| middle * step.busy_ns as f64 - step.work());
        let since = self.steps.range(onset..);
        let from_ns = since.clone().next().map_or(0, |step| step.at_ns - step.busy_ns.min(LOOK_NS));
        self.slow = Some(Spell {
            component,
            from_ns,
            to_ns: None,
            work: since.clone().map(Step::work).sum(),
            expected: since.map(|step| reference.rate * step.busy_ns as f64).sum(),
            alone: reference.alone,
        });
    }

    /// The spell, ended where it stopped being slow: from there on, what it did beyond what is slow
    /// adds up. If it has not, now. Nothing is left of one that was over when it began: looks of
    /// steps as large as chance may make them say both.
    pub(super) fn ended(&self, spell: Spell, now_ns: u64) -> Option<Spell> {
        let reference = self.compared.unwrap_or(0.0);
        let middle = (spell.factor().map_or(0.0, |factor| 1.0 / factor) + 1.0) / 2.0;
        let fair = middle * reference;
        let turn = self.turn(AGE_MAX_NS, |step| step.work() - fair * step.busy_ns as f64);
        let well = || self.steps.range(turn..);
        let well_ns: u64 = well().map(|step| step.busy_ns).sum();
        let first = well().next().filter(|_| well_ns >= PEER_EVIDENCE_NS);
        let to_ns = first.map_or(now_ns, |first| first.at_ns.saturating_sub(LOOK_NS));
        if to_ns <= spell.from_ns {
            return None;
        }
        let ended = Spell { to_ns: Some(to_ns), ..spell };
        if first.is_none() {
            return Some(ended);
        }
        let work = spell.work - well().map(Step::work).sum::<f64>();
        let expected = spell.expected - reference * well_ns as f64;
        let whole = work >= 0.0 && expected > work;
        Some(if whole { Spell { work, expected, ..ended } } else { ended })
    }

    /// Where in the latest looks, of so much busy time at most, what is gained began to add up.
    pub(super) fn turn(&self, busy_max_ns: u64, gain: impl Fn(&Step) -> f64) -> usize {
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

    /// Its own past, as the middle of the periods before.
    pub(super) fn own_past(&self) -> Option<Reference> {
        if self.past.len() < PAST_MIN || !self.has_past {
            return None;
        }
        let mut past: Vec<Past> = self.past.iter().copied().collect();
        past.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let Past { rate, computes, mix } = past[past.len() / 2];
        let grain = self.grain().min(rate * LOOK_NS as f64);
        Some(Reference { rate, computes, grain, mix, of_two: false, alone: true })
    }

    /// What it does while it is well is what it will be compared with if it has no peers. Another
    /// kind of work has another past.
    pub(super) fn remember(&mut self, step: &Step) {
        if self.slow.is_some() || self.turning_since_ns.is_some() {
            self.period = Step { cpu_ns: Some(0), ..Step::default() };
            return;
        }
        self.period.add(step);
        if self.period.busy_ns < EVIDENCE_NS {
            return;
        }
        let period =
            core::mem::replace(&mut self.period, Step { cpu_ns: Some(0), ..Step::default() });
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

impl Step {
    pub(super) fn work(&self) -> f64 {
        self.work_in + self.work_out
    }

    pub(super) fn add(&mut self, other: &Step) {
        self.work_in += other.work_in;
        self.work_out += other.work_out;
        self.busy_ns += other.busy_ns;
        self.cpu_ns = self.cpu_ns.zip(other.cpu_ns).map(|(a, b)| a + b);
    }

    pub(super) fn mix(&self) -> Option<f64> {
        (self.work() > 0.0).then(|| self.work_out / self.work())
    }
}
