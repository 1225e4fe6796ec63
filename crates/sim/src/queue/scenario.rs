//! A distributed queue, as data: who produces, who consumes, how fast, and what happens to them.

use euphrates_policy::distributed::{Policy, late, push};
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::speed::{Speed, Step};

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;

/// A distributed queue. All producers read the same number of batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueScenario {
    /// For the reader.
    pub about: String,
    /// Who decides.
    pub policy: PolicyName,
    /// How many produce.
    pub producers: u32,
    /// How many consume.
    pub consumers: u32,
    /// Batches a producer reads.
    pub batches: u64,
    /// Bytes of a batch.
    pub batch_bytes: u64,
    /// How much smaller a batch may be, chosen evenly: 0 for all equal, below 1.
    pub batch_spread: f64,
    /// How long a producer reads a full batch at full speed, in milliseconds.
    pub read_ms: f64,
    /// What consumers can do at full speed, all together, by what producers can: 1 is balanced,
    /// 0.5 makes the consumers the bottleneck.
    pub consumer_speed: f64,
    /// How much longer or shorter work on a byte may take than the mean, chosen evenly a piece.
    pub work_spread: f64,
    /// Batches a producer may have ready.
    pub ready_max: u32,
    /// Whether producers know what they have left.
    pub knows_left: bool,
    /// One-way time of a message, in microseconds.
    pub latency_us: f64,
    /// Bytes per second of each node's link in each direction; without, as fast as it takes.
    pub link_bytes_per_second: Option<u64>,
    /// Nodes that are farther away.
    pub links: Vec<Link>,
    /// What makes nodes slow.
    pub perturbations: Vec<Perturbation>,
    /// Who dies.
    pub deaths: Vec<Death>,
}

impl Default for QueueScenario {
    fn default() -> QueueScenario {
        QueueScenario {
            about: String::new(),
            policy: PolicyName::LateBinding {},
            producers: 32,
            consumers: 32,
            batches: 500,
            batch_bytes: 1 << 20,
            batch_spread: 0.0,
            read_ms: 10.0,
            consumer_speed: 1.0,
            work_spread: 0.0,
            ready_max: 4,
            knows_left: true,
            latency_us: 100.0,
            link_bytes_per_second: None,
            links: Vec::new(),
            perturbations: Vec::new(),
            deaths: Vec::new(),
        }
    }
}

/// A policy of the crate `policy`, and its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "they are those of the policies")]
pub enum PolicyName {
    LateBinding {},
    Sparrow { reservations: u32, slots_max: u32 },
    Credit { credit_max: u32 },
    Static { credit_max: u32 },
    RoundRobin { credit_max: u32 },
    ShortestOf { k: u32, credit_max: u32 },
}

impl PolicyName {
    /// The policy.
    pub fn policy(self) -> Policy {
        match self {
            PolicyName::LateBinding {} => Policy::LateBinding(late::Limits::default()),
            PolicyName::Sparrow { reservations, slots_max } => {
                Policy::Sparrow { reservations, slots_max }
            }
            PolicyName::Credit { credit_max } => Policy::Push(push::Choice::Credit { credit_max }),
            PolicyName::Static { credit_max } => Policy::Push(push::Choice::Static { credit_max }),
            PolicyName::RoundRobin { credit_max } => {
                Policy::Push(push::Choice::RoundRobin { credit_max })
            }
            PolicyName::ShortestOf { k, credit_max } => {
                Policy::Push(push::Choice::ShortestOf { k, credit_max })
            }
        }
    }
}

/// A side of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Those who produce.
    Producers,
    /// Those who consume.
    Consumers,
}

/// Some nodes of a side: the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// So many.
    Count(u32),
    /// This part, rounded down, but at least one.
    Part(f64),
}

impl Share {
    pub(crate) fn of(self, nodes: u32) -> u32 {
        match self {
            Share::Count(count) => count.min(nodes),
            Share::Part(part) => ((part * f64::from(nodes)) as u32).clamp(1, nodes),
        }
    }
}

/// Nodes that are farther away.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// On which side.
    pub side: Side,
    /// Which.
    pub share: Share,
    /// One-way time of a message added, in microseconds.
    pub latency_us: f64,
}

