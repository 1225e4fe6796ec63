//! Who is slow compared with its peers, and since when.
//!
//! Peers are components that do the same work: the instances of a module, the disks of a flow.
//! What counts is the service rate, work in busy time: whoever has nothing to do is not slow. One
//! look at a rate says little (a processor is taken away for a moment, a batch is heavier than
//! others), so it is taken over at least `EVIDENCE_NS` of busy time, must be lower than steps of
//! progress of the peers' size explain by chance, and stay so for `HOLD_NS`. A component that has
//! computed as much of its busy time as its peers is not slow but has the harder work. A component
//! without peers is compared with its own past.

mod member;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use member::{Member, Window};

/// How often `on_look` is meant to be called.
pub const LOOK_NS: u64 = 100_000_000;
/// A look that comes later than this says that the whole process stood still, and nothing of its
/// parts.
const LATE_NS: u64 = 3 * LOOK_NS;
/// Busy time that a rate is taken over, at least: what is very slow shows soon, what is less so
/// only in the long run.
const EVIDENCE_NS: u64 = 800_000_000;
const EVIDENCE_LONG: [u64; 2] = [3, 9];
/// The same, of those that are compared with.
const PEER_EVIDENCE_NS: u64 = 400_000_000;
/// Looks at which they made progress, at least: some come forward in large and rare steps.
const PEER_STEPS: usize = 4;
/// How many times what chance does to such steps must be missing before it means anything.
const CHANCES: f64 = 4.0;
/// How long a rate must stay low, or good again, before it is said.
const HOLD_NS: u64 = 500_000_000;
/// Below this part of the peers' rate one is slow, or below the second in the long run; above the
/// third, no longer.
pub(crate) const SLOW: f64 = 0.58;
const SLOW_LONG: f64 = 0.66;
const WELL: f64 = 0.78;
/// Of two, the faster one is the reference, and chance makes one of them fast: be more careful.
const OF_TWO: f64 = 0.92;
/// The same, compared with one's own past.
const SLOW_ALONE: f64 = 0.34;
const WELL_ALONE: f64 = 0.5;
/// Who computes for at least this part of what its peers do in a busy second has the harder work.
pub(crate) const COMPUTES: f64 = 0.75;
/// Below this part of busy time, computing is not what the work consists of.
pub(crate) const COMPUTES_MIN: f64 = 0.1;
/// What is older says nothing about the present.
const AGE_MAX_NS: u64 = 20_000_000_000;
/// Looks that are kept of a component.
const LOOKS_MAX: usize = 256;
/// Periods of its own past that a component without peers is compared with.
const PAST_MIN: usize = 3;
const PAST_MAX: usize = 16;
/// A part of what goes out in all that moves, changed by this much, is another kind of work.
pub(crate) const MIX: f64 = 0.25;
/// Spells that are kept; later ones are only told while they last.
pub const SPELLS_MAX: usize = 1000;

/// What a component has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Work that came in, in bytes or rows.
    pub work_in: u64,
    /// Work that went out.
    pub work_out: u64,
    /// Time in which it had work and the means to do it: without what it waited for others, and
    /// for a processor that its peers wait for, too.
    pub busy_ns: u64,
    /// Time it computed, if that is known and it runs on the same kind of machine as its peers.
    pub cpu_ns: Option<u64>,
}

/// A time in which a component was slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spell {
    /// The component.
    pub component: usize,
    /// When it began, as far as can be told, and when it ended, if it has.
    pub from_ns: u64,
    /// When it ended, if it has.
    pub to_ns: Option<u64>,
    /// Work done meanwhile, and what its peers (or itself, before) would have done in its place.
    pub work: f64,
    /// What would have been done.
    pub expected: f64,
    /// Whether it was compared with its own past.
    pub alone: bool,
}

impl Spell {
    /// How many times as long it took; `None` if it stood still.
    pub fn factor(&self) -> Option<f64> {
        (self.work > 0.0).then(|| self.expected / self.work)
    }
}

/// What a component is compared with.
#[derive(Clone, Copy, Debug)]
struct Reference {
    rate: f64,
    computes: Option<f64>,
    grain: f64,
    mix: Option<f64>,
    of_two: bool,
    alone: bool,
}

/// Watches components.
#[derive(Clone, Debug, Default)]
pub struct Health {
    members: Vec<Member>,
    /// The members of every group.
    groups: BTreeMap<usize, Vec<usize>>,
    last_ns: u64,
    spells: Vec<Spell>,
}

impl Health {
    /// One more component, among the peers of this group; returns its number. `has_past` says
    /// whether it is compared with its own past as long as it has no peers.
    pub fn add(&mut self, group: usize, has_past: bool) -> usize {
        let component = self.members.len();
        self.members.push(Member { group, has_past, ..Member::default() });
        self.groups.entry(group).or_default().push(component);
        component
    }

    /// What every component has done until now, in the order they were added.
    pub fn on_look(&mut self, now_ns: u64, facts: &[Facts]) {
        assert_eq!(facts.len(), self.members.len());
        let late = now_ns.saturating_sub(self.last_ns) > LATE_NS;
        self.last_ns = now_ns;
        for (member, facts) in self.members.iter_mut().zip(facts) {
            member.on_facts(now_ns, *facts, late);
        }
        if !late {
            let window = |member: &Member| member.window(PEER_EVIDENCE_NS, PEER_STEPS);
            let windows: Vec<Option<Window>> = self.members.iter().map(window).collect();
            for component in 0..self.members.len() {
                self.judge(component, &windows, now_ns);
            }
        }
        self.check();
    }

