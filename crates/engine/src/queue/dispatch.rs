//! Frames that come from other processes, and the queues they are for.

use std::sync::{Arc, OnceLock};

use euphrates_flow::check::Checked;
use euphrates_flow::{Cause, Error, Kind, Result};
use euphrates_wire::Frame;

use crate::exchange::ModuleExchange;
use crate::queue::network::Network;
use crate::run::worker::{Prepared, Queue, queue_numbers};

/// The queues of one attempt at a flow that have ends elsewhere, by number.
pub struct Dispatch {
    network: Arc<Network>,
    queues: OnceLock<Vec<Option<Queue>>>,
    /// By module; their numbers come behind those of the queues.
    exchanges: OnceLock<Vec<Option<Arc<ModuleExchange>>>>,
}

impl Dispatch {
    /// Without queues; frames come after there are some.
    pub fn new(network: Arc<Network>) -> Arc<Dispatch> {
        Arc::new(Dispatch { network, queues: OnceLock::new(), exchanges: OnceLock::new() })
    }

    /// The queues of each edge, and the exchange of each module.
    pub fn set(&self, flow: &Checked, Prepared { queues, exchanges, .. }: &Prepared) {
        let mut all = vec![];
        for (first, queues) in queue_numbers(flow).into_iter().zip(queues) {
            debug_assert_eq!(all.len(), first as usize);
            all.extend(queues.iter().map(|queue| match queue {
                Queue::Local(_) => None,
                queue => Some(queue.clone()),
            }));
        }
        // There is one attempt.
        let _ = self.exchanges.set(exchanges.clone());
        let _ = self.queues.set(all);
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
            return exchange.ok_or_else(|| nobody(number))?.on_frame(frame);
        }
        let queue = queues.get(number).and_then(Option::as_ref);
        match queue.ok_or_else(|| nobody(number))? {
            Queue::Distributed(queue) => queue.on_frame(frame),
            Queue::Runs(queue) => queue.on_frame(frame),
            Queue::Local(_) | Queue::Keyed(_) => Err(nobody(number)),
        }
    }
}

fn nobody(number: usize) -> Error {
    Error::corrupt(format!("a frame for queue {number}, which has no end here"))
}
