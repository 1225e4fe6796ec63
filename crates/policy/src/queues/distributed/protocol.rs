//! The protocol of a distributed queue: pieces of batches, and the messages between endpoints.

use alloc::vec::Vec;

/// An endpoint, by its number on its side of the queue, counted from 0.
pub type Peer = u32;

/// The time and randomness of a call.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Nanoseconds of a monotonic clock.
    pub ns: u64,
    /// Any 64 random bits, fresh for each call.
    pub random: u64,
}

/// The position of an endpoint in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointPosition {
    /// The endpoint's own number.
    pub me: Peer,
    /// The number of producers of the queue.
    pub producers: u32,
    /// The number of consumers of the queue.
    pub consumers: u32,
}

/// The equal shares of a batch; a piece is a range of them.
pub const SHARES: u32 = 1 << 16;

/// A batch, or a part of one: the rows `rows * from / SHARES .. rows * to / SHARES`.
///
/// ```
/// use euphrates_policy::distributed::{Piece, SHARES};
///
/// let mut rest = Piece::whole(7, 1000);
/// let first = rest.cut(250);
/// assert_eq!((first.from, first.to, first.bytes), (0, SHARES / 4, 250));
/// assert_eq!((rest.from, rest.to, rest.bytes), (SHARES / 4, SHARES, 750));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// The batch, by a number that its producer uses once.
    pub batch: u64,
    /// The first share of the piece.
    pub from: u32,
    /// The share after the last one of the piece.
    pub to: u32,
    /// The approximate size of the piece, in bytes.
    pub bytes: u64,
}

impl Piece {
    /// The piece that is a whole batch.
    pub fn whole(batch: u64, bytes: u64) -> Piece {
        Piece { batch, from: 0, to: SHARES, bytes }
    }

    /// Cuts off a first piece of about `bytes`; the rest remains. Neither is empty.
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

/// The stock of a producer, as it reports it to consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Pieces that are ready to be given.
    pub ready: u32,
    /// Bytes that it still has to give, including bytes that it has not read yet
    /// ([`Ledger::left_bytes`](super::ledger::Ledger::left_bytes)).
    pub left_bytes: u64,
}

/// A message from a producer to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToConsumer {
    /// A reservation: a piece is ready here. It binds neither end.
    Reserve(Stock),
    /// Gives a piece to the consumer. The transport sends its data along.
    Give {
        /// The piece that is given.
        piece: Piece,
        /// The producer's stock after giving.
        stock: Stock,
        /// Whether the consumer was waiting, after [`Self::Wait`].
        waited: bool,
    },
    /// Nothing is ready. The consumer waits here and will be given the next piece.
    Wait(Stock),
    /// Nothing is ready, and the consumer does not wait here.
    None(Stock),
    /// The consumer no longer waits here: it has withdrawn, or nothing will become ready.
    Dismiss(Stock),
    /// Recalls a piece for another consumer, unless it has been begun.
    Recall(Piece),
}

/// A message from a consumer to a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToProducer {
    /// Requests a piece, and reports the consumer's speed.
    Request {
        /// The consumer's time for 2^20 bytes, in nanoseconds; 0 if unknown.
        mib_ns: u64,
        /// The time of an answer, in nanoseconds; 0 if unknown.
        answer_ns: u64,
        /// The mean bytes left of the producers that the consumer knows; one with more lags.
        left_typical: u64,
        /// Whether the consumer will wait if nothing is ready.
        wait: bool,
    },
    /// Stops waiting. Answered by [`ToConsumer::Dismiss`], unless a piece or a dismissal is in
    /// flight.
    Withdraw,
    /// The piece is finished and will never be given again.
    Finished(Piece),
    /// Returns a recalled piece that had not been begun.
    Returned(Piece),
    /// Keeps a recalled piece: it has been begun or finished, or will be begun before another
    /// consumer could begin it.
    Kept(Piece),
}

/// Messages of a producer, to be sent to consumers.
pub type ToConsumers = MessageQueue<ToConsumer>;

/// Messages of a consumer, to be sent to producers.
pub type ToProducers = MessageQueue<ToProducer>;

/// Messages to be sent, in order.
///
/// ```
/// use euphrates_policy::distributed::{MessageQueue, ToProducer};
///
/// let mut out = MessageQueue::default();
/// out.push(2, ToProducer::Withdraw);
/// assert_eq!(out.drain().collect::<Vec<_>>(), [(2, ToProducer::Withdraw)]);
/// assert_eq!(out.drain().count(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct MessageQueue<M> {
    messages: Vec<(Peer, M)>,
}

impl<M> Default for MessageQueue<M> {
    fn default() -> MessageQueue<M> {
        MessageQueue { messages: Vec::new() }
    }
}

impl<M> MessageQueue<M> {
    /// Appends a message to a peer.
    pub fn push(&mut self, to: Peer, message: M) {
        self.messages.push((to, message));
    }

    /// Removes all messages, in the order in which they were pushed.
    pub fn drain(&mut self) -> impl Iterator<Item = (Peer, M)> + '_ {
        self.messages.drain(..)
    }
}

/// The pieces at a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldPieces {
    /// Pieces, including the one in service.
    pub pieces: u32,
    /// The bytes of these pieces.
    pub bytes: u64,
}
