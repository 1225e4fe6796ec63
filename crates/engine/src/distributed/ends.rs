//! What modules hold of the queue.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{Error, Parcel, Result, RunIndex, Taken};
use euphrates_policy::distributed::{Peer, SHARES};

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
        let DistributedQueue { shared, producers, .. } = &*self.queue;
        if shared.consuming.load(SeqCst) == 0 {
            return Err(Error::closed());
        }
        let bytes = parcel.bytes as u64;
        let refused = self.queue.send(self.me, |end, now| {
            // Before anybody can begin it.
            shared.unbegun.fetch_add(SHARES.into(), SeqCst);
            let refused = end.put(parcel, now);
            if refused.is_some() {
                shared.unbegun.fetch_sub(SHARES.into(), SeqCst);
            } else {
                shared.unbegun_bytes.fetch_add(bytes, SeqCst);
            }
            producers[self.me as usize].wait_here(refused.is_some() && register);
            refused
        });
        // The last consumer may have gone before there was somebody to wake.
        match shared.consuming.load(SeqCst) {
            0 => Err(Error::closed()),
            _ => Ok(refused),
        }
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
        self.queue.send(self.me, |end, now| end.on_end(now));
        self.queue.shared.producing.fetch_sub(1, SeqCst);
        self.queue.tell_if_over();
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
        let DistributedQueue { shared, consumers, .. } = &*self.queue;
        let next = self.queue.receive(self.me, Receiving::next);
        // Whom it asked has answered by now, if something was ready.
        let next = next.or_else(|| {
            self.queue.receive(self.me, |end, now| {
                let next = end.next(now);
                consumers[self.me as usize].wait_here(next.is_none() && register);
                next
            })
        });
        let Some((piece, batch)) = next else {
            return if shared.is_over() { Taken::End } else { Taken::Empty };
        };
        shared.unbegun_bytes.fetch_sub(piece.bytes, SeqCst);
        shared.unbegun.fetch_sub((piece.to - piece.from).into(), SeqCst);
        self.queue.tell_if_over();
        Taken::Batch(Parcel { batch, bytes: piece.bytes as usize, run: None })
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
        let DistributedQueue { shared, consumers, .. } = &*self.queue;
        let ready = self.queue.receive(self.me, |end, now| {
            // While it looks elsewhere, it is not busy with what it took here.
            end.finish(now);
            let ready = end.is_ready();
            consumers[self.me as usize].wait_here(register && !ready);
            ready
        });
        ready || shared.is_over()
    }
}

impl Drop for DistributedConsumer {
    fn drop(&mut self) {
        let queue = &self.queue;
        queue.receive(self.me, |end, now| end.leave(now));
        for producer in 0..queue.producers.len() {
            queue.send(producer as Peer, |end, now| end.on_death(self.me, now));
        }
        if queue.shared.consuming.fetch_sub(1, SeqCst) == 1 {
            queue.producers.iter().for_each(|station| station.wake());
        }
    }
}
