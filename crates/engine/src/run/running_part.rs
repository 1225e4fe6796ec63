//! The instances of a flow that are in one process, worker or master: a thread for each, its ports
//! connected by queues.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use euphrates_device::scratch;
use euphrates_flow::check::CheckedFlow;
use euphrates_flow::metrics::{Counters, InstanceMetrics};
use euphrates_flow::tap::Tap;
use euphrates_flow::{
    Cancel, Error, Kind, MemoryAccount, MemoryDemand, MemoryReservation, Module, Ports, Result,
    Setup, spawn_named,
};
use euphrates_policy::memory::row_bytes_max;
use euphrates_policy::memory_arbiter::MemoryArbiter;
use parking_lot::Mutex;

use super::perturber::Perturber;
use super::resources::Resources;
use super::wiring::{connect, own_taps, ports, queue_numbers, queues_count, shares_consumers};
use crate::exchange::{ExchangeHandle, ModuleExchange};
use crate::machine;
use crate::observe::totals::MemoryTotals;
use crate::panics::caught;
use crate::queue::any_queue::AnyQueue;
use crate::queue::dispatch::Dispatch;
use crate::queue::transport::Transport;

/// How long instances may take to return after a cancel; then their threads are abandoned.
pub const CANCEL_GRACE: Duration = Duration::from_millis(1500);

/// The metrics of all instances of a module, here and elsewhere.
pub struct ModuleMetrics {
    /// By instance; those of instances elsewhere are as last reported.
    pub metrics: Vec<Arc<InstanceMetrics>>,
}

impl ModuleMetrics {
    /// The sums of their counters.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.metrics.iter().for_each(|metrics| sum.add(&metrics.read()));
        sum
    }
}

/// The end of one instance.
#[derive(Debug)]
pub struct Ended {
    /// The module's position in the flow, and the instance's number.
    pub instance: (usize, usize),
    /// The result of `run`; an error has its place.
    pub result: Result<()>,
}

/// Called with the end of each instance.
pub type OnEnded = Arc<dyn Fn(Ended) + Send + Sync>;

/// The running part of a flow that is in this process.
pub struct RunningPart {
    /// By module of the flow.
    pub metrics: Vec<ModuleMetrics>,
    /// The queues of each edge of the flow.
    pub queues: Vec<Vec<AnyQueue>>,
    /// By edge of the flow: counts and samples the rows for consumers that are here.
    pub taps: Vec<Arc<Tap>>,
    /// Instances whose end has not been reported.
    pub left: usize,
    /// The threads of the instances that are here.
    pub threads: Vec<JoinHandle<()>>,
    /// The failure that came first, known before its instance has given up what it holds.
    pub failed: Arc<OnceLock<Error>>,
    arbiter: Arc<Mutex<MemoryArbiter>>,
}

impl RunningPart {
    /// The memory that the modules here divide.
    pub fn memory(&self) -> MemoryTotals {
        let arbiter = self.arbiter.lock();
        MemoryTotals {
            granted_bytes: arbiter.total_bytes() as u64,
            held_bytes: arbiter.all_held_bytes() as u64,
        }
    }
}

/// Prepared modules and connected instances that do not run yet.
pub struct PreparedPart {
    metrics: Vec<ModuleMetrics>,
    /// The queues of each edge of the flow.
    queues: Vec<Vec<AnyQueue>>,
    taps: Vec<Arc<Tap>>,
    /// By module, if its instances exchange data between processes.
    exchanges: Vec<Option<Arc<ModuleExchange>>>,
    ready: Vec<ReadyInstance>,
    arbiter: Arc<Mutex<MemoryArbiter>>,
}