    /// Who is slow now, and how many times as long it takes at present; `None` if it stands still.
    pub fn slow(&self) -> impl Iterator<Item = (&Spell, Option<f64>)> {
        self.members.iter().filter_map(|member| {
            let spell = member.slow.as_ref()?;
            let window = member.window(PEER_EVIDENCE_NS, 0).filter(|window| window.rate > 0.0);
            Some((spell, window.zip(member.compared).map(|(now, then)| then / now.rate)))
        })
    }

    /// All spells there have been; those that last end now.
    pub fn finish(mut self, now_ns: u64) -> Vec<Spell> {
        for member in &mut self.members {
            let end = member.steps.back().map_or(now_ns, |step| step.at_ns);
            let spell = member.slow.take();
            self.spells.extend(spell.and_then(|spell| member.ended(spell, end)));
        }
        self.spells.sort_by_key(|spell| (spell.from_ns, spell.component));
        self.check();
        self.spells
    }

    fn judge(&mut self, component: usize, windows: &[Option<Window>], now_ns: u64) {
        let reference = self.reference(component, windows);
        let member = &mut self.members[component];
        // Only a look at which it was busy says anything new.
        let Some(step) = member.steps.back().copied().filter(|step| step.at_ns == now_ns) else {
            if member.is_forgotten(now_ns) {
                self.end(component, now_ns);
            }
            return;
        };
        member.remember(&step);
        let Some(reference) = reference else { return };
        member.compared = Some(reference.rate);
        if let Some(spell) = &mut member.slow {
            spell.work += step.work();
            spell.expected += reference.rate * step.busy_ns as f64;
        }
        let Some(window) = member.window(EVIDENCE_NS, 0) else { return };
        if member.slow.is_some() && reference.is_other_work(window.mix) {
            return self.end(component, now_ns);
        }
        let turning = match member.slow {
            None => {
                let mut long =
                    EVIDENCE_LONG.iter().filter_map(|times| member.window(times * EVIDENCE_NS, 0));
                reference.is_slow(&window, SLOW)
                    || long.any(|long| reference.is_slow(&long, SLOW_LONG))
            }
            // Whoever is well again is told so sooner than the slow are told of.
            Some(_) => {
                let lately = member.window(reference.recovery_ns(), 0).unwrap_or(window);
                lately.rate > reference.well() * reference.rate
            }
        };
        if !turning {
            member.turning_since_ns = None;
            return;
        }
        let since = *member.turning_since_ns.get_or_insert(now_ns);
        if now_ns - since < HOLD_NS {
            return;
        }
        match member.slow {
            None => member.begin(component, &reference, &window),
            Some(_) => self.end(component, since),
        }
    }

    fn end(&mut self, component: usize, now_ns: u64) {
        let member = &mut self.members[component];
        member.turning_since_ns = None;
        let Some(spell) = member.slow.take() else { return };
        let spell = member.ended(spell, now_ns);
        // What was slow is over, and must not be held against it again.
        member.steps.clear();
        if self.spells.len() < SPELLS_MAX {
            self.spells.extend(spell);
        }
    }

    /// The peers' rate: the median, and of an even number the faster one of the two in the middle,
    /// so that of two components it is the faster one.
    fn reference(&self, component: usize, windows: &[Option<Window>]) -> Option<Reference> {
        let member = &self.members[component];
        let peers = &self.groups[&member.group];
        if peers.len() == 1 {
            return member.own_past();
        }
        let mix = windows[component].and_then(|window| window.mix);
        let alike = |window: &Window| !is_other(mix, window.mix);
        let mut known: Vec<Window> =
            peers.iter().filter_map(|at| windows[*at]).filter(alike).collect();
        let own = usize::from(windows[component].is_some());
        if known.len() <= own {
            return None;
        }
        known.sort_by(|a, b| a.grain.total_cmp(&b.grain));
        let grain = known[known.len() / 2].grain;
        known.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let Window { rate, computes, mix, .. } = known[known.len() / 2];
        Some(Reference { rate, computes, grain, mix, of_two: known.len() == 2, alone: false })
    }

    fn check(&self) {
        for member in &self.members {
            assert!(member.steps.len() <= LOOKS_MAX && member.past.len() <= PAST_MAX);
        }
        assert!(self.spells.len() <= SPELLS_MAX);
        assert!(self.spells.iter().all(|spell| spell.to_ns > Some(spell.from_ns)));
    }
}

impl Reference {
    /// Busy time that tells whether somebody is well again: some steps of progress.
    fn recovery_ns(&self) -> u64 {
        let grain_ns = if self.rate > 0.0 { self.grain / self.rate } else { 0.0 };
        PEER_EVIDENCE_NS.max((4.0 * grain_ns) as u64)
    }

    fn is_slow(&self, window: &Window, slow: f64) -> bool {
        let expected = self.rate * window.busy_ns as f64;
        let missed = expected - window.rate * window.busy_ns as f64;
        let computes = match (window.computes, self.computes) {
            (Some(own), Some(peers)) if peers >= COMPUTES_MIN => own >= COMPUTES * peers,
            _ => false,
        };
        let slow = match self {
            Reference { alone: true, .. } => SLOW_ALONE,
            Reference { of_two: true, .. } => slow * OF_TWO,
            _ => slow,
        };
        window.rate < slow * self.rate
            && missed * missed >= CHANCES * CHANCES * expected * self.grain
            && !computes
            && !self.is_other_work(window.mix)
    }

    fn well(&self) -> f64 {
        if self.alone { WELL_ALONE } else { WELL }
    }

    fn is_other_work(&self, mix: Option<f64>) -> bool {
        is_other(self.mix, mix)
    }
}

/// Whether two parts that go out tell of different work, as taking in and giving out are.
fn is_other(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b).is_some_and(|(a, b)| (a - b).max(b - a) > MIX)
}