/// Something that makes nodes slow without failing them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Perturbation {
    /// On which side.
    pub side: Side,
    /// Whom.
    pub share: Share,
    /// How many times slower; a competing stream of equal weight makes it 2; 0 stops them.
    pub slower: f64,
    /// When.
    #[serde(default)]
    pub when: When,
}

/// When a perturbation is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// All the time.
    #[default]
    Always,
    /// From one time to another, in milliseconds.
    Between {
        #[allow(missing_docs)]
        from_ms: f64,
        #[allow(missing_docs)]
        until_ms: f64,
    },
    /// Each node by itself is perturbed or not, anew about every so many milliseconds, half of the
    /// time in the mean.
    Wandering {
        #[allow(missing_docs)]
        every_ms: f64,
    },
}

/// A node that dies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Death {
    /// On which side.
    pub side: Side,
    /// Its number.
    pub node: u32,
    /// When, in milliseconds. The others hear of it ten latencies later.
    pub at_ms: f64,
}

/// What chance decides before a run.
#[derive(Clone, Debug)]
pub struct Cast {
    /// How fast each producer reads, and when.
    pub disks: Vec<Speed>,
    /// From what the sizes of each producer's batches are drawn.
    pub sizes: Vec<Random>,
    /// How fast each consumer works, and when.
    pub cpus: Vec<Speed>,
    /// From what everything else is drawn.
    pub random: Random,
}

/// What all scenarios together may ask for, so that a typing error does not fill the memory.
const NODES_MAX: u32 = 100_000;
const BATCHES_MAX: u64 = 100_000_000;

impl QueueScenario {
    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        let rule = |holds: bool, text: &str| if holds { Ok(()) } else { Err(text.to_string()) };
        let nodes = 1..=NODES_MAX;
        rule(nodes.contains(&self.producers), "producers: from 1 to 100,000")?;
        rule(nodes.contains(&self.consumers), "consumers: from 1 to 100,000")?;
        let batches = self.batches.saturating_mul(u64::from(self.producers));
        rule(batches <= BATCHES_MAX, "batches: at most 100,000,000 in all")?;
        rule((1..=1 << 40).contains(&self.batch_bytes), "batch_bytes: from 1 to 2^40")?;
        rule((0.0..1.0).contains(&self.batch_spread), "batch_spread: at least 0, below 1")?;
        rule((0.0..1.0).contains(&self.work_spread), "work_spread: at least 0, below 1")?;
        rule((1e-6..=1e6).contains(&self.read_ms), "read_ms: from 10^-6 to 10^6")?;
        rule((1e-6..=1e6).contains(&self.consumer_speed), "consumer_speed: from 10^-6 to 10^6")?;
        rule((0.0..=1e9).contains(&self.latency_us), "latency_us: from 0 to 10^9")?;
        rule(self.link_bytes_per_second != Some(0), "link_bytes_per_second: not 0")?;
        let far = |link: &Link| (0.0..=1e9).contains(&link.latency_us);
        rule(self.links.iter().all(far), "links: latency_us from 0 to 10^9")?;
        for perturbation in &self.perturbations {
            let slower = perturbation.slower;
            rule(slower == 0.0 || (1e-3..=1e6).contains(&slower), "slower: 0, or 0.001 to 10^6")?;
            if let When::Wandering { every_ms } = perturbation.when {
                rule((1e-3..=1e9).contains(&every_ms), "every_ms: from 10^-3 to 10^9")?;
            }
        }
        let living = |side: Side, nodes: u32| {
            let dead = self.deaths.iter().filter(|death| death.side == side);
            dead.clone().all(|death| death.node < nodes) && (dead.count() as u32) < nodes
        };
        rule(living(Side::Consumers, self.consumers), "deaths: some consumer must live")?;
        rule(living(Side::Producers, self.producers), "deaths: some producer must live")
    }

    /// Bytes per second a producer reads at full speed.
    pub fn read_speed(&self) -> u64 {
        ((self.batch_bytes as f64 * 1000.0 / self.read_ms).round() as u64).max(1)
    }

    /// Bytes per second a consumer works off at full speed.
    pub fn work_speed(&self) -> u64 {
        let ratio = f64::from(self.producers) / f64::from(self.consumers) * self.consumer_speed;
        ((self.read_speed() as f64 * ratio).round() as u64).max(1)
    }

    /// One-way time between a producer and a consumer, in nanoseconds, by what each adds.
    pub fn latencies(&self, side: Side) -> Vec<u64> {
        let (nodes, share) = match side {
            // The common part is counted once, with the consumer.
            Side::Producers => (self.producers, 0.0),
            Side::Consumers => (self.consumers, self.latency_us),
        };
        let mut latencies = vec![(share * 1000.0) as u64; nodes as usize];
        for link in self.links.iter().filter(|link| link.side == side) {
            let far = &mut latencies[..link.share.of(nodes) as usize];
            far.iter_mut().for_each(|latency| *latency += (link.latency_us * 1000.0) as u64);
        }
        latencies
    }

    /// What a seed makes of the scenario.
    pub fn cast(&self, seed: u64) -> Cast {
        let mut random = Random::new(seed);
        let disks = self.speeds(Side::Producers, &mut random);
        let sizes = disks.iter().map(|_| Random::new(random.next_u64())).collect();
        let cpus = self.speeds(Side::Consumers, &mut random);
        Cast { disks, sizes, cpus, random }
    }

    /// How fast each node of a side is, and when.
    pub fn speeds(&self, side: Side, random: &mut Random) -> Vec<Speed> {
        let (nodes, full) = match side {
            Side::Producers => (self.producers, self.read_speed()),
            Side::Consumers => (self.consumers, self.work_speed()),
        };
        let mine = self.perturbations.iter().filter(|perturbation| perturbation.side == side);
        let mine: Vec<_> = mine.map(|p| (p, p.share.of(nodes))).collect();
        let speed = |node: u32| {
            let hit = mine.iter().filter(|&&(_, share)| node < share);
            let hit = hit.map(|&(p, _)| (p.slower, p.when));
            speed_of(full, hit, self.horizon_ns(), random)
        };
        (0..nodes).map(speed).collect()
    }

    /// Perturbations wander until this time: some times what the run lasts when nothing is slow.
    fn horizon_ns(&self) -> u64 {
        let lasts_ms = self.batches as f64 * self.read_ms / self.consumer_speed.min(1.0);
        (lasts_ms * MS as f64 * 4.0) as u64
    }
}

