//! Straggler detection in simulated time, with realistic noise and perturbations.

use euphrates_policy::straggler_detector::{
    ComponentCounters, SAMPLE_INTERVAL_NS, SlowEpisode, StragglerDetector,
};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// A seeded generator of random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() * bound as f64) as usize
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }

    /// A number with mean 1 and rare outliers of fifty times as much.
    fn heavy(&mut self) -> f64 {
        (1.0 - self.next()).powf(-1.0 / 1.6).min(50.0) / 2.3
    }
}

/// A perturbation of one component.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slowed {
    component: usize,
    /// The slowdown factor; infinite for a pause.
    factor: f64,
    from_ns: u64,
    to_ns: u64,
}

/// The noise of machine and work.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// The mean time of a step, in nanoseconds.
    step_ms: f64,
    /// Whether steps differ widely in length and only compute.
    heavy: bool,
    /// The fraction of time for which the processor is preempted, and the mean length of that.
    stolen: f64,
    stolen_ms: f64,
    /// The fraction of time without work.
    idle: f64,
    /// Whether processor time is known.
    cpu: bool,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    now_ns: f64,
    busy_ns: f64,
    cpu_ns: f64,
    work: u64,
}

#[derive(Clone, Default)]
struct Component {
    /// The counters before and after the current step.
    before: Counts,
    after: Counts,
}

impl Component {
    /// The counters at a time, with the current step counted in part.
    fn at(
        &mut self,
        now_ns: u64,
        noise: &Noise,
        slowed: Option<&Slowed>,
        random: &mut Random,
    ) -> ComponentCounters {
        while self.after.now_ns <= now_ns as f64 {
            self.before = self.after;
            self.after.step(noise, slowed, random);
        }
        let Component { before, after } = self;
        let part = (now_ns as f64 - before.now_ns) / (after.now_ns - before.now_ns);
        let so_far = |before: f64, after: f64| (before + (after - before) * part) as u64;
        ComponentCounters {
            work_in: before.work,
            work_out: 0,
            busy_ns: so_far(before.busy_ns, after.busy_ns),
            cpu_ns: noise.cpu.then(|| so_far(before.cpu_ns, after.cpu_ns)),
        }
    }
}

impl Counts {
    /// Simulates a step of work or a wait.
    fn step(&mut self, noise: &Noise, slowed: Option<&Slowed>, random: &mut Random) {
        if random.next() < noise.idle {
            self.now_ns += random.exponential(noise.step_ms) * MS as f64;
            return;
        }
        let length = if noise.heavy { random.heavy() } else { 0.5 + random.next() };
        let computes = length * noise.step_ms * MS as f64;
        let mut lasts = computes;
        // Preempted as often as its fraction of time requires.
        let often = computes / MS as f64 * noise.stolen / (1.0 - noise.stolen) / noise.stolen_ms;
        let times = often as usize + usize::from(random.next() < often.fract());
        lasts += (0..times).map(|_| random.exponential(noise.stolen_ms)).sum::<f64>() * MS as f64;
        if let Some(slowed) = slowed
            && (slowed.from_ns as f64..slowed.to_ns as f64).contains(&self.now_ns)
        {
            let to_end = slowed.to_ns as f64 - self.now_ns;
            lasts = if slowed.factor.is_infinite() { to_end } else { lasts * slowed.factor };
        }
        self.now_ns += lasts;
        self.busy_ns += lasts;
        self.cpu_ns += computes;
        self.work += 1 << 20;
    }
}

/// Runs components; returns when each was first named slow, and all episodes.
fn watched(
    components: usize,
    seconds: u64,
    noise: Noise,
    slowed: &[Slowed],
    seed: u64,
) -> (Vec<(u64, usize)>, Vec<SlowEpisode>) {
    let mut random = Random(seed);
    let mut health = StragglerDetector::default();
    let mut all = vec![Component::default(); components];
    all.iter().for_each(|_| assert!(health.add(0, true) < components));
    let mut named: Vec<(u64, usize)> = vec![];
    for sample in 1..=seconds * SECOND / SAMPLE_INTERVAL_NS {
        let now = sample * SAMPLE_INTERVAL_NS;
        let see = |(at, one): (usize, &mut Component)| {
            let slowed = slowed.iter().find(|slowed| slowed.component == at);
            one.at(now, &noise, slowed, &mut random)
        };
        let facts: Vec<ComponentCounters> = all.iter_mut().enumerate().map(see).collect();
        health.on_sample(now, &facts);
        for (episode, _) in health.slow() {
            if named.iter().all(|(_, component)| *component != episode.component) {
                named.push((now, episode.component));
            }
        }
    }
    (named, health.finish(seconds * SECOND))
}

