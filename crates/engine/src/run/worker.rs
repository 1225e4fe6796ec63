//! A worker: every instance in a thread of its own, its ports connected by queues.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use euphrates_flow::check::{Checked, CheckedEdge, Unit};
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::ports::{Consumer, Input, Output, Producer};
use euphrates_flow::tap::Tap;
use euphrates_flow::{
    Cancel, Error, Kind, Module, Parcel, Ports, QueueKind, Result, RunIndex, Setup,
};
use euphrates_io::scratch;
use euphrates_policy::{distributed::Policy, memory::row_bytes_max};

use crate::exchange::{ExchangeHandle, ModuleExchange};
use crate::machine;
use crate::queue::distributed::DistributedQueue;
use crate::queue::keyed::KeyedQueue;
use crate::queue::local::LocalQueue;
use crate::queue::network::{Location, Network, are_here};
use crate::queue::policies::late_binding;
use crate::queue::runs::RunQueue;
use crate::queue::transport::Transport;
use crate::run::perturber::Perturber;
use crate::run::placement::Placement;

/// What lies between two modules.
#[derive(Clone)]
pub enum Queue {
    /// Shared by all its ends: as late as binding can be, where memory is shared.
    Local(Arc<LocalQueue>),
    /// Between endpoints that send each other letters.
    Distributed(Arc<DistributedQueue>),
    /// The same for whole runs.
    Runs(Arc<RunQueue>),
    /// Partitions, which stay with their producer until they are taken.
    Keyed(Arc<KeyedQueue>),
}

impl Queue {
    /// Bytes waiting now, and the bound.
    pub fn fill(&self) -> (i64, usize) {
        match self {
            Queue::Local(queue) => queue.fill(),
            Queue::Distributed(queue) => queue.fill(),
            Queue::Runs(queue) => queue.fill(),
            Queue::Keyed(_) => (0, usize::MAX),
        }
    }

    fn producer(&self, instance: usize) -> Box<dyn Producer> {
        match self {
            Queue::Local(queue) => Box::new(queue.producer()),
            Queue::Distributed(queue) => Box::new(queue.producer(instance)),
            Queue::Runs(queue) => Box::new(queue.producer(instance)),
            Queue::Keyed(queue) => queue.producer(),
        }
    }

    fn consumer(&self, instance: usize) -> Box<dyn Consumer> {
        match self {
            Queue::Local(queue) => Box::new(queue.consumer()),
            Queue::Distributed(queue) => Box::new(queue.consumer(instance)),
            Queue::Runs(queue) => Box::new(queue.consumer(instance)),
            Queue::Keyed(queue) => queue.consumer(instance),
        }
    }
}

/// What the instances of one process share.
pub struct Resources {
    /// In-process workers that the instances are spread over.
    pub workers: usize,
    /// How distributed queues decide; the best for where their ends are if absent.
    pub division: Option<Policy>,
    /// Bytes an instance that can use memory may hold.
    pub share_bytes: usize,
    /// The part of `Setup` that is the same for all.
    pub setup: Setup,
    /// Which instances are here, and where the others are.
    pub placement: Placement,
    /// The names of the processes, by number, if there are several.
    pub names: Arc<[String]>,
    /// The way to other processes, if there are some.
    pub network: Option<Arc<Network>>,
}

/// A module's instances, as seen from outside.
pub struct Instances {
    /// Counters, one an instance; those of instances elsewhere are as they were last told.
    pub metrics: Vec<Arc<InstanceMetrics>>,
}

/// The end of one instance.
#[derive(Debug)]
pub struct Ended {
    /// Module and number.
    pub instance: (usize, usize),
    /// What `run` returned, with its place.
    pub result: Result<()>,
}

/// Hears how instances end.
pub type OnEnded = Arc<dyn Fn(Ended) + Send + Sync>;

/// Threads at work: the part of a flow that is in this process.
pub struct Worker {
    /// Per module of the flow.
    pub instances: Vec<Instances>,
    /// Per edge of the flow, the queues made for it.
    pub queues: Vec<Vec<Queue>>,
    /// Per edge of the flow, what goes through it to consumers that are here.
    pub taps: Vec<Arc<Tap>>,
    /// Instances that have not been heard of.
    pub left: usize,
    /// The threads.
    pub threads: Vec<JoinHandle<()>>,
}

/// What stands ready: modules prepared, instances connected, nothing moving yet.
pub struct Prepared {
    instances: Vec<Instances>,
    /// Per edge of the flow.
    pub queues: Vec<Vec<Queue>>,
    taps: Vec<Arc<Tap>>,
    /// Per module, if its instances ask each other across processes.
    pub exchanges: Vec<Option<Arc<ModuleExchange>>>,
    ready: Vec<Ready>,
}

