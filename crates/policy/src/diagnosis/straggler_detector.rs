//! Straggler detection: which components are slow compared with their peers, and since when.
//!
//! Peers are components that do the same work: the instances of a module, the disks of a flow. The
//! measure is the service rate, work per busy time, so an idle component is not slow. Single
//! samples are noisy (a preempted thread, a batch with more work than others). A rate is therefore
//! measured over at least `EVIDENCE_NS` of busy time, must be below the peers' rate by more than
//! the variance of batches explains, and must stay there for `HOLD_NS`. A component that uses the
//! processor for as much of its busy time as its peers has harder work (data skew), and is not
//! reported as slow. A component without peers is compared with its own earlier rate.

mod episode;
mod history;
mod reference;
mod sample;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

pub use self::episode::{ComponentCounters, SlowEpisode};
pub use self::history::SAMPLE_INTERVAL_NS;
use self::history::{ComponentHistory, EVIDENCE_LONG, EVIDENCE_NS};
pub(crate) use self::reference::{COMPUTES, COMPUTES_MIN, MIX, SLOW};
use self::reference::{PEER_EVIDENCE_NS, ReferenceRate, SLOW_LONG, is_other};
use self::sample::RateWindow;

/// A sample that comes later than this after the one before shows that the whole process stood
/// still, and says nothing about its components.
const LATE_NS: u64 = 3 * SAMPLE_INTERVAL_NS;
/// Samples with progress over which a reference's rate is measured, at least: some components make
/// large and rare steps.
const PEER_STEPS: usize = 4;
/// How long a rate must stay slow, or recovered, before the component's state changes.
const HOLD_NS: u64 = 500_000_000;
/// Ended episodes that are kept; later ones are reported only while they last.
pub(crate) const EPISODES_MAX: usize = 1000;

/// Judges the components of a flow from samples of their counters.
///
/// ```
/// use euphrates_policy::straggler_detector::{
///     ComponentCounters, SAMPLE_INTERVAL_NS, StragglerDetector,
/// };
///
/// let mut detector = StragglerDetector::default();
/// let components: Vec<usize> = (0..3).map(|_| detector.add(0, false)).collect();
/// let mut facts = vec![ComponentCounters::default(); 3];
/// for sample in 1..=50 {
///     for (component, rate) in [(0, 100), (1, 100), (2, 20)] {
///         facts[component].work_in += rate;
///         facts[component].busy_ns += SAMPLE_INTERVAL_NS;
///     }
///     detector.on_sample(sample * SAMPLE_INTERVAL_NS, &facts);
/// }
/// let slow: Vec<usize> = detector.slow().map(|(episode, _)| episode.component).collect();
/// assert_eq!(slow, [components[2]]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct StragglerDetector {
    components: Vec<ComponentHistory>,
    /// The components of every group.
    groups: BTreeMap<usize, Vec<usize>>,
    last_ns: u64,
    episodes: Vec<SlowEpisode>,
}

impl StragglerDetector {
    /// Adds a component to a group of peers and returns its number, from 0 on. With `has_past`, it
    /// is compared with its own past as long as it has no peers.
    pub fn add(&mut self, group: usize, has_past: bool) -> usize {
        let component = self.components.len();
        self.components.push(ComponentHistory::new(group, has_past));
        self.groups.entry(group).or_default().push(component);
        component
    }

    /// Takes a sample: the counters of all components, in the order of their numbers.
    pub fn on_sample(&mut self, now_ns: u64, facts: &[ComponentCounters]) {
        assert_eq!(facts.len(), self.components.len());
        let late = now_ns.saturating_sub(self.last_ns) > LATE_NS;
        self.last_ns = now_ns;
        for (history, facts) in self.components.iter_mut().zip(facts) {
            history.on_facts(now_ns, *facts, late);
        }
        if !late {
            let window = |history: &ComponentHistory| history.window(PEER_EVIDENCE_NS, PEER_STEPS);
            let windows: Vec<Option<RateWindow>> = self.components.iter().map(window).collect();
            for component in 0..self.components.len() {
                self.judge(component, &windows, now_ns);
            }
        }
        self.check();
    }

    /// The current slow episodes, each with its present slowdown; `None` if the component stands
    /// still.
    pub fn slow(&self) -> impl Iterator<Item = (&SlowEpisode, Option<f64>)> {
        self.components.iter().filter_map(|history| {
            let episode = history.slow.as_ref()?;
            let window = history.window(PEER_EVIDENCE_NS, 0).filter(|window| window.rate > 0.0);
            Some((episode, window.zip(history.compared).map(|(now, then)| then / now.rate)))
        })
    }

