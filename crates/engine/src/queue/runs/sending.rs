//! A producer's endpoint: the batches of runs that nobody has been dealt yet, or that their owner
//! has no room for.

use std::collections::{BTreeSet, VecDeque};

use euphrates_flow::{Error, Parcel, Result, RunIndex};
use euphrates_policy::distributed::{Now, Peer};
use euphrates_policy::runs::Broken;
use euphrates_policy::window;

use super::messages::{ToDealing, ToReceiving, ToSending};
use super::{Address, RunQueue};
use crate::queue::mailbox::Endpoint;

/// The endpoint.
pub struct Sending {
    window_bytes_max: u64,
    /// Runs that have begun and are not sent whole, in their order.
    runs: VecDeque<Run>,
    waiting_bytes: u64,
    /// Bytes that its thread waits to put.
    wanted_bytes: Option<u64>,
    news: Vec<ToDealing>,
    out: Vec<(Peer, ToReceiving)>,
    consumers: u32,
    gone: BTreeSet<Peer>,
}

struct Run {
    number: RunIndex,
    owner: Option<Peer>,
    waiting: VecDeque<Parcel>,
    window: window::Sender,
    has_ended: bool,
    /// Its producer has ended, though it had not ended the run.
    is_cut: bool,
    /// The dealer knows that it should go to anybody.
    is_full: bool,
}

impl Run {
    /// Whether all of it has been sent to somebody.
    fn is_done(&self) -> bool {
        self.owner.is_some() && self.has_ended && self.waiting.is_empty()
    }

    /// What the dealer must hear, once: nothing is won by waiting for a neighbour any longer.
    fn say_full(&mut self) -> Option<ToDealing> {
        let is_news = self.owner.is_none() && !std::mem::replace(&mut self.is_full, true);
        is_news.then_some(ToDealing::Full(self.number))
    }
}

impl Sending {
    /// Holds about so many bytes that wait to be sent, and has as many on their way for each run.
    pub fn new(window_bytes_max: u64, consumers: u32) -> Sending {
        Sending {
            window_bytes_max,
            runs: VecDeque::new(),
            waiting_bytes: 0,
            wanted_bytes: None,
            news: vec![],
            out: vec![],
            consumers,
            gone: BTreeSet::new(),
        }
    }

    /// A run begins.
    pub fn begin(&mut self, me: Peer, number: RunIndex) -> Result<()> {
        self.check_open()?;
        let window = window::Sender::new(self.window_bytes_max);
        let waiting = VecDeque::new();
        self.runs.push_back(Run {
            number,
            owner: None,
            waiting,
            window,
            has_ended: false,
            is_cut: false,
            is_full: false,
        });
        self.news.push(ToDealing::Begun(number, me));
        Ok(())
    }

    /// Takes a batch of the run begun last, or gives it back if there is no room.
    pub fn put(&mut self, parcel: Parcel) -> Result<Option<Parcel>> {
        self.check_open()?;
        if !self.has_room(&parcel) {
            self.wanted_bytes = Some(parcel.bytes as u64);
            self.pump();
            return Ok(Some(parcel));
        }
        self.wanted_bytes = None;
        let run = self.runs.back_mut().filter(|run| Some(run.number) == parcel.run);
        let outside = || {
            Error::failed("a batch of an ordered stream was put outside of its runs")
                .remedy("put it between begin_run and end_run, or declare the order `any`")
        };
        let run = run.ok_or_else(outside)?;
        self.waiting_bytes += parcel.bytes as u64;
        run.waiting.push_back(parcel);
        self.pump();
        Ok(None)
    }

    /// Whether there is room for it, or nobody left to say so to: for one batch, there always is
    /// when nothing waits.
    pub fn has_room(&self, parcel: &Parcel) -> bool {
        self.consumers == 0 || self.fits(parcel.bytes as u64)
    }

    fn fits(&self, bytes: u64) -> bool {
        self.waiting_bytes == 0 || self.waiting_bytes + bytes <= self.window_bytes_max
    }

    /// The run begun last is complete.
    pub fn end(&mut self) {
        self.end_last(false);
    }

    fn end_last(&mut self, is_cut: bool) {
        if let Some(run) = self.runs.back_mut().filter(|run| !run.has_ended) {
            (run.has_ended, run.is_cut) = (true, is_cut);
            self.news.extend(run.say_full());
        }
        self.pump();
    }

    /// No more runs will begin, and nothing will come of the last.
    pub fn on_end(&mut self) {
        self.wanted_bytes = None;
        self.end_last(true);
        self.news.push(ToDealing::Ended);
    }

    fn check_open(&self) -> Result<()> {
        if self.consumers == 0 { Err(Error::closed()) } else { Ok(()) }
    }

    /// Sends what owners have room for.
    fn pump(&mut self) {
        for run in &mut self.runs {
            let Some(owner) = run.owner else { continue };
            // Nobody reads what is left of the run of one who is gone.
            let is_read = !self.gone.contains(&owner);
            while let Some(parcel) = run.waiting.front() {
                let bytes = parcel.bytes as u64;
                if is_read && !run.window.may_send(bytes) {
                    break;
                }
                let parcel = run.waiting.pop_front().expect("it is there");
                self.waiting_bytes -= bytes;
                if is_read {
                    run.window.on_sent(bytes);
                    self.out.push((owner, ToReceiving::Batch(parcel)));
                }
            }
            if run.is_done() && is_read {
                let end = if run.is_cut {
                    ToReceiving::Over(Some(Broken::Cut(run.number)))
                } else {
                    ToReceiving::End(run.number)
                };
                self.out.push((owner, end));
            }
        }
        self.runs.retain(|run| !run.is_done());
        // Whoever waits, waits for the first of its runs.
        let waits = self.wanted_bytes.is_some_and(|bytes| !self.fits(bytes));
        if let Some(run) = self.runs.front_mut().filter(|_| waits) {
            self.news.extend(run.say_full());
        }
    }

    fn run(&mut self, number: RunIndex) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.number == number)
    }
}

impl Endpoint for Sending {
    type Router = RunQueue;
    type Letter = (Peer, ToSending);

    fn read(&mut self, (_, letter): (Peer, ToSending), _: Now) {
        match letter {
            ToSending::Dealt(number, owner) => {
                if let Some(run) = self.run(number) {
                    run.owner = Some(owner);
                }
            }
            ToSending::Taken(number, bytes) => {
                if let Some(run) = self.run(number) {
                    run.window.on_taken(bytes);
                }
            }
            ToSending::Gone(consumer) => {
                self.consumers -= 1;
                self.gone.insert(consumer);
            }
        }
        self.pump();
    }

    fn post(&mut self, queue: &RunQueue, me: Peer, due: &mut Vec<Address>) {
        for letter in self.news.drain(..) {
            queue.to_dealer(letter, due);
        }
        for (to, letter) in self.out.drain(..) {
            queue.to_consumer(me, to, letter, due);
        }
    }

    fn may_go_on(&self) -> bool {
        self.wanted_bytes.is_some_and(|bytes| self.consumers == 0 || self.fits(bytes))
    }

    fn address(me: Peer) -> Address {
        Address::Producer(me)
    }
}
