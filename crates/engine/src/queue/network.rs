//! A flow's way between its processes: who is where, and what carries frames there.

#[cfg(test)]
pub(crate) mod channels;

use std::sync::{Arc, OnceLock};

use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Error};
use euphrates_wire::{Header, Kind, Lane};
use parking_lot::Mutex;

use crate::queue::fetch_backlog::Debts;

/// Where something is: in this process, or at another worker.
#[derive(Clone, Debug)]
pub enum Location<T> {
    /// In this process.
    Here(T),
    /// At this worker.
    There(usize),
}

impl<T> Location<T> {
    /// What is here, if it is.
    pub fn here(&self) -> Option<&T> {
        match self {
            Location::Here(it) => Some(it),
            Location::There(_) => None,
        }
    }

    /// The worker, if it is another.
    pub fn worker(&self) -> Option<usize> {
        match self {
            Location::Here(_) => None,
            Location::There(worker) => Some(*worker),
        }
    }

    /// The same place with something there, made if it is here.
    pub fn with<U>(&self, make: impl FnOnce() -> U) -> Location<U> {
        match self {
            Location::Here(_) => Location::Here(make()),
            Location::There(worker) => Location::There(*worker),
        }
    }
}

/// Whether all of these are in this process.
pub fn are_here<T>(places: &[Location<T>]) -> bool {
    places.iter().all(|place| place.here().is_some())
}

/// What carries frames to one other worker, in the order they are given; never waits. It is shaped
/// like active messages (a short header, data in place, a handler on the other side), so that what
/// moves memory by itself fits, too.
pub trait Carrier: Send + Sync {
    /// Hands a frame over. After the end of the connection it goes nowhere.
    fn carry(&self, header: Header, meta: Vec<u8>, body: Vec<Buffer>);

    /// Carries at most so many bytes a second from now on, or as many as it can.
    fn hold(&self, bytes_per_second: Option<u64>);

    /// Ends the connection, when what was handed over has gone.
    fn end(&self);
}

impl Carrier for Lane {
    fn carry(&self, header: Header, meta: Vec<u8>, body: Vec<Buffer>) {
        self.send(header, meta, body);
    }

    fn hold(&self, bytes_per_second: Option<u64>) {
        Lane::hold(self, bytes_per_second);
    }

    fn end(&self) {
        self.close();
    }
}

/// Which queue a frame is for, and which of its ends.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// What it carries.
    pub kind: Kind,
    /// The queue's number in the flow.
    pub queue: u32,
    /// The end on the producing side.
    pub producer: u32,
    /// The end on the consuming side.
    pub consumer: u32,
}

impl Head {
    /// Which of so many lanes it takes.
    fn lane(&self, lanes: usize) -> usize {
        // Mixed, so that pairs are dealt evenly whatever their numbers have in common.
        let mixed =
            [self.queue, self.producer, self.consumer].into_iter().fold(0, |mixed: u32, number| {
                (mixed ^ number).wrapping_mul(0x9e37_79b1).rotate_left(15)
            });
        mixed as usize % lanes.max(1)
    }
}

/// Processors that one connection between two workers serves: what it carries in a second takes
/// about as much of them as is left beside the modules.
const CORES_A_LANE: usize = 8;
/// Connections between two workers, at most.
const LANES_MAX: usize = 4;

/// How many connections two workers have, if the smallest of all has so many processors. A thread
/// reads each, so that large machines are not held to what one thread can read, or decipher.
pub fn lanes(cores_min: usize) -> usize {
    (cores_min / CORES_A_LANE).clamp(1, LANES_MAX)
}

/// The other processes of a flow, as one of them sees them.
pub struct Network {
    flow: u64,
    epoch: u32,
    me: usize,
    /// By worker; those to oneself are never used.
    ways: Vec<Vec<Way>>,
    failure: Mutex<Option<Error>>,
    debts: Debts,
    cancel: Arc<Cancel>,
}

/// A frame that waits for a connection.
type Early = (Header, Vec<u8>, Vec<Buffer>);

