//! The queue of runs between instances in several processes: a run goes to one consumer, as a
//! whole and in order, and runs are dealt in the order of their numbers to whoever has time (River
//! 2.3.2).
//!
//! Who gets a run is decided by one endpoint, the dealer, which stands where the first consumer
//! does. Producers tell it what they have begun, consumers that they have time; the batches go
//! straight from one to the other, within a window of bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use euphrates_flow::{Cancel, Error, Result};
use euphrates_policy::distributed::{Now, Peer};
use euphrates_policy::runs::Broken;
use euphrates_wire::Frame;

use crate::queue::mailbox::{Mailbox, Router};
use crate::queue::network::{Location, are_here};
use crate::queue::transport::{Ends, Transport, malformed, misdirected, misdirected_from};
use dealing::Dealing;
pub use ends::{RunConsumer, RunProducer};
use messages::{Down, Received, ToDealing, ToReceiving, ToSending};
use receiving::Receiving;
use sending::Sending;

mod dealing;
mod ends;
mod messages;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

/// A queue of runs. Each process that has some of its ends has one of these.
pub struct RunQueue {
    producers: Vec<Location<Mailbox<Sending>>>,
    consumers: Vec<Location<Mailbox<Receiving>>>,
    dealer: Location<Mailbox<Dealing>>,
    transport: Option<Transport>,
    cancel: Arc<Cancel>,
    /// Put here, less what was taken here.
    waiting_bytes: AtomicI64,
    bytes_max: usize,
}

/// An endpoint of the queue.
#[derive(Clone, Copy, Debug)]
pub enum Address {
    /// That of a producer.
    Producer(Peer),
    /// That of a consumer.
    Consumer(Peer),
    /// The one who deals.
    Dealer,
}

/// Nothing here depends on time or chance.
impl Router for RunQueue {
    type Address = Address;

    fn now(&self) -> Now {
        Now { ns: 0, random: 0 }
    }

    fn wake_at(&self, _: u64, _: Address) {}
}

/// What is said of producers that broke the rules of runs.
pub fn broken(why: Broken) -> Error {
    match why {
        Broken::Gap(run) => Error::failed(format!("a run before run {run} never came"))
            .remedy("number the runs 0, 1, 2, … without gaps, over all instances"),
        Broken::Twice(run) => Error::failed(format!("run {run} was begun twice"))
            .remedy("number the runs once over all instances: each begins some of them"),
        Broken::Cut(run) => Error::failed(format!("run {run} never ended"))
            .remedy("call end_run after the last batch of it"),
    }
}

/// How many of these are in one process, at most.
fn most_together(places: &[Location<()>]) -> usize {
    let mut counts: BTreeMap<Option<usize>, usize> = BTreeMap::new();
    places.iter().for_each(|place| *counts.entry(place.worker()).or_default() += 1);
    counts.into_values().max().unwrap_or(0)
}

impl RunQueue {
    /// A queue with ends at these places, that holds about so many bytes in each process. Those
    /// here must be made, and dropped when done.
    pub fn new(
        bytes_max: usize,
        producers: &[Location<()>],
        consumers: &[Location<()>],
        transport: Option<Transport>,
        cancel: Arc<Cancel>,
    ) -> Arc<RunQueue> {
        let (from, to) = (producers.len() as u32, consumers.len() as u32);
        // Half is for what has no owner yet or waits to be sent, half for what is on its way. Both
        // ends of a run must know its window, so it is that of the process with most producers.
        let together = most_together(producers);
        let window = (bytes_max / 2 / together.max(1)).max(1) as u64;
        let sending =
            |location: &Location<()>| location.with(|| Mailbox::new(Sending::new(window, to)));
        let receiving =
            |location: &Location<()>| location.with(|| Mailbox::new(Receiving::new(window, from)));
        Arc::new(RunQueue {
            producers: producers.iter().map(sending).collect(),
            consumers: consumers.iter().map(receiving).collect(),
            dealer: consumers[0].with(|| Mailbox::new(Dealing::new(from))),
            transport,
            cancel,
            waiting_bytes: AtomicI64::new(0),
            bytes_max,
        })
    }

    /// The end of one producer; to be made once for each that is here.
    pub fn producer(self: &Arc<Self>, me: usize) -> RunProducer {
        RunProducer::new(self.clone(), me as Peer)
    }

    /// The end of one consumer; to be made once for each that is here.
    pub fn consumer(self: &Arc<Self>, me: usize) -> RunConsumer {
        RunConsumer::new(self.clone(), me as Peer)
    }

    /// Bytes put here and not taken here, and the bound. Where the queue is in several processes,
    /// the sum over them says what waits.
    pub fn fill(&self) -> (i64, usize) {
        (self.waiting_bytes.load(Relaxed), self.bytes_max)
    }

