//! The consumer's end of a queue of runs, as ports hold it.

use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::ports::Consumer;
use euphrates_flow::{Result, Taken};
use euphrates_policy::distributed::Peer;

use super::messages::Runs;
use crate::queue::network::are_here;
use crate::queue::remote::RemoteQueue;
use crate::queue::transport::Transport;

/// How soon a straggler that may not ask for a run asks again whether it may.
const REQUEST_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The end of a consumer, which owns one run at a time.
pub struct RunConsumer {
    queue: Arc<RemoteQueue<Runs>>,
    me: Peer,
    /// Since when it has been idle without having asked for a run.
    idle: Option<Duration>,
}

impl RunConsumer {
    pub(super) fn new(queue: Arc<RemoteQueue<Runs>>, me: Peer) -> RunConsumer {
        RunConsumer { queue, me, idle: None }
    }
}

impl Consumer for RunConsumer {
    fn take(&mut self, wait: bool) -> Result<Taken> {
        loop {
            let (taken, waits) = self.queue.with_consumer(self.me, |end, _| {
                let taken = end.take()?;
                let is_empty = matches!(taken, Taken::Empty);
                if is_empty && end.is_idle() && self.queue.may_request(&mut self.idle) {
                    end.request(self.me);
                    self.idle = None;
                }
                let waits = wait && is_empty && !end.is_ready();
                self.queue.consumer_mailbox(self.me).wait_here(waits);
                Ok::<_, euphrates_flow::Error>((taken, waits))
            })?;
            match taken {
                Taken::Empty if waits => {
                    self.queue.park(self.idle.map(|_| REQUEST_RETRY_INTERVAL))?;
                }
                Taken::Empty if wait => {}
                Taken::Batch(parcel) => {
                    self.queue.on_taken(parcel.bytes);
                    return Ok(Taken::Batch(parcel));
                }
                taken => return Ok(taken),
            }
        }
    }

    fn ready(&mut self, register: bool) -> bool {
        self.queue.with_consumer(self.me, |end, _| {
            let ready = end.is_ready();
            if !ready {
                end.request(self.me);
            }
            self.queue.consumer_mailbox(self.me).wait_here(register && !ready);
            ready
        })
    }
}

impl Drop for RunConsumer {
    fn drop(&mut self) {
        self.queue.with_consumer(self.me, |end, _| end.leave(self.me));
    }
}

impl RemoteQueue<Runs> {
    /// Whether a consumer that has been idle since then, or is from now on, may ask for a run. A
    /// straggler leaves runs to consumers in other processes.
    pub(super) fn may_request(&self, since: &mut Option<Duration>) -> bool {
        let Some(backlog) = self.transport().map(Transport::fetch_backlog) else { return true };
        are_here(self.consumers()) || backlog.may_request_run(*since.get_or_insert(backlog.now()))
    }
}