/// Prepares every module that has instances here, and connects these.
pub fn prepare(
    flow: &Checked,
    resources: &Resources,
    perturber: &mut Perturber,
    epoch: Instant,
) -> Result<Prepared> {
    // What the dead have left is in nobody's way, but may fill a disk.
    resources.setup.scratch.iter().for_each(|folder| {
        scratch::reclaim(folder);
    });
    let placement = &resources.placement;
    let nodes = 0..flow.nodes.len();
    let exchanges: Vec<_> = nodes.clone().map(|node| exchange(flow, node, resources)).collect();
    let setups = nodes.map(|node| Arc::new(setup(flow, node, &exchanges[node], resources)));
    let setups: Vec<Arc<Setup>> = setups.collect();
    let numbers = queue_numbers(flow);
    let edges = flow.edges.iter().zip(&numbers);
    let queue = |(edge, first): (_, &u32)| connect(flow, edge, *first, &setups, resources);
    let queues: Vec<_> = edges.map(queue).collect();
    let taps: Vec<Arc<Tap>> = flow.edges.iter().map(|_| Arc::default()).collect();
    let mut instances = Vec::new();
    let mut ready: Vec<Ready> = Vec::new();
    for (node, checked) in flow.nodes.iter().enumerate() {
        let place = |error: Error| error.at(format!("module {}", checked.id));
        let setup = &*setups[node];
        if placement.is_needed(flow, node) {
            checked.placed.prepare(setup).map_err(place)?;
        }
        let metrics: Vec<_> =
            (0..checked.count).map(|_| Arc::new(InstanceMetrics::default())).collect();
        for instance in placement.here(node) {
            let metrics = metrics[instance].clone();
            let setup = Arc::new(Setup { instance, ..setup.clone() });
            let module = checked.placed.clone().instance(&setup).map_err(place)?;
            let name = format!("{}.{instance}", checked.id);
            let mut ports = ports(flow, node, instance, &queues, metrics.clone(), setup);
            ports.slow_by(perturber.brake(node, instance, epoch));
            ports.tap(own_taps(flow, node, &taps));
            ready.push(Ready { name, instance: (node, instance), module, ports, metrics });
        }
        instances.push(Instances { metrics });
    }
    Ok(Prepared { instances, queues, taps, exchanges, ready })
}

impl Prepared {
    /// The instances, here and elsewhere.
    pub fn instances(&self) -> &[Instances] {
        &self.instances
    }

    /// Sets it going. The end of every instance is told.
    pub fn start(self, cancel: &Arc<Cancel>, tell: OnEnded) -> Result<Worker> {
        let Prepared { instances, queues, taps, ready, .. } = self;
        let left = ready.len();
        let spawn = |ready: Ready| spawn(ready, tell.clone(), cancel.clone());
        let threads = ready.into_iter().map(spawn).collect::<Result<_>>()?;
        Ok(Worker { instances, queues, taps, left, threads })
    }
}

/// What all instances of a module are given.
fn setup(
    flow: &Checked,
    node: usize,
    exchange: &Option<Arc<ModuleExchange>>,
    resources: &Resources,
) -> Setup {
    let (checked, placement) = (&flow.nodes[node], &resources.placement);
    let mut setup = resources.setup.clone();
    setup.module = checked.id.clone();
    setup.instances = checked.count;
    setup.row_bytes_max = row_bytes_max(setup.budget_bytes, placement.holders(flow));
    setup.memory_bytes = if checked.spec.wants_memory { resources.share_bytes } else { 0 };
    if let Some(exchange) = exchange {
        setup.exchange = Arc::new(ExchangeHandle(exchange.clone()));
    }
    setup.is_whole = placement.is_whole(node);
    setup.instances_here = placement.here(node).count();
    setup
}

/// The exchange of a module that has one, if others need it or it has others.
fn exchange(flow: &Checked, node: usize, resources: &Resources) -> Option<Arc<ModuleExchange>> {
    let placement = &resources.placement;
    let others = placement.others(node);
    let is_asked = placement.takers(flow, node).any(|worker| worker != placement.me);
    let network = resources.network.clone().filter(|_| is_asked || !others.is_empty())?;
    placement.is_needed(flow, node).then_some(())?;
    let placed = flow.nodes[node].placed.clone();
    let schema = placed.serves()?;
    // Behind the numbers of all queues come those of the modules.
    let number = queues_count(flow) + node as u32;
    let transport = Transport::new(network, number, schema);
    let others = (others, resources.names.clone());
    Some(ModuleExchange::new(transport, placed, others, resources.setup.cancel.clone()))
}