/// One of the ways to another worker: queues may write before there is a connection.
#[derive(Default)]
struct Way {
    carrier: OnceLock<Arc<dyn Carrier>>,
    early: Mutex<Vec<Early>>,
}

impl Network {
    /// The network of the worker with this number, of so many with so many lanes between any two,
    /// in an attempt at a flow; not connected yet.
    pub fn new(
        (flow, epoch): (u64, u32),
        me: usize,
        (workers, lanes): (usize, usize),
        cancel: Arc<Cancel>,
    ) -> Arc<Network> {
        let lanes = || (0..lanes).map(|_| Way::default()).collect();
        let ways = (0..workers).map(|_| lanes()).collect();
        let (failure, debts) = Default::default();
        Arc::new(Network { flow, epoch, me, ways, failure, debts, cancel })
    }

    /// Which worker this is.
    pub fn me(&self) -> usize {
        self.me
    }

    /// What this process owes the others.
    pub(crate) fn debts(&self) -> &Debts {
        &self.debts
    }

    /// The attempt and the flow, as frames say them.
    pub fn attempt(&self) -> (u64, u32) {
        (self.flow, self.epoch)
    }

    /// There is a connection to this worker, which is used from now on as this lane.
    pub fn connect(&self, worker: usize, lane: usize, carrier: Arc<dyn Carrier>) {
        let Some(way) = self.ways[worker].get(lane) else { return carrier.end() };
        let mut early = way.early.lock();
        for (header, meta, body) in early.drain(..) {
            carrier.carry(header, meta, body);
        }
        // A second connection is not needed.
        let _ = way.carrier.set(carrier);
    }

    /// The lanes to any other worker.
    pub fn lanes(&self) -> usize {
        self.ways.first().map_or(0, Vec::len)
    }

    /// Whether there are all connections to this worker.
    pub fn is_connected(&self, worker: usize) -> bool {
        self.ways[worker].iter().all(|way| way.carrier.get().is_some())
    }

    /// Sends a frame to another worker. What goes between the same two ends of a queue takes the
    /// same lane, and so arrives in order.
    pub fn send(&self, worker: usize, head: Head, meta: Vec<u8>, body: Vec<Buffer>) {
        let Head { kind, queue, producer, consumer } = head;
        let (flow, epoch) = (self.flow, self.epoch);
        let header = Header { flow, epoch, queue, producer, consumer, ..Header::of(kind) };
        let lanes = &self.ways[worker];
        let way = &lanes[head.lane(lanes.len())];
        if let Some(carrier) = way.carrier.get() {
            return carrier.carry(header, meta, body);
        }
        let mut early = way.early.lock();
        match way.carrier.get() {
            Some(carrier) => carrier.carry(header, meta, body),
            None => early.push((header, meta, body)),
        }
    }

    /// What goes to another worker is held to a rate, or is not.
    pub fn hold(&self, worker: usize, bytes_per_second: Option<u64>) {
        let lanes = self.lanes().max(1) as u64;
        let carriers = self.ways[worker].iter().filter_map(|way| way.carrier.get());
        carriers.for_each(|carrier| carrier.hold(bytes_per_second.map(|rate| rate / lanes)));
    }

    /// Ends all connections.
    pub fn disconnect(&self) {
        let carriers = self.ways.iter().flatten().filter_map(|way| way.carrier.get());
        carriers.for_each(|carrier| carrier.end());
    }

    /// Ends the flow: a letter could not be sent, or was not one.
    pub fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
        self.cancel.cancel();
    }

    /// Why it ended, if it was the network.
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
    fn pairs_of_ends_are_dealt_evenly_to_lanes() {
        for lanes in 2..=LANES_MAX {
            let mut frames = vec![0; lanes];
            for (queue, producer, consumer) in
                (0..4).flat_map(|q| (0..8).flat_map(move |p| (0..8).map(move |c| (q, p, c))))
            {
                frames[Head { kind: Kind::Batch, queue, producer, consumer }.lane(lanes)] += 1;
            }
            let fair = 256 / lanes;
            assert!(frames.iter().all(|of| (fair / 2..fair * 3 / 2).contains(of)), "{frames:?}");
        }
    }
}
