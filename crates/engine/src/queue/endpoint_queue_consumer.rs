//! The consumer's end of a queue of endpoints, as ports hold it. The other ends may be in this
//! process or in others.

use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::ports::Consumer;
use euphrates_flow::{Error, Result, Taken};
use euphrates_policy::distributed::Peer;

use super::endpoint_queue::EndpointQueue;
use super::network::are_here;
use super::protocol::{Endpoint, Outlet, Protocol};
use super::transport::Transport;

/// The interval at which a consumer that may not request checks whether it may: that of a straggler
/// or of a draining process.
const REQUEST_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The end of a consumer.
pub struct EndpointQueueConsumer<P: Protocol> {
    queue: Arc<EndpointQueue<P>>,
    me: Peer,
    /// Since when it has been idle without having asked for a run.
    idle: Option<Duration>,
    /// Whether it requested nothing at its last call, because its process drains.
    is_held: bool,
}

impl<P: Protocol> EndpointQueue<P> {
    /// The end of one consumer; to be made once for each that is here.
    pub fn consumer(self: &Arc<Self>, me: usize) -> EndpointQueueConsumer<P> {
        let me = me as Peer;
        self.with_consumer(me, |end, now| end.on_start(now));
        EndpointQueueConsumer { queue: self.clone(), me, idle: None, is_held: false }
    }

    /// Whether a consumer that has been idle since then, or is from now on, may request a run. A
    /// straggler leaves runs to consumers in other processes.
    pub(super) fn may_request(&self, since: &mut Option<Duration>) -> bool {
        let Some(backlog) = self.transport().map(Transport::fetch_backlog) else { return true };
        are_here(self.consumers()) || backlog.may_request_run(*since.get_or_insert(backlog.now()))
    }

    /// Whether this process drains, and the consumers here leave what they have not requested to
    /// those in other processes.
    fn is_held(&self) -> bool {
        self.transport().is_some_and(Transport::holds_consumers) && !are_here(self.consumers())
    }
}

impl<P: Protocol> EndpointQueueConsumer<P> {
    /// The received item, if any, and whether to wait for one.
    fn try_take(&mut self, wait: bool) -> Result<(Taken, bool)> {
        self.is_held = self.queue.is_held();
        let taken = self.queue.with_consumer(self.me, |end, now| {
            end.hold(self.is_held, now);
            end.take(now)
        })?;
        if !matches!(taken, Taken::Empty) {
            return Ok((taken, false));
        }
        // The first `take` may have sent a request. A producer in this process has answered it by
        // now, so this takes once more before waiting.
        self.queue.with_consumer(self.me, |end, now| {
            let taken = end.take(now)?;
            let is_empty = matches!(taken, Taken::Empty);
            if is_empty && end.is_idle() && self.queue.may_request(&mut self.idle) {
                end.request(self.me);
                self.idle = None;
            }
            let waits = wait && is_empty && !end.has_work();
            self.queue.consumer_mailbox(self.me).wait_here(waits);
            Ok::<_, Error>((taken, waits))
        })
    }
}

impl<P: Protocol> Consumer for EndpointQueueConsumer<P> {
    fn take(&mut self, wait: bool) -> Result<Taken> {
        loop {
            match self.try_take(wait)? {
                (Taken::Batch(parcel), _) => {
                    self.queue.on_taken(parcel.bytes);
                    // A batch of few rows may be cut in more pieces than it has rows.
                    if parcel.run.is_some() || parcel.batch.num_rows() > 0 {
                        return Ok(Taken::Batch(parcel));
                    }
                }
                (Taken::Empty, true) => {
                    let polls = self.is_held || self.idle.is_some();
                    self.queue.park(polls.then_some(REQUEST_RETRY_INTERVAL))?;
                }
                (Taken::Empty, false) if wait => {}
                (taken, _) => return Ok(taken),
            }
        }
    }

    fn ready(&mut self, register: bool) -> bool {
        self.is_held = self.queue.is_held();
        self.queue.with_consumer(self.me, |end, now| {
            end.hold(self.is_held, now);
            end.on_poll(self.me, now);
            let ready = end.has_work();
            self.queue.consumer_mailbox(self.me).wait_here(register && !ready);
            ready
        })
    }
}

impl<P: Protocol> Drop for EndpointQueueConsumer<P> {
    fn drop(&mut self) {
        self.queue.with_consumer(self.me, |end, now| end.leave(self.me, now));
    }
}