    /// What came from another process for an end that is here.
    pub fn on_frame(&self, frame: &Frame) -> Result<()> {
        let transport =
            self.transport.as_ref().ok_or_else(|| misdirected("a queue that is here"))?;
        let (producer, consumer) = (frame.header.producer, frame.header.consumer);
        let mut due = Vec::new();
        let (letter, batch) = transport.read(frame)?;
        match messages::read(letter).map_err(|_| malformed())? {
            Received::Down(down) => {
                let letter = down.with(batch).ok_or_else(malformed)?;
                misdirected_from(producer, self.producers.len())?;
                let mailbox = self.consumers.get(consumer as usize).and_then(Location::here);
                mailbox.ok_or_else(|| misdirected("a consumer"))?.put((producer, letter));
                due.push(Address::Consumer(consumer));
            }
            Received::Up(letter) => {
                misdirected_from(consumer, self.consumers.len())?;
                let mailbox = self.producers.get(producer as usize).and_then(Location::here);
                mailbox.ok_or_else(|| misdirected("a producer"))?.put((consumer, letter));
                due.push(Address::Producer(producer));
            }
            Received::Dealer(letter) => {
                self.dealer.here().ok_or_else(|| misdirected("a dealer"))?.put(letter);
                due.push(Address::Dealer);
            }
        }
        self.deliver(due);
        Ok(())
    }

    fn to_consumer(&self, from: Peer, to: Peer, letter: ToReceiving, due: &mut Vec<Address>) {
        match &self.consumers[to as usize] {
            Location::Here(mailbox) => {
                mailbox.put((from, letter));
                due.push(Address::Consumer(to));
            }
            Location::There(worker) => {
                let ends = Ends { producer: from, consumer: to };
                let (down, batch) = Down::of(letter);
                let letter = messages::write_down(down);
                match batch {
                    Some(batch) => self.transport().send_batch(*worker, ends, &letter, &batch),
                    None => self.transport().send(*worker, ends, letter),
                }
            }
        }
    }

    fn to_producer(&self, from: Peer, to: Peer, letter: ToSending, due: &mut Vec<Address>) {
        match &self.producers[to as usize] {
            Location::Here(mailbox) => {
                mailbox.put((from, letter));
                due.push(Address::Producer(to));
            }
            Location::There(worker) => {
                let ends = Ends { producer: to, consumer: from };
                self.transport().send(*worker, ends, messages::write_up(letter));
            }
        }
    }

    fn to_dealer(&self, letter: ToDealing, due: &mut Vec<Address>) {
        match &self.dealer {
            Location::Here(mailbox) => {
                mailbox.put(letter);
                due.push(Address::Dealer);
            }
            Location::There(worker) => {
                let ends = Ends { producer: 0, consumer: 0 };
                self.transport().send(*worker, ends, messages::write_to_dealer(letter));
            }
        }
    }

    /// Whether both ends are in one process.
    fn are_neighbours(&self, producer: Peer, consumer: Peer) -> bool {
        self.producers[producer as usize].worker() == self.consumers[consumer as usize].worker()
    }

    fn transport(&self) -> &Transport {
        self.transport.as_ref().expect("ends elsewhere can be written to")
    }

    fn sending(&self, me: Peer) -> &Mailbox<Sending> {
        self.producers[me as usize].here().expect("an end is where its module is")
    }

    fn receiving(&self, me: Peer) -> &Mailbox<Receiving> {
        self.consumers[me as usize].here().expect("an end is where its module is")
    }

    fn send<R>(&self, me: Peer, act: impl FnOnce(&mut Sending) -> R) -> R {
        let mut due = Vec::new();
        let done = self.sending(me).act(self, me, &mut due, |end, _| act(end));
        self.deliver(due);
        done
    }

    fn receive<R>(&self, me: Peer, act: impl FnOnce(&mut Receiving) -> R) -> R {
        let mut due = Vec::new();
        let done = self.receiving(me).act(self, me, &mut due, |end, _| act(end));
        self.deliver(due);
        done
    }

    /// Has whoever has letters read them, and those their letters go to.
    fn deliver(&self, mut due: Vec<Address>) {
        while let Some(address) = due.pop() {
            match address {
                Address::Producer(peer) => self.sending(peer).settle(self, peer, &mut due),
                Address::Consumer(peer) => self.receiving(peer).settle(self, peer, &mut due),
                Address::Dealer => {
                    let dealer = self.dealer.here().expect("it has been written to here");
                    dealer.settle(self, 0, &mut due);
                }
            }
        }
    }

    fn park(&self, look: Option<Duration>) -> Result<()> {
        self.cancel.check()?;
        match look {
            Some(look) => thread::park_timeout(look),
            None => thread::park(),
        }
        self.cancel.check()
    }

    /// Whether a run may be asked for, by who has had time for one since then, or as of now: it may
    /// be that others shall have it.
    fn may_ask(&self, since: &mut Option<Duration>) -> bool {
        let Some(debts) = self.transport.as_ref().map(Transport::debts) else { return true };
        are_here(&self.consumers) || debts.may_ask(*since.get_or_insert(debts.now()))
    }
}
