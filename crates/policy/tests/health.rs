//! Who is called slow, in simulated time: components that share the work of a queue, each with
//! steps of its own, made slow or not, with noise as machines have it.

use euphrates_policy::health::{Facts, Health, SAMPLE_INTERVAL_NS, SlowEpisode};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// Numbers that look random, the same ones for the same seed (splitmix64).
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

    /// Mean 1, and now and then fifty times as much.
    fn heavy(&mut self) -> f64 {
        (1.0 - self.next()).powf(-1.0 / 1.6).min(50.0) / 2.3
    }
}

/// What is done to a component.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slowed {
    component: usize,
    /// Times as long; infinite for a pause.
    factor: f64,
    from_ns: u64,
    to_ns: u64,
}

/// How the machine and the work are.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// Mean time of a step.
    step_ms: f64,
    /// Steps of very different lengths, all of which is computing.
    heavy: bool,
    /// The part of the time for which the processor is taken away, in stretches of this mean.
    stolen: f64,
    stolen_ms: f64,
    /// The part of the time in which there is nothing to do.
    idle: f64,
    /// Whether times of computing are known.
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
    /// Before and after the step that is under way.
    before: Counts,
    after: Counts,
}

impl Component {
    /// What can be seen of it at this time: of the step under way, as much as it has taken.
    fn at(
        &mut self,
        now_ns: u64,
        noise: &Noise,
        slowed: Option<&Slowed>,
        random: &mut Random,
    ) -> Facts {
        while self.after.now_ns <= now_ns as f64 {
            self.before = self.after;
            self.after.step(noise, slowed, random);
        }
        let Component { before, after } = self;
        let part = (now_ns as f64 - before.now_ns) / (after.now_ns - before.now_ns);
        let so_far = |before: f64, after: f64| (before + (after - before) * part) as u64;
        Facts {
            work_in: before.work,
            work_out: 0,
            busy_ns: so_far(before.busy_ns, after.busy_ns),
            cpu_ns: noise.cpu.then(|| so_far(before.cpu_ns, after.cpu_ns)),
        }
    }
}

impl Counts {
    /// Does a step of work, or waits a while.
    fn step(&mut self, noise: &Noise, slowed: Option<&Slowed>, random: &mut Random) {
        if random.next() < noise.idle {
            self.now_ns += random.exponential(noise.step_ms) * MS as f64;
            return;
        }
        let length = if noise.heavy { random.heavy() } else { 0.5 + random.next() };
        let computes = length * noise.step_ms * MS as f64;
        let mut lasts = computes;
        // As often as makes up the part of the time that is stolen.
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

/// When somebody was called slow, and all episodes.
fn watched(
    components: usize,
    seconds: u64,
    noise: Noise,
    slowed: &[Slowed],
    seed: u64,
) -> (Vec<(u64, usize)>, Vec<SlowEpisode>) {
    let mut random = Random(seed);
    let mut health = Health::default();
    let mut all = vec![Component::default(); components];
    all.iter().for_each(|_| assert!(health.add(0, true) < components));
    let mut named: Vec<(u64, usize)> = vec![];
    for look in 1..=seconds * SECOND / SAMPLE_INTERVAL_NS {
        let now = look * SAMPLE_INTERVAL_NS;
        let see = |(at, one): (usize, &mut Component)| {
            let slowed = slowed.iter().find(|slowed| slowed.component == at);
            one.at(now, &noise, slowed, &mut random)
        };
        let facts: Vec<Facts> = all.iter_mut().enumerate().map(see).collect();
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
fn nobody_is_named_without_a_cause() {
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
fn whoever_is_slow_is_named_soon_and_nobody_else() {
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
            let only = named.iter().all(|(_, who)| *who == component);
            // Long steps take some steps to tell; whoever is idle is not slow until it is busy;
            // half the speed is within what such noise does to anybody for a second.
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
fn several_slow_ones_of_many_are_all_named() {
    for seed in 0..20 {
        let slow =
            |component| Slowed { component, factor: 4.0, from_ns: 4 * SECOND, to_ns: 12 * SECOND };
        let (mut named, _) = watched(8, 20, CALM, &[slow(1), slow(4), slow(6)], seed);
        named.sort_by_key(|(_, who)| *who);
        assert_eq!(named.iter().map(|(_, who)| *who).collect::<Vec<_>>(), [1, 4, 6], "{seed}");
    }
}

#[test]
fn a_spell_says_since_when_and_how_slow() {
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
fn one_without_peers_is_compared_with_its_own_past() {
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
fn another_kind_of_work_is_not_compared_with_the_one_before() {
    let mut health = Health::default();
    health.add(0, true);
    let mut facts = Facts::default();
    for look in 1..200 {
        // Takes in fast, then gives out at a tenth of the rate and without computing.
        let moved = if look < 100 { &mut facts.work_in } else { &mut facts.work_out };
        *moved += if look < 100 { 10_000 } else { 1000 };
        facts.busy_ns += SAMPLE_INTERVAL_NS;
        facts.cpu_ns =
            Some(facts.cpu_ns.unwrap_or(0) + if look < 100 { SAMPLE_INTERVAL_NS } else { 0 });
        health.on_sample(look * SAMPLE_INTERVAL_NS, &[facts]);
        assert_eq!(health.slow().count(), 0, "{look}");
    }
}

#[test]
fn rare_and_large_steps_of_those_who_share_something_slow_blame_nobody() {
    // Two readers of one slow disk: four megabytes come to the one, then to the other.
    for seed in 0..50 {
        let mut random = Random(seed);
        let mut health = Health::default();
        (0..2).for_each(|who| assert_eq!(health.add(0, true), who));
        let mut facts = [Facts { cpu_ns: Some(0), ..Facts::default() }; 2];
        let (mut next, mut turn) = (1, 0);
        for look in 1..300 {
            if look == next {
                // Whoever has just got some is mostly not the next.
                turn = if random.below(10) < 7 { 1 - turn } else { turn };
                facts[turn].work_in += 4 << 20;
                next += 2 + random.below(5) as u64;
            }
            facts.iter_mut().for_each(|facts| facts.busy_ns += SAMPLE_INTERVAL_NS);
            health.on_sample(look * SAMPLE_INTERVAL_NS, &facts);
            assert_eq!(health.slow().count(), 0, "{seed}: {look}");
        }
    }
}

#[test]
fn a_process_that_stood_still_as_a_whole_blames_nobody() {
    let mut health = Health::default();
    (0..2).for_each(|who| assert_eq!(health.add(0, true), who));
    let mut facts = [Facts::default(); 2];
    let mut now = 0;
    for look in 0..300 {
        // Stopped for seconds, in which the first was busy and the second was not.
        let gap = if look % 20 == 19 { 3 * SECOND } else { SAMPLE_INTERVAL_NS };
        now += gap;
        for (who, facts) in facts.iter_mut().enumerate() {
            facts.busy_ns += if who == 0 { gap } else { SAMPLE_INTERVAL_NS };
            facts.work_in += 1000;
        }
        health.on_sample(now, &facts);
        assert_eq!(health.slow().count(), 0, "{look}");
    }
}
