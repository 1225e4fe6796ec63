//! The endpoint of a producer: holds batches of runs that have no owner yet, or whose owner's
//! window is full.

use std::collections::{BTreeSet, VecDeque};

use euphrates_flow::{Error, Parcel, Result, RunIndex};
use euphrates_policy::distributed::{Now, Peer};
use euphrates_policy::runs::Broken;
use euphrates_policy::window;

use super::messages::{ConsumerMessage, ProducerMessage, RunProtocol, SchedulerMessage};
use crate::queue::protocol::{DueEndpoints, Endpoint, EndpointAddress, Intake, Router};
use crate::queue::run_error::outside_of_runs;

/// Sends each run to the consumer that the scheduler assigns it to, within a window of bytes.
pub struct ProducerEndpoint {
    window_bytes_max: u64,
    /// Runs that have begun and are not completely sent, in their order.
    runs: VecDeque<ProducedRun>,
    waiting_bytes: u64,
    /// Bytes that its thread waits to put.
    wanted_bytes: Option<u64>,
    to_scheduler: Vec<SchedulerMessage>,
    to_consumers: Vec<(Peer, ConsumerMessage)>,
    consumers: u32,
    gone: BTreeSet<Peer>,
}

struct ProducedRun {
    number: RunIndex,
    owner: Option<Peer>,
    waiting: VecDeque<Parcel>,
    window: window::WindowSender,
    has_ended: bool,
    /// Its producer ended before the run did.
    is_cut: bool,
    /// The scheduler was notified that any consumer may own it.
    is_full: bool,
}

impl ProducedRun {
    /// Whether all of it has been sent to its owner.
    fn is_done(&self) -> bool {
        self.owner.is_some() && self.has_ended && self.waiting.is_empty()
    }

    /// Reports once that waiting for a consumer in this process gains nothing any more.
    fn report_full(&mut self) -> Option<SchedulerMessage> {
        let is_news = self.owner.is_none() && !std::mem::replace(&mut self.is_full, true);
        is_news.then_some(SchedulerMessage::Full(self.number))
    }
}

impl ProducerEndpoint {
    /// Holds about `window_bytes_max` that wait to be sent, and has as many in flight for each run.
    pub fn new(window_bytes_max: u64, consumers: u32) -> ProducerEndpoint {
        ProducerEndpoint {
            window_bytes_max,
            runs: VecDeque::new(),
            waiting_bytes: 0,
            wanted_bytes: None,
            to_scheduler: vec![],
            to_consumers: vec![],
            consumers,
            gone: BTreeSet::new(),
        }
    }

    fn fits(&self, bytes: u64) -> bool {
        self.waiting_bytes == 0 || self.waiting_bytes + bytes <= self.window_bytes_max
    }

    fn end_last(&mut self, is_cut: bool) {
        if let Some(run) = self.runs.back_mut().filter(|run| !run.has_ended) {
            (run.has_ended, run.is_cut) = (true, is_cut);
            self.to_scheduler.extend(run.report_full());
        }
        self.pump();
    }

    fn check_open(&self) -> Result<()> {
        if self.consumers == 0 { Err(Error::closed()) } else { Ok(()) }
    }

    /// Sends batches that their owners have room for.
    fn pump(&mut self) {
        for run in &mut self.runs {
            let Some(owner) = run.owner else { continue };
            // The rest of a run is discarded if its owner has left.
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
                    self.to_consumers.push((owner, ConsumerMessage::Batch(parcel)));
                }
            }
            if run.is_done() && is_read {
                let end = if run.is_cut {
                    ConsumerMessage::Over(Some(Broken::Cut(run.number)))
                } else {
                    ConsumerMessage::End(run.number)
                };
                self.to_consumers.push((owner, end));
            }
        }
        self.runs.retain(|run| !run.is_done());
        // A producer that waits for room waits for the first of its runs.
        let waits = self.wanted_bytes.is_some_and(|bytes| !self.fits(bytes));
        if let Some(run) = self.runs.front_mut().filter(|_| waits) {
            self.to_scheduler.extend(run.report_full());
        }
    }

    fn run(&mut self, number: RunIndex) -> Option<&mut ProducedRun> {
        self.runs.iter_mut().find(|run| run.number == number)
    }
}

impl Intake for ProducerEndpoint {
    fn put(&mut self, parcel: Parcel, _: Now) -> Result<Option<Parcel>> {
        self.check_open()?;
        if !self.has_room(&parcel) {
            self.wanted_bytes = Some(parcel.bytes as u64);
            self.pump();
            return Ok(Some(parcel));
        }
        self.wanted_bytes = None;
        let run = self.runs.back_mut().filter(|run| Some(run.number) == parcel.run);
        let run = run.ok_or_else(outside_of_runs)?;
        self.waiting_bytes += parcel.bytes as u64;
        run.waiting.push_back(parcel);
        self.pump();
        Ok(None)
    }

    fn has_room(&self, parcel: &Parcel) -> bool {
        self.consumers == 0 || self.fits(parcel.bytes as u64)
    }

    fn begin_run(&mut self, me: Peer, number: RunIndex) -> Result<()> {
        self.check_open()?;
        self.runs.push_back(ProducedRun {
            number,
            owner: None,
            waiting: VecDeque::new(),
            window: window::WindowSender::new(self.window_bytes_max),
            has_ended: false,
            is_cut: false,
            is_full: false,
        });
        self.to_scheduler.push(SchedulerMessage::Begun(number, me));
        Ok(())
    }

    fn end_run(&mut self) {
        self.end_last(false);
    }

    fn on_end(&mut self, _: Now) {
        self.wanted_bytes = None;
        self.end_last(true);
        self.to_scheduler.push(SchedulerMessage::Ended);
    }
}

impl Endpoint for ProducerEndpoint {
    type Protocol = RunProtocol;
    type Message = ProducerMessage;

    fn receive(&mut self, _: Peer, message: ProducerMessage, _: Now) {
        match message {
            ProducerMessage::Assigned(number, owner) => {
                if let Some(run) = self.run(number) {
                    run.owner = Some(owner);
                }
            }
            ProducerMessage::Taken(number, bytes) => {
                if let Some(run) = self.run(number) {
                    run.window.on_taken(bytes);
                }
            }
            ProducerMessage::Gone(consumer) => {
                self.consumers -= 1;
                self.gone.insert(consumer);
            }
        }
        self.pump();
    }

    fn flush(&mut self, router: &impl Router<RunProtocol>, me: Peer, due: &mut DueEndpoints) {
        for message in self.to_scheduler.drain(..) {
            router.to_scheduler(message, due);
        }
        for (to, message) in self.to_consumers.drain(..) {
            router.to_consumer(me, to, message, due);
        }
    }

    fn has_work(&self) -> bool {
        self.wanted_bytes.is_some_and(|bytes| self.consumers == 0 || self.fits(bytes))
    }

    fn address(me: Peer) -> EndpointAddress {
        EndpointAddress::Producer(me)
    }
}
