//! Groups the components of a flow that share work, for the models of static division and of the
//! ideal time.

use euphrates_flow::QueueKind;
use euphrates_flow::check::CheckedFlow;
use euphrates_policy::episodes;
use euphrates_policy::ideal::{StageFeed, StageHistory, phases};
use euphrates_policy::speed::SpeedProfile;
use euphrates_policy::straggler_detector::SlowEpisode;

use crate::observe::sampler::{Component, SamplerState};

/// A stage for each module, and one for each disk.
pub(super) struct Stages {
    pub names: Vec<String>,
    pub stages: Vec<StageHistory>,
    /// By component: its stage, and its position in the stage.
    pub positions: Vec<(usize, usize)>,
    /// By stage and member: its speed.
    pub speeds: Vec<Vec<SpeedProfile>>,
}

impl Stages {
    pub fn of(flow: &CheckedFlow, seen: &SamplerState) -> Stages {
        let mut names: Vec<String> = flow.nodes.iter().map(|node| node.id.clone()).collect();
        let empty = |flows| StageHistory { flows, ..StageHistory::default() };
        let mut stages: Vec<StageHistory> = names.iter().map(|_| empty(true)).collect();
        let mut positions = vec![];
        for (at, (component, steps)) in seen.components.iter().zip(&seen.history.steps).enumerate()
        {
            let stage = match component {
                Component::Instance(node, _) => *node,
                Component::Disk { .. } => {
                    stages.push(empty(false));
                    names.push(seen.name(at));
                    stages.len() - 1
                }
            };
            positions.push((stage, stages[stage].members.len()));
            stages[stage].members.push(steps.clone());
        }
        for node in 0..flow.nodes.len() {
            stages[node].dealers = dealers(flow, node, &stages);
            stages[node].feed = feed(flow, node);
        }
        let walls = &seen.history.walls_ns;
        let phases = phases(walls.len(), &stages);
        let speeds =
            stages.iter().map(|stage| SpeedProfile::of_stage(walls, stage, &phases)).collect();
        Stages { names, stages, positions, speeds }
    }

    /// Components that were slow at the end of the flow, too briefly to be detected while it ran.
    pub fn late(&self, seen: &SamplerState, named: &[SlowEpisode]) -> Vec<SlowEpisode> {
        let history = &seen.history;
        let late = self.positions.iter().enumerate().filter_map(|(component, (stage, member))| {
            let late =
                episodes::final_episode(&self.stages[*stage], &self.speeds[*stage], *member)?;
            let from_ns = history.begin_of(late.intervals.start);
            let to_ns = history.begin_of(late.intervals.end);
            let (work, expected) = (late.work, late.expected);
            let episode = SlowEpisode {
                component,
                from_ns,
                to_ns: Some(to_ns),
                work,
                expected,
                alone: false,
            };
            let is_named =
                |one: &&SlowEpisode| one.component == component && one.to_ns > Some(from_ns);
            named.iter().find(is_named).is_none().then_some(episode)
        });
        late.collect()
    }

    pub fn speed(&self, component: usize) -> Option<&SpeedProfile> {
        let (stage, member) = *self.positions.get(component)?;
        Some(&self.speeds[stage][member])
    }
}

/// The work that each producer would assign under static assignment. The parts of a source belong
/// to its instances in turn. Producers assign batches in turn to their own consumers, so each
/// assigns what static assignment gives it; partitions and pairs of instances are independent.
fn dealers(flow: &CheckedFlow, node: usize, before: &[StageHistory]) -> Vec<f64> {
    let count = flow.nodes[node].count;
    let edge = flow.edges.iter().find(|edge| edge.to.0 == node);
    match edge.map(|edge| (edge.kind, edge.from.0)) {
        _ if count == 1 => vec![],
        None => StageHistory::equal_dealers(count),
        Some((QueueKind::Distributed | QueueKind::Pairwise, from)) => before[from].static_parts(),
        Some((QueueKind::Broadcast, _)) => StageHistory::equal_dealers(1),
        Some((QueueKind::Keyed, _)) => StageHistory::equal_dealers(count),
    }
}

/// The queue that limits a module: from one producer, and bounded. With several inputs it is
/// unknown which one the module waits for, and partitions stay with their producer.
fn feed(flow: &CheckedFlow, node: usize) -> Option<StageFeed> {
    let mut edges = flow.edges.iter().filter(|edge| edge.to.0 == node);
    let (edge, None) = (edges.next()?, edges.next()) else { return None };
    let bytes_max = edge.bytes_max as f64 / flow.nodes[edge.from.0].count.max(1) as f64;
    let is_bounded = matches!(edge.kind, QueueKind::Distributed | QueueKind::Pairwise);
    is_bounded.then_some(StageFeed { from: edge.from.0, bytes_max })
}
