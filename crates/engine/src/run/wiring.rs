//! Builds the queues of a flow in one process, and the ports of instances on them.

use std::collections::BTreeSet;
use std::sync::Arc;

use euphrates_flow::check::{CheckedEdge, CheckedFlow, QueueUnit};
use euphrates_flow::metrics::InstanceMetrics;
use euphrates_flow::ports::{Input, Output, Producer};
use euphrates_flow::tap::Tap;
use euphrates_flow::{Ports, QueueKind, Setup};
use euphrates_policy::distributed::Policy;

use super::placement::Placement;
use super::resources::Resources;
use crate::queue::any_queue::AnyQueue;
use crate::queue::broadcast::Broadcast;
use crate::queue::distributed::DistributedQueue;
use crate::queue::keyed::KeyedQueue;
use crate::queue::local::LocalQueue;
use crate::queue::network::{Location, are_here};
use crate::queue::policies::late_binding;
use crate::queue::runs::RunQueue;
use crate::queue::transport::Transport;

/// The number of each edge's first queue, the same in all processes.
pub fn queue_numbers(flow: &CheckedFlow) -> Vec<u32> {
    let mut next = 0;
    let number = |edge: &CheckedEdge| {
        let first = next;
        next += queue_count(flow, edge);
        first
    };
    flow.edges.iter().map(number).collect()
}

/// The number of queues of a flow.
pub fn queues_count(flow: &CheckedFlow) -> u32 {
    flow.edges.iter().map(|edge| queue_count(flow, edge)).sum()
}

fn queue_count(flow: &CheckedFlow, edge: &CheckedEdge) -> u32 {
    let (from, to) = (flow.nodes[edge.from.0].count, flow.nodes[edge.to.0].count);
    let queues = match edge.kind {
        QueueKind::Distributed | QueueKind::Keyed => 1,
        QueueKind::Pairwise => from,
        QueueKind::Broadcast => to,
    };
    queues as u32
}

/// Whether one queue has all ends of an edge of this kind.
fn is_shared(kind: QueueKind) -> bool {
    matches!(kind, QueueKind::Distributed | QueueKind::Keyed)
}

/// The other processes that share a queue with this one, or have instances of one of its modules.
pub fn peers(flow: &CheckedFlow, placement: &Placement) -> BTreeSet<usize> {
    let mut peers = BTreeSet::new();
    for edge in &flow.edges {
        let (from, to) =
            (&placement.worker_of_instance[edge.from.0], &placement.worker_of_instance[edge.to.0]);
        if from.contains(&placement.me) {
            peers.extend(to);
        }
        if to.contains(&placement.me) {
            peers.extend(from);
        }
    }
    for node in 0..flow.nodes.len() {
        // Instances of one module may fetch from each other.
        if placement.here(node).next().is_some() {
            peers.extend(&placement.worker_of_instance[node]);
        }
    }
    peers.remove(&placement.me);
    peers
}

