//! A queue whose producers and consumers may be in several processes, generic over its protocol.
//!
//! Every end has an endpoint (a state machine) and a mailbox for messages of other endpoints. No
//! thread waits for an answer: the sender of a message runs the receiving endpoint directly if it
//! is idle; otherwise the thread that is running it handles the message before it releases the
//! endpoint. Messages between two endpoints therefore arrive in the order in which they were sent,
//! and no thread ever holds two endpoints. Messages to an endpoint in another process are sent in
//! frames (`transport.rs`), and the thread that receives them there puts them into its mailbox.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use euphrates_flow::ports::Producer;
use euphrates_flow::{Cancel, Parcel, Result, RunIndex};
use euphrates_policy::distributed::{Now, Peer};
use euphrates_wire::Frame;

use super::alarms::Alarms;
use super::mailbox::{Mailbox, RANDOM_STEP};
use super::network::Location;
use super::protocol::{
    DueEndpoints, Endpoint, EndpointAddress, EndpointMessage, Intake, Protocol, ReceivedMessage,
    Router,
};
use super::transport::{FrameEnds, Transport, malformed, misdirected, misdirected_from};

/// What a queue is made of, in one of the processes that have ends of it.
pub struct QueueParts<P: Protocol> {
    /// The producers' endpoints, or the workers that have them.
    pub producers: Vec<Location<P::Producer>>,
    /// The consumers' endpoints, or the workers that have them.
    pub consumers: Vec<Location<P::Consumer>>,
    /// The scheduler, in queues that have one.
    pub scheduler: Option<Location<P::Scheduler>>,
    /// Reported as the bound; the endpoints enforce it.
    pub bytes_max: usize,
    /// The way to the other processes, if there are some.
    pub transport: Option<Transport>,
    /// Wakes waiting threads when the flow is cancelled.
    pub cancel: Arc<Cancel>,
}

/// One process's share of a queue: a mailbox for each end that is here, the worker for the others.
pub struct EndpointQueue<P: Protocol> {
    producers: Vec<Location<Mailbox<P::Producer>>>,
    consumers: Vec<Location<Mailbox<P::Consumer>>>,
    scheduler: Option<Location<Mailbox<P::Scheduler>>>,
    transport: Option<Transport>,
    began: Instant,
    /// Seeds the random number of each call.
    calls: AtomicU64,
    /// Bytes put here minus bytes taken here. The sum over all processes is the queue's fill level.
    waiting_bytes: AtomicI64,
    bytes_max: usize,
    cancel: Arc<Cancel>,
    alarms: Alarms,
}

impl<P: Protocol> EndpointQueue<P> {
    /// The queue of these endpoints. The ends that are here must be made, and dropped when done.
    pub(super) fn of(parts: QueueParts<P>) -> Arc<EndpointQueue<P>> {
        let QueueParts { producers, consumers, scheduler, bytes_max, transport, cancel } = parts;
        let began = Instant::now();
        let random = transport.as_ref().map_or(0, |transport| transport.me() as u64);
        Arc::new_cyclic(|queue: &Weak<EndpointQueue<P>>| {
            let queue = queue.clone();
            let ring = move |address| queue.upgrade().map(|queue| queue.ring(address)).is_some();
            EndpointQueue {
                producers: producers.into_iter().map(|end| end.map(Mailbox::new)).collect(),
                consumers: consumers.into_iter().map(|end| end.map(Mailbox::new)).collect(),
                scheduler: scheduler.map(|end| end.map(Mailbox::new)),
                transport,
                began,
                calls: AtomicU64::new(random << 32),
                waiting_bytes: AtomicI64::new(0),
                bytes_max,
                cancel,
                alarms: Alarms::new(began, ring),
            }
        })
    }

    /// The end of one producer; to be made once for each that is here.
    pub fn producer(self: &Arc<Self>, me: usize) -> EndpointQueueProducer<P> {
        EndpointQueueProducer { queue: self.clone(), me: me as Peer }
    }

    /// Bytes put here minus bytes taken here, and the bound. Where the queue is in several
    /// processes, the sum over them says what waits.
    pub fn fill(&self) -> (i64, usize) {
        (self.waiting_bytes.load(SeqCst), self.bytes_max)
    }

