//! The distributed queue's decisions: which consumer gets a batch, and when (River 2.3.2).
//!
//! Two endpoints, a producer's and a consumer's, that talk by small messages. Each is a plain
//! struct: facts come in (a batch is ready, a message came, a batch is finished, a peer died), and
//! messages to send go out through an [`Outbox`]. Whoever drives them, in a process, across a
//! network or in a simulation, carries the messages; order is kept between any two endpoints, and
//! nothing is assumed beyond that. A message is small, except [`ToConsumer::Give`], with which
//! the driver sends the piece's data.
//!
//! Of one queue all endpoints have the same [`Policy`]. `LateBinding` is the default, the others
//! are what it is compared with.

use alloc::vec::Vec;

pub mod keyed;
pub mod late;
pub mod ledger;
pub mod order;
pub mod push;
pub mod sparrow;

/// An endpoint, by its number on its side of the queue, counted from 0.
pub type Peer = u32;

/// When something happens, and a random number for what is to be decided by chance.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Nanoseconds of a clock that never goes back.
    pub ns: u64,
    /// Any 64 random bits, fresh for each call.
    pub random: u64,
}

/// Where an endpoint stands in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The endpoint's own number.
    pub me: Peer,
    /// How many producers the queue has.
    pub producers: u32,
    /// How many consumers the queue has.
    pub consumers: u32,
}

/// A batch is cut in so many equal shares at most; a piece is some of them.
pub const SHARES: u32 = 1 << 16;

/// A batch, or a part of one: the rows `rows * from / SHARES .. rows * to / SHARES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// The batch, by a number its producer uses once.
    pub batch: u64,
    /// First share.
    pub from: u32,
    /// The share after the last.
    pub to: u32,
    /// About how many bytes the piece has.
    pub bytes: u64,
}

impl Piece {
    /// A whole batch.
    pub fn whole(batch: u64, bytes: u64) -> Piece {
        Piece { batch, from: 0, to: SHARES, bytes }
    }

    /// Cuts off a first piece of about so many bytes; the rest remains. Neither is empty.
    pub fn cut(&mut self, bytes: u64) -> Piece {
        let shares = u128::from(self.to - self.from);
        debug_assert!(shares >= 2 && self.bytes >= 2, "a piece too small to be cut");
        let taken = u128::from(bytes) * shares / u128::from(self.bytes);
        let taken = taken.clamp(1, shares - 1);
        let bytes = (u128::from(self.bytes) * taken / shares).clamp(1, u128::from(self.bytes - 1));
        let bytes = bytes as u64;
        let first = Piece { to: self.from + taken as u32, bytes, ..*self };
        *self = Piece { from: first.to, bytes: self.bytes - bytes, ..*self };
        first
    }
}

/// What a producer has, as it tells consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Pieces ready to be given.
    pub ready: u32,
    /// Bytes it still has to give, what is not read yet counted in
    /// ([`ledger::Ledger::left_bytes`]).
    pub left: u64,
}

/// From a producer to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToConsumer {
    /// Something is ready here: a reservation, which costs a few bytes and binds nobody.
    Reserve(Stock),
    /// The piece is the consumer's. The driver sends its data along.
    Give {
        /// What is given.
        piece: Piece,
        /// What the producer has now.
        stock: Stock,
        /// Whether it comes after [`Self::Wait`].
        waited: bool,
    },
    /// Nothing is ready. The consumer waits: the next piece is given unasked.
    Wait(Stock),
    /// Nothing is ready, and the consumer does not wait.
    None(Stock),
    /// The consumer waits no longer: it withdrew, or nothing will come.
    Dismiss(Stock),
    /// Another has time: give the piece back if it has not been begun.
    Recall(Piece),
}

