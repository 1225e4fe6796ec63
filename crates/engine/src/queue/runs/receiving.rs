//! A consumer's endpoint: what has come of its run.

use std::collections::VecDeque;

use euphrates_flow::{Parcel, Result, RunIndex, Taken};
use euphrates_policy::distributed::{Now, Peer};
use euphrates_policy::runs::Broken;
use euphrates_policy::window;

use super::messages::{ToDealing, ToReceiving, ToSending};
use super::{Address, RunQueue, broken};
use crate::queue::mailbox::Endpoint;

/// The endpoint.
pub struct Receiving {
    window_bytes_max: u64,
    producers: u32,
    run: Option<Run>,
    /// The run it has taken last; those it is dealt later have higher numbers.
    finished: Option<RunIndex>,
    here: VecDeque<Parcel>,
    to_dealer: Vec<ToDealing>,
    to_producers: Vec<(Peer, ToSending)>,
    /// The dealer has heard that it has time.
    is_waiting: bool,
    /// Nothing more will be dealt, or nothing is worth taking any more.
    over: Option<Option<Broken>>,
    is_gone: bool,
}

struct Run {
    number: RunIndex,
    from: Peer,
    window: window::Receiver,
    has_ended: bool,
}

impl Receiving {
    /// Lets about so many bytes of a run come before they are taken.
    pub fn new(window_bytes_max: u64, producers: u32) -> Receiving {
        Receiving {
            window_bytes_max,
            producers,
            run: None,
            finished: None,
            here: VecDeque::new(),
            to_dealer: vec![],
            to_producers: vec![],
            is_waiting: false,
            over: None,
            is_gone: false,
        }
    }

    /// The next item.
    pub fn take(&mut self) -> Result<Taken> {
        if let Some(parcel) = self.here.pop_front() {
            let bytes = parcel.bytes as u64;
            if let Some(run) = &mut self.run
                && let Some(taken) = run.window.on_taken(bytes)
                && !run.has_ended
            {
                self.to_producers.push((run.from, ToSending::Taken(run.number, taken)));
            }
            return Ok(Taken::Batch(parcel));
        }
        if let Some(run) = self.run.take_if(|run| run.has_ended) {
            // Not asked yet: who leaves now must not have been dealt another.
            self.finished = Some(run.number);
            return Ok(Taken::RunEnd(run.number));
        }
        match self.over {
            Some(Some(why)) => Err(broken(why)),
            Some(None) if self.run.is_none() => Ok(Taken::End),
            // What has been dealt still comes.
            _ => Ok(Taken::Empty),
        }
    }

    /// Whether `take` would give something.
    pub fn is_ready(&self) -> bool {
        let has_ended = self.run.as_ref().is_some_and(|run| run.has_ended);
        let is_over = match self.over {
            Some(Some(_)) => true,
            Some(None) => self.run.is_none(),
            None => false,
        };
        !self.here.is_empty() || has_ended || is_over
    }

    /// Whether it has time for a run, and the dealer does not know.
    pub fn has_time(&self) -> bool {
        self.run.is_none() && !self.is_waiting && self.over.is_none()
    }

    /// Has the dealer know that there is time, once for each run.
    pub fn ask(&mut self, me: Peer) {
        if self.has_time() {
            self.is_waiting = true;
            self.to_dealer.push(ToDealing::Idle(me));
        }
    }

    /// Takes no more.
    pub fn leave(&mut self, me: Peer) {
        self.is_gone = true;
        self.here.clear();
        self.to_dealer.push(ToDealing::Gone(me));
        self.to_producers.extend((0..self.producers).map(|to| (to, ToSending::Gone(me))));
    }

    fn begin(&mut self, number: RunIndex, from: Peer) -> &mut Run {
        self.is_waiting = false;
        let window = window::Receiver::new(self.window_bytes_max);
        self.run.get_or_insert(Run { number, from, window, has_ended: false })
    }
}

impl Endpoint for Receiving {
    type Router = RunQueue;
    type Letter = (Peer, ToReceiving);

    fn read(&mut self, (from, letter): (Peer, ToReceiving), _: Now) {
        if self.is_gone {
            return;
        }
        match letter {
            ToReceiving::Batch(parcel) => {
                let (bytes, number) = (parcel.bytes as u64, parcel.run.unwrap_or_default());
                self.begin(number, from).window.on_come(bytes);
                self.here.push_back(parcel);
            }
            ToReceiving::End(number) => self.begin(number, from).has_ended = true,
            // The run may have come, and have been taken, before the dealer's letter.
            ToReceiving::Dealt(number, from) if self.finished < Some(number) => {
                self.begin(number, from);
            }
            ToReceiving::Dealt(..) => {}
            // What was done wrong is not forgotten when the dealer says that this was all.
            ToReceiving::Over(why) => self.over = Some(self.over.flatten().or(why)),
        }
    }

    fn post(&mut self, queue: &RunQueue, me: Peer, due: &mut Vec<Address>) {
        for letter in self.to_dealer.drain(..) {
            queue.to_dealer(letter, due);
        }
        for (to, letter) in self.to_producers.drain(..) {
            queue.to_producer(me, to, letter, due);
        }
    }

    fn may_go_on(&self) -> bool {
        self.is_ready()
    }

    fn address(me: Peer) -> Address {
        Address::Consumer(me)
    }
}
