//! A producer's record of its pieces: which are ready, and which were sent to which consumer.
//!
//! All policies share it, so that one place guarantees exactly-once delivery: a piece is ready,
//! given to one consumer, or finished. It is given again only if it was returned unbegun, or if its
//! consumer died before finishing it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::protocol::{Peer, Piece, Stock};

/// The total assumed for producers that do not know theirs: more than any producer has.
pub(crate) const LEFT_UNKNOWN_BYTES: u64 = 1 << 62;

/// The pieces of one producer.
///
/// ```
/// use euphrates_policy::distributed::Piece;
/// use euphrates_policy::distributed::ledger::Ledger;
///
/// let mut ledger = Ledger::new(1000, Some(300));
/// ledger.on_ready(Piece::whole(0, 100));
/// assert_eq!((ledger.stock().ready, ledger.stock().left_bytes), (1, 300));
/// let piece = ledger.give(7, None);
/// assert_eq!(ledger.on_death(7), 1, "the piece is ready again");
/// assert_eq!(ledger.next(), Some(piece));
/// ```
#[derive(Clone, Debug)]
pub struct Ledger {
    bytes_max: u64,
    /// Bytes that are still to become ready, if known.
    unread_bytes: Option<u64>,
    ended: bool,
    ready: VecDeque<Piece>,
    ready_bytes: u64,
    given: BTreeMap<(u64, u32), Given>,
    batch_next: u64,
    total_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    to: Peer,
    piece: Piece,
    /// Whether it is known to be begun, or is being recalled.
    was_recalled: bool,
}

impl Ledger {
    /// A ledger for at most `bytes_max` of ready batches, and `bytes_total` in all, if that is
    /// known.
    pub fn new(bytes_max: u64, bytes_total: Option<u64>) -> Ledger {
        Ledger {
            bytes_max,
            unread_bytes: bytes_total,
            ended: false,
            ready: VecDeque::new(),
            ready_bytes: 0,
            given: BTreeMap::new(),
            batch_next: 0,
            total_bytes: 0,
        }
    }

    /// Whether another batch may become ready: it fits the bound, or nothing is ready.
    pub fn may_accept(&self, bytes: u64) -> bool {
        !self.ended && (self.ready.is_empty() || self.ready_bytes + bytes <= self.bytes_max)
    }

    /// The stock to report to consumers.
    pub fn stock(&self) -> Stock {
        Stock { ready: self.ready.len() as u32, left_bytes: self.left_bytes() }
    }

    /// Bytes that are ready or still to become ready. Without a known total, all producers are
    /// assumed to have the same, so that the one that has given least has most left.
    pub fn left_bytes(&self) -> u64 {
        match self.unread_bytes {
            Some(unread_bytes) => self.ready_bytes + unread_bytes,
            None => LEFT_UNKNOWN_BYTES.saturating_sub(self.total_bytes - self.ready_bytes),
        }
    }

    /// Bytes that have become ready so far.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Whether the bytes left are known, not assumed.
    pub fn knows_left(&self) -> bool {
        self.ended || self.unread_bytes.is_some()
    }

    /// Whether no more batches will become ready.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether all pieces are finished and no more will become ready.
    pub fn is_drained(&self) -> bool {
        self.ended && self.ready.is_empty() && self.given.is_empty()
    }

    /// The piece that `give` would give or cut.
    pub fn next(&self) -> Option<Piece> {
        self.ready.front().copied()
    }

    /// A batch becomes ready; batch numbers increase.
    pub fn on_ready(&mut self, piece: Piece) {
        assert!(!self.ended, "a batch after the end");
        assert!(piece.batch >= self.batch_next, "batch {} was here before", piece.batch);
        self.batch_next = piece.batch + 1;
        self.total_bytes += piece.bytes;
        self.unread_bytes = self.unread_bytes.map(|bytes| bytes.saturating_sub(piece.bytes));
        self.ready.push_back(piece);
        self.ready_bytes += piece.bytes;
        self.check();
    }

    /// No more batches will become ready.
    pub fn on_end(&mut self) {
        self.ended = true;
        self.unread_bytes = Some(0);
    }

    /// Gives the next piece, or about `bytes_max` of it, to a consumer.
    pub fn give(&mut self, to: Peer, bytes_max: Option<u64>) -> Piece {
        let front = self.ready.front_mut().expect("something ready to give");
        let cut = bytes_max.filter(|&max| max < front.bytes && front.to - front.from > 1);
        let piece = match cut {
            Some(bytes) if front.bytes > 1 => front.cut(bytes),
            _ => self.ready.pop_front().expect("it is there"),
        };
        self.ready_bytes -= piece.bytes;
        let given = Given { to, piece, was_recalled: false };
        let fresh = self.given.insert((piece.batch, piece.from), given).is_none();
        assert!(fresh, "{piece:?} given twice");
        self.check();
        piece
    }

    /// A consumer has finished a piece, which is never given again.
    pub fn on_finished(&mut self, from: Peer, piece: Piece) {
        self.take(from, piece);
        self.check();
    }