/// From a consumer to a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToProducer {
    /// Give me a piece.
    Request {
        /// How long the consumer works on 2^20 bytes, in nanoseconds; 0 if it does not know.
        mib_ns: u64,
        /// How long an answer takes, in nanoseconds; 0 if it does not know.
        answer_ns: u64,
        /// What producers have left, in the mean of those the consumer knows: who has more lags.
        left_typical: u64,
        /// Whether to wait if nothing is ready.
        wait: bool,
    },
    /// I do not wait any more. Answered by [`ToConsumer::Dismiss`], unless what was waited for, or
    /// a dismissal, is on its way.
    Withdraw,
    /// The piece is finished; it will never be given again.
    Finished(Piece),
    /// A recalled piece that had not been begun.
    Returned(Piece),
    /// A recalled piece that had been begun, or finished.
    Kept(Piece),
}

/// Messages to be sent, in this order.
#[derive(Clone, Debug)]
pub struct Outbox<M> {
    messages: Vec<(Peer, M)>,
}

impl<M> Default for Outbox<M> {
    fn default() -> Outbox<M> {
        Outbox { messages: Vec::new() }
    }
}

impl<M> Outbox<M> {
    /// A message for a peer.
    pub fn push(&mut self, to: Peer, message: M) {
        self.messages.push((to, message));
    }

    /// Takes all messages out.
    pub fn drain(&mut self) -> impl Iterator<Item = (Peer, M)> + '_ {
        self.messages.drain(..)
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// How a queue decides who gets a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Ours: reservations, the laggard first, recalls, pieces at the end.
    LateBinding(late::Limits),
    /// Plain late binding: so many reservations a batch at random consumers, so many slots each.
    Sparrow {
        /// Reservations a batch.
        reservations: u32,
        /// Pieces a consumer holds and has asked for, at most.
        slots_max: u32,
    },
    /// Batches are sent unasked to consumers with room.
    Push(push::Choice),
}

/// A producer's end of the queue.
#[derive(Clone, Debug)]
pub enum Producer {
    /// [`Policy::LateBinding`]
    LateBinding(late::Producer),
    /// [`Policy::Sparrow`]
    Sparrow(sparrow::Producer),
    /// [`Policy::Push`]
    Push(push::Producer),
}

/// A consumer's end of the queue.
#[derive(Clone, Debug)]
pub enum Consumer {
    /// [`Policy::LateBinding`]
    LateBinding(late::Consumer),
    /// [`Policy::Sparrow`]
    Sparrow(sparrow::Consumer),
    /// [`Policy::Push`]
    Push(push::Consumer),
}

/// The same method of whichever variant it is.
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
    /// A producer that may hold ready batches of `bytes_max`, or one batch if that is larger, and
    /// that will have `bytes_total` in all, if that is known.
    pub fn new(policy: Policy, place: Place, bytes_max: u64, bytes_total: Option<u64>) -> Producer {
        let ledger = ledger::Ledger::new(bytes_max, bytes_total);
        match policy {
            Policy::LateBinding(limits) => {
                Producer::LateBinding(late::Producer::new(place, limits, ledger))
            }
            Policy::Sparrow { reservations, .. } => {
                Producer::Sparrow(sparrow::Producer::new(place, reservations, ledger))
            }
            Policy::Push(choice) => Producer::Push(push::Producer::new(place, choice, ledger)),
        }
    }

    /// Says which consumers are nearer than others: at the same machine.
    pub fn set_near(&mut self, near: Vec<Peer>) {
        if let Producer::LateBinding(end) = self {
            end.set_near(near);
        }
    }

    /// Whether another batch may become ready now.
    pub fn may_accept(&self, bytes: u64) -> bool {
        each!(Producer, self, end => end.ledger().may_accept(bytes))
    }

    /// A batch is ready. Its number is used once.
    pub fn on_ready(&mut self, batch: u64, bytes: u64, now: Now, out: &mut Outbox<ToConsumer>) {
        each!(Producer, self, end => end.on_ready(Piece::whole(batch, bytes.max(1)), now, out));
    }

    /// No more batches will become ready.
    pub fn on_end(&mut self, now: Now, out: &mut Outbox<ToConsumer>) {
        each!(Producer, self, end => end.on_end(now, out));
    }

    /// A consumer said something.
    pub fn on_message(
        &mut self,
        from: Peer,
        message: ToProducer,
        now: Now,
        out: &mut Outbox<ToConsumer>,
    ) {
        each!(Producer, self, end => end.on_message(from, message, now, out));
    }

    /// A consumer died. What it had not finished is ready again.
    pub fn on_death(&mut self, consumer: Peer, now: Now, out: &mut Outbox<ToConsumer>) {
        each!(Producer, self, end => end.on_death(consumer, now, out));
    }

    /// When [`Self::on_wake`] is due, in nanoseconds of the caller's clock.
    pub fn wake_at_ns(&self) -> Option<u64> {
        match self {
            Producer::LateBinding(end) => end.wake_at_ns(),
            Producer::Sparrow(_) | Producer::Push(_) => None,
        }
    }

    /// The time asked for has come. May come late, or for nothing.
    pub fn on_wake(&mut self, now: Now, out: &mut Outbox<ToConsumer>) {
        if let Producer::LateBinding(end) = self {
            end.on_wake(now, out);
        }
    }

    /// Whether all batches are finished and no more will come.
    pub fn is_drained(&self) -> bool {
        each!(Producer, self, end => end.ledger().is_drained())
    }

    /// What is ready, given and left.
    pub fn ledger(&self) -> &ledger::Ledger {
        each!(Producer, self, end => end.ledger())
    }
}