    /// A consumer has taken a batch of this size.
    pub(super) fn on_taken(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes as i64, SeqCst);
    }

    /// Delivers a frame of another process to the endpoint it names, which must be here.
    pub fn on_frame(&self, frame: &Frame) -> Result<()> {
        let transport =
            self.transport.as_ref().ok_or_else(|| misdirected("a queue that is here"))?;
        let (producer, consumer) = (frame.header.producer, frame.header.consumer);
        let (message, batch) = transport.decode(frame)?;
        let address = match P::decode(message, batch).ok_or_else(malformed)? {
            ReceivedMessage::Consumer(message) => {
                misdirected_from(producer, self.producers.len())?;
                let mailbox = self.consumers.get(consumer as usize).and_then(Location::here);
                mailbox.ok_or_else(|| misdirected("a consumer"))?.put(producer, message);
                EndpointAddress::Consumer(consumer)
            }
            ReceivedMessage::Producer(message) => {
                misdirected_from(consumer, self.consumers.len())?;
                let mailbox = self.producers.get(producer as usize).and_then(Location::here);
                mailbox.ok_or_else(|| misdirected("a producer"))?.put(consumer, message);
                EndpointAddress::Producer(producer)
            }
            ReceivedMessage::Scheduler(message) => {
                let mailbox = self.scheduler.as_ref().and_then(Location::here);
                mailbox.ok_or_else(|| misdirected("the scheduler"))?.put(0, message);
                EndpointAddress::Scheduler
            }
        };
        self.deliver(vec![address]);
        Ok(())
    }

    /// Where the consumers are.
    pub(super) fn consumers(&self) -> &[Location<Mailbox<P::Consumer>>] {
        &self.consumers
    }

    /// The way to other processes, if there are some.
    pub(super) fn transport(&self) -> Option<&Transport> {
        self.transport.as_ref()
    }

    /// Puts a message into the mailbox of an endpoint, or sends it to the endpoint's worker.
    fn pass<E: Endpoint>(
        &self,
        mailbox: &Location<Mailbox<E>>,
        (from, to): (Peer, Peer),
        ends: FrameEnds,
        message: E::Message,
        due: &mut DueEndpoints,
    ) {
        let worker = match mailbox {
            Location::Here(mailbox) => {
                mailbox.put(from, message);
                return due.push(E::address(to));
            }
            Location::There(worker) => *worker,
        };
        let transport = self.transport.as_ref();
        let transport = transport.unwrap_or_else(|| unreachable!("no way to worker {worker}"));
        match message.encode() {
            (message, Some(batch)) => transport.send_batch(worker, ends, &message, &batch),
            (message, None) => transport.send(worker, ends, message),
        }
    }

    fn producer_mailbox(&self, me: Peer) -> &Mailbox<P::Producer> {
        self.producers[me as usize].here().expect("an end is where its module is")
    }

    /// The mailbox of a consumer that is here.
    pub(super) fn consumer_mailbox(&self, me: Peer) -> &Mailbox<P::Consumer> {
        self.consumers[me as usize].here().expect("an end is where its module is")
    }

    fn with_producer<R>(&self, me: Peer, act: impl FnOnce(&mut P::Producer, Now) -> R) -> R {
        let mut due = Vec::new();
        let done = self.producer_mailbox(me).act(self, me, &mut due, act);
        self.deliver(due);
        done
    }

    /// Acts as a consumer, then delivers the messages that this produced.
    pub(super) fn with_consumer<R>(
        &self,
        me: Peer,
        act: impl FnOnce(&mut P::Consumer, Now) -> R,
    ) -> R {
        let mut due = Vec::new();
        let done = self.consumer_mailbox(me).act(self, me, &mut due, act);
        self.deliver(due);
        done
    }

    /// Makes the endpoints at these addresses read their mailboxes, and those they write to.
    fn deliver(&self, mut due: DueEndpoints) {
        while let Some(address) = due.pop() {
            match address {
                EndpointAddress::Producer(peer) => {
                    self.producer_mailbox(peer).process_messages(self, peer, &mut due);
                }
                EndpointAddress::Consumer(peer) => {
                    self.consumer_mailbox(peer).process_messages(self, peer, &mut due);
                }
                EndpointAddress::Scheduler => {
                    let scheduler = self.scheduler.as_ref().and_then(Location::here);
                    scheduler
                        .into_iter()
                        .for_each(|mailbox| mailbox.process_messages(self, 0, &mut due));
                }
            }
        }
    }

    /// The timer of an endpoint has expired.
    pub(super) fn ring(&self, address: EndpointAddress) {
        match address {
            EndpointAddress::Producer(me) => {
                self.producer_mailbox(me).clear_alarm();
                self.with_producer(me, |end, now| end.on_alarm(now));
            }
            EndpointAddress::Consumer(me) => {
                self.consumer_mailbox(me).clear_alarm();
                self.with_consumer(me, |end, now| end.on_alarm(now));
            }
            EndpointAddress::Scheduler => {}
        }
    }

    /// Waits until woken, for a limited time if one is given, or until the flow is cancelled. The
    /// caller has registered itself at its mailbox.
    pub(super) fn park(&self, limit: Option<Duration>) -> Result<()> {
        self.cancel.check()?;
        match limit {
            Some(limit) => thread::park_timeout(limit),
            None => thread::park(),
        }
        self.cancel.check()
    }
}

