//! Observers of a flow: told of its start, its totals once a second, what changes, and its end.
//!
//! The thread that waits for the flow calls them, so an observer must return soon: it stores or
//! appends what it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::check::CheckedFlow;
use euphrates_flow::{Document, Error};

use super::live_stats::LiveStats;
use super::report::Report;
use super::sampler::SlowNow;
use super::totals::{FlowTotals, ModuleTotals, RestartCost};

/// The interval between two reports of the totals.
const TOTALS_INTERVAL: Duration = Duration::from_secs(1);

/// Is told what happens to a flow.
pub trait FlowObserver: Send + Sync {
    /// Called with each event, in the order of the events.
    fn on_event(&self, event: &FlowEvent<'_>);
}

/// What has happened to a flow.
pub enum FlowEvent<'a> {
    /// It runs.
    Started {
        /// As it was given, before the check.
        document: &'a Document,
        /// As it was checked.
        flow: &'a CheckedFlow,
        /// The first totals.
        totals: &'a FlowTotals,
    },
    /// A worker takes part that did not before.
    WorkerJoined(&'a str),
    /// A worker takes part no longer.
    WorkerLost(&'a str),
    /// The first instance of a module has received or sent something.
    ModuleStarted(&'a ModuleTotals),
    /// All instances of a module have ended.
    ModuleFinished(&'a ModuleTotals),
    /// A module writes to scratch, since its memory does not suffice.
    SpillBegan(&'a ModuleTotals),
    /// An instance or a disk has become slow.
    SlowBegan(&'a SlowNow),
    /// An instance or a disk is slow no longer.
    SlowEnded(&'a str),
    /// The totals, at most once a second, and once when all instances have ended.
    Progress {
        /// The totals.
        totals: &'a FlowTotals,
        /// The statistics that the studio shows.
        live: &'a LiveStats,
    },
    /// An attempt has failed, and another has begun.
    Restarted {
        /// Why, and when.
        cause: &'a str,
        /// What all failed attempts have cost so far.
        cost: RestartCost,
    },
    /// All outputs are published.
    Committed,
    /// It has ended well.
    Finished(&'a Report),
    /// It has failed, or was cancelled; without output.
    Failed(&'a Error),
}

/// The observers of one flow, and what they have been told.
#[derive(Default)]
pub(crate) struct Observers {
    all: Vec<Arc<dyn FlowObserver>>,
    last: Option<Instant>,
    attempt: u32,
    workers: BTreeSet<String>,
    slow: BTreeMap<String, Option<f64>>,
    started: BTreeSet<String>,
    finished: BTreeSet<String>,
    spilled: BTreeSet<String>,
}

impl Observers {
    pub fn new(all: &[Arc<dyn FlowObserver>]) -> Observers {
        Observers { all: all.to_vec(), ..Observers::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn tell(&self, event: &FlowEvent<'_>) {
        self.all.iter().for_each(|observer| observer.on_event(event));
    }

    pub fn is_due(&self) -> bool {
        !self.all.is_empty() && self.last.is_none_or(|last| last.elapsed() >= TOTALS_INTERVAL)
    }

    pub fn on_start(&mut self, document: &Document, flow: &CheckedFlow, totals: &FlowTotals) {
        self.tell(&FlowEvent::Started { document, flow, totals });
        self.workers = totals.workers.iter().cloned().collect();
    }

    pub fn on_totals(&mut self, totals: &FlowTotals, live: &LiveStats) {
        self.last = Some(Instant::now());
        self.compare_workers(totals);
        self.compare_modules(totals);
        self.compare_slow(totals);
        self.tell(&FlowEvent::Progress { totals, live });
    }

    fn compare_workers(&mut self, totals: &FlowTotals) {
        let now: BTreeSet<String> = totals.workers.iter().cloned().collect();
        let before = std::mem::replace(&mut self.workers, now.clone());
        before.difference(&now).for_each(|name| self.tell(&FlowEvent::WorkerLost(name)));
        now.difference(&before).for_each(|name| self.tell(&FlowEvent::WorkerJoined(name)));
    }

    fn compare_modules(&mut self, totals: &FlowTotals) {
        if std::mem::replace(&mut self.attempt, totals.attempt) != totals.attempt {
            for told in [&mut self.started, &mut self.finished, &mut self.spilled] {
                told.clear();
            }
        }
        for module in &totals.modules {
            let is_done = module.count > 0 && module.ended == module.count;
            let moves = module.counters.batches_in + module.counters.batches_out > 0;
            if (moves || is_done) && self.started.insert(module.id.clone()) {
                self.tell(&FlowEvent::ModuleStarted(module));
            }
            if module.counters.spilled_bytes > 0 && self.spilled.insert(module.id.clone()) {
                self.tell(&FlowEvent::SpillBegan(module));
            }
            if is_done && self.finished.insert(module.id.clone()) {
                self.tell(&FlowEvent::ModuleFinished(module));
            }
        }
    }

    fn compare_slow(&mut self, totals: &FlowTotals) {
        let now: BTreeMap<String, Option<f64>> =
            totals.slow.iter().map(|slow| (slow.name.clone(), slow.factor)).collect();
        let before = std::mem::replace(&mut self.slow, now);
        let ended = before.keys().filter(|name| !self.slow.contains_key(*name));
        ended.for_each(|name| self.tell(&FlowEvent::SlowEnded(name)));
        let began = totals.slow.iter().filter(|slow| !before.contains_key(&slow.name));
        began.for_each(|slow| self.tell(&FlowEvent::SlowBegan(slow)));
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Names(Mutex<Vec<String>>);

    impl FlowObserver for Names {
        fn on_event(&self, event: &FlowEvent<'_>) {
            let name = match event {
                FlowEvent::WorkerJoined(name) => format!("joined {name}"),
                FlowEvent::WorkerLost(name) => format!("lost {name}"),
                FlowEvent::ModuleStarted(module) => format!("started {}", module.id),
                FlowEvent::ModuleFinished(module) => format!("finished {}", module.id),
                FlowEvent::SpillBegan(module) => format!("spills {}", module.id),
                FlowEvent::SlowBegan(slow) => format!("slow {}", slow.name),
                FlowEvent::SlowEnded(name) => format!("fast {name}"),
                _ => return,
            };
            self.0.lock().push(name);
        }
    }

    #[test]
    fn each_change_is_told_once_in_each_attempt() {
        let names = Arc::new(Names::default());
        let mut observers = Observers::new(&[names.clone() as Arc<dyn FlowObserver>]);
        let live = LiveStats::default();
        let mut totals = FlowTotals { attempt: 1, ..Default::default() };
        totals.workers = vec!["w1".into(), "w2".into()];
        totals.modules = vec![ModuleTotals { id: "sort_1".into(), count: 2, ..Default::default() }];
        let mut told = |totals: &FlowTotals| {
            observers.on_totals(totals, &live);
            std::mem::take(&mut *names.0.lock())
        };
        assert_eq!(told(&totals), ["joined w1", "joined w2"]);
        totals.modules[0].counters.batches_in = 1;
        totals.modules[0].counters.spilled_bytes = 9;
        totals.slow = vec![SlowNow { name: "sort_1.1".into(), factor: None }];
        assert_eq!(told(&totals), ["started sort_1", "spills sort_1", "slow sort_1.1"]);
        totals.slow.clear();
        totals.modules[0].ended = 2;
        assert_eq!(told(&totals), ["finished sort_1", "fast sort_1.1"]);
        assert_eq!(told(&totals), [""; 0]);
        totals.attempt = 2;
        totals.workers.pop();
        totals.modules[0] = ModuleTotals { id: "sort_1".into(), count: 1, ..Default::default() };
        assert_eq!(told(&totals), ["lost w2"]);
        totals.modules[0].counters.batches_out = 1;
        assert_eq!(told(&totals), ["started sort_1"]);
    }
}
