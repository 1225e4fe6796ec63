//! Delivers frames of other processes to the queues and exchanges they are for.

use std::sync::{Arc, OnceLock};

use euphrates_flow::{Cause, Error, Kind, Result};
use euphrates_wire::Frame;

use super::any_queue::AnyQueue;
use super::network::Network;
use crate::exchange::ModuleExchange;

/// The queues of one attempt at a flow that have ends in other processes, by number.
pub struct Dispatch {
    network: Arc<Network>,
    queues: OnceLock<Vec<Option<AnyQueue>>>,
    /// By module; they are numbered after the queues.
    exchanges: OnceLock<Vec<Option<Arc<ModuleExchange>>>>,
}

impl Dispatch {
    /// Without queues: `set` is called before the first frame.
    pub fn new(network: Arc<Network>) -> Arc<Dispatch> {
        Arc::new(Dispatch { network, queues: OnceLock::new(), exchanges: OnceLock::new() })
    }

    /// Sets all queues of the flow, and the exchange of each module.
    pub fn set(&self, queues: Vec<AnyQueue>, exchanges: Vec<Option<Arc<ModuleExchange>>>) {
        let remote = |queue| match queue {
            AnyQueue::Local(_) => None,
            queue => Some(queue),
        };
        // Called once for each attempt.
        let _ = self.exchanges.set(exchanges);
        let _ = self.queues.set(queues.into_iter().map(remote).collect());
    }

    /// Delivers a frame from `peer` to its queue. Drops frames of other attempts. A frame that
    /// cannot be decoded is a fault of the connection between `me` and `peer`.
    pub fn on_frame(&self, frame: &Frame, me: &str, peer: &str) {
        if (frame.header.flow, frame.header.epoch) != self.network.attempt() {
            return;
        }
        if let Err(error) = self.deliver(frame) {
            let error = match error.kind() {
                Kind::Corrupt => error.because(Cause::link(me, peer, false)),
                _ => error,
            };
            self.network.fail(error);
        }
    }

    fn deliver(&self, frame: &Frame) -> Result<()> {
        let queues = self.queues.get().map(Vec::as_slice).unwrap_or_default();
        let number = frame.header.queue as usize;
        if let Some(module) = number.checked_sub(queues.len()) {
            let exchanges = self.exchanges.get().map(Vec::as_slice).unwrap_or_default();
            let exchange = exchanges.get(module).and_then(Option::as_ref);
            return exchange.ok_or_else(|| no_such_queue(number))?.on_frame(frame);
        }
        let queue = queues.get(number).and_then(Option::as_ref);
        match queue.ok_or_else(|| no_such_queue(number))? {
            AnyQueue::Distributed(queue) => queue.on_frame(frame),
            AnyQueue::Runs(queue) => queue.on_frame(frame),
            AnyQueue::Local(_) | AnyQueue::Keyed(_) => Err(no_such_queue(number)),
        }
    }
}

fn no_such_queue(number: usize) -> Error {
    Error::corrupt(format!("a frame for queue {number}, which has no end here"))
}
