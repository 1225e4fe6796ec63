//! Stragglers of a run, their cost, and the ideal time on the same machines.

mod stages;

use std::fmt;

use euphrates_flow::check::CheckedFlow;
use euphrates_flow::metrics::Counters;
use euphrates_policy::episodes;
use euphrates_policy::ideal::{IntervalCounters, LimitingComponent, ideal};
use euphrates_policy::speed::SpeedProfile;
use euphrates_policy::static_division;
use euphrates_policy::straggler_detector::SlowEpisode;
use serde::Serialize;

use self::stages::Stages;
use super::format::seconds;
use super::history::sum;
use crate::observe::sampler::{Component, STILL, SamplerState};
use crate::run::running_part::RunningPart;

/// In shorter runs, starting and ending dominate the measurements.
const SECONDS_MIN: f64 = 1.0;
/// The most slow episodes printed one by one.
const SHOWN_MAX: usize = 10;
/// The most points of a history in a report.
const POINTS_MAX: usize = 240;
/// The most components with a history in a report.
const SERIES_MAX: usize = 64;

/// The part of a report about slowness.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Slowness {
    /// Seconds of a perfectly balanced run at the measured rates; `None` if the run was too short.
    pub ideal_seconds: Option<f64>,
    /// `ideal_seconds` divided by the measured seconds.
    pub fraction_of_ideal: Option<f64>,
    /// The limit of the ideal: a module, `processors`, or a disk.
    pub ideal_bound: Option<String>,
    /// Seconds of a run in which every instance of a module gets the same share of work in advance.
    /// `None` if the run was too short, or such a run would not end.
    pub divided_seconds: Option<f64>,
    /// Slow episodes, in the order of their begin.
    pub slow: Vec<Slow>,
    /// The instances, producers before consumers.
    pub instances: Vec<InstanceReport>,
    /// The disks, with their reads and writes.
    pub disks: Vec<DiskReport>,
    /// The throughput of instances and disks over time.
    pub history: HistoryReport,
}

/// An episode in which a component was slow.
#[derive(Clone, Debug, Serialize)]
pub struct Slow {
    /// The instance or disk.
    pub name: String,
    /// Its module; `None` for a disk.
    pub module: Option<String>,
    /// Its begin, in seconds from the start of the flow.
    pub from_seconds: f64,
    /// Its end, in seconds from the start of the flow.
    pub to_seconds: f64,
    /// The slowdown; `None` if it made no progress.
    pub factor: Option<f64>,
    /// Whether it was slower than before; otherwise, than its peers.
    pub than_before: bool,
    /// Its share of the work of it and its peers during the episode; `None` without peers.
    pub share_moved: Option<f64>,
    /// The share of an equal distribution.
    pub share_equal: Option<f64>,
}

/// The measurements of an instance.
#[derive(Clone, Debug, Serialize)]
pub struct InstanceReport {
    /// Its name: module and number.
    pub name: String,
    /// The name of its module.
    pub module: String,
    /// Seconds in the module's own code.
    pub busy_seconds: f64,
    /// CPU seconds, if the system reports them.
    pub computed_seconds: Option<f64>,
    /// Bytes in and out per second in which it was busy and not waiting for a processor.
    pub busy_bytes_per_second: f64,
    /// Rows, bytes and waits.
    #[serde(flatten)]
    pub counters: Counters,
}

/// The measurements of a disk as one process of the flow uses it, while the flow runs. Transfers of
/// other flows in that process count.
#[derive(Clone, Debug, Serialize)]
pub struct DiskReport {
    /// Its name, or that of its device.
    pub name: String,
    /// Bytes read from the device, without the page cache.
    pub read_bytes: f64,
    /// Seconds with reads in progress.
    pub read_seconds: f64,
    /// Bytes written to the device.
    pub written_bytes: f64,
    /// Seconds with writes in progress.
    pub written_seconds: f64,
}

/// The throughput of instances and disks over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HistoryReport {
    /// The end of each interval, in seconds from the start of the flow.
    pub seconds: Vec<f64>,
    /// The instances and disks; those with most work, if there are many.
    pub series: Vec<Series>,
}

/// The throughput of one instance or disk.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The instance or disk.
    pub name: String,
    /// Its module; `None` for a disk.
    pub module: Option<String>,
    /// Bytes per second, in and out, in each interval.
    pub bytes_per_second: Vec<f64>,
}