/// A speed with perturbations, each of which divides it while it is there.
pub(crate) fn speed_of(
    full: u64,
    perturbations: impl Iterator<Item = (f64, When)>,
    horizon_ns: u64,
    random: &mut Random,
) -> Speed {
    let ns = |ms: f64| (ms * MS as f64) as u64;
    let factor = |slower: f64| if slower == 0.0 { 0.0 } else { 1.0 / slower };
    let mut stretches: Vec<(u64, u64, f64)> = Vec::new();
    for (slower, when) in perturbations {
        let factor = factor(slower);
        match when {
            When::Always => stretches.push((0, u64::MAX, factor)),
            When::Between { from_ms, until_ms } => {
                stretches.push((ns(from_ms), ns(until_ms), factor));
            }
            When::Wandering { every_ms } => {
                let mut at_ns = 0;
                while at_ns < horizon_ns {
                    let lasts = 1 + random.below(2 * ns(every_ms).max(1));
                    if random.chance(500) {
                        stretches.push((at_ns, at_ns + lasts, factor));
                    }
                    at_ns += lasts;
                }
            }
        }
    }
    let mut edges: Vec<u64> =
        stretches.iter().flat_map(|&(from, until, _)| [from, until]).collect();
    edges.sort_unstable();
    edges.dedup();
    let at = |at_ns: u64| {
        let there = stretches.iter().filter(|&&(from, until, _)| from <= at_ns && at_ns < until);
        let factor: f64 = there.map(|&(_, _, factor)| factor).product();
        (full as f64 * factor).round() as u64
    };
    let changes = edges.iter().filter(|&&edge| edge > 0 && edge < u64::MAX);
    let changes = changes.map(|&edge| Step { from_ns: edge, bytes_per_second: at(edge) });
    Speed::changing(at(0), &changes.collect::<Vec<_>>())
}
