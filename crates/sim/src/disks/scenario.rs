//! Scenarios of mirrored reading: disks, placement of copies, policy, perturbations, deaths.

use euphrates_policy::declustering::reader::ReaderSettings;
use euphrates_policy::declustering::{
    Arrival, Claiming, DiskShares, Laggard, LaggardIntegral, ServiceOrder,
};
use euphrates_policy::placement::{chained, spread};
use serde::{Deserialize, Serialize};

use super::{MirroredReading, SimulatedDisk, SimulatedSegment, run};
use crate::queue::{Share, When, speed_of};
use crate::random::Random;
use crate::report::QueueReport;
use crate::speed::SECOND_NS;

/// A mirrored collection on disks of one speed, each on its own worker, with one reader per
/// segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MirrorsScenario {
    /// A description for people.
    pub about: String,
    /// The policy of readers and disks.
    pub policy: ReadPolicy,
    /// Disks, each with one worker.
    pub disks: u32,
    /// Copies per segment, the primary included.
    pub copies: u32,
    /// Primary segments per disk: 1 places copies in a chain, more in a block design.
    pub segments_each: u32,
    /// Blocks of all primary segments on a disk.
    pub blocks: u32,
    /// The size of a block, in bytes.
    pub block_bytes: u64,
    /// The time to read a block at full speed, in milliseconds.
    pub read_ms: f64,
    /// The time of a request before it reaches the disk's queue, in milliseconds.
    pub overhead_ms: f64,
    /// The time of a seek, in milliseconds.
    pub seek_ms: f64,
    /// Requests in flight per disk, at most.
    pub depth_max: u32,
    /// One-way time of a message, in microseconds; up to half as much is added at random.
    pub latency_us: f64,
    /// Bytes that an ordered stream may buffer; without it, blocks are delivered in any order.
    pub stream_window_bytes: Option<u64>,
    /// Perturbations of disks; those of one disk multiply.
    pub perturbations: Vec<SlowDisks>,
    /// Disks that die during the run.
    pub deaths: Vec<DiskDeath>,
}

impl Default for MirrorsScenario {
    fn default() -> MirrorsScenario {
        MirrorsScenario {
            about: String::new(),
            policy: ReadPolicy::Graduated {},
            disks: 16,
            copies: 2,
            segments_each: 1,
            blocks: 500,
            block_bytes: 1 << 20,
            read_ms: 10.0,
            overhead_ms: 2.0,
            seek_ms: 0.0,
            depth_max: 3,
            latency_us: 500.0,
            stream_window_bytes: None,
            perturbations: Vec::new(),
            deaths: Vec::new(),
        }
    }
}

/// A policy of mirrored reading, by the names of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReadPolicy {
    /// The default: claims bound late, the laggard first, with memory.
    Graduated {},
    /// The paper's shares of bandwidth, with claims bound late.
    River {},
    /// A fixed number of requests at every copy, bound when sent; a disk serves the reader that has
    /// received least.
    Laggard {
        /// Requests of a reader at one copy, at most.
        requests_max: u32,
    },
    /// Like `Laggard`, but a disk serves requests in order of arrival.
    Fifo {
        /// Requests of a reader at one copy, at most.
        requests_max: u32,
    },
    /// Blocks alternate between the copies.
    Even {},
    /// Only the primary copy is read.
    Primary {},
}

impl ReadPolicy {
    fn decides(self) -> (Claiming, ServiceOrder) {
        let room = |requests_max: u32| Claiming::Room(requests_max as usize);
        match self {
            ReadPolicy::Graduated {} => {
                (Claiming::Late, ServiceOrder::LaggardIntegral(LaggardIntegral::default()))
            }
            ReadPolicy::River {} => (Claiming::Late, ServiceOrder::Shares(DiskShares::new(8, 50))),
            ReadPolicy::Laggard { requests_max } => {
                (room(requests_max), ServiceOrder::Laggard(Laggard))
            }
            ReadPolicy::Fifo { requests_max } => {
                (room(requests_max), ServiceOrder::Arrival(Arrival))
            }
            ReadPolicy::Even {} => (Claiming::Alternate, ServiceOrder::Arrival(Arrival)),
            ReadPolicy::Primary {} => (Claiming::One(0), ServiceOrder::Arrival(Arrival)),
        }
    }
}

