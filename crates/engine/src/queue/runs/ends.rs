//! What modules hold of the queue.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{Parcel, Result, RunIndex, Taken};
use euphrates_policy::distributed::Peer;

use super::RunQueue;
use crate::queue::fetch_backlog::LOOK;

/// A producer's end.
pub struct RunProducer {
    queue: Arc<RunQueue>,
    me: Peer,
}

impl RunProducer {
    pub(super) fn new(queue: Arc<RunQueue>, me: Peer) -> RunProducer {
        RunProducer { queue, me }
    }
}

impl Producer for RunProducer {
    fn put(&mut self, mut parcel: Parcel, wait: bool) -> Result<Option<Parcel>> {
        loop {
            let bytes = parcel.bytes as i64;
            let refused = self.queue.send(self.me, |end| {
                let refused = end.put(parcel)?;
                if refused.is_none() {
                    self.queue.waiting_bytes.fetch_add(bytes, Relaxed);
                }
                self.queue.sending(self.me).wait_here(refused.is_some() && wait);
                Ok::<_, euphrates_flow::Error>(refused)
            })?;
            match refused {
                Some(refused) if wait => parcel = refused,
                outcome => return Ok(outcome),
            }
            self.queue.park(None)?;
        }
    }

    fn has_room(&mut self, parcel: &Parcel) -> bool {
        self.queue.send(self.me, |end| end.has_room(parcel))
    }

    fn begin_run(&mut self, run: RunIndex) -> Result<()> {
        self.queue.send(self.me, |end| end.begin(self.me, run))
    }

    fn end_run(&mut self, _: RunIndex) -> Result<()> {
        self.queue.send(self.me, |end| end.end());
        Ok(())
    }
}

impl Drop for RunProducer {
    fn drop(&mut self) {
        // Of a flow that was cancelled nobody is to think that this was all.
        if !self.queue.cancel.is_cancelled() {
            self.queue.send(self.me, |end| end.on_end());
        }
    }
}

/// A consumer's end.
pub struct RunConsumer {
    queue: Arc<RunQueue>,
    me: Peer,
    /// Since when it has had time for a run that it has not asked for yet.
    idle: Option<Duration>,
}

impl RunConsumer {
    pub(super) fn new(queue: Arc<RunQueue>, me: Peer) -> RunConsumer {
        RunConsumer { queue, me, idle: None }
    }
}

impl Consumer for RunConsumer {
    fn take(&mut self, wait: bool) -> Result<Taken> {
        loop {
            let (taken, waits) = self.queue.receive(self.me, |end| {
                let taken = end.take()?;
                let is_empty = matches!(taken, Taken::Empty);
                if is_empty && end.has_time() && self.queue.may_ask(&mut self.idle) {
                    end.ask(self.me);
                    self.idle = None;
                }
                let waits = wait && is_empty && !end.is_ready();
                self.queue.receiving(self.me).wait_here(waits);
                Ok::<_, euphrates_flow::Error>((taken, waits))
            })?;
            match taken {
                Taken::Empty if waits => self.queue.park(self.idle.map(|_| LOOK))?,
                Taken::Empty if wait => {}
                Taken::Batch(parcel) => {
                    self.queue.waiting_bytes.fetch_sub(parcel.bytes as i64, Relaxed);
                    return Ok(Taken::Batch(parcel));
                }
                taken => return Ok(taken),
            }
        }
    }

    fn ready(&mut self, register: bool) -> bool {
        self.queue.receive(self.me, |end| {
            let ready = end.is_ready();
            if !ready {
                end.ask(self.me);
            }
            self.queue.receiving(self.me).wait_here(register && !ready);
            ready
        })
    }
}

impl Drop for RunConsumer {
    fn drop(&mut self) {
        self.queue.receive(self.me, |end| end.leave(self.me));
    }
}
