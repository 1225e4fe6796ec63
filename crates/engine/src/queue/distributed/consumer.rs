//! The consumer's end of a distributed queue, as ports hold it.

use std::sync::Arc;

use euphrates_flow::ports::Consumer;
use euphrates_flow::{Parcel, Result, Taken};
use euphrates_policy::distributed::Peer;

use super::consumer_endpoint::ConsumerEndpoint;
use super::messages::Pieces;
use crate::queue::remote::RemoteQueue;

/// The end of a consumer, which takes pieces of batches.
pub struct DistributedConsumer {
    queue: Arc<RemoteQueue<Pieces>>,
    me: Peer,
}

impl DistributedConsumer {
    pub(super) fn new(queue: Arc<RemoteQueue<Pieces>>, me: Peer) -> DistributedConsumer {
        queue.with_consumer(me, |end, now| end.on_start(now));
        DistributedConsumer { queue, me }
    }

    fn try_take(&mut self, register: bool) -> Taken {
        let next = self.queue.with_consumer(self.me, ConsumerEndpoint::next);
        // A producer that is here and has something ready has answered the request by now.
        let next = next.ok_or(false).or_else(|_| {
            self.queue.with_consumer(self.me, |end, now| {
                let next = end.next(now);
                let waits = next.is_none() && !end.is_over() && register;
                self.queue.consumer_mailbox(self.me).wait_here(waits);
                next.ok_or(end.is_over())
            })
        });
        match next {
            Ok((piece, batch)) => {
                let bytes = piece.bytes as usize;
                self.queue.on_taken(bytes);
                Taken::Batch(Parcel { batch, bytes, run: None })
            }
            Err(true) => Taken::End,
            Err(false) => Taken::Empty,
        }
    }
}

impl Consumer for DistributedConsumer {
    fn take(&mut self, wait: bool) -> Result<Taken> {
        loop {
            match self.try_take(wait) {
                // A batch of few rows may be cut in more pieces than it has rows.
                Taken::Batch(parcel) if parcel.batch.num_rows() == 0 => {}
                Taken::Empty if wait => self.queue.park(None)?,
                taken => return Ok(taken),
            }
        }
    }

    fn ready(&mut self, register: bool) -> bool {
        self.queue.with_consumer(self.me, |end, now| {
            // While its module polls other inputs, it does not process what it took here.
            end.finish(now);
            let ready = end.is_ready() || end.is_over();
            self.queue.consumer_mailbox(self.me).wait_here(register && !ready);
            ready
        })
    }
}

impl Drop for DistributedConsumer {
    fn drop(&mut self) {
        self.queue.with_consumer(self.me, |end, now| end.leave(now));
    }
}