/// A perturbation of some disks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowDisks {
    /// The perturbed disks, from number 0 on.
    pub share: Share,
    /// The slowdown factor, from 0.001 to 10^6.
    pub slower: f64,
    /// The times of the perturbation.
    #[serde(default)]
    pub when: When,
}

/// A disk that dies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskDeath {
    /// The number of the disk, from 0.
    pub disk: u32,
    /// The time of death, in milliseconds.
    pub at_ms: f64,
    /// The delay until its readers are informed, in milliseconds.
    #[serde(default)]
    pub noticed_ms: f64,
}

/// Disks of a scenario, at most, so that a typing error does not exhaust the memory.
const DISKS_MAX: u32 = 10_000;
/// Blocks of a scenario, at most, for the same reason.
const BLOCKS_MAX: u64 = 10_000_000;

impl MirrorsScenario {
    /// Checks a scenario; the error describes the first rule that it breaks.
    pub fn check(&self) -> Result<(), String> {
        let rule = |holds: bool, text: &str| if holds { Ok(()) } else { Err(text.to_string()) };
        rule((1..=DISKS_MAX).contains(&self.disks), "disks: from 1 to 10,000")?;
        let copies = 1..=self.disks.min(64);
        rule(copies.contains(&self.copies), "copies: at least 1, at most the disks, at most 64")?;
        let each = 1..=self.blocks.max(1);
        rule(each.contains(&self.segments_each), "segments_each: from 1 to blocks")?;
        let blocks = u64::from(self.blocks) * u64::from(self.disks);
        rule((1..=BLOCKS_MAX).contains(&blocks), "blocks: from 1 to 10,000,000 in all")?;
        rule((1..=1 << 40).contains(&self.block_bytes), "block_bytes: from 1 to 2^40")?;
        rule((1e-6..=1e6).contains(&self.read_ms), "read_ms: from 10^-6 to 10^6")?;
        let times = [self.overhead_ms, self.seek_ms, self.latency_us / 1000.0];
        let short = |ms: &f64| (0.0..=1e6).contains(ms);
        rule(times.iter().all(short), "overhead_ms, seek_ms, latency_us: from 0 to 1000 s")?;
        rule((1..=1024).contains(&self.depth_max), "depth_max: from 1 to 1024")?;
        for slow in &self.perturbations {
            rule((1e-3..=1e6).contains(&slow.slower), "slower: from 0.001 to 10^6")?;
            if let When::Wandering { every_ms } = slow.when {
                rule((1e-3..=1e9).contains(&every_ms), "every_ms: from 10^-3 to 10^9")?;
            }
        }
        let times = self.deaths.iter().flat_map(|death| [death.at_ms, death.noticed_ms]);
        rule(times.clone().all(|ms| (0.0..=1e9).contains(&ms)), "deaths: from 0 to 10^9 ms")?;
        rule(self.deaths.iter().all(|death| death.disk < self.disks), "deaths: no such disk")?;
        let few = (self.deaths.len() as u32) < self.copies;
        rule(few, "deaths: fewer than copies, or a block has none left")?;
        self.placed().map(|_| ())
    }

    fn placed(&self) -> Result<Vec<Vec<usize>>, String> {
        let workers: Vec<u32> = (0..self.disks).collect();
        let (each, copies) = (self.segments_each as usize, self.copies as usize);
        let placed = match each {
            1 => chained(&workers, 1, copies),
            _ => spread(&workers, each, copies),
        };
        placed.map(|plan| plan.segments).map_err(|wrong| format!("copies: {wrong:?}"))
    }