struct Ready {
    name: String,
    instance: (usize, usize),
    module: Box<dyn Module>,
    ports: Ports,
    metrics: Arc<InstanceMetrics>,
}

fn spawn(ready: Ready, tell: OnEnded, cancel: Arc<Cancel>) -> Result<JoinHandle<()>> {
    let Ready { name, instance, mut module, mut ports, metrics } = ready;
    let thread = thread::Builder::new().name(name.clone()).spawn(move || {
        cancel.wake_me();
        let life = metrics.live(machine::thread_id());
        let run = || module.run(&mut ports).and_then(|()| ports.make_up());
        let mut result = match caught(run) {
            Err(error) if error.kind() == Kind::Closed => Ok(()),
            result => result,
        };
        drop(life);
        // A failure is known before this instance's queues end, so that nobody downstream takes
        // a stream that was cut short for a whole one.
        if result.is_err() {
            cancel.cancel();
        }
        let left = || {
            drop(ports);
            drop(module);
            Ok(())
        };
        result = result.and(caught(left));
        if result.is_err() {
            cancel.cancel();
        }
        let place = |error: Error| error.at(format!("module {name}"));
        tell(Ended { instance, result: result.map_err(place) });
    });
    thread.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))
}

/// A panic is a failure like others.
pub(crate) fn caught(run: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        Err(Error::failed(format!("panicked: {}", panic_text(panic.as_ref())))
            .remedy("this is a bug in the module; please report it with the flow"))
    })
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The number of each edge's first queue, the same in all processes.
pub fn queue_numbers(flow: &Checked) -> Vec<u32> {
    let mut next = 0;
    let number = |edge: &CheckedEdge| {
        let first = next;
        next += queues_of(flow, edge);
        first
    };
    flow.edges.iter().map(number).collect()
}

/// How many queues a flow has.
pub fn queues_count(flow: &Checked) -> u32 {
    flow.edges.iter().map(|edge| queues_of(flow, edge)).sum()
}

fn queues_of(flow: &Checked, edge: &CheckedEdge) -> u32 {
    let (from, to) = (flow.nodes[edge.from.0].count, flow.nodes[edge.to.0].count);
    let queues = match edge.kind {
        QueueKind::Distributed | QueueKind::Keyed => 1,
        QueueKind::Pairwise => from,
        QueueKind::Broadcast => to,
    };
    queues as u32
}

/// Whether all ends are at one queue.
fn is_shared(kind: QueueKind) -> bool {
    matches!(kind, QueueKind::Distributed | QueueKind::Keyed)
}

/// The other workers that share a queue with this one.
pub fn peers(flow: &Checked, placement: &Placement) -> BTreeSet<usize> {
    let mut peers = BTreeSet::new();
    for edge in &flow.edges {
        let (from, to) = (&placement.of[edge.from.0], &placement.of[edge.to.0]);
        if from.contains(&placement.me) {
            peers.extend(to);
        }
        if to.contains(&placement.me) {
            peers.extend(from);
        }
    }
    for node in 0..flow.nodes.len() {
        // They may have something to ask each other.
        if placement.here(node).next().is_some() {
            peers.extend(&placement.of[node]);
        }
    }
    peers.remove(&placement.me);
    peers
}

/// The queues of an edge: one that all share, or one for each pair or each consumer.
fn connect(
    flow: &Checked,
    edge: &CheckedEdge,
    first: u32,
    setups: &[Arc<Setup>],
    resources: &Resources,
) -> Vec<Queue> {
    let locations = |node: usize| resources.placement.locations(node);
    let (from, to) = (locations(edge.from.0), locations(edge.to.0));
    let is_spread = resources.workers > 1 && from.len().max(to.len()) > 1;
    let chosen = resources.division.or(is_spread.then(late_binding));
    let number = |at: usize| first + at as u32;
    let make = |at: usize, from: &[Location<()>], to: &[Location<()>], chosen: Option<Policy>| {
        queue(edge, number(at), from, to, chosen, resources)
    };
    debug_assert_eq!(from.len(), flow.nodes[edge.from.0].count);
    match edge.kind {
        QueueKind::Distributed => vec![make(0, &from, &to, chosen)],
        QueueKind::Keyed => vec![Queue::Keyed(keyed(flow, edge, &setups[edge.from.0], &to))],
        QueueKind::Pairwise => {
            let pair = |at: usize| make(at, &from[at..=at], &to[at..=at], None);
            (0..from.len()).map(pair).collect()
        }
        QueueKind::Broadcast => {
            let each = |at: usize| make(at, &from, &to[at..=at], None);
            (0..to.len()).map(each).collect()
        }
    }
}

