//! Computes the live statistics of a running flow on demand.

use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::QueueKind;
use euphrates_flow::check::CheckedFlow;
use euphrates_flow::metrics::{Counters, InstanceState};
use euphrates_flow::tap::Tap;
use euphrates_policy::bottleneck::{
    CurrentBottleneck, ModuleTime, Spent, TimeShares, current_bottleneck, shares,
};

use super::live_stats::{LiveBottleneck, LiveInstance, LiveModule, LiveQueue, LiveStats};
use super::progress::most_common;
use super::sampler::{Sampler, SlowNow};
use super::snapshot::Snapshot;
use crate::run::running::Running;

impl Running {
    /// The statistics of every instance and queue at this moment.
    pub fn live(&self) -> LiveStats {
        let now = snapshot(self);
        let before = self.recent.lock().compared_with(&now);
        let seconds = now.at.saturating_sub(before.at).as_secs_f64();
        let slow = self.sampler.as_ref().map(Sampler::slow).unwrap_or_default();
        let workers = self.sampler.as_ref().map(Sampler::workers).unwrap_or_default();
        let interval =
            Interval { running: self, now: &now, before: &before, seconds, slow: &slow, workers };
        let (modules, works): (Vec<_>, Vec<_>) =
            (0..self.flow.nodes.len()).map(|node| interval.module(node)).unzip();
        let queues = (0..self.flow.edges.len()).map(|edge| interval.queue(edge)).collect();
        let bottleneck = interval.bottleneck(&modules, &works);
        LiveStats { seconds: now.at.as_secs_f64(), modules, queues, bottleneck, slow }
    }
}

fn snapshot(running: &Running) -> Snapshot {
    let of_node = |node: usize| {
        let metrics = running.part.metrics[node].metrics.iter();
        metrics.map(|one| (one.read(), one.busy_so_far())).collect()
    };
    let passed = |(edge, tap): (usize, &Arc<Tap>)| {
        let there = running.deployment.attempt.as_ref().map(|attempt| attempt.passed(edge));
        let (here, there) = (tap.counts(), there.unwrap_or_default());
        let consumer = running.flow.edges[edge].to.0;
        match running.flow.edges[edge].kind {
            // Partitions do not pass through the queue: consumers count what they have taken of
            // them.
            QueueKind::Keyed => {
                let Counters { rows_in, bytes_in, .. } = running.part.metrics[consumer].counters();
                (rows_in, bytes_in)
            }
            _ => (here.0 + there.0, here.1 + there.1),
        }
    };
    Snapshot {
        at: running.began.elapsed(),
        instances: (0..running.flow.nodes.len()).map(of_node).collect(),
        passed: running.part.taps.iter().enumerate().map(passed).collect(),
        disks: running.sampler.as_ref().map(Sampler::disks).unwrap_or_default(),
    }
}

struct Interval<'a> {
    running: &'a Running,
    now: &'a Snapshot,
    before: &'a Snapshot,
    seconds: f64,
    slow: &'a [SlowNow],
    workers: (Vec<String>, Vec<Vec<usize>>),
}