    /// Draws the random parts of the scenario from a seed.
    fn mirrors(&self, seed: u64) -> MirroredReading {
        let ns = |ms: f64| (ms * 1e6) as u64;
        let full = ((self.block_bytes as f64 * 1000.0 / self.read_ms).round() as u64).max(1);
        let horizon_ns = ns(f64::from(self.blocks) * self.read_ms * 10.0);
        let mut random = Random::new(seed);
        let device = |disk: u32| {
            let slow = self.perturbations.iter().filter(|slow| disk < slow.share.of(self.disks));
            let slow = slow.map(|slow| (slow.slower, slow.when));
            let death = self.deaths.iter().find(|death| death.disk == disk);
            SimulatedDisk {
                speed: speed_of(full, slow, horizon_ns, &mut random),
                seek_ns: ns(self.seek_ms),
                overhead_ns: ns(self.overhead_ms),
                dies_ns: death.map(|death| ns(death.at_ms)),
            }
        };
        let disks = (0..self.disks).map(device).collect();
        let sizes = vec![self.block_bytes; (self.blocks / self.segments_each) as usize];
        let segment =
            |copies| SimulatedSegment { copies, sizes: sizes.clone(), from_ns: 0, bad: Vec::new() };
        let (claiming, order) = self.policy.decides();
        let window_bytes = self.stream_window_bytes;
        let defaults = ReaderSettings::default();
        let window_bytes_max = window_bytes.unwrap_or(defaults.window_bytes_max);
        let is_stream = window_bytes.is_some();
        let notices = self.deaths.iter().map(|death| ns(death.noticed_ms));
        MirroredReading {
            disks,
            segments: self.placed().expect("checked").into_iter().map(segment).collect(),
            settings: ReaderSettings { claiming, is_stream, window_bytes_max, ..defaults },
            order,
            depth_max: self.depth_max as usize,
            latency_ns: (self.latency_us * 1000.0) as u64,
            latency_spread_ns: (self.latency_us * 500.0) as u64,
            notice_ns: notices.max().unwrap_or(0),
        }
    }
}

/// Runs a scenario that has been checked, and reports in the terms of queues.
pub fn run_scenario(scenario: &MirrorsScenario, seed: u64) -> QueueReport {
    let mirrors = scenario.mirrors(seed);
    let done = run(&mirrors, seed);
    assert!(done.failed.is_empty(), "a block without a copy");
    let end_ns = done.end_ns().max(1);
    let ms = |ns: u64| ns as f64 / 1e6;
    let could =
        |disk: &SimulatedDisk| disk.speed_alive().work_between(0, end_ns) / u128::from(SECOND_NS);
    let could: u128 = mirrors.disks.iter().map(could).sum();
    let read = u128::from((done.blocks + done.wasted) * scenario.block_bytes);
    let slowest = mirrors.disks.iter().map(|disk| disk.speed.slowest()).min().unwrap_or(0);
    let first_ns = done.ends_ns.iter().copied().min().unwrap_or(0);
    QueueReport {
        seed,
        completed_ms: ms(end_ns),
        bound_ms: ms(mirrors.bound_ns().unwrap_or(u64::MAX)),
        fraction: mirrors.fraction(&done),
        idle: (1.0 - read as f64 / could.max(1) as f64).max(0.0),
        tail_ms: ms(end_ns - first_ns),
        slowest_batch_ms: scenario.block_bytes as f64 * 1000.0 / slowest.max(1) as f64,
        batches: done.blocks,
        pieces: done.blocks + done.wasted,
        messages_per_batch: done.messages as f64 / done.blocks.max(1) as f64,
        messages: [("all", done.messages)].into(),
        held_pieces_max: done.held_bytes.div_ceil(scenario.block_bytes) as u32,
        held_bytes_max: done.held_bytes,
        events: done.events,
    }
}
