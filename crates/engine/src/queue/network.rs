//! The network of a flow: which process each end is in, and the connections that carry frames.

#[cfg(test)]
pub(crate) mod channels;

use std::sync::{Arc, OnceLock};

use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Error};
use euphrates_policy::distributed::Peer;
use euphrates_wire::{FrameKind, Header, Lane};
use parking_lot::Mutex;

use super::claim_gates::ClaimGates;
use super::fetch_backlog::FetchBacklog;

/// A value in this process, or the worker that has it.
#[derive(Clone, Debug)]
pub enum Location<T> {
    /// The value, in this process.
    Here(T),
    /// The number of the worker.
    There(usize),
}

impl<T> Location<T> {
    /// The value, if it is in this process.
    pub fn here(&self) -> Option<&T> {
        match self {
            Location::Here(it) => Some(it),
            Location::There(_) => None,
        }
    }

    /// The worker, if it is in another process.
    pub fn worker(&self) -> Option<usize> {
        match self {
            Location::Here(_) => None,
            Location::There(worker) => Some(*worker),
        }
    }

    /// The same location of another value, which is made if it is here.
    pub fn with<U>(&self, make: impl FnOnce() -> U) -> Location<U> {
        match self {
            Location::Here(_) => Location::Here(make()),
            Location::There(worker) => Location::There(*worker),
        }
    }

    /// The same location of a value that replaces this one.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Location<U> {
        match self {
            Location::Here(it) => Location::Here(map(it)),
            Location::There(worker) => Location::There(worker),
        }
    }
}

/// Whether all of these are in this process.
pub fn are_here<T>(locations: &[Location<T>]) -> bool {
    locations.iter().all(|location| location.here().is_some())
}

/// The numbers of those ends of one side of a queue that are in this process.
pub fn peers_here<T>(ends: &[Location<T>]) -> impl Iterator<Item = Peer> + '_ {
    let here = ends.iter().enumerate().filter(|(_, location)| location.here().is_some());
    here.map(|(at, _)| at as Peer)
}

/// Carries frames to one other worker in the order they are given; never waits. Shaped like active
/// messages (a short header, data in place, a handler on the other side), so that a transport with
/// remote memory access fits, too.
pub trait Carrier: Send + Sync {
    /// Queues a frame; drops it once the connection has ended.
    fn carry(&self, header: Header, meta: Vec<u8>, body: Vec<Buffer>);

    /// Limits the rate from now on, or removes the limit.
    fn limit_rate(&self, bytes_per_second: Option<u64>);

    /// Ends the connection once all queued frames are sent.
    fn end(&self);
}

impl Carrier for Lane {
    fn carry(&self, header: Header, meta: Vec<u8>, body: Vec<Buffer>) {
        self.send(header, meta, body);
    }

    fn limit_rate(&self, bytes_per_second: Option<u64>) {
        Lane::limit_rate(self, bytes_per_second);
    }

    fn end(&self) {
        self.close();
    }
}

/// The queue or exchange that a frame is for, and the two ends it names.
#[derive(Clone, Copy, Debug)]
pub struct FrameHead {
    /// Whether the frame has a batch.
    pub kind: FrameKind,
    /// The queue's number in the flow.
    pub queue: u32,
    /// The number of the end on the producing side.
    pub producer: u32,
    /// The number of the end on the consuming side.
    pub consumer: u32,
}

impl FrameHead {
    /// The lane that carries it, of this many.
    fn lane(&self, lanes: usize) -> usize {
        // A hash, so that pairs spread evenly over lanes whatever their numbers have in common.
        let mixed =
            [self.queue, self.producer, self.consumer].into_iter().fold(0, |mixed: u32, number| {
                (mixed ^ number).wrapping_mul(0x9e37_79b1).rotate_left(15)
            });
        mixed as usize % lanes.max(1)
    }
}

/// Processors of a machine for each connection: modules leave about enough of their time to send
/// and receive at one connection's rate.
const CORES_PER_LANE: usize = 8;
/// The most connections between two workers.
const LANES_MAX: usize = 4;

/// The number of connections between two workers, if the smallest worker has `cores_min`
/// processors. A thread reads each, since one thread reads or deciphers less than large machines
/// exchange.
pub fn lanes(cores_min: usize) -> usize {
    (cores_min / CORES_PER_LANE).clamp(1, LANES_MAX)
}

/// The connections of one process to the other processes of a flow.
pub struct Network {
    flow: u64,
    epoch: u32,
    me: usize,
    /// By worker and lane; those to this worker are never used.
    routes: Vec<Vec<LaneRoute>>,
    failure: Mutex<Option<Error>>,
    fetch_backlog: FetchBacklog,
    claim_gates: ClaimGates,
    cancel: Arc<Cancel>,
}