impl Slowness {
    /// `is_static` says that this run already assigned work in advance.
    pub(crate) fn new(
        flow: &CheckedFlow,
        part: &RunningPart,
        seen: &SamplerState,
        slow_episodes: &[SlowEpisode],
        (seconds, is_static): (f64, bool),
    ) -> Slowness {
        let stages = Stages::of(flow, seen);
        let late = stages.late(seen, slow_episodes);
        let mut slowness = Slowness {
            slow: slow_episodes
                .iter()
                .chain(&late)
                .map(|episode| slow(flow, seen, &stages, episode))
                .collect(),
            instances: instances(flow, part, seen),
            disks: disks(seen),
            history: history(flow, seen),
            ..Slowness::default()
        };
        slowness.slow.sort_by(|a, b| a.from_seconds.total_cmp(&b.from_seconds));
        if seconds >= SECONDS_MIN {
            slowness.compare(seen, stages, seconds, is_static);
        }
        slowness
    }

    fn compare(&mut self, seen: &SamplerState, mut stages: Stages, seconds: f64, is_static: bool) {
        let (walls, processors) = (&seen.history.walls_ns, &seen.history.processors);
        let found = ideal(walls, &stages.stages, processors);
        let Some(bound) = found.bound else { return };
        self.ideal_seconds = Some(found.seconds.min(seconds));
        self.fraction_of_ideal = Some((found.seconds / seconds).min(1.0));
        let added = match is_static {
            true => Some(0.0),
            false => static_division::added_seconds(walls, &stages.stages, processors),
        };
        self.divided_seconds = added.map(|added| seconds + added);
        self.ideal_bound = Some(match bound {
            LimitingComponent::Stage(at) => stages.names.swap_remove(at),
            LimitingComponent::Processors => "processors".into(),
        });
    }
}

fn slow(flow: &CheckedFlow, seen: &SamplerState, stages: &Stages, episode: &SlowEpisode) -> Slow {
    let component = &seen.components[episode.component];
    let is_peer = |other: &Component| match (component, other) {
        (Component::Instance(a, _), Component::Instance(b, _)) => a == b,
        _ => false,
    };
    let peers: Vec<usize> =
        (0..seen.components.len()).filter(|at| is_peer(&seen.components[*at])).collect();
    let (from_ns, to_ns) = dated(seen, stages, episode, &peers);
    let work = |at: usize| seen.history.work(at, from_ns, to_ns);
    let all: f64 = peers.iter().map(|at| work(*at)).sum();
    // Disks hold their own data and share no common work.
    let compared = !episode.alone && all > 0.0;
    Slow {
        name: seen.name(episode.component),
        module: module_of(flow, component),
        from_seconds: from_ns as f64 / 1e9,
        to_seconds: to_ns as f64 / 1e9,
        factor: episode.factor(),
        than_before: episode.alone,
        share_moved: compared.then(|| work(episode.component) / all),
        share_equal: compared.then(|| 1.0 / peers.len() as f64),
    }
}

/// The begin and end of an episode in nanoseconds, from the whole history where that is finer.
fn dated(
    seen: &SamplerState,
    stages: &Stages,
    episode: &SlowEpisode,
    peers: &[usize],
) -> (u64, u64) {
    let reported = (episode.from_ns, episode.to_ns.unwrap_or(episode.from_ns));
    let Some(own) = stages.speed(episode.component) else { return reported };
    let others = peers.iter().filter(|at| **at != episode.component && !episode.alone);
    let others: Vec<&SpeedProfile> = others.filter_map(|at| stages.speed(*at)).collect();
    if others.is_empty() && !episode.alone {
        return reported;
    }
    let history = &seen.history;
    let around = history.interval_at(reported.0)..history.interval_at(reported.1) + 1;
    let Some(found) = episodes::dated(own, &others, episode.factor(), around) else {
        return reported;
    };
    let finer = |at: usize, reported: u64| {
        let found = history.begin_of(at);
        let wall = history.walls_ns.get(at).copied().unwrap_or(0);
        if found.abs_diff(reported) > wall { found } else { reported }
    };
    let from_ns = finer(found.start, reported.0);
    // A component that ran out of work is not slow until the end of the flow.
    let to_ns =
        if found.end < history.walls_ns.len() { finer(found.end, reported.1) } else { reported.1 };
    (from_ns, to_ns.max(from_ns))
}

fn module_of(flow: &CheckedFlow, component: &Component) -> Option<String> {
    match component {
        Component::Instance(node, _) => Some(flow.nodes[*node].id.clone()),
        Component::Disk { .. } => None,
    }
}

