//! A worker: every instance in a thread of its own, its ports connected by queues.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use euphrates_flow::check::{Checked, CheckedEdge, Unit};
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::ports::{Consumer, Input, Output, Producer};
use euphrates_flow::{
    Cancel, Error, Kind, Module, Parcel, Ports, QueueKind, Result, RunIndex, Setup,
};
use euphrates_policy::distributed::Policy;

use crate::distributed::DistributedQueue;
use crate::division::late_binding;
use crate::machine;
use crate::perturb::Perturber;
use crate::queue::{LocalQueue, QueueProducer};

/// What lies between two modules.
#[derive(Clone)]
pub enum Queue {
    /// Shared by all its ends: as late as binding can be, where memory is shared.
    Local(Arc<LocalQueue>),
    /// Between endpoints that send each other letters.
    Distributed(Arc<DistributedQueue>),
}

impl Queue {
    /// Bytes waiting now, and the bound.
    pub fn fill(&self) -> (usize, usize) {
        match self {
            Queue::Local(queue) => queue.fill(),
            Queue::Distributed(queue) => queue.fill(),
        }
    }

    fn producer(&self, instance: usize) -> Box<dyn Producer> {
        match self {
            Queue::Local(queue) => Box::new(queue.producer()),
            Queue::Distributed(queue) => Box::new(queue.producer(instance)),
        }
    }

    fn consumer(&self, instance: usize) -> Box<dyn Consumer> {
        match self {
            Queue::Local(queue) => Box::new(queue.consumer()),
            Queue::Distributed(queue) => Box::new(queue.consumer(instance)),
        }
    }
}

/// What the instances of one worker share.
pub struct Resources {
    /// In-process workers that the instances are spread over.
    pub workers: usize,
    /// How distributed queues decide; the best for where their ends are if absent.
    pub division: Option<Policy>,
    /// Bytes an instance that can use memory may hold.
    pub share_bytes: usize,
    /// The part of `Setup` that is the same for all.
    pub setup: Setup,
}

/// A module's instances, as seen from outside.
pub struct Instances {
    /// Counters, one an instance.
    pub metrics: Vec<Arc<InstanceMetrics>>,
}

/// Threads at work.
pub struct Worker {
    /// Per module of the flow.
    pub instances: Vec<Instances>,
    /// Per edge of the flow, the queues made for it.
    pub queues: Vec<Vec<Queue>>,
    /// Instances that have not been heard of.
    pub left: usize,
    /// What each instance's `run` returned, with its place, as they end.
    pub ended: mpsc::Receiver<Result<()>>,
    /// The threads.
    pub threads: Vec<JoinHandle<()>>,
}

/// Prepares every module, connects the instances and sets them going.
pub fn start(
    flow: &Checked,
    resources: &Resources,
    perturber: &Perturber,
    epoch: Instant,
) -> Result<Worker> {
    let cancel = &resources.setup.cancel;
    let queues: Vec<_> = flow.edges.iter().map(|edge| connect(flow, edge, resources)).collect();
    let (tell, ended) = mpsc::channel();
    let mut instances = Vec::new();
    let mut ready: Vec<Ready> = Vec::new();
    for (node, checked) in flow.nodes.iter().enumerate() {
        let place = |error: Error| error.at(format!("module {}", checked.id));
        let mut setup = resources.setup.clone();
        setup.instances = checked.count;
        setup.memory_bytes = if checked.spec.wants_memory { resources.share_bytes } else { 0 };
        checked.placed.prepare(&setup).map_err(place)?;
        let metrics: Vec<_> =
            (0..checked.count).map(|_| Arc::new(InstanceMetrics::default())).collect();
        for (instance, metrics) in metrics.iter().enumerate() {
            let setup = Arc::new(Setup { instance, ..setup.clone() });
            let module = checked.placed.clone().instance(&setup).map_err(place)?;
            let name = format!("{}.{instance}", checked.id);
            let mut ports = ports(flow, node, instance, &queues, metrics.clone(), setup);
            if let Some(brake) = perturber.brake(node, instance, epoch) {
                ports.slow_by(brake);
            }
            ready.push(Ready { name, module, ports, metrics: metrics.clone() });
        }
        instances.push(Instances { metrics });
    }
    let left = ready.len();
    let spawn = |ready: Ready| spawn(ready, tell.clone(), cancel.clone());
    let threads = ready.into_iter().map(spawn).collect::<Result<_>>()?;
    Ok(Worker { instances, queues, left, ended, threads })
}

struct Ready {
    name: String,
    module: Box<dyn Module>,
    ports: Ports,
    metrics: Arc<InstanceMetrics>,
}