/// A frame sent before there is a connection.
type Early = (Header, Vec<u8>, Vec<Buffer>);

/// A lane to another worker, to which queues may send before it is connected.
#[derive(Default)]
struct LaneRoute {
    carrier: OnceLock<Arc<dyn Carrier>>,
    early: Mutex<Vec<Early>>,
}

impl Network {
    /// The network of the worker `me` in an attempt at a flow, with this many workers and lanes
    /// between any two; not connected yet.
    pub fn new(
        (flow, epoch): (u64, u32),
        me: usize,
        (workers, lanes): (usize, usize),
        cancel: Arc<Cancel>,
    ) -> Arc<Network> {
        let lanes = || (0..lanes).map(|_| LaneRoute::default()).collect();
        let routes = (0..workers).map(|_| lanes()).collect();
        let (failure, fetch_backlog, claim_gates) = Default::default();
        Arc::new(Network { flow, epoch, me, routes, failure, fetch_backlog, claim_gates, cancel })
    }

    /// The number of this worker.
    pub fn me(&self) -> usize {
        self.me
    }

    /// The fetch backlog of this process.
    pub(crate) fn fetch_backlog(&self) -> &FetchBacklog {
        &self.fetch_backlog
    }

    /// The gates of the modules in this process.
    pub(crate) fn claim_gates(&self) -> &ClaimGates {
        &self.claim_gates
    }

    /// The numbers of the flow and the attempt, as in frame headers.
    pub fn attempt(&self) -> (u64, u32) {
        (self.flow, self.epoch)
    }

    /// Uses a connection as this lane to a worker from now on.
    pub fn connect(&self, worker: usize, lane: usize, carrier: Arc<dyn Carrier>) {
        let Some(route) = self.routes[worker].get(lane) else { return carrier.end() };
        let mut early = route.early.lock();
        for (header, meta, body) in early.drain(..) {
            carrier.carry(header, meta, body);
        }
        // The first connection of a lane stays.
        let _ = route.carrier.set(carrier);
    }

    /// The number of lanes between any two workers.
    pub fn lanes(&self) -> usize {
        self.routes.first().map_or(0, Vec::len)
    }

    /// Whether all lanes to this worker are connected.
    pub fn is_connected(&self, worker: usize) -> bool {
        self.routes[worker].iter().all(|route| route.carrier.get().is_some())
    }

    /// Sends a frame to another worker. Frames between the same two ends of a queue take the same
    /// lane, and so arrive in order.
    pub fn send(&self, worker: usize, head: FrameHead, meta: Vec<u8>, body: Vec<Buffer>) {
        let FrameHead { kind, queue, producer, consumer } = head;
        let (flow, epoch) = (self.flow, self.epoch);
        let header = Header { flow, epoch, queue, producer, consumer, ..Header::of(kind) };
        let lanes = &self.routes[worker];
        let route = &lanes[head.lane(lanes.len())];
        if let Some(carrier) = route.carrier.get() {
            return carrier.carry(header, meta, body);
        }
        let mut early = route.early.lock();
        match route.carrier.get() {
            Some(carrier) => carrier.carry(header, meta, body),
            None => early.push((header, meta, body)),
        }
    }

    /// Limits the rate to another worker, or removes the limit.
    pub fn limit_rate(&self, worker: usize, bytes_per_second: Option<u64>) {
        let lanes = self.lanes().max(1) as u64;
        let carriers = self.routes[worker].iter().filter_map(|route| route.carrier.get());
        carriers.for_each(|carrier| carrier.limit_rate(bytes_per_second.map(|rate| rate / lanes)));
    }

    /// Ends all connections to other workers.
    pub fn disconnect(&self) {
        let carriers = self.routes.iter().flatten().filter_map(|route| route.carrier.get());
        carriers.for_each(|carrier| carrier.end());
    }

    /// Cancels the flow: a message could not be sent, or was malformed.
    pub fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
        self.cancel.cancel();
    }

    /// The failure of the network that cancelled the flow, if one did.
    pub fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_machines_have_several_lanes() {
        assert_eq!([1, 2, 15, 16, 24, 192].map(lanes), [1, 1, 1, 2, 3, 4]);
    }

    #[test]
    fn pairs_of_ends_spread_evenly_over_lanes() {
        for lanes in 2..=LANES_MAX {
            let mut frames = vec![0; lanes];
            for (queue, producer, consumer) in
                (0..4).flat_map(|q| (0..8).flat_map(move |p| (0..8).map(move |c| (q, p, c))))
            {
                frames[FrameHead { kind: FrameKind::Batch, queue, producer, consumer }
                    .lane(lanes)] += 1;
            }
            let fair = 256 / lanes;
            assert!(frames.iter().all(|of| (fair / 2..fair * 3 / 2).contains(of)), "{frames:?}");
        }
    }
}