impl Interval<'_> {
    fn flow(&self) -> &CheckedFlow {
        &self.running.flow
    }

    fn worker_of(&self, node: usize, number: usize) -> String {
        let (names, of) = &self.workers;
        let worker = of.get(node).and_then(|of| names.get(*of.get(number)?));
        worker.cloned().unwrap_or_default()
    }

    fn rate(&self, now: u64, before: u64) -> f64 {
        if self.seconds > 0.0 { now.saturating_sub(before) as f64 / self.seconds } else { 0.0 }
    }

    fn module(&self, node: usize) -> (LiveModule, ModuleTime) {
        let metrics = &self.running.part.metrics[node].metrics;
        let states: Vec<InstanceState> = metrics.iter().map(|one| one.state()).collect();
        let (mut now, mut before) = (Counters::default(), Counters::default());
        let (mut all, mut busy_seconds) = (TimeShares::default(), 0.0);
        let mut instances = vec![];
        let (looked, earlier) = (&self.now.instances[node], &self.before.instances[node]);
        for (number, ((counters, busy), (then, busy_then))) in
            looked.iter().zip(earlier).enumerate()
        {
            now.add(counters);
            before.add(then);
            let busy = busy.saturating_sub(*busy_then).as_secs_f64();
            let spent = Spent {
                seconds: self.seconds,
                busy,
                starved: (counters.starved_seconds - then.starved_seconds).max(0.0),
                blocked: (counters.blocked_seconds - then.blocked_seconds).max(0.0),
                waits_for_room: match states[number] {
                    InstanceState::Blocked => Some(true),
                    InstanceState::Starved => Some(false),
                    _ => None,
                },
            };
            let own = shares(&spent);
            busy_seconds += busy;
            all.busy += own.busy;
            all.starved += own.starved;
            all.blocked += own.blocked;
            instances.push(self.instance((node, number), own, (counters, then)));
        }
        let count = instances.len().max(1) as f64;
        let rows = [(now.rows_in, before.rows_in), (now.rows_out, before.rows_out)];
        let bytes = [(now.bytes_in, before.bytes_in), (now.bytes_out, before.bytes_out)];
        let work = ModuleTime { busy_seconds, busy: all.busy / count };
        let module = LiveModule {
            id: self.flow().nodes[node].id.clone(),
            count: instances.len(),
            state: most_common(&states),
            busy: all.busy / count,
            starved: all.starved / count,
            blocked: all.blocked / count,
            rows_in: now.rows_in,
            bytes_in: now.bytes_in,
            rows_out: now.rows_out,
            bytes_out: now.bytes_out,
            rows_per_second: self.most(&rows),
            bytes_per_second: self.most(&bytes),
            instances,
        };
        (module, work)
    }

    fn most(&self, counters: &[(u64, u64)]) -> f64 {
        counters.iter().map(|(now, before)| self.rate(*now, *before)).fold(0.0, f64::max)
    }

    fn instance(
        &self,
        (node, number): (usize, usize),
        shares: TimeShares,
        (now, before): (&Counters, &Counters),
    ) -> LiveInstance {
        let name = format!("{}.{number}", self.flow().nodes[node].id);
        let slow = self.slow.iter().find(|slow| slow.name == name).map(|slow| slow.factor);
        let bytes = [(now.bytes_in, before.bytes_in), (now.bytes_out, before.bytes_out)];
        LiveInstance {
            worker: self.worker_of(node, number),
            busy: shares.busy,
            starved: shares.starved,
            blocked: shares.blocked,
            bytes_per_second: self.most(&bytes),
            name,
            slow,
        }
    }

    fn queue(&self, edge: usize) -> LiveQueue {
        let between = &self.flow().edges[edge];
        let (from, to) = (&self.flow().nodes[between.from.0], &self.flow().nodes[between.to.0]);
        let fills = self.running.part.queues[edge].iter().map(|queue| queue.fill().0);
        let attempt = self.running.deployment.attempt.as_ref();
        let there = attempt.map_or(0, |attempt| attempt.waiting_bytes(edge));
        let queues = self.running.part.queues[edge].len().max(1);
        let ((rows, bytes), (rows_then, bytes_then)) =
            (self.now.passed[edge], self.before.passed[edge]);
        LiveQueue {
            from: (from.id.clone(), from.outputs[between.from.1].clone()),
            to: (to.id.clone(), to.inputs[between.to.1].clone()),
            rows_per_second: self.rate(rows, rows_then),
            bytes_per_second: self.rate(bytes, bytes_then),
            waiting_bytes: (fills.sum::<i64>() + there).max(0),
            bound_bytes: between.bytes_max.saturating_mul(queues),
        }
    }

    fn bottleneck(&self, modules: &[LiveModule], works: &[ModuleTime]) -> Option<LiveBottleneck> {
        let module_of = |slow: &SlowNow| {
            let of = slow.name.rsplit_once('.').map(|(module, _)| module);
            modules.iter().position(|module| Some(module.id.as_str()) == of)
        };
        let with_module = |slow| Some((module_of(slow)?, slow));
        let slow: Vec<(usize, &SlowNow)> = self.slow.iter().filter_map(with_module).collect();
        let slow_modules: Vec<usize> = slow.iter().map(|(module, _)| *module).collect();
        let busy_before = |name: &str| {
            let known = self.before.disks.iter().find(|(known, _)| known == name);
            known.map_or(Duration::ZERO, |(_, busy)| *busy)
        };
        let busy = |(name, busy): &(String, Duration)| {
            busy.saturating_sub(busy_before(name)).as_secs_f64() / self.seconds.max(1e-9)
        };
        let disks: Vec<f64> = self.now.disks.iter().map(busy).collect();
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        Some(match current_bottleneck(works, &slow_modules, &disks)? {
            CurrentBottleneck::Module(at) => LiveBottleneck {
                name: modules[at].id.clone(),
                kind: "module",
                module: Some(modules[at].id.clone()),
                why: format!("it works {} of its time; others wait", percent(works[at].busy)),
            },
            CurrentBottleneck::Instance(at) => {
                let (module, slow) = slow[at];
                let factor = slow.factor.map_or("stands still".to_string(), |factor| {
                    format!("takes {factor:.1} times as long as it should")
                });
                LiveBottleneck {
                    name: slow.name.clone(),
                    kind: "instance",
                    module: Some(modules[module].id.clone()),
                    why: format!("it {factor}, and its module works all the time"),
                }
            }
            CurrentBottleneck::Disk(at) => LiveBottleneck {
                name: self.now.disks[at].0.clone(),
                kind: "disk",
                module: None,
                why: format!("it is busy {} of the time; no module is", percent(disks[at])),
            },
        })
    }
}
