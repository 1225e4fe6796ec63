//! The endpoint of a consumer: holds the batches of its run that have arrived and were not yet
//! taken.

use std::collections::VecDeque;

use euphrates_flow::{Parcel, Result, RunIndex, Taken};
use euphrates_policy::distributed::{Now, Peer};
use euphrates_policy::runs::Broken;
use euphrates_policy::window;

use super::messages::{ConsumerMessage, ProducerMessage, RunProtocol, SchedulerMessage};
use crate::queue::protocol::{DueEndpoints, Endpoint, EndpointAddress, Outlet, Router};
use crate::queue::run_error::run_error;

/// Owns one run at a time, and acknowledges its bytes as they are taken.
pub struct ConsumerEndpoint {
    window_bytes_max: u64,
    producers: u32,
    run: Option<ConsumedRun>,
    /// The run it has finished last; those it is assigned later have higher numbers.
    finished: Option<RunIndex>,
    here: VecDeque<Parcel>,
    to_scheduler: Vec<SchedulerMessage>,
    to_producers: Vec<(Peer, ProducerMessage)>,
    /// It has asked the scheduler for a run.
    has_requested: bool,
    /// It requests no run.
    is_held: bool,
    /// Set when no run will be assigned any more, with the rule that a producer has broken.
    over: Option<Option<Broken>>,
    is_gone: bool,
}

struct ConsumedRun {
    number: RunIndex,
    from: Peer,
    window: window::WindowReceiver,
    has_ended: bool,
}

impl ConsumerEndpoint {
    /// Lets about `window_bytes_max` of a run be in flight or buffered before they are taken.
    pub fn new(window_bytes_max: u64, producers: u32) -> ConsumerEndpoint {
        ConsumerEndpoint {
            window_bytes_max,
            producers,
            run: None,
            finished: None,
            here: VecDeque::new(),
            to_scheduler: vec![],
            to_producers: vec![],
            has_requested: false,
            is_held: false,
            over: None,
            is_gone: false,
        }
    }

    fn begin(&mut self, number: RunIndex, from: Peer) -> &mut ConsumedRun {
        self.has_requested = false;
        let window = window::WindowReceiver::new(self.window_bytes_max);
        self.run.get_or_insert(ConsumedRun { number, from, window, has_ended: false })
    }
}

impl Outlet for ConsumerEndpoint {
    fn hold(&mut self, is_held: bool, _: Now) {
        self.is_held = is_held;
    }

    fn take(&mut self, _: Now) -> Result<Taken> {
        if let Some(parcel) = self.here.pop_front() {
            let bytes = parcel.bytes as u64;
            if let Some(run) = &mut self.run
                && let Some(taken) = run.window.on_taken(bytes)
                && !run.has_ended
            {
                self.to_producers.push((run.from, ProducerMessage::Taken(run.number, taken)));
            }
            return Ok(Taken::Batch(parcel));
        }
        if let Some(run) = self.run.take_if(|run| run.has_ended) {
            // The next is not asked for yet: a consumer that leaves now must own none.
            self.finished = Some(run.number);
            return Ok(Taken::RunEnd(run.number));
        }
        match self.over {
            Some(Some(why)) => Err(run_error(why)),
            Some(None) if self.run.is_none() => Ok(Taken::End),
            // The run it owns still comes.
            _ => Ok(Taken::Empty),
        }
    }

    fn is_idle(&self) -> bool {
        self.run.is_none() && !self.has_requested && self.over.is_none() && !self.is_held
    }

    fn request(&mut self, me: Peer) {
        if self.is_idle() {
            self.has_requested = true;
            self.to_scheduler.push(SchedulerMessage::Idle(me));
        }
    }

    fn on_poll(&mut self, me: Peer, _: Now) {
        if !self.has_work() {
            self.request(me);
        }
    }

    /// Notifies the scheduler and all producers.
    fn leave(&mut self, me: Peer, _: Now) {
        self.is_gone = true;
        self.here.clear();
        self.to_scheduler.push(SchedulerMessage::Gone(me));
        let gone = ProducerMessage::Gone(me);
        self.to_producers.extend((0..self.producers).map(|to| (to, gone)));
    }
}

impl Endpoint for ConsumerEndpoint {
    type Protocol = RunProtocol;
    type Message = ConsumerMessage;

    fn receive(&mut self, from: Peer, message: ConsumerMessage, _: Now) {
        if self.is_gone {
            return;
        }
        match message {
            ConsumerMessage::Batch(parcel) => {
                let (bytes, number) = (parcel.bytes as u64, parcel.run.unwrap_or_default());
                self.begin(number, from).window.on_come(bytes);
                self.here.push_back(parcel);
            }
            ConsumerMessage::End(number) => self.begin(number, from).has_ended = true,
            // The run may have come, and have been taken, before the scheduler's message.
            ConsumerMessage::Assigned(number, from) if self.finished < Some(number) => {
                self.begin(number, from);
            }
            ConsumerMessage::Assigned(..) => {}
            // A broken rule is not forgotten when the scheduler reports the regular end.
            ConsumerMessage::Over(why) => self.over = Some(self.over.flatten().or(why)),
        }
    }

    fn flush(&mut self, router: &impl Router<RunProtocol>, me: Peer, due: &mut DueEndpoints) {
        for message in self.to_scheduler.drain(..) {
            router.to_scheduler(message, due);
        }
        for (to, message) in self.to_producers.drain(..) {
            router.to_producer(me, to, message, due);
        }
    }

    fn has_work(&self) -> bool {
        let has_ended = self.run.as_ref().is_some_and(|run| run.has_ended);
        let is_over = match self.over {
            Some(Some(_)) => true,
            Some(None) => self.run.is_none(),
            None => false,
        };
        !self.here.is_empty() || has_ended || is_over
    }

    fn address(me: Peer) -> EndpointAddress {
        EndpointAddress::Consumer(me)
    }
}
