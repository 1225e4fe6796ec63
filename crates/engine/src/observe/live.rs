//! How a running flow goes at this moment, in detail: every instance, every queue, and who holds it
//! up. For those who watch it; whoever does not look pays nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::QueueKind;
use euphrates_flow::check::Checked;
use euphrates_flow::metrics::{Counters, State};
use euphrates_flow::tap::Tap;
use euphrates_policy::bottleneck::{Shares, Spent, Tight, Work, shares, tight};
use serde::Serialize;

use crate::observe::progress::most_common;
use crate::observe::report::sum;
use crate::observe::watch::{SlowNow, Watch};
use crate::run::master::Running;

/// How a flow goes.
#[derive(Clone, Debug, Serialize)]
pub struct Live {
    /// Seconds since the start.
    pub seconds: f64,
    /// The modules, producers before consumers.
    pub modules: Vec<LiveModule>,
    /// The queues.
    pub queues: Vec<LiveQueue>,
    /// Instances and disks that are slow now.
    pub slow: Vec<SlowNow>,
    /// Who holds the flow up, if that can be said.
    pub bottleneck: Option<LiveBottleneck>,
}

/// How a module goes.
#[derive(Clone, Debug, Serialize)]
pub struct LiveModule {
    /// Its name in the flow.
    pub id: String,
    /// Number of instances.
    pub count: usize,
    /// What most of its instances are doing.
    pub state: &'static str,
    /// Part of its time lately in its own code.
    pub busy: f64,
    /// Part of its time lately spent waiting for input.
    pub starved: f64,
    /// Part of its time lately spent waiting for room in its output.
    pub blocked: f64,
    /// Rows that have come in.
    pub rows_in: u64,
    /// Bytes that have come in.
    pub bytes_in: u64,
    /// Rows that have gone out.
    pub rows_out: u64,
    /// Bytes that have gone out.
    pub bytes_out: u64,
    /// Rows a second lately: in or out, whichever is more.
    pub rows_per_second: f64,
    /// Bytes a second lately: in or out, whichever is more.
    pub bytes_per_second: f64,
    /// Its instances.
    pub instances: Vec<LiveInstance>,
}

/// How an instance goes.
#[derive(Clone, Debug, Serialize)]
pub struct LiveInstance {
    /// Its name: module and number.
    pub name: String,
    /// The worker it is at.
    pub worker: String,
    /// Part of its time lately in its own code.
    pub busy: f64,
    /// Part of its time lately spent waiting for input.
    pub starved: f64,
    /// Part of its time lately spent waiting for room in its output.
    pub blocked: f64,
    /// Bytes a second lately: in or out, whichever is more.
    pub bytes_per_second: f64,
    /// If it is slow: how many times as long it takes; `None` if it stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<Option<f64>>,
}

/// How a queue goes.
#[derive(Clone, Debug, Serialize)]
pub struct LiveQueue {
    /// Producer and its output.
    pub from: (String, String),
    /// Consumer and its input.
    pub to: (String, String),
    /// Rows a second lately.
    pub rows_per_second: f64,
    /// Bytes a second lately.
    pub bytes_per_second: f64,
    /// Bytes that wait in it.
    pub waiting_bytes: i64,
    /// The most that may. Partitions do not wait in it: they stay with their producer.
    pub bound_bytes: usize,
}

/// Who holds a flow up.
#[derive(Clone, Debug, Serialize)]
pub struct LiveBottleneck {
    /// The module, the instance or the disk.
    pub name: String,
    /// Which of these it is.
    pub kind: &'static str,
    /// The module, if it is one or part of one.
    pub module: Option<String>,
    /// Why it is thought so, for people.
    pub why: String,
}

/// How far back the present reaches.
const PRESENT: Duration = Duration::from_millis(1500);
/// Looks closer together than this are one.
const APART_MIN: Duration = Duration::from_millis(100);

/// What was seen lately; the oldest first.
#[derive(Default)]
pub(crate) struct Lately(VecDeque<Look>);

/// Where everything stood at one moment.
#[derive(Clone, Default)]
struct Look {
    at: Duration,
    /// By module and instance: counters, and how long it had been busy.
    instances: Vec<Vec<(Counters, Duration)>>,
    /// By queue: rows and bytes.
    passed: Vec<(u64, u64)>,
    disks: Vec<(String, Duration)>,
}

