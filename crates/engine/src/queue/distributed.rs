//! The distributed queue between instances of several workers: the acts to the decisions of
//! `policy::distributed` (River 2.3.2).
//!
//! Every instance has an endpoint that decides, and a box for the letters other endpoints send it.
//! Nobody waits for an answer: whoever posts a letter hands it over on the spot if the other
//! endpoint is free; if not, the thread that is using that endpoint reads it before it leaves. So
//! letters between two endpoints arrive in the order in which they were sent, and no thread ever
//! holds two endpoints. To an endpoint in another process the same letters travel in frames
//! (`transport.rs`), and whoever receives them there puts them into the box.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use euphrates_flow::{Cancel, Result};
use euphrates_policy::distributed::{Now, Peer, Place, Policy};
use euphrates_wire::Frame;

use crate::queue::mailbox::{Mailbox, RANDOM_STEP, Router, peers_here};
use crate::queue::network::Location;
use crate::queue::transport::{Ends, Transport, malformed, misdirected, misdirected_from};
use clock::Clock;
pub use ends::{DistributedConsumer, DistributedProducer};
use messages::{Received, ToReceiving, ToSending};
use receiving::Receiving;
use sending::Sending;

mod clock;
mod ends;
mod messages;
mod receiving;
mod sending;

/// A queue whose producers and consumers may be anywhere. Each process that has some of its ends
/// has one of these, with a mailbox for each of them.
pub struct DistributedQueue {
    producers: Vec<Location<Mailbox<Sending>>>,
    consumers: Vec<Location<Mailbox<Receiving>>>,
    /// The way to the ends in other processes.
    transport: Option<Transport>,
    began: Instant,
    calls: AtomicU64,
    /// Bytes put here and not begun here. Only the sum over all processes says what waits.
    waiting_bytes: AtomicI64,
    cancel: Arc<Cancel>,
    bytes_max: usize,
    clock: Clock,
}

/// An endpoint of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// That of a producer.
    Producer(Peer),
    /// That of a consumer.
    Consumer(Peer),
}

impl Router for DistributedQueue {
    type Address = Address;

    /// A number nobody can foresee but a replay.
    fn now(&self) -> Now {
        let ns = self.began.elapsed().as_nanos() as u64;
        let random = self.calls.fetch_add(RANDOM_STEP, SeqCst);
        Now { ns, random: random ^ (random >> 31) }
    }

    fn wake_at(&self, at_ns: u64, address: Address) {
        self.clock.set(at_ns, address);
    }
}

impl DistributedQueue {
    /// A queue for this many producers and consumers, decided by this policy. All ends must be
    /// made, and dropped when done: the queue ends when its producers are gone and all has been
    /// begun, and is closed when its consumers are gone.
    pub fn new(
        policy: Policy,
        bytes_max: usize,
        producers: usize,
        consumers: usize,
        cancel: Arc<Cancel>,
    ) -> Arc<DistributedQueue> {
        let here = |ends: usize| vec![Location::Here(()); ends];
        let (producers, consumers) = (here(producers), here(consumers));
        DistributedQueue::between(policy, bytes_max, producers, consumers, None, cancel)
    }

    /// The same, where some ends are in other processes. Only those here must be made.
    pub fn between(
        policy: Policy,
        bytes_max: usize,
        producers: Vec<Location<()>>,
        consumers: Vec<Location<()>>,
        transport: Option<Transport>,
        cancel: Arc<Cancel>,
    ) -> Arc<DistributedQueue> {
        let place = |me: usize| Place {
            me: me as Peer,
            producers: producers.len() as u32,
            consumers: consumers.len() as u32,
        };
        // The bound is the queue's: what waits at consumers is bounded by the policy besides.
        let share = (bytes_max / producers.len().max(1)) as u64;
        let sending = |me, location: &Location<()>| {
            let near = near(&consumers, &producers);
            location.with(|| Mailbox::new(Sending::new(policy, (place(me), near), share)))
        };
        let receiving = |me, location: &Location<()>| {
            let near = near(&producers, &consumers);
            location.with(|| Mailbox::new(Receiving::new(policy, (place(me), near))))
        };
        let began = Instant::now();
        let random = transport.as_ref().map_or(0, |transport| transport.me() as u64);
        Arc::new_cyclic(|queue: &Weak<DistributedQueue>| DistributedQueue {
            producers: producers
                .iter()
                .enumerate()
                .map(|(me, location)| sending(me, location))
                .collect(),
            consumers: consumers
                .iter()
                .enumerate()
                .map(|(me, location)| receiving(me, location))
                .collect(),
            transport,
            began,
            calls: AtomicU64::new(random << 32),
            waiting_bytes: AtomicI64::new(0),
            cancel,
            bytes_max,
            clock: Clock::new(queue.clone(), began),
        })
    }

