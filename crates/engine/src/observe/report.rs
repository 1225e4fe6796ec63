//! The report of a finished flow, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use euphrates_flow::Perturbation;
use euphrates_flow::check::{CheckedFlow, CheckedNode};
use euphrates_flow::metrics::Counters;
use euphrates_flow::module::Collected;
use euphrates_policy::bottleneck::{Bottleneck, ModuleTime, bottleneck};
use serde::Serialize;

use super::format::{bytes_of, count, seconds};
use super::slowness::Slowness;
use super::totals::RestartCost;
use crate::run::running_part::RunningPart;

/// The report of a flow.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of the flow.
    pub name: String,
    /// Seconds from the start to the commit.
    pub seconds: f64,
    /// The modules, producers before consumers.
    pub modules: Vec<ModuleReport>,
    /// The module that kept the others waiting, if one did.
    pub bottleneck: Option<String>,
    /// The perturbations imposed on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub perturbations: Vec<Perturbation>,
    /// What happened besides the run, without stopping it: lost or restarted workers, commits
    /// completed for dead flows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    /// Modules whose output an earlier run has made, if nothing was left to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made_before: Vec<String>,
    /// What failed attempts have cost.
    #[serde(skip_serializing_if = "RestartCost::is_none")]
    pub restarts: RestartCost,
    /// Slow components, and how close the run came to the ideal.
    #[serde(flatten)]
    pub slowness: Slowness,
    /// The rows of `collect` modules, by their names in the flow.
    #[serde(skip)]
    pub collected: BTreeMap<String, Collected>,
}

/// The report of a module.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleReport {
    /// Its name in the flow.
    pub id: String,
    /// The name of its spec.
    pub module: String,
    /// The number of its instances.
    pub count: usize,
    /// Whether it reads rows from outside the flow.
    #[serde(skip)]
    pub is_source: bool,
    /// A remark of the module itself.
    pub remark: Option<String>,
    /// Share of its time spent in its own code, from 0 to 1.
    pub busy: f64,
    /// Share of its time spent waiting for input.
    pub starved: f64,
    /// Share of its time spent waiting for room in its output.
    pub blocked: f64,
    /// Sums over the instances.
    #[serde(flatten)]
    pub counters: Counters,
}

impl Report {
    pub(crate) fn new(
        flow: &CheckedFlow,
        part: &RunningPart,
        remark: &dyn Fn(usize) -> Option<String>,
        seconds: f64,
        (perturbations, losses, slowness): (Vec<Perturbation>, Vec<String>, Slowness),
    ) -> Report {
        let module = |node: usize| {
            let counters = part.metrics[node].counters();
            let part = |seconds: f64| (seconds / counters.life_seconds.max(1e-9)).min(1.0);
            ModuleReport {
                id: flow.nodes[node].id.clone(),
                module: flow.nodes[node].spec.name.to_string(),
                count: flow.nodes[node].count,
                is_source: flow.nodes[node].inputs.is_empty(),
                remark: remark(node),
                busy: part(counters.busy_seconds()),
                starved: part(counters.starved_seconds),
                blocked: part(counters.blocked_seconds),
                counters,
            }
        };
        let modules: Vec<ModuleReport> = (0..flow.nodes.len()).map(module).collect();
        let bottleneck = match verdict(&modules) {
            Bottleneck::At(position) => Some(modules[position].id.clone()),
            _ => None,
        };
        let kept = |node: &CheckedNode| Some((node.id.clone(), node.bound.collected()?));
        let collected = flow.nodes.iter().filter_map(kept).collect();
        let name = flow.name.clone();
        Report {
            name,
            seconds,
            modules,
            bottleneck,
            perturbations,
            losses,
            made_before: vec![],
            restarts: RestartCost::default(),
            slowness,
            collected,
        }
    }

    /// The report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings are JSON")
    }

    /// Rows and bytes that entered the flow: those its sources read, or put out if they do not
    /// count what they read.
    pub fn read(&self) -> (u64, u64) {
        let sources = self.modules.iter().filter(|module| module.is_source);
        let read = sources.map(|ModuleReport { counters, .. }| match counters.rows_in {
            0 => (counters.rows_out, counters.bytes_out),
            rows => (rows, counters.bytes_in),
        });
        read.fold((0, 0), |(rows, bytes), one| (rows + one.0, bytes + one.1))
    }
}

/// A page for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "flow `{}` finished in {}", self.name, seconds(self.seconds))?;
        let (rows, bytes) = self.read();
        if rows > 0 {
            let rate = bytes_of(bytes as f64 / self.seconds.max(1e-9));
            let word = if rows == 1 { "row" } else { "rows" };
            writeln!(f, "{} {word}, {} in; {rate}/s", count(rows), bytes_of(bytes as f64))?;
        }
        let width = self.modules.iter().map(|m| m.id.len()).max().unwrap_or(0).max(6);
        writeln!(
            f,
            "\n{:width$}  {:>2}  {:>13}  {:>10}  {:>5}  {:>7}  {:>7}",
            "module", "×", "rows out", "bytes out", "busy", "starved", "blocked"
        )?;
        for module in &self.modules {
            let Counters { rows_out, bytes_out, .. } = module.counters;
            writeln!(
                f,
                "{:width$}  {:>2}  {:>13}  {:>10}  {:>4.0}%  {:>6.0}%  {:>6.0}%",
                module.id,
                module.count,
                count(rows_out),
                bytes_of(bytes_out as f64),
                module.busy * 100.0,
                module.starved * 100.0,
                module.blocked * 100.0
            )?;
        }
        for module in &self.modules {
            if let Some(remark) = &module.remark {
                writeln!(f, "{}: {remark}", module.id)?;
            }
        }
        for ModuleReport { id, counters, .. } in &self.modules {
            let Counters { cached_bytes, peer_bytes, origin_bytes, .. } = counters;
            if cached_bytes + peer_bytes + origin_bytes > 0 {
                let [memory, peers, origin] =
                    [cached_bytes, peer_bytes, origin_bytes].map(|&it| bytes_of(it as f64));
                let peers = match peer_bytes {
                    0 => String::new(),
                    _ => format!(", {peers} from the memory of other workers"),
                };
                writeln!(f, "{id}: {memory} from memory{peers}, {origin} from the origin")?;
            }
        }
        for one in &self.perturbations {
            writeln!(f, "perturbed: {one}")?;
        }
        for loss in &self.losses {
            writeln!(f, "{loss}")?;
        }
        if !self.restarts.is_none() {
            writeln!(f, "{}", self.restarts)?;
        }
        if !self.made_before.is_empty() {
            let made = self.made_before.join(", ");
            return write!(f, "nothing was left to do: {made} is there from a run before");
        }
        write!(f, "\nbottleneck: ")?;
        match verdict(&self.modules) {
            Bottleneck::At(position) => {
                let id = &self.modules[position].id;
                write!(f, "{id}, the module that waited least for others")
            }
            Bottleneck::TooShort => write!(f, "none; there was too little work to tell"),
            Bottleneck::Even => write!(f, "none; several modules were equally busy"),
            Bottleneck::Waiting => write!(f, "none; every module waited most of its time"),
        }?;
        write!(f, "{}", self.slowness)
    }
}

fn verdict(modules: &[ModuleReport]) -> Bottleneck {
    let work = |module: &ModuleReport| ModuleTime {
        busy_seconds: module.counters.busy_seconds(),
        busy: module.busy,
    };
    bottleneck(&modules.iter().map(work).collect::<Vec<_>>())
}