/// Prepares every module that has instances here or whose partitions are consumed here, and
/// connects the instances that are here.
pub fn prepare_part(
    flow: &CheckedFlow,
    resources: &Resources,
    perturber: &mut Perturber,
    began: Instant,
) -> Result<PreparedPart> {
    // Files of processes that died conflict with nothing, but may fill the disk.
    resources.setup.scratch.iter().for_each(|folder| {
        scratch::reclaim(folder);
    });
    let placement = &resources.placement;
    let nodes = 0..flow.nodes.len();
    let exchanges: Vec<_> = nodes.clone().map(|node| exchange(flow, node, resources)).collect();
    let arbiter = Arc::new(Mutex::new(MemoryArbiter::new(resources.modules_bytes)));
    let setups =
        nodes.map(|node| Arc::new(setup(flow, node, &exchanges[node], resources, &arbiter)));
    let setups: Vec<Arc<Setup>> = setups.collect();
    let numbers = queue_numbers(flow);
    let edges = flow.edges.iter().zip(&numbers);
    let queue = |(edge, first): (_, &u32)| connect(flow, edge, *first, &setups, resources);
    let queues: Vec<_> = edges.map(queue).collect();
    let taps: Vec<Arc<Tap>> = flow.edges.iter().map(|_| Arc::default()).collect();
    let mut instances = Vec::new();
    let mut ready: Vec<ReadyInstance> = Vec::new();
    for (node, checked) in flow.nodes.iter().enumerate() {
        let place = |error: Error| error.at(format!("module {}", checked.id));
        let setup = &*setups[node];
        let needed = placement.is_needed(flow, node);
        let prepared = needed.then(|| checked.bound.prepare(setup)).transpose().map_err(place)?;
        let metrics: Vec<_> =
            (0..checked.count).map(|_| Arc::new(InstanceMetrics::default())).collect();
        let here =
            prepared.iter().flat_map(|module| placement.here(node).map(move |at| (module, at)));
        for (module, instance) in here {
            let metrics = metrics[instance].clone();
            let setup = Arc::new(Setup { instance, ..setup.clone() });
            let module = module.instance(&setup).map_err(place)?;
            let name = format!("{}.{instance}", checked.id);
            let mut ports = ports(flow, node, instance, &queues, metrics.clone(), setup);
            ports.slow_by(perturber.brake(node, instance, began));
            ports.tap(own_taps(flow, node, &taps));
            let reserved = reserved(checked.spec.memory, &ports.setup().memory);
            let instance = (node, instance);
            let leaves = shares_consumers(flow, node);
            ready.push(ReadyInstance { name, instance, module, ports, metrics, reserved, leaves });
        }
        instances.push(ModuleMetrics { metrics });
    }
    Ok(PreparedPart { metrics: instances, queues, taps, exchanges, ready, arbiter })
}

impl PreparedPart {
    /// By module: the instances, here and elsewhere.
    pub fn metrics(&self) -> &[ModuleMetrics] {
        &self.metrics
    }

    /// Lets frames of other processes reach these queues and exchanges.
    pub fn register(&self, flow: &CheckedFlow, dispatch: &Dispatch) {
        let mut all = vec![];
        for (first, queues) in queue_numbers(flow).into_iter().zip(&self.queues) {
            debug_assert_eq!(all.len(), first as usize);
            all.extend(queues.iter().cloned());
        }
        dispatch.set(all, self.exchanges.clone());
    }

    /// Starts a thread for every instance. `on_ended` is called with the end of each.
    pub fn start(self, cancel: &Arc<Cancel>, on_ended: OnEnded) -> Result<RunningPart> {
        let PreparedPart { metrics: instances, queues, taps, ready, arbiter, .. } = self;
        let left = ready.len();
        let failed = Arc::new(OnceLock::new());
        let spawn =
            |ready: ReadyInstance| spawn(ready, on_ended.clone(), cancel.clone(), failed.clone());
        let threads = ready.into_iter().map(spawn).collect::<Result<_>>()?;
        Ok(RunningPart { metrics: instances, queues, taps, left, threads, failed, arbiter })
    }
}

