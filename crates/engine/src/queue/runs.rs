//! The queue of runs between instances in several processes: a run goes to one consumer, whole and
//! in order, and runs are assigned by number to whichever consumer is idle (River, section 2.3.2).
//!
//! One endpoint, the scheduler, assigns them; it is in the process of the first consumer. Producers
//! report the runs that they have begun to it, and consumers report that they are idle; batches go
//! directly from producer to consumer, within a window of bytes.

mod consumer_endpoint;
mod messages;
mod producer_endpoint;
mod scheduler_endpoint;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use euphrates_flow::Cancel;

use self::consumer_endpoint::ConsumerEndpoint;
use self::messages::{ConsumerMessage, ProducerMessage, RunProtocol, SchedulerMessage};
use self::producer_endpoint::ProducerEndpoint;
use self::scheduler_endpoint::SchedulerEndpoint;
use super::endpoint_queue::{EndpointQueue, QueueParts};
use super::network::Location;
use super::protocol::{Protocol, ReceivedMessage};
use super::transport::Transport;

/// A queue of runs.
pub type RunQueue = EndpointQueue<RunProtocol>;

impl Protocol for RunProtocol {
    type ToConsumer = ConsumerMessage;
    type ToProducer = ProducerMessage;
    type ToScheduler = SchedulerMessage;
    type Producer = ProducerEndpoint;
    type Consumer = ConsumerEndpoint;
    type Scheduler = SchedulerEndpoint;

    fn decode(bytes: &[u8], batch: Option<RecordBatch>) -> Option<ReceivedMessage<RunProtocol>> {
        messages::decode(bytes, batch)
    }
}

impl EndpointQueue<RunProtocol> {
    /// A queue with ends at these places, that holds about `bytes_max` in each process. Those here
    /// must be made, and dropped when done.
    pub fn new(
        bytes_max: usize,
        producers: &[Location<()>],
        consumers: &[Location<()>],
        transport: Option<Transport>,
        cancel: Arc<Cancel>,
    ) -> Arc<RunQueue> {
        let (from, to) = (producers.len() as u32, consumers.len() as u32);
        // Half is for batches without an owner or waiting to be sent, half for those in flight.
        // Both ends of a run must know its window, so it is that of the process with most
        // producers.
        let most = most_in_one_process(producers);
        let window = (bytes_max / 2 / most.max(1)).max(1) as u64;
        let workers = |ends: &[Location<()>]| ends.iter().map(Location::worker).collect();
        let scheduler = || SchedulerEndpoint::new(workers(producers), workers(consumers));
        let producer =
            |location: &Location<()>| location.with(|| ProducerEndpoint::new(window, to));
        let consumer =
            |location: &Location<()>| location.with(|| ConsumerEndpoint::new(window, from));
        EndpointQueue::of(QueueParts {
            producers: producers.iter().map(producer).collect(),
            consumers: consumers.iter().map(consumer).collect(),
            scheduler: Some(consumers[0].with(scheduler)),
            bytes_max,
            transport,
            cancel,
        })
    }
}

/// The number of these ends in the process that has most of them.
fn most_in_one_process(ends: &[Location<()>]) -> usize {
    let mut counts: BTreeMap<Option<usize>, usize> = BTreeMap::new();
    ends.iter().for_each(|end| *counts.entry(end.worker()).or_default() += 1);
    counts.into_values().max().unwrap_or(0)
}
