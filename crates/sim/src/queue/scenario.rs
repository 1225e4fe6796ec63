//! Scenarios of a distributed queue: nodes, speeds, links, policy, perturbations, deaths.

use euphrates_policy::distributed::{Policy, late_binding, push};
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::speed::{SpeedChange, SpeedCurve};

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;

/// A distributed queue. All producers read the same number of batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueScenario {
    /// A description for people.
    pub about: String,
    /// The policy of the queue.
    pub policy: PolicyName,
    /// Producers, each with one disk.
    pub producers: u32,
    /// Consumers, each with one processor.
    pub consumers: u32,
    /// Batches that each producer reads.
    pub batches: u64,
    /// The size of the largest batch, in bytes.
    pub batch_bytes: u64,
    /// How much smaller a batch may be, as a fraction drawn uniformly: 0 for equal sizes, below 1.
    pub batch_spread: f64,
    /// The time to read a full batch at full speed, in milliseconds.
    pub read_ms: f64,
    /// The capacity of all consumers over that of all producers: 1 is balanced, 0.5 makes the
    /// consumers the bottleneck.
    pub consumer_speed: f64,
    /// How far the work per byte of a piece may deviate from the mean, as a fraction drawn
    /// uniformly.
    pub work_spread: f64,
    /// Ready batches per producer, at most.
    pub ready_max: u32,
    /// Whether producers know how much they have left.
    pub knows_left: bool,
    /// One-way time of a message, in microseconds.
    pub latency_us: f64,
    /// Bytes per second of each node's link in each direction; unlimited without it.
    pub link_bytes_per_second: Option<u64>,
    /// Nodes with a longer latency.
    pub links: Vec<SlowLink>,
    /// Perturbations of nodes; those of one node multiply.
    pub perturbations: Vec<Slowdown>,
    /// Nodes that die during the run.
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

/// A policy of the crate `policy` with its settings, by the names of scenarios.
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
    /// The policy with these settings.
    pub fn policy(self) -> Policy {
        match self {
            PolicyName::LateBinding {} => Policy::LateBinding(late_binding::Limits::default()),
            PolicyName::Sparrow { reservations, slots_max } => {
                Policy::Sparrow { reservations, slots_max }
            }
            PolicyName::Credit { credit_max } => {
                Policy::Push(push::PushChoice::Credit { credit_max })
            }
            PolicyName::Static { credit_max } => {
                Policy::Push(push::PushChoice::Static { credit_max })
            }
            PolicyName::RoundRobin { credit_max } => {
                Policy::Push(push::PushChoice::RoundRobin { credit_max })
            }
            PolicyName::ShortestOf { k, credit_max } => {
                Policy::Push(push::PushChoice::ShortestOf { k, credit_max })
            }
        }
    }
}

/// A side of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueSide {
    /// The producing side: nodes with disks.
    Producers,
    /// The consuming side: nodes with processors.
    Consumers,
}

/// Some nodes of a side: the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// A number of nodes.
    Count(u32),
    /// A fraction of the nodes, rounded down, but at least one node.
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

/// Nodes with a longer latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowLink {
    /// The side of the queue.
    pub side: QueueSide,
    /// The nodes with the longer latency.
    pub share: Share,
    /// Added one-way latency, in microseconds.
    pub latency_us: f64,
}

/// A perturbation: it slows some nodes down without failing them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowdown {
    /// The side of the queue.
    pub side: QueueSide,
    /// The perturbed nodes, from number 0 on.
    pub share: Share,
    /// The slowdown factor: 2 for a competing stream of equal weight, 0 to stop the nodes.
    pub slower: f64,
    /// The times of the perturbation.
    #[serde(default)]
    pub when: When,
}

/// The times at which a perturbation applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// During the whole run.
    #[default]
    Always,
    /// Between two times, in milliseconds.
    Between {
        #[allow(missing_docs)]
        from_ms: f64,
        #[allow(missing_docs)]
        until_ms: f64,
    },
    /// At random times, independently for each node and for half of the time on average; the state
    /// is drawn again about every `every_ms` milliseconds.
    Wandering {
        #[allow(missing_docs)]
        every_ms: f64,
    },
}

/// A node that dies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Death {
    /// The side of the queue.
    pub side: QueueSide,
    /// The node's number on its side.
    pub node: u32,
    /// The time of death, in milliseconds. The other nodes are informed ten latencies later.
    pub at_ms: f64,
}

