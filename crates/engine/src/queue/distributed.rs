//! The distributed queue of batches between instances of several workers: `policy::distributed`
//! assigns pieces of batches to consumers (River, section 2.3.2).

mod consumer_endpoint;
mod messages;
mod producer_endpoint;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use euphrates_flow::Cancel;
use euphrates_policy::distributed::{EndpointPosition, Now, Peer, Policy};

use self::consumer_endpoint::ConsumerEndpoint;
use self::messages::{ConsumerMessage, Pieces, ProducerMessage};
use self::producer_endpoint::ProducerEndpoint;
use super::endpoint_queue::{EndpointQueue, QueueParts};
use super::network::{Location, peers_here};
use super::protocol::{DueEndpoints, Endpoint, EndpointAddress, Protocol, ReceivedMessage, Router};
use super::transport::Transport;

/// A queue whose producers and consumers may be anywhere, and may take any batch.
pub type DistributedQueue = EndpointQueue<Pieces>;

impl Protocol for Pieces {
    type ToConsumer = ConsumerMessage;
    type ToProducer = ProducerMessage;
    type ToScheduler = Infallible;
    type Producer = ProducerEndpoint;
    type Consumer = ConsumerEndpoint;
    type Scheduler = Infallible;

    fn decode(bytes: &[u8], batch: Option<RecordBatch>) -> Option<ReceivedMessage<Pieces>> {
        messages::decode(bytes, batch)
    }
}

/// The queue has no scheduler: producers and consumers agree among themselves.
impl Endpoint for Infallible {
    type Protocol = Pieces;
    type Message = Infallible;

    fn receive(&mut self, _: Peer, _: Infallible, _: Now) {
        match *self {}
    }

    fn flush(&mut self, _: &impl Router<Pieces>, _: Peer, _: &mut DueEndpoints) {
        match *self {}
    }

    fn address(_: Peer) -> EndpointAddress {
        EndpointAddress::Scheduler
    }
}

impl EndpointQueue<Pieces> {
    /// A queue for this many producers and consumers in this process. All ends must be made, and
    /// dropped when done: the queue ends when all producers have been dropped and all pieces have
    /// been begun, and is closed when all consumers have been dropped.
    pub fn new(
        policy: Policy,
        bytes_max: usize,
        producers: usize,
        consumers: usize,
        cancel: Arc<Cancel>,
    ) -> Arc<DistributedQueue> {
        let here = |ends: usize| vec![Location::Here(()); ends];
        let (producers, consumers) = (here(producers), here(consumers));
        DistributedQueue::between(policy, bytes_max, producers, consumers, None, cancel)
    }

    /// The same, where some ends are in other processes. Only those here must be made.
    pub fn between(
        policy: Policy,
        bytes_max: usize,
        producers: Vec<Location<()>>,
        consumers: Vec<Location<()>>,
        transport: Option<Transport>,
        cancel: Arc<Cancel>,
    ) -> Arc<DistributedQueue> {
        let position = |me: usize| EndpointPosition {
            me: me as Peer,
            producers: producers.len() as u32,
            consumers: consumers.len() as u32,
        };
        // `bytes_max` bounds the whole queue, so each producer gets an equal share. What waits at
        // consumers is bounded by the policy, in addition.
        let share = (bytes_max / producers.len().max(1)) as u64;
        let producer = |(me, location): (usize, &Location<()>)| {
            let near = near(&consumers, &producers);
            location.with(|| ProducerEndpoint::new(policy, (position(me), near), share))
        };
        let consumer = |(me, location): (usize, &Location<()>)| {
            let near = near(&producers, &consumers);
            location.with(|| ConsumerEndpoint::new(policy, (position(me), near)))
        };
        EndpointQueue::of(QueueParts {
            producers: producers.iter().enumerate().map(producer).collect(),
            consumers: consumers.iter().enumerate().map(consumer).collect(),
            scheduler: None,
            bytes_max,
            transport,
            cancel,
        })
    }
}

/// The ends of one side that are in this process, which ends of the other side prefer; none if all
/// ends are here.
fn near(ends: &[Location<()>], others: &[Location<()>]) -> Vec<Peer> {
    let is_here = |location: &Location<()>| location.here().is_some();
    if ends.iter().chain(others).all(is_here) {
        return vec![];
    }
    peers_here(ends).collect()
}