fn keyed(
    flow: &Checked,
    edge: &CheckedEdge,
    setup: &Arc<Setup>,
    to: &[Location<()>],
) -> Arc<KeyedQueue> {
    let name = format!("{}/{}/partitions", flow.nodes[edge.to.0].id, edge.to.1);
    KeyedQueue::new(flow.nodes[edge.from.0].placed.clone(), setup.clone(), name, to)
}

/// One queue: shared by its ends where all of them are here and nothing else is asked for, else
/// with an endpoint for each.
fn queue(
    edge: &CheckedEdge,
    number: u32,
    from: &[Location<()>],
    to: &[Location<()>],
    chosen: Option<Policy>,
    resources: &Resources,
) -> Queue {
    let cancel = resources.setup.cancel.clone();
    let is_here = are_here(from) && are_here(to);
    let transport = (!is_here).then(|| {
        let network = resources.network.clone().expect("instances elsewhere can be written to");
        Transport::new(network, number, edge.schema.clone())
    });
    let policy = chosen.or((!is_here).then(late_binding));
    match (edge.unit, policy) {
        (Unit::Run, _) if !is_here => {
            Queue::Runs(RunQueue::new(edge.bytes_max, from, to, transport, cancel))
        }
        (Unit::Batch, Some(policy)) => {
            let (from, to) = (from.to_vec(), to.to_vec());
            let bytes_max = edge.bytes_max;
            Queue::Distributed(DistributedQueue::between(
                policy, bytes_max, from, to, transport, cancel,
            ))
        }
        _ => {
            let (producers, consumers) = (from.len(), to.len());
            let unit = edge.unit;
            Queue::Local(LocalQueue::new(unit, edge.bytes_max, producers, consumers, cancel))
        }
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
    let own = |edge: &CheckedEdge| if is_shared(edge.kind) { 0 } else { instance };
    let edges = || flow.edges.iter().zip(queues);
    let input = |(port, name): (usize, &String)| {
        let (edge, queues) =
            edges().find(|(edge, _)| edge.to == (node, port)).expect("every input is attached");
        let end = if is_shared(edge.kind) { instance } else { 0 };
        let queue = queues[own(edge)].consumer(end);
        Input { name: name.clone(), queue, groups: edge.groups }
    };
    let output = |(port, name): (usize, &String)| {
        let (edge, queues) =
            edges().find(|(edge, _)| edge.from == (node, port)).expect("every output is attached");
        let queue: Box<dyn Producer> = match edge.kind {
            QueueKind::Broadcast => Box::new(ToAll::new(queues, instance)),
            QueueKind::Distributed | QueueKind::Keyed => queues[0].producer(instance),
            QueueKind::Pairwise => queues[instance].producer(0),
        };
        Output { name: name.clone(), queue }
    };
    let inputs = checked.inputs.iter().enumerate().map(input).collect();
    let outputs = checked.outputs.iter().enumerate().map(output).collect();
    Ports::new(inputs, outputs, checked.keeps_runs, metrics, setup)
}

/// Those of a module's inputs.
fn own_taps(flow: &Checked, node: usize, taps: &[Arc<Tap>]) -> Vec<Arc<Tap>> {
    let tap = |port| flow.edges.iter().position(|edge| edge.to == (node, port));
    let inputs = 0..flow.nodes[node].inputs.len();
    inputs.filter_map(tap).map(|edge| taps[edge].clone()).collect()
}

/// The producer's end of a broadcast: every consumer gets every batch. Consumers that are done are
/// passed over; when all are, so is the producer.
struct ToAll(Vec<Option<Box<dyn Producer>>>);

impl ToAll {
    fn new(queues: &[Queue], instance: usize) -> ToAll {
        ToAll(queues.iter().map(|queue| Some(queue.producer(instance))).collect())
    }

    fn each(&mut self, mut act: impl FnMut(&mut dyn Producer) -> Result<()>) -> Result<()> {
        for end in &mut self.0 {
            match end.as_mut().map(|end| act(end.as_mut())) {
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
        if !wait && !self.has_room(&parcel) {
            return Ok(Some(parcel));
        }
        self.each(|end| end.put(parcel.clone(), true).map(|_| ()))?;
        Ok(None)
    }

    fn has_room(&mut self, parcel: &Parcel) -> bool {
        self.0.iter_mut().flatten().all(|end| end.has_room(parcel))
    }

    fn begin_run(&mut self, run: RunIndex) -> Result<()> {
        self.each(|end| end.begin_run(run))
    }

    fn end_run(&mut self, run: RunIndex) -> Result<()> {
        self.each(|end| end.end_run(run))
    }
}
