//! Distributed queues: which consumer gets a batch, and when (River 2.3.2).
//!
//! The endpoints of producers and consumers exchange small messages. Each is a state machine: the
//! caller reports events (a batch is ready, a message has arrived, a piece is finished, a peer has
//! died), and messages are returned in a [`MessageQueue`]. The transport (in a process, across a
//! network or in a simulation) must deliver messages between any two endpoints in order; nothing
//! else is assumed. Messages are small, except [`ToConsumer::Give`], with which the transport sends
//! the piece's data.
//!
//! All endpoints of a queue have the same [`Policy`]. `LateBinding` is the default, the others are
//! baselines.

use alloc::vec::Vec;

pub(crate) mod dice;
pub mod late_binding;
pub mod ledger;
mod protocol;
pub mod push;
pub mod sparrow;

pub use self::protocol::{
    EndpointPosition, HeldPieces, MessageQueue, Now, Peer, Piece, SHARES, Stock, ToConsumer,
    ToConsumers, ToProducer, ToProducers,
};

/// The policy of a queue.
///
/// ```
/// use euphrates_policy::distributed::late_binding::Limits;
/// use euphrates_policy::distributed::{Consumer, EndpointPosition, MessageQueue, Now};
/// use euphrates_policy::distributed::{Policy, Producer};
///
/// let policy = Policy::LateBinding(Limits::default());
/// let position = EndpointPosition { me: 0, producers: 1, consumers: 1 };
/// let mut producer = Producer::new(policy, position, 1 << 20, None);
/// let mut consumer = Consumer::new(policy, position);
/// let (mut down, mut up) = (MessageQueue::default(), MessageQueue::default());
/// let now = |ns| Now { ns, random: 7 };
///
/// producer.on_ready(0, 1000, now(0), &mut down);
/// consumer.on_start(now(0), &mut up);
/// for time in 1..4 {
///     let messages: Vec<_> = up.drain().collect();
///     messages.into_iter().for_each(|(_, m)| producer.on_message(0, m, now(time), &mut down));
///     let messages: Vec<_> = down.drain().collect();
///     messages.into_iter().for_each(|(_, m)| consumer.on_message(0, m, now(time), &mut up));
/// }
/// let (peer, piece) = consumer.begin(now(4), &mut up).expect("the batch has been given");
/// assert_eq!((peer, piece.batch), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The default: reservations, laggard first, recalls, small pieces at the end.
    LateBinding(late_binding::Limits),
    /// Sparrow's late binding: a fixed number of reservations per batch at random consumers.
    Sparrow {
        /// Reservations per batch, at least 1.
        reservations: u32,
        /// Pieces that a consumer holds or has requested, at most.
        slots_max: u32,
    },
    /// Batches are sent to consumers with credit, without requests.
    Push(push::PushChoice),
}

/// A producer's endpoint, under the policy of its queue.
#[derive(Clone, Debug)]
pub enum Producer {
    /// The endpoint for [`Policy::LateBinding`].
    LateBinding(late_binding::Producer),
    /// The endpoint for [`Policy::Sparrow`].
    Sparrow(sparrow::Producer),
    /// The endpoint for [`Policy::Push`].
    Push(push::Producer),
}

/// A consumer's endpoint, under the policy of its queue.
#[derive(Clone, Debug)]
pub enum Consumer {
    /// The endpoint for [`Policy::LateBinding`].
    LateBinding(late_binding::Consumer),
    /// The endpoint for [`Policy::Sparrow`].
    Sparrow(sparrow::Consumer),
    /// The endpoint for [`Policy::Push`].
    Push(push::Consumer),
}

/// Calls the same method of any variant.
macro_rules! each {
    ($kind:ident, $self:ident, $endpoint:ident => $call:expr) => {
        match $self {
            $kind::LateBinding($endpoint) => $call,
            $kind::Sparrow($endpoint) => $call,
            $kind::Push($endpoint) => $call,
        }
    };
}

impl Producer {
    /// A producer with at most `bytes_max` of ready batches, or one larger batch, and `bytes_total`
    /// in all, if that is known.
    pub fn new(
        policy: Policy,
        position: EndpointPosition,
        bytes_max: u64,
        bytes_total: Option<u64>,
    ) -> Producer {
        let ledger = ledger::Ledger::new(bytes_max, bytes_total);
        match policy {
            Policy::LateBinding(limits) => {
                Producer::LateBinding(late_binding::Producer::new(position, limits, ledger))
            }
            Policy::Sparrow { reservations, .. } => {
                Producer::Sparrow(sparrow::Producer::new(position, reservations, ledger))
            }
            Policy::Push(choice) => Producer::Push(push::Producer::new(position, choice, ledger)),
        }
    }

    /// Sets the consumers on the same machine.
    pub fn set_near(&mut self, near: Vec<Peer>) {
        if let Producer::LateBinding(end) = self {
            end.set_near(near);
        }
    }

    /// Whether another batch may become ready now.
    pub fn may_accept(&self, bytes: u64) -> bool {
        self.ledger().may_accept(bytes)
    }