    /// The end of one producer; to be made once for each.
    pub fn producer(self: &Arc<Self>, me: usize) -> DistributedProducer {
        DistributedProducer::new(self.clone(), me as Peer)
    }

    /// The end of one consumer; to be made once for each.
    pub fn consumer(self: &Arc<Self>, me: usize) -> DistributedConsumer {
        DistributedConsumer::new(self.clone(), me as Peer)
    }

    /// Bytes put here and not begun here, and the bound. Where the queue is in several processes,
    /// the sum over them says what waits.
    pub fn fill(&self) -> (i64, usize) {
        (self.waiting_bytes.load(SeqCst), self.bytes_max)
    }

    /// What came from another process for an end that is here.
    pub fn on_frame(&self, frame: &Frame) -> Result<()> {
        let transport =
            self.transport.as_ref().ok_or_else(|| misdirected("a queue that is here"))?;
        let (producer, consumer) = (frame.header.producer, frame.header.consumer);
        let mut due = Vec::new();
        let (letter, batch) = transport.read(frame)?;
        match (messages::read(letter).map_err(|_| malformed())?, batch) {
            (Received::Up(letter), None) => {
                misdirected_from(consumer, self.consumers.len())?;
                let mailbox = self.producers.get(producer as usize).and_then(Location::here);
                mailbox.ok_or_else(|| misdirected("a producer"))?.put((consumer, letter));
                due.push(Address::Producer(producer));
            }
            (Received::Down(down), batch) => {
                let letter = down.with(batch).ok_or_else(malformed)?;
                misdirected_from(producer, self.producers.len())?;
                let mailbox = self.consumers.get(consumer as usize).and_then(Location::here);
                mailbox.ok_or_else(|| misdirected("a consumer"))?.put((producer, letter));
                due.push(Address::Consumer(consumer));
            }
            (Received::Up(_), Some(_)) => return Err(malformed()),
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
                let (down, batch) = letter.without_records();
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

    fn transport(&self) -> &Transport {
        self.transport.as_ref().expect("ends elsewhere can be written to")
    }

    fn sending(&self, me: Peer) -> &Mailbox<Sending> {
        self.producers[me as usize].here().expect("an end is where its module is")
    }

    fn receiving(&self, me: Peer) -> &Mailbox<Receiving> {
        self.consumers[me as usize].here().expect("an end is where its module is")
    }

    /// Acts as a producer, then sees its letters delivered.
    fn send<R>(&self, me: Peer, act: impl FnOnce(&mut Sending, Now) -> R) -> R {
        let mut due = Vec::new();
        let done = self.sending(me).act(self, me, &mut due, act);
        self.deliver(due);
        done
    }

    /// Acts as a consumer, then sees its letters delivered.
    fn receive<R>(&self, me: Peer, act: impl FnOnce(&mut Receiving, Now) -> R) -> R {
        let mut due = Vec::new();
        let done = self.receiving(me).act(self, me, &mut due, act);
        self.deliver(due);
        done
    }

    /// Has whoever has letters read them, and those their letters go to.
    fn deliver(&self, mut due: Vec<Address>) {
        while let Some(address) = due.pop() {
            match address {
                Address::Producer(peer) => self.sending(peer).settle(self, peer, &mut due),
                Address::Consumer(peer) => self.receiving(peer).settle(self, peer, &mut due),
            }
        }
    }

    /// An endpoint's alarm has gone off.
    fn ring(&self, address: Address) {
        match address {
            Address::Producer(me) => {
                self.sending(me).on_alarm();
                self.send(me, |end, now| end.on_wake(now));
            }
            Address::Consumer(me) => {
                self.receiving(me).on_alarm();
                self.receive(me, |end, now| end.on_wake(now));
            }
        }
    }

    /// Waits until woken, or the flow is cancelled. The caller has registered itself.
    fn park(&self) -> Result<()> {
        self.cancel.check()?;
        thread::park();
        self.cancel.check()
    }
}

/// The ends that are here, if not all are: for each of the others' ends that is here, they are
/// nearer.
fn near(ends: &[Location<()>], others: &[Location<()>]) -> Vec<Peer> {
    let is_here = |location: &Location<()>| location.here().is_some();
    if ends.iter().chain(others).all(is_here) {
        return vec![];
    }
    peers_here(ends).collect()
}

#[cfg(test)]
mod tests;
