//! The endpoint that assigns runs to idle consumers.

use std::collections::BTreeSet;

use euphrates_policy::distributed::{Now, Peer};
use euphrates_policy::runs::RunScheduler;

use super::messages::{ConsumerMessage, ProducerMessage, RunProtocol, SchedulerMessage};
use crate::queue::protocol::{DueEndpoints, Endpoint, EndpointAddress, Router};

/// Assigns runs by its policy, to a consumer in the producer's process where it can.
pub struct SchedulerEndpoint {
    policy: RunScheduler,
    /// By producer: its worker, if it is not here.
    producers: Vec<Option<usize>>,
    /// By consumer: its worker, if it is not here.
    consumers: Vec<Option<usize>>,
    gone: BTreeSet<Peer>,
    is_over: bool,
}

impl SchedulerEndpoint {
    /// For producers and consumers at these workers.
    pub fn new(producers: Vec<Option<usize>>, consumers: Vec<Option<usize>>) -> SchedulerEndpoint {
        let policy = RunScheduler::new(producers.len() as u32);
        SchedulerEndpoint { policy, producers, consumers, gone: BTreeSet::new(), is_over: false }
    }
}

impl Endpoint for SchedulerEndpoint {
    type Protocol = RunProtocol;
    type Message = SchedulerMessage;

    fn receive(&mut self, _: Peer, message: SchedulerMessage, _: Now) {
        match message {
            SchedulerMessage::Begun(run, producer) => self.policy.on_begun(run, producer),
            SchedulerMessage::Full(run) => self.policy.on_blocked_or_ended(run),
            SchedulerMessage::Ended => self.policy.on_ended(),
            SchedulerMessage::Idle(consumer) => self.policy.on_idle(consumer),
            SchedulerMessage::Gone(consumer) => {
                self.gone.insert(consumer);
                self.policy.on_gone(consumer);
            }
        }
    }

    fn flush(&mut self, router: &impl Router<RunProtocol>, _: Peer, due: &mut DueEndpoints) {
        let (producers, consumers) = (&self.producers, &self.consumers);
        let is_neighbour =
            |from: Peer, to: Peer| producers[from as usize] == consumers[to as usize];
        for assigned in self.policy.assign(is_neighbour) {
            let message = ProducerMessage::Assigned(assigned.run, assigned.to);
            router.to_producer(assigned.to, assigned.from, message, due);
            // Sent on the same lane as the later `Over`, so it arrives before that.
            let message = ConsumerMessage::Assigned(assigned.run, assigned.from);
            router.to_consumer(0, assigned.to, message, due);
        }
        if self.policy.is_over() && !std::mem::replace(&mut self.is_over, true) {
            let over = ConsumerMessage::Over(self.policy.broken());
            for consumer in 0..self.consumers.len() {
                router.to_consumer(0, consumer as Peer, over.clone(), due);
            }
        }
    }

    fn address(_: Peer) -> EndpointAddress {
        EndpointAddress::Scheduler
    }
}