impl Consumer {
    /// A consumer that has nothing yet.
    pub fn new(policy: Policy, place: Place) -> Consumer {
        match policy {
            Policy::LateBinding(limits) => {
                Consumer::LateBinding(late::Consumer::new(place, limits))
            }
            Policy::Sparrow { slots_max, .. } => {
                Consumer::Sparrow(sparrow::Consumer::new(slots_max))
            }
            Policy::Push(_) => Consumer::Push(push::Consumer::default()),
        }
    }

    /// Says which producers are nearer than others: at the same machine.
    pub fn set_near(&mut self, near: Vec<Peer>) {
        if let Consumer::LateBinding(end) = self {
            end.set_near(near);
        }
    }

    /// Before anything else: the consumer is there and has time.
    pub fn on_start(&mut self, now: Now, out: &mut Outbox<ToProducer>) {
        if let Consumer::LateBinding(end) = self {
            end.on_wake(now, out);
        }
    }

    /// A producer said something.
    pub fn on_message(
        &mut self,
        from: Peer,
        message: ToConsumer,
        now: Now,
        out: &mut Outbox<ToProducer>,
    ) {
        each!(Consumer, self, end => end.on_message(from, message, now, out));
    }

    /// Begins the next piece, if one is here and the one before is finished: whose it is, and what.
    pub fn begin(&mut self, now: Now, out: &mut Outbox<ToProducer>) -> Option<(Peer, Piece)> {
        each!(Consumer, self, end => end.begin(now, out))
    }

    /// The piece that was begun is finished.
    pub fn on_finished(&mut self, now: Now, out: &mut Outbox<ToProducer>) {
        each!(Consumer, self, end => end.on_finished(now, out));
    }

    /// A producer died. Pieces that came from it stay.
    pub fn on_death(&mut self, producer: Peer, now: Now, out: &mut Outbox<ToProducer>) {
        each!(Consumer, self, end => end.on_death(producer, now, out));
    }

    /// When [`Self::on_wake`] is due, in nanoseconds of the caller's clock.
    pub fn wake_at_ns(&self) -> Option<u64> {
        match self {
            Consumer::LateBinding(end) => end.wake_at_ns(),
            Consumer::Sparrow(_) | Consumer::Push(_) => None,
        }
    }

    /// The time asked for has come. May come late, or for nothing.
    pub fn on_wake(&mut self, now: Now, out: &mut Outbox<ToProducer>) {
        if let Consumer::LateBinding(end) = self {
            end.on_wake(now, out);
        }
    }

    /// Pieces and bytes here, the one being worked on counted in.
    pub fn held(&self) -> Held {
        each!(Consumer, self, end => end.held())
    }
}

/// What lies at a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Pieces, the one being worked on counted in.
    pub pieces: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// Numbers made of one random number: SplitMix64 (Steele et al., OOPSLA '14).
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub u64);

impl Dice {
    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 32).wrapping_mul(u64::from(n)) >> 32) as u32
    }
}