/// How a flow goes, compared with what was seen lately.
pub(crate) fn read(running: &Running, lately: &mut Lately) -> Live {
    let now = look(running);
    let before = lately.compared_with(&now);
    let seconds = now.at.saturating_sub(before.at).as_secs_f64();
    let slow = running.watch.as_ref().map(Watch::slow).unwrap_or_default();
    let workers = running.watch.as_ref().map(Watch::workers).unwrap_or_default();
    let stretch = Stretch { running, now: &now, before: &before, seconds, slow: &slow, workers };
    let (modules, works): (Vec<_>, Vec<_>) =
        (0..running.flow.nodes.len()).map(|node| stretch.module(node)).unzip();
    let queues = (0..running.flow.edges.len()).map(|edge| stretch.queue(edge)).collect();
    let bottleneck = stretch.bottleneck(&modules, &works);
    Live { seconds: now.at.as_secs_f64(), modules, queues, bottleneck, slow }
}

fn look(running: &Running) -> Look {
    let of_node = |node: usize| {
        let metrics = running.worker.instances[node].metrics.iter();
        metrics.map(|one| (one.read(), one.busy_so_far())).collect()
    };
    let passed = |(edge, tap): (usize, &Arc<Tap>)| {
        let there = running.deployment.attempt.as_ref().map(|attempt| attempt.passed(edge));
        let (here, there) = (tap.counts(), there.unwrap_or_default());
        let consumer = running.flow.edges[edge].to.0;
        match running.flow.edges[edge].kind {
            // Partitions do not pass: their consumers count what they have taken of them.
            QueueKind::Keyed => {
                let Counters { rows_in, bytes_in, .. } = sum(&running.worker, consumer);
                (rows_in, bytes_in)
            }
            _ => (here.0 + there.0, here.1 + there.1),
        }
    };
    Look {
        at: running.began.elapsed(),
        instances: (0..running.flow.nodes.len()).map(of_node).collect(),
        passed: running.worker.taps.iter().enumerate().map(passed).collect(),
        disks: running.watch.as_ref().map(Watch::disks).unwrap_or_default(),
    }
}

impl Lately {
    /// The look that this one is compared with; at first, how everything stood at the start.
    fn compared_with(&mut self, now: &Look) -> Look {
        let looks = &mut self.0;
        while looks.get(1).is_some_and(|look| now.at.saturating_sub(look.at) >= PRESENT) {
            looks.pop_front();
        }
        // After a new beginning there are other instances.
        let alike = |look: &&Look| {
            let counts =
                |look: &Look| -> Vec<usize> { look.instances.iter().map(Vec::len).collect() };
            counts(look) == counts(now)
        };
        let before = looks.front().filter(alike).cloned().unwrap_or_else(|| {
            let fresh = |of: &Vec<_>| vec![(Counters::default(), Duration::ZERO); of.len()];
            Look {
                at: Duration::ZERO,
                instances: now.instances.iter().map(fresh).collect(),
                passed: vec![(0, 0); now.passed.len()],
                disks: vec![],
            }
        });
        if looks.back().is_none_or(|last| now.at.saturating_sub(last.at) >= APART_MIN) {
            looks.push_back(now.clone());
        }
        before
    }
}

struct Stretch<'a> {
    running: &'a Running,
    now: &'a Look,
    before: &'a Look,
    seconds: f64,
    slow: &'a [SlowNow],
    workers: (Vec<String>, Vec<Vec<usize>>),
}

impl Stretch<'_> {
    fn flow(&self) -> &Checked {
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

    fn module(&self, node: usize) -> (LiveModule, Work) {
        let metrics = &self.running.worker.instances[node].metrics;
        let states: Vec<State> = metrics.iter().map(|one| one.state()).collect();
        let (mut now, mut before) = (Counters::default(), Counters::default());
        let (mut all, mut busy_seconds) = (Shares::default(), 0.0);
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
                    State::Blocked => Some(true),
                    State::Starved => Some(false),
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
        let work = Work { busy_seconds, busy: all.busy / count };
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
        shares: Shares,
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
        let fills = self.running.worker.queues[edge].iter().map(|queue| queue.fill().0);
        let attempt = self.running.deployment.attempt.as_ref();
        let there = attempt.map_or(0, |attempt| attempt.waiting_bytes(edge));
        let queues = self.running.worker.queues[edge].len().max(1);
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

    fn bottleneck(&self, modules: &[LiveModule], works: &[Work]) -> Option<LiveBottleneck> {
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
        Some(match tight(works, &slow_modules, &disks)? {
            Tight::Module(at) => LiveBottleneck {
                name: modules[at].id.clone(),
                kind: "module",
                module: Some(modules[at].id.clone()),
                why: format!("it works {} of its time; others wait", percent(works[at].busy)),
            },
            Tight::Instance(at) => {
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
            Tight::Disk(at) => LiveBottleneck {
                name: self.now.disks[at].0.clone(),
                kind: "disk",
                module: None,
                why: format!("it is busy {} of the time; no module is", percent(disks[at])),
            },
        })
    }
}
