//! One queue of a flow, whichever kind it is.

use std::sync::Arc;

use euphrates_flow::ports::{Consumer, Producer};

use super::distributed::DistributedQueue;
use super::keyed::KeyedQueue;
use super::local::LocalQueue;
use super::runs::RunQueue;

/// A queue, or one of the queues of an edge.
#[derive(Clone)]
pub enum Queue {
    /// In one process: all ends share it, so that binding is latest.
    Local(Arc<LocalQueue>),
    /// Between processes: endpoints exchange messages.
    Distributed(Arc<DistributedQueue>),
    /// Between processes, for ordered streams: it assigns whole runs.
    Runs(Arc<RunQueue>),
    /// Of partitions, which their producer holds until they are taken.
    Keyed(Arc<KeyedQueue>),
}

impl Queue {
    /// Bytes that wait in it, and the bound.
    pub fn fill(&self) -> (i64, usize) {
        match self {
            Queue::Local(queue) => queue.fill(),
            Queue::Distributed(queue) => queue.fill(),
            Queue::Runs(queue) => queue.fill(),
            Queue::Keyed(_) => (0, usize::MAX),
        }
    }

    /// The end of a producer.
    pub fn producer(&self, instance: usize) -> Box<dyn Producer> {
        match self {
            Queue::Local(queue) => Box::new(queue.producer()),
            Queue::Distributed(queue) => Box::new(queue.producer(instance)),
            Queue::Runs(queue) => Box::new(queue.producer(instance)),
            Queue::Keyed(queue) => queue.producer(),
        }
    }

    /// The end of a consumer.
    pub fn consumer(&self, instance: usize) -> Box<dyn Consumer> {
        match self {
            Queue::Local(queue) => Box::new(queue.consumer()),
            Queue::Distributed(queue) => Box::new(queue.consumer(instance)),
            Queue::Runs(queue) => Box::new(queue.consumer(instance)),
            Queue::Keyed(queue) => queue.consumer(instance),
        }
    }
}
