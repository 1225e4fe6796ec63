//! What modules hold of the queue.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{Parcel, Result, RunIndex, Taken};
use euphrates_policy::distributed::Peer;

use super::DistributedQueue;
use super::receiving::Receiving;

/// A producer's end.
pub struct DistributedProducer {
    queue: Arc<DistributedQueue>,
    me: Peer,
}

impl DistributedProducer {
    pub(super) fn new(queue: Arc<DistributedQueue>, me: Peer) -> DistributedProducer {
        DistributedProducer { queue, me }
    }

    fn try_put(&self, parcel: Parcel, register: bool) -> Result<Option<Parcel>> {
        let bytes = parcel.bytes as i64;
        self.queue.send(self.me, |end, now| {
            let refused = end.put(parcel, now)?;
            if refused.is_none() {
                self.queue.waiting_bytes.fetch_add(bytes, SeqCst);
            }
            self.queue.sending(self.me).wait_here(refused.is_some() && register);
            Ok(refused)
        })
    }
}

impl Producer for DistributedProducer {
    fn put(&mut self, mut parcel: Parcel, wait: bool) -> Result<Option<Parcel>> {
        loop {
            match self.try_put(parcel, wait)? {
                Some(refused) if wait => parcel = refused,
                outcome => return Ok(outcome),
            }
            self.queue.park()?;
        }
    }

    fn has_room(&mut self, parcel: &Parcel) -> bool {
        self.queue.send(self.me, |end, _| end.has_room(parcel))
    }

    // Whoever needs no order needs no runs.
    fn begin_run(&mut self, _run: RunIndex) -> Result<()> {
        Ok(())
    }

    fn end_run(&mut self, _run: RunIndex) -> Result<()> {
        Ok(())
    }
}

impl Drop for DistributedProducer {
    fn drop(&mut self) {
        // Of a flow that was cancelled nobody is to think that this was all.
        if !self.queue.cancel.is_cancelled() {
            self.queue.send(self.me, |end, now| end.on_end(now));
        }
    }
}

/// A consumer's end.
pub struct DistributedConsumer {
    queue: Arc<DistributedQueue>,
    me: Peer,
}

impl DistributedConsumer {
    pub(super) fn new(queue: Arc<DistributedQueue>, me: Peer) -> DistributedConsumer {
        queue.receive(me, |end, now| end.on_start(now));
        DistributedConsumer { queue, me }
    }

    fn try_take(&mut self, register: bool) -> Taken {
        let next = self.queue.receive(self.me, Receiving::next);
        // Whom it asked has answered by now, if it is here and something was ready.
        let next = next.ok_or(false).or_else(|_| {
            self.queue.receive(self.me, |end, now| {
                let next = end.next(now);
                let waits = next.is_none() && !end.is_over() && register;
                self.queue.receiving(self.me).wait_here(waits);
                next.ok_or(end.is_over())
            })
        });
        match next {
            Ok((piece, batch)) => {
                self.queue.waiting_bytes.fetch_sub(piece.bytes as i64, SeqCst);
                Taken::Batch(Parcel { batch, bytes: piece.bytes as usize, run: None })
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
                Taken::Empty if wait => self.queue.park()?,
                taken => return Ok(taken),
            }
        }
    }

    fn ready(&mut self, register: bool) -> bool {
        self.queue.receive(self.me, |end, now| {
            // While it looks elsewhere, it is not busy with what it took here.
            end.finish(now);
            let ready = end.is_ready() || end.is_over();
            self.queue.receiving(self.me).wait_here(register && !ready);
            ready
        })
    }
}

impl Drop for DistributedConsumer {
    fn drop(&mut self) {
        self.queue.receive(self.me, |end, now| end.leave(now));
    }
}