fn instances(flow: &CheckedFlow, part: &RunningPart, seen: &SamplerState) -> Vec<InstanceReport> {
    let one = |(at, component): (usize, &Component)| {
        let Component::Instance(node, number) = component else { return None };
        let metrics = &part.metrics[*node].metrics[*number];
        let sum = seen.history.steps.get(at).map(|steps| sum(steps)).unwrap_or_default();
        let rate = sum.work() / (sum.busy_ns as f64 / 1e9);
        Some(InstanceReport {
            name: seen.name(at),
            module: flow.nodes[*node].id.clone(),
            busy_seconds: metrics.busy_so_far().as_secs_f64(),
            computed_seconds: seen.computed(at),
            busy_bytes_per_second: if rate.is_finite() { rate } else { 0.0 },
            counters: metrics.read(),
        })
    };
    seen.components.iter().enumerate().filter_map(one).collect()
}

fn disks(seen: &SamplerState) -> Vec<DiskReport> {
    let mut disks: Vec<DiskReport> = vec![];
    for (component, steps) in seen.components.iter().zip(&seen.history.steps) {
        let Component::Disk { worker, name, writes } = component else { continue };
        let sum = sum(steps);
        let busy = sum.busy_ns as f64 / 1e9;
        if !writes {
            let (read_bytes, read_seconds) = (sum.work(), busy);
            let (written_bytes, written_seconds) = (0.0, 0.0);
            let of = worker.as_ref().map_or(String::new(), |worker| format!(" of {worker}"));
            let name = format!("{name}{of}");
            let fresh =
                DiskReport { name, read_bytes, read_seconds, written_bytes, written_seconds };
            disks.push(fresh);
        } else if let Some(last) = disks.last_mut() {
            (last.written_bytes, last.written_seconds) = (sum.work(), busy);
        }
    }
    disks
}

/// The throughput of instances and disks so far, in a bounded number of points.
pub(crate) fn history(flow: &CheckedFlow, seen: &SamplerState) -> HistoryReport {
    let group = seen.history.walls_ns.len().div_ceil(POINTS_MAX).max(1);
    let walls: Vec<f64> = seen
        .history
        .walls_ns
        .chunks(group)
        .map(|walls| walls.iter().sum::<u64>() as f64 / 1e9)
        .collect();
    let mut at = 0.0;
    let ends = walls.iter().map(|wall| {
        at += wall;
        at
    });
    let seconds = ends.collect();
    let mut chosen: Vec<(usize, f64)> =
        seen.history.steps.iter().enumerate().map(|(at, steps)| (at, sum(steps).work())).collect();
    chosen.retain(|(_, work)| *work > 0.0);
    chosen.sort_by(|a, b| b.1.total_cmp(&a.1));
    chosen.truncate(SERIES_MAX);
    chosen.sort_by_key(|(at, _)| *at);
    let series = |(at, _): (usize, f64)| {
        let points = seen.history.steps[at].chunks(group).zip(&walls);
        let rate = |(steps, wall): (&[IntervalCounters], &f64)| {
            (sum(steps).work() / wall.max(1e-9)).round()
        };
        Series {
            name: seen.name(at),
            module: module_of(flow, &seen.components[at]),
            bytes_per_second: points.map(rate).collect(),
        }
    };
    HistoryReport { seconds, series: chosen.into_iter().map(series).collect() }
}

/// A line about the ideal, and more if a component was slow.
impl fmt::Display for Slowness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for slow in self.slow.iter().take(SHOWN_MAX) {
            write!(f, "\nslow: {slow}")?;
        }
        if self.slow.len() > SHOWN_MAX {
            write!(f, "\nand {} times more", self.slow.len() - SHOWN_MAX)?;
        }
        if let (Some(ideal), Some(fraction)) = (self.ideal_seconds, self.fraction_of_ideal) {
            let bound = match self.ideal_bound.as_deref() {
                None | Some("processors") => "all processors at work".to_string(),
                Some(name) => format!("{name} at the rate it had"),
            };
            let part = fraction * 100.0;
            write!(f, "\nideal: {} with {bound}; this run reached {part:.0} %", seconds(ideal))?;
        }
        // Disks hold their own data; only instances share work.
        let shares = self.slow.iter().any(|slow| slow.module.is_some());
        match self.divided_seconds {
            Some(divided) if shares => {
                let text = seconds(divided);
                write!(f, "\nwith static division: about {text}")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let than = if self.than_before { "as before" } else { "as its peers" };
        match self.factor {
            Some(factor) if factor < STILL => {
                write!(f, "{} took {factor:.1} times as long {than}", self.name)?
            }
            _ => write!(f, "{} stood still", self.name)?,
        }
        write!(f, ", from {:.1} s to {:.1} s", self.from_seconds, self.to_seconds)?;
        if let (Some(moved), Some(equal)) = (self.share_moved, self.share_equal) {
            let (moved, equal) = (moved * 100.0, equal * 100.0);
            write!(
                f,
                ";\n      it moved {moved:.0} % of the work meanwhile instead of {equal:.0} %"
            )?;
        }
        Ok(())
    }
}