impl<P: Protocol> Router<P> for EndpointQueue<P> {
    /// The random number is a function of the calls so far, so that a replay foresees it.
    fn now(&self) -> Now {
        let ns = self.began.elapsed().as_nanos() as u64;
        let random = self.calls.fetch_add(RANDOM_STEP, SeqCst);
        Now { ns, random: random ^ (random >> 31) }
    }

    fn wake_at(&self, at_ns: u64, address: EndpointAddress) {
        self.alarms.set(at_ns, address);
    }

    fn to_consumer(&self, from: Peer, to: Peer, message: P::ToConsumer, due: &mut DueEndpoints) {
        let ends = FrameEnds { producer: from, consumer: to };
        self.pass(&self.consumers[to as usize], (from, to), ends, message, due);
    }

    fn to_producer(&self, from: Peer, to: Peer, message: P::ToProducer, due: &mut DueEndpoints) {
        let ends = FrameEnds { producer: to, consumer: from };
        self.pass(&self.producers[to as usize], (from, to), ends, message, due);
    }

    fn to_scheduler(&self, message: P::ToScheduler, due: &mut DueEndpoints) {
        if let Some(scheduler) = &self.scheduler {
            self.pass(scheduler, (0, 0), FrameEnds { producer: 0, consumer: 0 }, message, due);
        }
    }
}

/// The end of a producer, as ports hold it.
pub struct EndpointQueueProducer<P: Protocol> {
    queue: Arc<EndpointQueue<P>>,
    me: Peer,
}

impl<P: Protocol> Producer for EndpointQueueProducer<P> {
    fn put(&mut self, mut parcel: Parcel, wait: bool) -> Result<Option<Parcel>> {
        loop {
            let bytes = parcel.bytes as i64;
            let refused = self.queue.with_producer(self.me, |end, now| {
                let refused = end.put(parcel, now)?;
                if refused.is_none() {
                    self.queue.waiting_bytes.fetch_add(bytes, SeqCst);
                }
                self.queue.producer_mailbox(self.me).wait_here(refused.is_some() && wait);
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
        self.queue.with_producer(self.me, |end, _| end.has_room(parcel))
    }

    fn begin_run(&mut self, run: RunIndex) -> Result<()> {
        self.queue.with_producer(self.me, |end, _| end.begin_run(self.me, run))
    }

    fn end_run(&mut self, _: RunIndex) -> Result<()> {
        self.queue.with_producer(self.me, |end, _| end.end_run());
        Ok(())
    }
}

impl<P: Protocol> Drop for EndpointQueueProducer<P> {
    fn drop(&mut self) {
        // A consumer must not take the stream of a cancelled flow for complete.
        if !self.queue.cancel.is_cancelled() {
            self.queue.with_producer(self.me, |end, now| end.on_end(now));
        }
    }
}
