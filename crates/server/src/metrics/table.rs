//! The table of metrics: the only place that names them. The text of a scrape is made from it, and
//! the reference in the manual and the dashboard are compared with it.

use euphrates_engine::observe::totals::{DiskTotals, FlowTotals, ModuleTotals, QueueTotals};

/// What a scrape reads: a flow, or the part of one that a worker runs.
#[derive(Clone, Debug, Default)]
pub struct FlowReading {
    /// The latest totals.
    pub totals: FlowTotals,
    /// `running`, `done` or `failed`.
    pub state: FlowState,
    /// Slow episodes that have begun so far, if they are counted.
    pub slow_episodes: Option<u64>,
    /// Whether it is a part, which knows nothing of workers and attempts.
    pub is_part: bool,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowState {
    /// Its instances run, or its outputs are being published.
    #[default]
    Running,
    /// Its outputs are published.
    Done,
    /// It has failed, or was cancelled.
    Failed,
}

/// The values of a metric's own labels, in the order of `Metric::labels`, and its value.
pub type MetricSample = (Vec<String>, f64);

/// One metric. Every one has the labels `flow` and `run`, too.
pub struct Metric {
    /// Its name, which ends in its unit; that of a counter in `_total`.
    pub name: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// The names of its own labels.
    pub labels: &'static [&'static str],
    /// Reads its samples.
    pub read: fn(&FlowReading) -> Vec<MetricSample>,
}

const MODULE: &[&str] = &["module"];
const QUEUE: &[&str] = &["from", "output", "to", "input"];
const DISK: &[&str] = &["worker", "disk", "operation"];

fn of_modules(flow: &FlowReading, value: fn(&ModuleTotals) -> f64) -> Vec<MetricSample> {
    let sample = |module: &ModuleTotals| (vec![module.id.clone()], value(module));
    flow.totals.modules.iter().map(sample).collect()
}

fn of_queues(flow: &FlowReading, value: fn(&QueueTotals) -> u64) -> Vec<MetricSample> {
    let sample = |queue: &QueueTotals| {
        let QueueTotals { from, to, .. } = queue;
        let labels = [&from.0, &from.1, &to.0, &to.1].map(String::clone);
        (labels.to_vec(), value(queue) as f64)
    };
    flow.totals.queues.iter().map(sample).collect()
}

fn of_disks(flow: &FlowReading, value: fn(&DiskTotals) -> f64) -> Vec<MetricSample> {
    let sample = |disk: &DiskTotals| {
        let operation = if disk.is_writing { "write" } else { "read" };
        (vec![disk.worker.clone(), disk.name.clone(), operation.into()], value(disk))
    };
    flow.totals.disks.iter().map(sample).collect()
}

fn one(value: f64) -> Vec<MetricSample> {
    vec![(vec![], value)]
}

fn of_whole(flow: &FlowReading, value: fn(&FlowTotals) -> f64) -> Vec<MetricSample> {
    if flow.is_part { vec![] } else { one(value(&flow.totals)) }
}

macro_rules! metric {
    ($kind:literal $name:literal $labels:expr, $help:literal, $read:expr) => {
        Metric { name: $name, kind: $kind, help: $help, labels: $labels, read: $read }
    };
}