/// The setup of a module's instances.
fn setup(
    flow: &CheckedFlow,
    node: usize,
    exchange: &Option<Arc<ModuleExchange>>,
    resources: &Resources,
    arbiter: &Arc<Mutex<MemoryArbiter>>,
) -> Setup {
    let (checked, placement) = (&flow.nodes[node], &resources.placement);
    let mut setup = resources.setup.clone();
    setup.module = checked.id.clone();
    setup.instances = checked.count;
    setup.row_bytes_max = row_bytes_max(setup.budget_bytes, placement.holders(flow));
    if checked.spec.memory != MemoryDemand::None {
        let here = placement.here(node).count();
        setup.memory = MemoryAccount::new(arbiter, here, flow.position(node));
    }
    if let Some(exchange) = exchange {
        setup.exchange = Arc::new(ExchangeHandle(exchange.clone()));
    }
    if let Some(network) = &resources.network {
        setup.claims = network.claim_gates().of(node);
    }
    setup.is_in_one_process = placement.is_whole(node);
    setup.instances_here = placement.here(node).count();
    setup
}

/// The exchange of a module that serves data, if it has instances or partition consumers in other
/// processes.
fn exchange(flow: &CheckedFlow, node: usize, resources: &Resources) -> Option<Arc<ModuleExchange>> {
    let placement = &resources.placement;
    let others = placement.others(node);
    let is_asked = placement.partition_consumers(flow, node).any(|worker| worker != placement.me);
    let network = resources.network.clone().filter(|_| is_asked || !others.is_empty())?;
    placement.is_needed(flow, node).then_some(())?;
    let server = flow.nodes[node].bound.exchange.clone()?;
    // Exchanges are numbered after all queues.
    let number = queues_count(flow) + node as u32;
    let transport = Transport::new(network, number, server.schema());
    let others = (others, resources.names.clone());
    Some(ModuleExchange::new(transport, server, others, resources.setup.cancel.clone()))
}

struct ReadyInstance {
    name: String,
    instance: (usize, usize),
    module: Box<dyn Module>,
    ports: Ports,
    metrics: Arc<InstanceMetrics>,
    reserved: Option<MemoryReservation>,
    /// Whether the module's all-gathers end if its consumers have had enough.
    leaves: bool,
}

/// The even share of an instance whose module cannot follow a changing limit.
fn reserved(demand: MemoryDemand, memory: &MemoryAccount) -> Option<MemoryReservation> {
    (demand == MemoryDemand::Fixed).then(|| {
        let reservation = memory.reservation();
        reservation.resize(memory.even_share_bytes());
        reservation
    })
}

fn spawn(
    ready: ReadyInstance,
    on_ended: OnEnded,
    cancel: Arc<Cancel>,
    failed: Arc<OnceLock<Error>>,
) -> Result<JoinHandle<()>> {
    let ReadyInstance { name, instance, mut module, mut ports, metrics, reserved, leaves } = ready;
    spawn_named(name.clone(), move || {
        cancel.register_thread();
        let life = metrics.live(machine::thread_id());
        let run = || module.run(&mut ports).and_then(|()| ports.stretch_work());
        let mut result = match caught(run) {
            Err(error) if error.kind() == Kind::Closed => {
                if leaves {
                    // The others must not wait for this one.
                    ports.setup().leave_gathers();
                }
                Ok(())
            }
            result => result,
        };
        drop(life);
        // The flow is cancelled before this instance's queues end, so that no consumer takes a
        // truncated stream for a complete one.
        let place = |error: Error| error.at(format!("module {name}"));
        if let Err(error) = &result {
            if error.kind() != Kind::Interrupted {
                let _ = failed.set(place(error.clone()));
            }
            cancel.cancel();
        }
        let left = || {
            drop(ports);
            drop(module);
            drop(reserved);
            Ok(())
        };
        result = result.and(caught(left));
        if result.is_err() {
            cancel.cancel();
        }
        on_ended(Ended { instance, result: result.map_err(place) });
    })
}