/// The random parts of a scenario, drawn before a run.
#[derive(Clone, Debug)]
pub struct Draws {
    /// The speed of each producer's disk over time.
    pub disks: Vec<SpeedCurve>,
    /// The generators of batch sizes, one per producer.
    pub sizes: Vec<Random>,
    /// The speed of each consumer over time.
    pub cpus: Vec<SpeedCurve>,
    /// The generator of everything else.
    pub random: Random,
}

/// Nodes per side, at most, so that a typing error does not exhaust the memory.
const NODES_MAX: u32 = 100_000;
/// Batches of all producers, at most, for the same reason.
const BATCHES_MAX: u64 = 100_000_000;

impl QueueScenario {
    /// Checks a scenario; the error describes the first rule that it breaks.
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
        let far = |link: &SlowLink| (0.0..=1e9).contains(&link.latency_us);
        rule(self.links.iter().all(far), "links: latency_us from 0 to 10^9")?;
        for perturbation in &self.perturbations {
            let slower = perturbation.slower;
            rule(slower == 0.0 || (1e-3..=1e6).contains(&slower), "slower: 0, or 0.001 to 10^6")?;
            if let When::Wandering { every_ms } = perturbation.when {
                rule((1e-3..=1e9).contains(&every_ms), "every_ms: from 10^-3 to 10^9")?;
            }
        }
        let living = |side: QueueSide, nodes: u32| {
            let dead = self.deaths.iter().filter(|death| death.side == side);
            dead.clone().all(|death| death.node < nodes) && (dead.count() as u32) < nodes
        };
        rule(living(QueueSide::Consumers, self.consumers), "deaths: some consumer must live")?;
        rule(living(QueueSide::Producers, self.producers), "deaths: some producer must live")
    }

    /// The full speed of a producer's disk, in bytes per second.
    pub fn read_speed(&self) -> u64 {
        ((self.batch_bytes as f64 * 1000.0 / self.read_ms).round() as u64).max(1)
    }

    /// The full speed of a consumer, in bytes per second.
    pub fn work_speed(&self) -> u64 {
        let ratio = f64::from(self.producers) / f64::from(self.consumers) * self.consumer_speed;
        ((self.read_speed() as f64 * ratio).round() as u64).max(1)
    }

    /// Each node's part of the one-way latency between a producer and a consumer, in nanoseconds.
    pub fn latencies(&self, side: QueueSide) -> Vec<u64> {
        let (nodes, share) = match side {
            // The common latency is counted once, at the consumer.
            QueueSide::Producers => (self.producers, 0.0),
            QueueSide::Consumers => (self.consumers, self.latency_us),
        };
        let mut latencies = vec![(share * 1000.0) as u64; nodes as usize];
        for link in self.links.iter().filter(|link| link.side == side) {
            let far = &mut latencies[..link.share.of(nodes) as usize];
            far.iter_mut().for_each(|latency| *latency += (link.latency_us * 1000.0) as u64);
        }
        latencies
    }

    /// Draws the random parts of the scenario from a seed.
    pub fn draws(&self, seed: u64) -> Draws {
        let mut random = Random::new(seed);
        let disks = self.speeds(QueueSide::Producers, &mut random);
        let sizes = disks.iter().map(|_| Random::new(random.next_u64())).collect();
        let cpus = self.speeds(QueueSide::Consumers, &mut random);
        Draws { disks, sizes, cpus, random }
    }

    /// The speed of each node of a side over time.
    pub fn speeds(&self, side: QueueSide, random: &mut Random) -> Vec<SpeedCurve> {
        let (nodes, full) = match side {
            QueueSide::Producers => (self.producers, self.read_speed()),
            QueueSide::Consumers => (self.consumers, self.work_speed()),
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

    /// The time until which wandering perturbations are drawn: several times an unperturbed run.
    fn horizon_ns(&self) -> u64 {
        let lasts_ms = self.batches as f64 * self.read_ms / self.consumer_speed.min(1.0);
        (lasts_ms * MS as f64 * 4.0) as u64
    }
}

/// A speed with perturbations, each of which divides it while it applies.
pub(crate) fn speed_of(
    full: u64,
    perturbations: impl Iterator<Item = (f64, When)>,
    horizon_ns: u64,
    random: &mut Random,
) -> SpeedCurve {
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
    let changes = changes.map(|&edge| SpeedChange { from_ns: edge, bytes_per_second: at(edge) });
    SpeedCurve::changing(at(0), &changes.collect::<Vec<_>>())
}
