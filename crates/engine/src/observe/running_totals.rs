//! Computes the totals of a running flow, and tells them to its observers.

use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::check::{CheckedEdge, CheckedFlow};
use euphrates_flow::metrics::{Counters, InstanceState};
use euphrates_flow::{Document, QueueKind};

use super::observer::{FlowObserver, Observers};
use super::sampler::{Component, Sampler};
use super::totals::{DiskTotals, FlowTotals, ModuleTotals, QueueTotals};
use crate::run::running::Running;
use crate::run::running_part::{ModuleMetrics, RunningPart};

impl Running {
    /// Begins to tell these observers what happens.
    pub(crate) fn observe_by(&mut self, all: &[Arc<dyn FlowObserver>], document: &Document) {
        self.observers = Observers::new(all);
        if !all.is_empty() {
            let totals = self.totals();
            self.observers.on_start(document, &self.flow, &totals);
        }
    }

    /// Tells the observers the totals, if that is due.
    pub(crate) fn observe(&mut self) {
        if self.observers.is_due() {
            self.observe_now();
        }
    }

    /// Tells the observers the totals.
    pub(crate) fn observe_now(&mut self) {
        if !self.observers.is_empty() {
            let (totals, live) = (self.totals(), self.live());
            self.observers.on_totals(&totals, &live);
        }
    }
}

impl Running {
    /// The totals at this moment.
    pub fn totals(&self) -> FlowTotals {
        let attempt = self.deployment.attempt.as_ref();
        let waiting = |edge| attempt.map_or(0, |attempt| attempt.waiting_bytes(edge));
        let passed = |edge| attempt.map_or((0, 0), |attempt| attempt.passed(edge));
        let sampler = self.sampler.as_ref();
        let mut memory = self.part.memory();
        for there in attempt.into_iter().flat_map(|attempt| attempt.memories()) {
            memory.granted_bytes += there.granted_bytes;
            memory.held_bytes += there.held_bytes;
        }
        let all = |_, _| true;
        FlowTotals {
            flow: self.flow.name.clone(),
            run: self.run.clone(),
            attempt: self.restarts.failed_attempts + 1,
            seconds: self.began.elapsed().as_secs_f64(),
            modules: modules(&self.flow, &self.part.metrics, all),
            queues: queues(&self.flow, &self.part, waiting, passed),
            disks: sampler.map(disks).unwrap_or_default(),
            slow: sampler.map(Sampler::slow).unwrap_or_default(),
            memory,
            workers: match attempt {
                Some(attempt) => attempt.living(),
                None => sampler.map(Sampler::workers).unwrap_or_default().0,
            },
            restarts: self.restarts,
        }
    }
}

/// The totals of the modules, over the instances for which `is_here`.
pub(crate) fn modules(
    flow: &CheckedFlow,
    metrics: &[ModuleMetrics],
    is_here: impl Fn(usize, usize) -> bool,
) -> Vec<ModuleTotals> {
    let module = |(number, of): (usize, &ModuleMetrics)| {
        let node = &flow.nodes[number];
        let is_source = node.inputs.is_empty();
        let mut totals = ModuleTotals { id: node.id.clone(), is_source, ..Default::default() };
        let here = of.metrics.iter().enumerate().filter(|(at, _)| is_here(number, *at));
        for (_, instance) in here {
            totals.count += 1;
            totals.ended += usize::from(instance.state() == InstanceState::Ended);
            totals.busy_seconds += instance.busy_so_far().as_secs_f64();
            totals.counters.add(&instance.read());
        }
        totals
    };
    metrics.iter().enumerate().map(module).collect()
}

/// The totals of the queues here and, as the two functions tell, elsewhere.
pub(crate) fn queues(
    flow: &CheckedFlow,
    part: &RunningPart,
    waiting: impl Fn(usize) -> i64,
    passed: impl Fn(usize) -> (u64, u64),
) -> Vec<QueueTotals> {
    let queue = |(edge, between): (usize, &CheckedEdge)| {
        let (from, to) = (&flow.nodes[between.from.0], &flow.nodes[between.to.0]);
        let (here, there) = (part.taps[edge].counts(), passed(edge));
        let fill: i64 = part.queues[edge].iter().map(|queue| queue.fill().0).sum();
        let (rows, bytes) = match between.kind {
            // Partitions do not pass through the queue: consumers count what they have taken.
            QueueKind::Keyed => {
                let Counters { rows_in, bytes_in, .. } = part.metrics[between.to.0].counters();
                (rows_in, bytes_in)
            }
            _ => (here.0 + there.0, here.1 + there.1),
        };
        let several = part.queues[edge].len().max(1);
        QueueTotals {
            from: (from.id.clone(), from.outputs[between.from.1].clone()),
            to: (to.id.clone(), to.inputs[between.to.1].clone()),
            rows,
            bytes,
            waiting_bytes: (fill + waiting(edge)).max(0) as u64,
            bound_bytes: between.bytes_max.saturating_mul(several) as u64,
        }
    };
    flow.edges.iter().enumerate().map(queue).collect()
}

/// The disks that the flow's processes have used, reads and writes apart.
fn disks(sampler: &Sampler) -> Vec<DiskTotals> {
    let totals = |(component, bytes, busy): (Component, u64, Duration)| match component {
        Component::Instance(..) => None,
        Component::Disk { worker, name, writes } => Some(DiskTotals {
            worker: worker.unwrap_or_default(),
            name,
            is_writing: writes,
            bytes,
            busy_seconds: busy.as_secs_f64(),
        }),
    };
    sampler.worked().into_iter().filter_map(totals).collect()
}