    /// Ends all current episodes and returns those that were kept, at most `EPISODES_MAX`, oldest
    /// first.
    pub fn finish(mut self, now_ns: u64) -> Vec<SlowEpisode> {
        for history in &mut self.components {
            let end = history.steps.back().map_or(now_ns, |step| step.at_ns);
            let episode = history.slow.take();
            self.episodes.extend(episode.and_then(|episode| history.ended(episode, end)));
        }
        self.episodes.sort_by_key(|episode| (episode.from_ns, episode.component));
        self.episodes.truncate(EPISODES_MAX);
        self.check();
        self.episodes
    }

    fn judge(&mut self, component: usize, windows: &[Option<RateWindow>], now_ns: u64) {
        let reference = self.reference(component, windows);
        let history = &mut self.components[component];
        // Only a sample in which it was busy says anything new.
        let Some(step) = history.steps.back().copied().filter(|step| step.at_ns == now_ns) else {
            if history.is_forgotten(now_ns) {
                self.end(component, now_ns);
            }
            return;
        };
        history.remember(&step);
        let Some(reference) = reference else { return };
        history.compared = Some(reference.rate);
        if let Some(episode) = &mut history.slow {
            episode.work += step.work();
            episode.expected += reference.rate * step.busy_ns as f64;
        }
        let Some(window) = history.window(EVIDENCE_NS, 0) else { return };
        if history.slow.is_some() && reference.is_other_work(window.mix) {
            return self.end(component, now_ns);
        }
        let turning = match history.slow {
            None => {
                let mut long =
                    EVIDENCE_LONG.iter().filter_map(|times| history.window(times * EVIDENCE_NS, 0));
                reference.is_slow(&window, SLOW)
                    || long.any(|long| reference.is_slow(&long, SLOW_LONG))
            }
            // A recovery is measured over less time than a slowdown.
            Some(_) => {
                let lately = history.window(reference.recovery_ns(), 0).unwrap_or(window);
                reference.has_recovered(&lately)
            }
        };
        if !turning {
            history.turning_since_ns = None;
            return;
        }
        let since = *history.turning_since_ns.get_or_insert(now_ns);
        if now_ns - since < HOLD_NS {
            return;
        }
        match history.slow {
            None => history.begin(component, &reference, &window),
            Some(_) => self.end(component, since),
        }
    }

    fn end(&mut self, component: usize, now_ns: u64) {
        let history = &mut self.components[component];
        history.turning_since_ns = None;
        let Some(episode) = history.slow.take() else { return };
        let episode = history.ended(episode, now_ns);
        // Samples of the episode must not count against it again.
        history.steps.clear();
        if self.episodes.len() < EPISODES_MAX {
            self.episodes.extend(episode);
        }
    }

    /// The reference of a component: the median rate of its group, itself included (of an even
    /// number the upper median, so that of two it is the faster one), or its own past if it has no
    /// peers.
    fn reference(&self, component: usize, windows: &[Option<RateWindow>]) -> Option<ReferenceRate> {
        let history = &self.components[component];
        let peers = &self.groups[&history.group];
        if peers.len() == 1 {
            return history.own_past();
        }
        let mix = windows[component].and_then(|window| window.mix);
        let same_work = |window: &RateWindow| !is_other(mix, window.mix);
        let mut known: Vec<RateWindow> =
            peers.iter().filter_map(|at| windows[*at]).filter(same_work).collect();
        let own = usize::from(windows[component].is_some());
        if known.len() <= own {
            return None;
        }
        known.sort_by(|a, b| a.grain.total_cmp(&b.grain));
        let grain = known[known.len() / 2].grain;
        known.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let RateWindow { rate, computes, mix, .. } = known[known.len() / 2];
        Some(ReferenceRate { rate, computes, grain, mix, of_two: known.len() == 2, alone: false })
    }

    fn check(&self) {
        for history in &self.components {
            history.check();
        }
        assert!(self.episodes.len() <= EPISODES_MAX);
        assert!(self.episodes.iter().all(|episode| episode.to_ns > Some(episode.from_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn no_more_episodes_are_returned_than_are_kept() {
        let slow = |from_ns, to_ns| SlowEpisode {
            component: 0,
            from_ns,
            to_ns,
            work: 50.0,
            expected: 200.0,
            alone: false,
        };
        let mut health = StragglerDetector::default();
        health.add(0, false);
        health.episodes = vec![slow(1, Some(2)); EPISODES_MAX];
        health.components[0].slow = Some(slow(3, None));
        assert_eq!(health.finish(4).len(), EPISODES_MAX);
    }
}
