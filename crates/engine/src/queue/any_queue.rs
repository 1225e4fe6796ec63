//! A queue of any kind: local, distributed, of runs, or keyed.

use std::sync::Arc;

use euphrates_flow::ports::{Consumer, Producer};

use super::distributed::DistributedQueue;
use super::keyed::KeyedQueue;
use super::local::LocalQueue;
use super::runs::RunQueue;

/// A queue, or one of the queues of an edge.
#[derive(Clone)]
pub enum AnyQueue {
    /// In one process: a list protected by a lock; a batch is assigned when a consumer dequeues it.
    Local(Arc<LocalQueue>),
    /// For batches, in one process or several: endpoints exchange messages.
    Distributed(Arc<DistributedQueue>),
    /// For ordered streams between processes: a scheduler assigns whole runs.
    Runs(Arc<RunQueue>),
    /// For partitions, which their producer holds until they are taken.
    Keyed(Arc<KeyedQueue>),
}

impl AnyQueue {
    /// Bytes that wait in it, and the bound.
    pub fn fill(&self) -> (i64, usize) {
        match self {
            AnyQueue::Local(queue) => queue.fill(),
            AnyQueue::Distributed(queue) => queue.fill(),
            AnyQueue::Runs(queue) => queue.fill(),
            AnyQueue::Keyed(_) => (0, usize::MAX),
        }
    }

    /// The end of a producer.
    pub fn producer(&self, instance: usize) -> Box<dyn Producer> {
        match self {
            AnyQueue::Local(queue) => Box::new(queue.producer()),
            AnyQueue::Distributed(queue) => Box::new(queue.producer(instance)),
            AnyQueue::Runs(queue) => Box::new(queue.producer(instance)),
            AnyQueue::Keyed(queue) => queue.producer(),
        }
    }

    /// The end of a consumer.
    pub fn consumer(&self, instance: usize) -> Box<dyn Consumer> {
        match self {
            AnyQueue::Local(queue) => Box::new(queue.consumer()),
            AnyQueue::Distributed(queue) => Box::new(queue.consumer(instance)),
            AnyQueue::Runs(queue) => Box::new(queue.consumer(instance)),
            AnyQueue::Keyed(queue) => queue.consumer(instance),
        }
    }
}