/// The queues of an edge: one that all share, or one for each pair or each consumer.
pub fn connect(
    flow: &CheckedFlow,
    edge: &CheckedEdge,
    first: u32,
    setups: &[Arc<Setup>],
    resources: &Resources,
) -> Vec<AnyQueue> {
    let locations = |node: usize| resources.placement.locations(node);
    let (from, to) = (locations(edge.from.0), locations(edge.to.0));
    let is_spread = resources.workers > 1 && from.len().max(to.len()) > 1;
    let chosen = resources.queue_policy.or(is_spread.then(late_binding));
    let number = |at: usize| first + at as u32;
    let make = |at: usize, from: &[Location<()>], to: &[Location<()>], chosen: Option<Policy>| {
        queue(edge, number(at), from, to, chosen, resources)
    };
    debug_assert_eq!(from.len(), flow.nodes[edge.from.0].count);
    match edge.kind {
        QueueKind::Distributed => vec![make(0, &from, &to, chosen)],
        QueueKind::Keyed => vec![AnyQueue::Keyed(keyed(flow, edge, setups, &to))],
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
    flow: &CheckedFlow,
    edge: &CheckedEdge,
    setups: &[Arc<Setup>],
    to: &[Location<()>],
) -> Arc<KeyedQueue> {
    let name = format!("{}/{}/partitions", flow.nodes[edge.to.0].id, edge.to.1);
    let producer = flow.nodes[edge.from.0].bound.partitioned.clone();
    let producer = producer.expect("checked: its output is keyed");
    let (setup, claims) = (setups[edge.from.0].clone(), setups[edge.to.0].claims.clone());
    KeyedQueue::new(producer, setup, name, (to, claims))
}

/// One queue. Ordered: a local one if all ends are here, else a queue of runs. Unordered: a local
/// one if all ends are here and no policy is chosen, else a distributed queue.
fn queue(
    edge: &CheckedEdge,
    number: u32,
    from: &[Location<()>],
    to: &[Location<()>],
    chosen: Option<Policy>,
    resources: &Resources,
) -> AnyQueue {
    let cancel = resources.setup.cancel.clone();
    let is_here = are_here(from) && are_here(to);
    let transport = (!is_here).then(|| {
        let network = resources.network.clone().expect("ends elsewhere need a network");
        let claims = network.claim_gates().of(edge.to.0);
        Transport::new(network, number, edge.schema.clone()).with_claims(claims)
    });
    let policy = chosen.or((!is_here).then(late_binding));
    match (edge.unit, policy) {
        (QueueUnit::Run, _) if !is_here => {
            AnyQueue::Runs(RunQueue::new(edge.bytes_max, from, to, transport, cancel))
        }
        (QueueUnit::Batch, Some(policy)) => {
            let (from, to) = (from.to_vec(), to.to_vec());
            let bytes_max = edge.bytes_max;
            AnyQueue::Distributed(DistributedQueue::between(
                policy, bytes_max, from, to, transport, cancel,
            ))
        }
        _ => {
            let (producers, consumers) = (from.len(), to.len());
            let unit = edge.unit;
            AnyQueue::Local(LocalQueue::new(unit, edge.bytes_max, producers, consumers, cancel))
        }
    }
}

/// The ports of an instance: its ends of the queues, and its counters.
pub fn ports(
    flow: &CheckedFlow,
    node: usize,
    instance: usize,
    queues: &[Vec<AnyQueue>],
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
        Input {
            name: name.clone(),
            queue,
            keeps_equal_keys_together: edge.keeps_equal_keys_together,
        }
    };
    let output = |(port, name): (usize, &String)| {
        let (edge, queues) =
            edges().find(|(edge, _)| edge.from == (node, port)).expect("every output is attached");
        let queue: Box<dyn Producer> = match edge.kind {
            QueueKind::Broadcast => Box::new(Broadcast::new(queues, instance)),
            QueueKind::Distributed | QueueKind::Keyed => queues[0].producer(instance),
            QueueKind::Pairwise => queues[instance].producer(0),
        };
        Output { name: name.clone(), queue }
    };
    let inputs = checked.inputs.iter().enumerate().map(input).collect();
    let outputs = checked.outputs.iter().enumerate().map(output).collect();
    Ports::new(inputs, outputs, checked.keeps_runs, metrics, setup)
}

/// Whether all instances of a module have the same consumers: then what one may drop, because they
/// have had enough, all may. Those of a pairwise queue have one each.
pub fn shares_consumers(flow: &CheckedFlow, node: usize) -> bool {
    let mut outputs = flow.edges.iter().filter(|edge| edge.from.0 == node);
    outputs.all(|edge| edge.kind != QueueKind::Pairwise) || flow.nodes[node].count == 1
}

/// The taps of a module's inputs.
pub fn own_taps(flow: &CheckedFlow, node: usize, taps: &[Arc<Tap>]) -> Vec<Arc<Tap>> {
    let tap = |port| flow.edges.iter().position(|edge| edge.to == (node, port));
    let inputs = 0..flow.nodes[node].inputs.len();
    inputs.filter_map(tap).map(|edge| taps[edge].clone()).collect()
}