/// All metrics, in the order of a scrape.
pub const METRICS: &[Metric] = &[
    metric!("gauge" "euphrates_flow_state" &["state"],
    "1 for the state of the flow: running, done or failed.", |flow| {
        let states = [
            ("running", FlowState::Running),
            ("done", FlowState::Done),
            ("failed", FlowState::Failed),
        ];
        let value = |state| f64::from(u8::from(state == flow.state));
        states.map(|(word, state)| (vec![word.to_string()], value(state))).to_vec()
    }),
    metric!("gauge" "euphrates_flow_seconds" &[],
        "Seconds since the start of the flow.", |flow| one(flow.totals.seconds)),
    metric!("gauge" "euphrates_workers" &[],
        "Workers of the flow that are alive.",
        |flow| of_whole(flow, |totals| totals.workers.len() as f64)),
    metric!("counter" "euphrates_failed_attempts_total" &[],
        "Attempts that failed and were followed by another.",
        |flow| of_whole(flow, |totals| f64::from(totals.restarts.failed_attempts))),
    metric!("counter" "euphrates_lost_seconds_total" &[],
        "Seconds that failed attempts took.",
        |flow| of_whole(flow, |totals| totals.restarts.lost_seconds)),
    metric!("counter" "euphrates_rows_again_total" &[],
        "Rows that sources had read in failed attempts; with `resume`, some are not read again.",
        |flow| of_whole(flow, |totals| totals.restarts.rows_again as f64)),
    metric!("gauge" "euphrates_memory_granted_bytes" &[],
        "Memory that the modules of the flow may hold together.",
        |flow| one(flow.totals.memory.granted_bytes as f64)),
    metric!("gauge" "euphrates_memory_held_bytes" &[],
        "Memory that the modules of the flow hold.",
        |flow| one(flow.totals.memory.held_bytes as f64)),
    metric!("gauge" "euphrates_module_instances" MODULE,
        "Instances of a module.", |flow| of_modules(flow, |module| module.count as f64)),
    metric!("gauge" "euphrates_module_instances_ended" MODULE,
        "Instances of a module that have ended.",
        |flow| of_modules(flow, |module| module.ended as f64)),
    metric!("counter" "euphrates_module_rows_in_total" MODULE,
        "Rows that a module has taken from its inputs, or a source has read.",
        |flow| of_modules(flow, |module| module.counters.rows_in as f64)),
    metric!("counter" "euphrates_module_rows_out_total" MODULE,
        "Rows that a module has put on its outputs, or a sink has written.",
        |flow| of_modules(flow, |module| module.counters.rows_out as f64)),
    metric!("counter" "euphrates_module_bytes_in_total" MODULE,
        "Bytes of the rows that came in.",
        |flow| of_modules(flow, |module| module.counters.bytes_in as f64)),
    metric!("counter" "euphrates_module_bytes_out_total" MODULE,
        "Bytes of the rows that went out.",
        |flow| of_modules(flow, |module| module.counters.bytes_out as f64)),
    metric!("counter" "euphrates_module_batches_in_total" MODULE,
        "Batches in which the rows came in.",
        |flow| of_modules(flow, |module| module.counters.batches_in as f64)),
    metric!("counter" "euphrates_module_batches_out_total" MODULE,
        "Batches in which the rows went out.",
        |flow| of_modules(flow, |module| module.counters.batches_out as f64)),
    metric!("counter" "euphrates_module_busy_seconds_total" MODULE,
        "Seconds that the instances of a module spent in its own code.",
        |flow| of_modules(flow, |module| module.busy_seconds)),
    metric!("counter" "euphrates_module_starved_seconds_total" MODULE,
        "Seconds that the instances of a module waited for input, counted when a wait ends.",
        |flow| of_modules(flow, |module| module.counters.starved_seconds)),
    metric!("counter" "euphrates_module_blocked_seconds_total" MODULE,
        "Seconds that the instances of a module waited for room, counted when a wait ends.",
        |flow| of_modules(flow, |module| module.counters.blocked_seconds)),
    metric!("counter" "euphrates_module_spilled_bytes_total" MODULE,
        "Bytes that a module has written to scratch, since they did not fit its memory.",
        |flow| of_modules(flow, |module| module.counters.spilled_bytes as f64)),
    metric!("counter" "euphrates_queue_rows_total" QUEUE,
        "Rows that consumers have taken from a queue.", |flow| of_queues(flow, |one| one.rows)),
    metric!("counter" "euphrates_queue_bytes_total" QUEUE,
        "Bytes that consumers have taken from a queue.", |flow| of_queues(flow, |one| one.bytes)),
    metric!("gauge" "euphrates_queue_waiting_bytes" QUEUE,
        "Bytes that wait in a queue.", |flow| of_queues(flow, |one| one.waiting_bytes)),
    metric!("gauge" "euphrates_queue_bound_bytes" QUEUE,
        "The most bytes that may wait in a queue.", |flow| of_queues(flow, |one| one.bound_bytes)),
    metric!("counter" "euphrates_disk_bytes_total" DISK,
        "Bytes that the flow's processes have read from or written to a disk.",
        |flow| of_disks(flow, |disk| disk.bytes as f64)),
    metric!("counter" "euphrates_disk_busy_seconds_total" DISK,
        "Seconds with requests of the flow's processes in progress at a disk.",
        |flow| of_disks(flow, |disk| disk.busy_seconds)),
    metric!("counter" "euphrates_slow_episodes_total" &[],
        "Episodes in which an instance or a disk was slow.",
        |flow| flow.slow_episodes.map_or(vec![], |episodes| one(episodes as f64))),
    metric!("gauge" "euphrates_slow_factor" &["component"],
    "How many times as long the work of a slow instance or disk takes; +Inf if it stands still.",
    |flow| {
        let slow = flow.totals.slow.iter();
        slow.map(|slow| (vec![slow.name.clone()], slow.factor.unwrap_or(f64::INFINITY)))
            .collect()
    }),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/metrics.md");
    const DASHBOARD: &str = include_str!("../../../../deploy/grafana/euphrates.json");

    /// The names of metrics in a text.
    fn names(text: &str) -> BTreeSet<&str> {
        let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        words.filter(|word| word.starts_with("euphrates_")).collect()
    }

    fn known() -> BTreeSet<&'static str> {
        METRICS.iter().map(|metric| metric.name).collect()
    }

    #[test]
    fn manual_has_a_row_for_every_metric_and_names_no_other() {
        for Metric { name, kind, help, labels, .. } in METRICS {
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            let row = format!("| `{name}` | {kind} | {} | {help} |", labels.join(", "));
            assert!(MANUAL.lines().any(|line| line == row), "docs/metrics.md lacks {row}");
        }
        assert_eq!(names(MANUAL), known());
    }

    /// The values of all members of this name.
    fn members<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get(name).and_then(Value::as_str));
                object.values().for_each(|value| members(value, name, found));
            }
            Value::Array(array) => array.iter().for_each(|value| members(value, name, found)),
            _ => {}
        }
    }

    #[test]
    fn dashboard_queries_metrics_that_exist() {
        let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
        let mut queries = vec![];
        members(&dashboard, "expr", &mut queries);
        assert!(queries.len() > 10, "{queries:?}");
        for query in &queries {
            let names = names(query);
            assert!(!names.is_empty() && names.is_subset(&known()), "{query}");
        }
        let mut others = vec![];
        for name in ["query", "definition"] {
            members(&dashboard, name, &mut others);
        }
        assert!(!others.is_empty());
        for query in others {
            assert!(names(query).is_subset(&known()), "{query}");
        }
    }
}