fn spawn(
    ready: Ready,
    tell: mpsc::Sender<Result<()>>,
    cancel: Arc<Cancel>,
) -> Result<JoinHandle<()>> {
    let Ready { name, mut module, mut ports, metrics } = ready;
    let thread = thread::Builder::new().name(name.clone()).spawn(move || {
        cancel.wake_me();
        let life = metrics.live(machine::thread_id());
        let run = || module.run(&mut ports).and_then(|()| ports.make_up());
        let outcome = catch_unwind(AssertUnwindSafe(run));
        drop(life);
        let result = match outcome {
            Ok(Err(error)) if error.kind() == Kind::Closed => Ok(()),
            Ok(result) => result,
            Err(panic) => Err(Error::failed(format!("panicked: {}", panic_text(panic.as_ref())))
                .remedy("this is a bug in the module; please report it with the flow")),
        };
        // A failure is known before this instance's queues end, so that nobody downstream takes
        // a stream that was cut short for a whole one.
        if result.is_err() {
            cancel.cancel();
        }
        drop(ports);
        drop(module);
        let place = |error: Error| error.at(format!("module {name}"));
        // The master may have stopped listening.
        let _ = tell.send(result.map_err(place));
    });
    thread.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The queues of an edge: one that all share, or one for each pair or each consumer.
fn connect(flow: &Checked, edge: &CheckedEdge, resources: &Resources) -> Vec<Queue> {
    let (from, to) = (flow.nodes[edge.from.0].count, flow.nodes[edge.to.0].count);
    let cancel = &resources.setup.cancel;
    let make = |producers, consumers| {
        let cancel = cancel.clone();
        Queue::Local(LocalQueue::new(edge.unit, edge.bytes_max, producers, consumers, cancel))
    };
    let is_spread = resources.workers > 1 && from.max(to) > 1;
    let division = resources.division.or(is_spread.then(late_binding));
    match (edge.kind, edge.unit, division) {
        (QueueKind::Distributed, Unit::Batch, Some(policy)) => {
            let (bytes_max, cancel) = (edge.bytes_max, cancel.clone());
            vec![Queue::Distributed(DistributedQueue::new(policy, bytes_max, from, to, cancel))]
        }
        (QueueKind::Distributed, ..) => vec![make(from, to)],
        (QueueKind::Pairwise, ..) => (0..from).map(|_| make(1, 1)).collect(),
        (QueueKind::Broadcast, ..) => (0..to).map(|_| make(from, 1)).collect(),
    }
}

fn ports(
    flow: &Checked,
    node: usize,
    instance: usize,
    queues: &[Vec<Queue>],
    metrics: Arc<InstanceMetrics>,
    setup: Arc<Setup>,
) -> Ports {
    let checked = &flow.nodes[node];
    let own = |edge: &CheckedEdge| if edge.kind == QueueKind::Distributed { 0 } else { instance };
    let edges = || flow.edges.iter().zip(queues);
    let input = |(port, name): (usize, &String)| {
        let (edge, queues) =
            edges().find(|(edge, _)| edge.to == (node, port)).expect("every input is attached");
        Input { name: name.clone(), queue: queues[own(edge)].consumer(instance) }
    };
    let output = |(port, name): (usize, &String)| {
        let (edge, queues) =
            edges().find(|(edge, _)| edge.from == (node, port)).expect("every output is attached");
        let queue: Box<dyn Producer> = match edge.kind {
            QueueKind::Broadcast => Box::new(ToAll::new(queues)),
            _ => queues[own(edge)].producer(instance),
        };
        Output { name: name.clone(), queue }
    };
    let inputs = checked.inputs.iter().enumerate().map(input).collect();
    let outputs = checked.outputs.iter().enumerate().map(output).collect();
    Ports::new(inputs, outputs, checked.keeps_runs, metrics, setup)
}

/// The producer's end of a broadcast: every consumer gets every batch. Consumers that are done are
/// passed over; when all are, so is the producer.
struct ToAll(Vec<Option<QueueProducer>>);

impl ToAll {
    fn new(queues: &[Queue]) -> ToAll {
        let end = |queue: &Queue| match queue {
            Queue::Local(queue) => Some(queue.producer()),
            Queue::Distributed(_) => unreachable!("a consumer's own queue is not distributed"),
        };
        ToAll(queues.iter().map(end).collect())
    }

    fn each(&mut self, mut act: impl FnMut(&mut QueueProducer) -> Result<()>) -> Result<()> {
        for end in &mut self.0 {
            match end.as_mut().map(&mut act) {
                Some(Err(error)) if error.kind() == Kind::Closed => *end = None,
                Some(Err(error)) => return Err(error),
                _ => {}
            }
        }
        if self.0.iter().all(Option::is_none) { Err(Error::closed()) } else { Ok(()) }
    }
}

impl Producer for ToAll {
    fn put(&mut self, parcel: Parcel, wait: bool) -> Result<Option<Parcel>> {
        // All or none: with some full, a put that does not wait must leave no trace.
        if !wait && !self.0.iter().flatten().all(|end| end.has_room(&parcel)) {
            return Ok(Some(parcel));
        }
        self.each(|end| end.put(parcel.clone(), true).map(|_| ()))?;
        Ok(None)
    }

    fn begin_run(&mut self, run: RunIndex) -> Result<()> {
        self.each(|end| end.begin_run(run))
    }

    fn end_run(&mut self, run: RunIndex) -> Result<()> {
        self.each(|end| end.end_run(run))
    }
}