    /// A batch becomes ready. Its number is used once.
    pub fn on_ready(&mut self, batch: u64, bytes: u64, now: Now, out: &mut ToConsumers) {
        each!(Producer, self, end => end.on_ready(Piece::whole(batch, bytes.max(1)), now, out));
    }

    /// No more batches will become ready.
    pub fn on_end(&mut self, now: Now, out: &mut ToConsumers) {
        match self {
            Producer::LateBinding(end) => end.on_end(now, out),
            Producer::Sparrow(sparrow::Producer { ledger, .. })
            | Producer::Push(push::Producer { ledger, .. }) => ledger.on_end(),
        }
    }

    /// A consumer has sent a message.
    pub fn on_message(&mut self, from: Peer, message: ToProducer, now: Now, out: &mut ToConsumers) {
        each!(Producer, self, end => end.on_message(from, message, now, out));
    }

    /// A consumer has died. Its unfinished pieces are ready again.
    pub fn on_death(&mut self, consumer: Peer, now: Now, out: &mut ToConsumers) {
        each!(Producer, self, end => end.on_death(consumer, now, out));
    }

    /// When [`Self::on_wake`] is due, in nanoseconds of the caller's clock.
    pub fn wake_at_ns(&self) -> Option<u64> {
        match self {
            Producer::LateBinding(end) => end.wake_at_ns(),
            Producer::Sparrow(_) | Producer::Push(_) => None,
        }
    }

    /// The wake-up time has come. The call may be late or spurious.
    pub fn on_wake(&mut self, now: Now, out: &mut ToConsumers) {
        if let Producer::LateBinding(end) = self {
            end.on_wake(now, out);
        }
    }

    /// Whether all batches are finished and no more will become ready.
    pub fn is_drained(&self) -> bool {
        self.ledger().is_drained()
    }

    /// The ledger of ready and given pieces.
    pub fn ledger(&self) -> &ledger::Ledger {
        each!(Producer, self, end => &end.ledger)
    }
}

impl Consumer {
    /// A consumer without pieces.
    pub fn new(policy: Policy, position: EndpointPosition) -> Consumer {
        match policy {
            Policy::LateBinding(limits) => {
                Consumer::LateBinding(late_binding::Consumer::new(position, limits))
            }
            Policy::Sparrow { slots_max, .. } => {
                Consumer::Sparrow(sparrow::Consumer::new(slots_max))
            }
            Policy::Push(_) => Consumer::Push(push::Consumer::default()),
        }
    }

    /// Sets the producers on the same machine.
    pub fn set_near(&mut self, near: Vec<Peer>) {
        if let Consumer::LateBinding(end) = self {
            end.set_near(near);
        }
    }

    /// The consumer is idle for the first time; called before anything else.
    pub fn on_start(&mut self, now: Now, out: &mut ToProducers) {
        if let Consumer::LateBinding(end) = self {
            end.on_wake(now, out);
        }
    }

    /// From now on, it requests no pieces, since its process drains; or requests as usual again.
    /// Pieces that it holds or has requested stay. Only [`Policy::LateBinding`] does so.
    pub fn hold(&mut self, is_held: bool, now: Now, out: &mut ToProducers) {
        if let Consumer::LateBinding(end) = self {
            end.hold(is_held, now, out);
        }
    }

    /// A producer has sent a message.
    pub fn on_message(&mut self, from: Peer, message: ToConsumer, now: Now, out: &mut ToProducers) {
        each!(Consumer, self, end => end.on_message(from, message, now, out));
    }

    /// Begins the next piece, if there is one and the piece before is finished. Returns the
    /// producer and the piece.
    pub fn begin(&mut self, now: Now, out: &mut ToProducers) -> Option<(Peer, Piece)> {
        each!(Consumer, self, end => end.begin(now, out))
    }

    /// The piece in service is finished.
    pub fn on_finished(&mut self, now: Now, out: &mut ToProducers) {
        each!(Consumer, self, end => end.on_finished(now, out));
    }

    /// A producer has died. Its pieces at this consumer stay.
    pub fn on_death(&mut self, producer: Peer, now: Now, out: &mut ToProducers) {
        each!(Consumer, self, end => end.on_death(producer, now, out));
    }

    /// When [`Self::on_wake`] is due, in nanoseconds of the caller's clock.
    pub fn wake_at_ns(&self) -> Option<u64> {
        match self {
            Consumer::LateBinding(end) => end.wake_at_ns(),
            Consumer::Sparrow(_) | Consumer::Push(_) => None,
        }
    }

    /// The wake-up time has come. The call may be late or spurious.
    pub fn on_wake(&mut self, now: Now, out: &mut ToProducers) {
        if let Consumer::LateBinding(end) = self {
            end.on_wake(now, out);
        }
    }

    /// Pieces and bytes at this consumer, including the piece in service.
    pub fn held(&self) -> HeldPieces {
        each!(Consumer, self, end => end.held())
    }
}