const CALM: Noise =
    Noise { step_ms: 10.0, heavy: false, stolen: 0.1, stolen_ms: 5.0, idle: 0.1, cpu: true };

fn noises() -> Vec<(&'static str, Noise)> {
    vec![
        ("calm", CALM),
        ("unknown processor time", Noise { cpu: false, ..CALM }),
        ("heavy tails", Noise { heavy: true, ..CALM }),
        ("heavy tails, unknown", Noise { heavy: true, step_ms: 4.0, cpu: false, ..CALM }),
        ("crowded", Noise { stolen: 0.5, stolen_ms: 15.0, ..CALM }),
        ("crowded, unknown", Noise { stolen: 0.5, stolen_ms: 15.0, cpu: false, ..CALM }),
        ("long steps", Noise { step_ms: 150.0, ..CALM }),
        ("idle", Noise { idle: 0.8, ..CALM }),
    ]
}

#[test]
fn unperturbed_components_are_not_named() {
    let mut wrong = vec![];
    for (name, noise) in noises() {
        for seed in 0..50 {
            let components = 2 + seed as usize % 7;
            let (named, _) = watched(components, 30, noise, &[], seed);
            if !named.is_empty() {
                wrong.push((name, seed, components, named));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of 400: {wrong:?}", wrong.len());
}

#[test]
fn only_the_slow_component_is_named_and_soon() {
    let mut wrong = vec![];
    for (name, noise) in noises() {
        for seed in 0..48 {
            let components = 2 + seed as usize % 7;
            let factor = [2.0, 4.0, 10.0, f64::INFINITY][seed as usize / 12];
            let component = Random(seed).below(components);
            let (from_ns, to_ns) = (5 * SECOND, 15 * SECOND);
            let slowed = Slowed { component, factor, from_ns, to_ns };
            let (named, episodes) = watched(components, 30, noise, &[slowed], seed);
            let at = named.first().map_or(u64::MAX, |(at, _)| *at);
            let only = named.iter().all(|(_, id)| *id == component);
            // With long steps, detection takes several of them; an idle component is not slow until
            // it is busy; half the speed is within what such noise does to any component for a
            // second.
            let noisy = noise.heavy || noise.stolen >= 0.5;
            let soon_ns = match name {
                "long steps" | "idle" => 10 * SECOND,
                _ if noisy && factor == 2.0 => 8 * SECOND,
                _ if noise.heavy => 4 * SECOND,
                _ => 2 * SECOND,
            };
            let recovered = episodes
                .iter()
                .all(|episode| episode.to_ns.unwrap() < to_ns + soon_ns + 2 * SECOND);
            if !only || at < from_ns || at.saturating_sub(from_ns) > soon_ns || !recovered {
                wrong.push((name, seed, factor, components, component, named, episodes));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of 384: {wrong:#?}", wrong.len());
}

#[test]
fn several_slow_components_of_many_are_all_named() {
    for seed in 0..20 {
        let slow =
            |component| Slowed { component, factor: 4.0, from_ns: 4 * SECOND, to_ns: 12 * SECOND };
        let (mut named, _) = watched(8, 20, CALM, &[slow(1), slow(4), slow(6)], seed);
        named.sort_by_key(|(_, id)| *id);
        assert_eq!(named.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [1, 4, 6], "{seed}");
    }
}

#[test]
fn episode_reports_onset_and_slowdown() {
    for seed in 0..20 {
        let slowed = Slowed { component: 2, factor: 4.0, from_ns: 5 * SECOND, to_ns: 15 * SECOND };
        let (_, episodes) = watched(4, 20, CALM, &[slowed], seed);
        let [episode] = episodes[..] else { panic!("{seed}: {episodes:?}") };
        let factor = episode.factor().unwrap();
        assert!((3.2..5.0).contains(&factor), "{seed}: {factor}");
        assert!(episode.from_ns.abs_diff(5 * SECOND) < SECOND / 2, "{seed}: {episode:?}");
        assert!(episode.to_ns.unwrap().abs_diff(15 * SECOND) < SECOND, "{seed}: {episode:?}");
        assert!(!episode.alone);
    }
}

#[test]
fn component_without_peers_is_compared_with_its_own_past() {
    for seed in 0..20 {
        let slowed = Slowed { component: 0, factor: 6.0, from_ns: 8 * SECOND, to_ns: 15 * SECOND };
        let (named, episodes) = watched(1, 25, CALM, &[slowed], seed);
        assert_eq!(named.len(), 1, "{seed}: {episodes:?}");
        assert!(named[0].0 > 8 * SECOND && named[0].0 <= 10 * SECOND, "{seed}: {named:?}");
        assert!(episodes.iter().all(|episode| episode.alone));
        let (named, _) = watched(1, 25, Noise { heavy: true, ..CALM }, &[], seed);
        assert!(named.is_empty(), "{seed}");
    }
}

#[test]
fn different_kinds_of_work_are_not_compared() {
    let mut health = StragglerDetector::default();
    health.add(0, true);
    let mut facts = ComponentCounters::default();
    for sample in 1..200 {
        // Fast intake, then output at a tenth of the rate and without computing.
        let moved = if sample < 100 { &mut facts.work_in } else { &mut facts.work_out };
        *moved += if sample < 100 { 10_000 } else { 1000 };
        facts.busy_ns += SAMPLE_INTERVAL_NS;
        facts.cpu_ns =
            Some(facts.cpu_ns.unwrap_or(0) + if sample < 100 { SAMPLE_INTERVAL_NS } else { 0 });
        health.on_sample(sample * SAMPLE_INTERVAL_NS, &[facts]);
        assert_eq!(health.slow().count(), 0, "{sample}");
    }
}

#[test]
fn rare_large_steps_at_a_shared_disk_name_no_component() {
    // Two readers of one slow disk receive four megabytes in turn.
    for seed in 0..50 {
        let mut random = Random(seed);
        let mut health = StragglerDetector::default();
        (0..2).for_each(|id| assert_eq!(health.add(0, true), id));
        let mut facts = [ComponentCounters { cpu_ns: Some(0), ..ComponentCounters::default() }; 2];
        let (mut next, mut turn) = (1, 0);
        for sample in 1..300 {
            if sample == next {
                // A reader that has just received is rarely the next.
                turn = if random.below(10) < 7 { 1 - turn } else { turn };
                facts[turn].work_in += 4 << 20;
                next += 2 + random.below(5) as u64;
            }
            facts.iter_mut().for_each(|facts| facts.busy_ns += SAMPLE_INTERVAL_NS);
            health.on_sample(sample * SAMPLE_INTERVAL_NS, &facts);
            assert_eq!(health.slow().count(), 0, "{seed}: {sample}");
        }
    }
}

#[test]
fn stopped_process_names_no_component() {
    let mut health = StragglerDetector::default();
    (0..2).for_each(|id| assert_eq!(health.add(0, true), id));
    let mut facts = [ComponentCounters::default(); 2];
    let mut now = 0;
    for sample in 0..300 {
        // Stopped for seconds, in which only the first counted as busy.
        let gap = if sample % 20 == 19 { 3 * SECOND } else { SAMPLE_INTERVAL_NS };
        now += gap;
        for (component, facts) in facts.iter_mut().enumerate() {
            facts.busy_ns += if component == 0 { gap } else { SAMPLE_INTERVAL_NS };
            facts.work_in += 1000;
        }
        health.on_sample(now, &facts);
        assert_eq!(health.slow().count(), 0, "{sample}");
    }
}
