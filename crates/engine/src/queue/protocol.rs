//! Traits of a queue whose ends exchange messages: its protocol, its endpoints, their router.

use std::convert::Infallible;

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Parcel, Result, RunIndex, Taken};
use euphrates_policy::distributed::{Now, Peer};

/// Names one endpoint of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointAddress {
    /// The endpoint of the producer with this number.
    Producer(Peer),
    /// The endpoint of the consumer with this number.
    Consumer(Peer),
    /// The endpoint that assigns work to consumers, in queues that have one.
    Scheduler,
}

/// The endpoints of this process that have messages to read.
pub type DueEndpoints = Vec<EndpointAddress>;

/// A message between endpoints.
pub trait EndpointMessage: Send {
    /// The encoded message, and the records that are sent beside it as a block.
    fn encode(self) -> (Vec<u8>, Option<RecordBatch>);
}

impl EndpointMessage for Infallible {
    fn encode(self) -> (Vec<u8>, Option<RecordBatch>) {
        match self {}
    }
}

/// A family of endpoints, the messages between them, and the encoding of these in frames.
pub trait Protocol: Sized + 'static {
    /// Addressed to a consumer; carries its records.
    type ToConsumer: EndpointMessage;
    /// Addressed to a producer.
    type ToProducer: EndpointMessage;
    /// Addressed to the scheduler.
    type ToScheduler: EndpointMessage;
    /// The endpoint of a producer.
    type Producer: Intake<Protocol = Self, Message = Self::ToProducer> + Send;
    /// The endpoint of a consumer.
    type Consumer: Outlet<Protocol = Self, Message = Self::ToConsumer> + Send;
    /// The endpoint of the scheduler.
    type Scheduler: Endpoint<Protocol = Self, Message = Self::ToScheduler> + Send;

    /// Decodes a frame; `None` if it is malformed, lacks its records, or has records it must not
    /// have.
    fn decode(bytes: &[u8], batch: Option<RecordBatch>) -> Option<ReceivedMessage<Self>>;
}

/// A decoded message, by the kind of endpoint it is for.
pub enum ReceivedMessage<P: Protocol> {
    /// For the consumer that the frame names.
    Consumer(P::ToConsumer),
    /// For the producer that the frame names.
    Producer(P::ToProducer),
    /// For the scheduler of the queue.
    Scheduler(P::ToScheduler),
}

/// The queue, as its endpoints see it: its clock, and delivery of their messages. A message to an
/// endpoint of this process is stored in its mailbox, and its address is appended to `due`.
pub trait Router<P: Protocol> {
    /// The time since the queue was made, and a random number.
    fn now(&self) -> Now;

    /// Arranges that `on_alarm` is called for an endpoint at this time, in nanoseconds of the
    /// queue's clock.
    fn wake_at(&self, at_ns: u64, address: EndpointAddress);

    /// Sends a message from the producer `from`, or from the scheduler.
    fn to_consumer(&self, from: Peer, to: Peer, message: P::ToConsumer, due: &mut DueEndpoints);

    /// Sends a message from the consumer `from`, or from the scheduler.
    fn to_producer(&self, from: Peer, to: Peer, message: P::ToProducer, due: &mut DueEndpoints);

    /// Sends a message to the scheduler.
    fn to_scheduler(&self, message: P::ToScheduler, due: &mut DueEndpoints);
}

/// The state machine that handles a mailbox's messages: holds data, and decides by a policy.
pub trait Endpoint {
    /// The protocol it is part of.
    type Protocol: Protocol;
    /// The messages it receives.
    type Message: EndpointMessage;

    /// Handles a message. `from` is the number of the end that sent it.
    fn receive(&mut self, from: Peer, message: Self::Message, now: Now);

    /// Sends the messages that its last actions produced.
    fn flush(&mut self, router: &impl Router<Self::Protocol>, me: Peer, due: &mut DueEndpoints);

    /// The timer set by `wake_at_ns` has expired.
    fn on_alarm(&mut self, _now: Now) {}

    /// When it needs `on_alarm`, in nanoseconds of the queue's clock.
    fn wake_at_ns(&self) -> Option<u64> {
        None
    }

    /// Whether the thread that waits at this endpoint can continue.
    fn has_work(&self) -> bool {
        false
    }

    /// Its address, if `me` is its number.
    fn address(me: Peer) -> EndpointAddress;
}

/// An endpoint that a producer puts batches into.
pub trait Intake: Endpoint {
    /// Takes a batch, or returns it if there is no room. Fails when no consumer is left.
    fn put(&mut self, parcel: Parcel, now: Now) -> Result<Option<Parcel>>;

    /// Whether `put` would not return the batch; true if `put` would fail.
    fn has_room(&self, parcel: &Parcel) -> bool;

    /// The producer begins a run. Queues without order ignore runs.
    fn begin_run(&mut self, _me: Peer, _run: RunIndex) -> Result<()> {
        Ok(())
    }

    /// The producer has put the last batch of the run begun last.
    fn end_run(&mut self) {}

    /// The producer will put no more batches.
    fn on_end(&mut self, now: Now);
}

/// An endpoint from which a consumer takes batches; `has_work` returns whether one has arrived.
pub trait Outlet: Endpoint {
    /// The consumer is idle for the first time.
    fn on_start(&mut self, _now: Now) {}

    /// From now on, it requests nothing, since its process drains; or requests as usual again. What
    /// it has requested still arrives.
    fn hold(&mut self, is_held: bool, now: Now);

    /// The next batch, or an end; [`Taken::Empty`] if none has arrived.
    fn take(&mut self, now: Now) -> Result<Taken>;

    /// Whether it owns no run, and has not asked for one.
    fn is_idle(&self) -> bool {
        false
    }

    /// Asks for a run if it is idle.
    fn request(&mut self, _me: Peer) {}

    /// The consumer polls whether a batch has arrived, without taking it.
    fn on_poll(&mut self, me: Peer, now: Now);

    /// The consumer will take no more batches.
    fn leave(&mut self, me: Peer, now: Now);
}
