//! Shrinking: reduces a failing scenario to a smaller one that still fails.

use crate::disks::MirrorsScenario;
use crate::queue::QueueScenario;
use crate::scenario::Scenario;

/// Smaller scenarios that are tried, at most.
const TRIES_MAX: u32 = 300;

/// Returns the smallest failing scenario found, with fewer nodes, batches, perturbations and
/// deaths. `fails` runs a scenario that has been checked.
///
/// ```
/// use euphrates_sim::{Scenario, shrink};
///
/// let text = r#"{"kind": "queue", "producers": 16, "consumers": 16, "batches": 64}"#;
/// let fails = |scenario: &Scenario| match scenario {
///     Scenario::Queue(queue) => queue.producers >= 3,
///     Scenario::Mirrors(_) => false,
/// };
/// let Scenario::Queue(smallest) = shrink(&Scenario::parse(text)?, fails) else { unreachable!() };
/// assert!((3..6).contains(&smallest.producers));
/// # Ok::<(), String>(())
/// ```
pub fn shrink(scenario: &Scenario, mut fails: impl FnMut(&Scenario) -> bool) -> Scenario {
    let mut smallest = scenario.clone();
    let mut tries = 0;
    'smaller: loop {
        for candidate in smaller(&smallest) {
            tries += 1;
            if tries > TRIES_MAX {
                return smallest;
            }
            if candidate.check().is_ok() && fails(&candidate) {
                smallest = candidate;
                continue 'smaller;
            }
        }
        return smallest;
    }
}

/// Scenarios that are one step smaller: first those without one perturbation, death or link, then
/// those with fewer nodes and batches.
fn smaller(scenario: &Scenario) -> Vec<Scenario> {
    match scenario {
        Scenario::Queue(queue) => smaller_queues(queue),
        Scenario::Mirrors(mirrors) => smaller_mirrors(mirrors),
    }
}

/// The scenario after a change, if that changes it.
fn changed<S: Clone + PartialEq>(scenario: &S, change: &dyn Fn(&mut S)) -> Option<S> {
    let mut changed = scenario.clone();
    change(&mut changed);
    (changed != *scenario).then_some(changed)
}

fn smaller_mirrors(mirrors: &MirrorsScenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut MirrorsScenario)| {
        all.extend(changed(mirrors, change).map(Scenario::Mirrors));
    };
    for at in 0..mirrors.perturbations.len() {
        with(&|mirrors| {
            mirrors.perturbations.remove(at);
        });
    }
    for at in 0..mirrors.deaths.len() {
        with(&|mirrors| {
            mirrors.deaths.remove(at);
        });
    }
    with(&|mirrors| mirrors.seek_ms = 0.0);
    with(&|mirrors| mirrors.stream_window_bytes = None);
    with(&|mirrors| mirrors.segments_each = 1);
    for part in [2, 4, 8] {
        with(&|mirrors| mirrors.disks = (mirrors.disks - mirrors.disks / part).max(1));
        with(&|mirrors| mirrors.blocks = (mirrors.blocks - mirrors.blocks / part).max(1));
    }
    with(&|mirrors| mirrors.disks = mirrors.disks.saturating_sub(1));
    with(&|mirrors| mirrors.blocks = mirrors.blocks.saturating_sub(1));
    all
}

fn smaller_queues(queue: &QueueScenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut QueueScenario)| {
        all.extend(changed(queue, change).map(Scenario::Queue));
    };
    for at in 0..queue.perturbations.len() {
        with(&|queue| {
            queue.perturbations.remove(at);
        });
    }
    for at in 0..queue.deaths.len() {
        with(&|queue| {
            queue.deaths.remove(at);
        });
    }
    for at in 0..queue.links.len() {
        with(&|queue| {
            queue.links.remove(at);
        });
    }
    with(&|queue| queue.batch_spread = 0.0);
    with(&|queue| queue.work_spread = 0.0);
    with(&|queue| queue.link_bytes_per_second = None);
    for part in [2, 4, 8] {
        let less = |count: u64| (count - count / part).max(1);
        with(&|queue| {
            queue.producers = less(queue.producers.into()) as u32;
            queue.consumers = less(queue.consumers.into()) as u32;
        });
        with(&|queue| queue.producers = less(queue.producers.into()) as u32);
        with(&|queue| queue.consumers = less(queue.consumers.into()) as u32);
        with(&|queue| queue.batches = less(queue.batches));
    }
    with(&|queue| queue.producers = (queue.producers - 1).max(1));
    with(&|queue| queue.consumers = (queue.consumers - 1).max(1));
    with(&|queue| queue.batches = queue.batches.saturating_sub(1));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Death, QueueSide};
    use crate::run;

    #[test]
    fn shrunk_queue_is_small_and_still_fails() {
        let death = Death { side: QueueSide::Consumers, node: 1, at_ms: 20.0 };
        let scenario = QueueScenario {
            producers: 40,
            consumers: 30,
            batches: 60,
            work_spread: 0.2,
            deaths: vec![death],
            ..QueueScenario::default()
        };
        let fails = |scenario: &Scenario| run(scenario, 1).pieces >= 10;
        let Scenario::Queue(small) = shrink(&Scenario::Queue(scenario), fails) else {
            panic!("of another kind");
        };
        assert!(fails(&Scenario::Queue(small.clone())));
        let batches = small.batches * u64::from(small.producers);
        assert!(batches <= 20 && small.consumers <= 2, "{small:?}");
        assert!(small.deaths.is_empty() && small.work_spread == 0.0);
    }

    #[test]
    fn shrunk_mirrors_are_small_and_still_fail() {
        let scenario = MirrorsScenario { blocks: 40, segments_each: 2, ..Default::default() };
        let fails = |scenario: &Scenario| run(scenario, 1).batches >= 10;
        let Scenario::Mirrors(small) = shrink(&Scenario::Mirrors(scenario), fails) else {
            panic!("of another kind");
        };
        assert!(small.blocks * small.disks <= 12 && small.segments_each == 1, "{small:?}");
    }
}