    /// A consumer returns an unbegun piece, which is ready again, before all others.
    pub fn on_returned(&mut self, from: Peer, piece: Piece) {
        self.take(from, piece);
        self.ready.push_front(piece);
        self.ready_bytes += piece.bytes;
        self.check();
    }

    /// A consumer keeps a recalled piece, which it has begun or is about to begin.
    pub fn on_kept(&mut self, from: Peer, piece: Piece) {
        // The piece may have been finished since.
        if let Some(given) = self.given.get_mut(&(piece.batch, piece.from)) {
            assert!(given.to == from, "{piece:?} kept by {from}, but it is {}'s", given.to);
            given.was_recalled = true;
        }
    }

    /// A consumer has died. Its pieces are ready again, before all others; returns their number.
    pub fn on_death(&mut self, consumer: Peer) -> usize {
        let lost: Vec<Piece> = self
            .given
            .values()
            .filter(|given| given.to == consumer)
            .map(|given| given.piece)
            .collect();
        for piece in lost.iter().rev() {
            self.on_returned(consumer, *piece);
        }
        lost.len()
    }

    /// Marks a piece for recall for another consumer than `not_from`, and returns it with its
    /// holder: of the pieces that are not known to have begun, the one of the latest batch. Each is
    /// returned once.
    pub fn recall(&mut self, not_from: Peer) -> Option<(Peer, Piece)> {
        let free = |given: &&mut Given| !given.was_recalled && given.to != not_from;
        let given = self.given.values_mut().rev().find(free)?;
        given.was_recalled = true;
        Some((given.to, given.piece))
    }

    /// Whether a piece can be recalled for this consumer: one given to another, and not recalled
    /// yet.
    pub fn may_recall(&self, not_from: Peer) -> bool {
        self.given.values().any(|given| !given.was_recalled && given.to != not_from)
    }

    fn take(&mut self, from: Peer, piece: Piece) {
        let given = self.given.remove(&(piece.batch, piece.from));
        let given = given.unwrap_or_else(|| panic!("{piece:?} from {from}, who was not given it"));
        assert!(given.to == from && given.piece == piece, "{piece:?} is not {from}'s");
    }

    fn check(&self) {
        debug_assert!(self.ready.is_empty() == (self.ready_bytes == 0));
        debug_assert!(
            self.ready.len() > 1 || self.ready_bytes == self.next().map_or(0, |p| p.bytes)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_ready_or_given_or_finished() {
        let mut ledger = Ledger::new(100, Some(300));
        ledger.on_ready(Piece::whole(0, 60));
        assert!(!ledger.may_accept(60));
        assert!(ledger.may_accept(40));
        let first = ledger.give(7, Some(20));
        assert!((18..=20).contains(&first.bytes), "{first:?}");
        let rest = ledger.give(8, None);
        assert_eq!(
            (first.to, rest.to, first.bytes + rest.bytes),
            (rest.from, crate::distributed::SHARES, 60)
        );
        ledger.on_end();
        ledger.on_finished(8, rest);
        assert_eq!(ledger.on_death(7), 1);
        assert_eq!(ledger.stock(), Stock { ready: 1, left_bytes: first.bytes });
        let again = ledger.give(8, None);
        assert!(!ledger.is_drained());
        ledger.on_finished(8, again);
        assert!(ledger.is_drained());
    }

    #[test]
    fn begun_piece_is_not_recalled_again() {
        let mut ledger = Ledger::new(100, None);
        for batch in 0..3 {
            ledger.on_ready(Piece::whole(batch, 10));
            ledger.give(batch as Peer, None);
        }
        assert_eq!(ledger.recall(2).map(|(peer, _)| peer), Some(1), "not the requester's own");
        let (peer, piece) = ledger.recall(1).unwrap();
        assert_eq!(peer, 2);
        ledger.on_returned(peer, piece);
        assert_eq!(ledger.next(), Some(piece));
        assert_eq!(ledger.recall(9).map(|(peer, _)| peer), Some(0));
        assert_eq!(ledger.recall(9), None);
    }

    #[test]
    fn producer_that_has_given_least_has_most_left_without_totals() {
        let mut ledgers = [Ledger::new(100, None), Ledger::new(100, None)];
        for ledger in &mut ledgers {
            ledger.on_ready(Piece::whole(0, 60));
        }
        ledgers[0].give(1, None);
        assert!(ledgers[0].left_bytes() < ledgers[1].left_bytes());
        ledgers[1].on_end();
        assert_eq!(ledgers[1].left_bytes(), 60);
    }

    #[test]
    #[should_panic(expected = "who was not given it")]
    fn piece_finished_twice_panics() {
        let mut ledger = Ledger::new(100, None);
        ledger.on_ready(Piece::whole(0, 10));
        let piece = ledger.give(1, None);
        ledger.on_finished(1, piece);
        ledger.on_finished(1, piece);
    }
}
