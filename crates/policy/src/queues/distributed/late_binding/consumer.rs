//! The consumer's endpoint of late binding: from which producer to request a piece, and when.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::super::dice::Dice;
use super::super::protocol::{
    EndpointPosition, HeldPieces, Now, Peer, Piece, Stock, ToConsumer, ToProducer, ToProducers,
};
use super::known::ProducerStocks;
use super::limits::{Limits, time_of};

/// The first back-off of a consumer that has found nothing.
const IDLE_FIRST_NS: u64 = 1_000_000;
/// The growth of the back-off after each request that was answered with nothing.
const IDLE_GROWTH: u64 = 4;
/// The longest back-off of an idle consumer.
const IDLE_MAX_NS: u64 = 10_000_000_000;

/// The part of an answer's deadline that does not depend on latency.
const OVERDUE_NS_MIN: u64 = 1_000_000;
/// The part that does, in times of the fastest recent answers.
const OVERDUE_ANSWERS: u64 = 8;

/// The consumer's endpoint under late binding.
#[derive(Clone, Debug)]
pub struct Consumer {
    position: EndpointPosition,
    limits: Limits,
    /// Producers on the same machine that have bytes left.
    near: Vec<Peer>,
    known: ProducerStocks,
    held: VecDeque<(Peer, Piece)>,
    held_bytes: u64,
    serving: Option<ServedPiece>,
    /// Outstanding requests with their times; answers of one producer come in order.
    asked: VecDeque<(Peer, u64)>,
    waiting: Waiting,
    /// The time of work on 2^20 bytes; 0 if unknown.
    mib_ns: u64,
    /// The time of an answer; 0 if unknown.
    answer_ns: u64,
    /// The time of the fastest recent answers.
    answer_least_ns: u64,
    piece_bytes: u64,
    piece_bytes_max: u64,
    wake_at_ns: Option<u64>,
    /// When an idle consumer polls next, and the back-off after that.
    poll: Option<(u64, u64)>,
    polls: u64,
    /// It requests nothing.
    is_held: bool,
    dead: BTreeSet<Peer>,
}

#[derive(Clone, Copy, Debug)]
struct ServedPiece {
    from: Peer,
    piece: Piece,
    began_ns: u64,
}

/// The producer at which the consumer waits for its next piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    No,
    At(Peer),
    /// It has withdrawn and has no reply yet.
    Leaving(Peer),
}

impl Consumer {
    pub(crate) fn new(position: EndpointPosition, limits: Limits) -> Consumer {
        let limits = Limits { slots_max: limits.slots_max.max(3), ..limits };
        Consumer {
            position,
            limits,
            near: Vec::new(),
            known: ProducerStocks::new(position),
            held: VecDeque::new(),
            held_bytes: 0,
            serving: None,
            asked: VecDeque::new(),
            waiting: Waiting::No,
            mib_ns: 0,
            answer_ns: 0,
            answer_least_ns: 0,
            piece_bytes: 0,
            piece_bytes_max: 0,
            wake_at_ns: None,
            poll: Some((0, IDLE_FIRST_NS)),
            polls: 0,
            is_held: false,
            dead: BTreeSet::new(),
        }
    }

    pub(crate) fn set_near(&mut self, near: Vec<Peer>) {
        self.near = near;
    }

    pub(crate) fn held(&self) -> HeldPieces {
        let serving = self.serving.map_or(0, |serving| serving.piece.bytes);
        let pieces = self.held.len() + usize::from(self.serving.is_some());
        HeldPieces { pieces: pieces as u32, bytes: self.held_bytes + serving }
    }

    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        self.wake_at_ns
    }

    /// Requests nothing from now on, or as usual again. Leaves the producer at which it waits.
    pub(crate) fn hold(&mut self, is_held: bool, now: Now, out: &mut ToProducers) {
        if self.is_held == is_held {
            return;
        }
        self.is_held = is_held;
        if is_held && let Waiting::At(peer) = self.waiting {
            self.waiting = Waiting::Leaving(peer);
            out.push(peer, ToProducer::Withdraw);
        }
        self.settle(now, out);
    }

    pub(crate) fn on_message(
        &mut self,
        from: Peer,
        message: ToConsumer,
        now: Now,
        out: &mut ToProducers,
    ) {
        match message {
            ToConsumer::Reserve(stock) => self.on_stock(from, stock, now),
            ToConsumer::Wait(stock) => {
                self.on_stock(from, stock, now);
                self.on_answer(from, now);
                debug_assert_eq!(self.waiting, Waiting::No, "it waits at one");
                self.waiting = Waiting::At(from);
            }
            ToConsumer::None(stock) => {
                self.on_stock(from, stock, now);
                self.on_answer(from, now);
            }
            ToConsumer::Dismiss(stock) => {
                self.on_stock(from, stock, now);
                self.waiting = Waiting::No;
            }
            ToConsumer::Give { piece, stock, waited } => {
                self.on_stock(from, stock, now);
                if waited {
                    self.waiting = Waiting::No;
                } else {
                    self.on_answer(from, now);
                }
                self.on_give(from, piece, out);
            }
            ToConsumer::Recall(piece) => self.on_recall(from, piece, now, out),
        }
        self.settle(now, out);
    }

    pub(crate) fn begin(&mut self, now: Now, out: &mut ToProducers) -> Option<(Peer, Piece)> {
        if self.serving.is_some() {
            return None;
        }
        let (from, piece) = self.held.pop_front()?;
        self.held_bytes -= piece.bytes;
        self.serving = Some(ServedPiece { from, piece, began_ns: now.ns });
        self.settle(now, out);
        Some((from, piece))
    }

    pub(crate) fn on_finished(&mut self, now: Now, out: &mut ToProducers) {
        let done = self.serving.take().expect("a piece was begun");
        let mib_ns = speed(now.ns - done.began_ns, done.piece.bytes);
        let before = if self.mib_ns == 0 { mib_ns } else { self.mib_ns };
        self.mib_ns = (before / 2 + mib_ns / 2).max(1);
        out.push(done.from, ToProducer::Finished(done.piece));
        self.settle(now, out);
    }

    pub(crate) fn on_death(&mut self, producer: Peer, now: Now, out: &mut ToProducers) {
        self.dead.insert(producer);
        self.near.retain(|&peer| peer != producer);
        self.known.forget(producer);
        self.asked.retain(|&(peer, _)| peer != producer);
        if matches!(self.waiting, Waiting::At(peer) | Waiting::Leaving(peer) if peer == producer) {
            self.waiting = Waiting::No;
        }
        self.settle(now, out);
    }

    pub(crate) fn on_wake(&mut self, now: Now, out: &mut ToProducers) {
        self.settle(now, out);
    }

    fn on_stock(&mut self, from: Peer, stock: Stock, now: Now) {
        self.known.on_stock(from, stock, now.ns);
        if stock.left_bytes == 0 {
            self.near.retain(|&peer| peer != from);
        }
    }

    fn on_give(&mut self, from: Peer, piece: Piece, out: &mut ToProducers) {
        // This piece suffices; leave the place in line to others.
        if let Waiting::At(peer) = self.waiting {
            self.waiting = Waiting::Leaving(peer);
            out.push(peer, ToProducer::Withdraw);
        }
        let before = if self.piece_bytes == 0 { piece.bytes } else { self.piece_bytes };
        self.piece_bytes = (3 * before + piece.bytes) / 4;
        self.piece_bytes_max = self.piece_bytes_max.max(piece.bytes);
        self.held_bytes += piece.bytes;
        self.held.push_back((from, piece));
    }

    /// Returns a recalled piece, unless it is begun or will be before another consumer could begin
    /// it.
    fn on_recall(&mut self, from: Peer, piece: Piece, now: Now, out: &mut ToProducers) {
        let at = self.held.iter().position(|&held| held == (from, piece));
        match at.filter(|&at| at > 0 || !self.is_nearly_done(now)) {
            Some(at) => {
                self.held.remove(at);
                self.held_bytes -= piece.bytes;
                out.push(from, ToProducer::Returned(piece));
            }
            None => out.push(from, ToProducer::Kept(piece)),
        }
    }

    /// Whether the piece in service will be finished within the time of an answer. A long overdue
    /// one may never be.
    fn is_nearly_done(&self, now: Now) -> bool {
        self.mib_ns > 0
            && self.serving.is_some_and(|serving| {
                let due_ns = serving.began_ns + time_of(serving.piece.bytes, self.mib_ns);
                due_ns.abs_diff(now.ns) <= self.answer_ns
            })
    }

    fn on_answer(&mut self, from: Peer, now: Now) {
        let at = self.asked.iter().position(|&(peer, _)| peer == from);
        let (_, asked_ns) =
            at.and_then(|at| self.asked.remove(at)).expect("an answer was asked for");
        let took = (now.ns - asked_ns).max(1);
        let before = if self.answer_ns == 0 { took } else { self.answer_ns };
        self.answer_ns = (3 * before + took) / 4;
        let least = self.answer_least_ns + self.answer_least_ns / 16;
        self.answer_least_ns = if least == 0 { took } else { took.min(least) };
    }

    /// Requests the pieces needed to stay busy, from the producers that lag most.
    fn settle(&mut self, now: Now, out: &mut ToProducers) {
        self.wake_at_ns = None;
        if self.is_held {
            return self.check();
        }
        while self.has_room() {
            let Some(at_ns) = self.needs_at(now) else { break };
            if at_ns > now.ns {
                self.wake_at_ns = Some(at_ns);
                break;
            }
            let Some(peer) = self.known.laggard_ready(&self.near, now.ns) else { break };
            self.ask(peer, false, now, out);
        }
        if self.serving.is_some() || !self.held.is_empty() {
            self.poll = None;
        } else if self.asked.is_empty() {
            self.poll_producers(now, out);
        }
        self.check();
    }

    /// Without pieces and known ready producers: waits at one, near if possible, then polls others
    /// with exponential back-off.
    fn poll_producers(&mut self, now: Now, out: &mut ToProducers) {
        let patience_ns = (time_of(self.piece_bytes, self.mib_ns) / 8).max(self.lead_ns());
        let (at_ns, gap_ns) = self.poll.unwrap_or((now.ns + patience_ns, patience_ns.max(1)));
        if at_ns > now.ns {
            self.poll = Some((at_ns, gap_ns));
            self.wake_at_ns = Some(at_ns);
            return;
        }
        let gap_ns = (gap_ns * IDLE_GROWTH).min(IDLE_MAX_NS);
        self.poll = Some((now.ns + gap_ns, gap_ns));
        let waits_at = match self.waiting {
            Waiting::At(peer) | Waiting::Leaving(peer) => Some(peer),
            Waiting::No => None,
        };
        let near = self.near_one(now).filter(|_| waits_at.is_none());
        let laggard = near.or_else(|| self.known.laggard(&[], waits_at, now.ns));
        if let Some(peer) = laggard.or_else(|| self.any_producer(now)) {
            self.polls += 1;
            self.ask(peer, waits_at.is_none(), now, out);
        }
    }

    /// A near producer with bytes left.
    fn near_one(&self, now: Now) -> Option<Peer> {
        let any = self.near.get(self.position.me as usize % self.near.len().max(1))?;
        self.known.laggard(&self.near, None, now.ns).or(Some(*any))
    }

    /// A living producer: first the one whose home batch this consumer gets first, then a random
    /// one.
    fn any_producer(&self, now: Now) -> Option<Peer> {
        let m = self.position.producers;
        let begin = if self.polls == 0 { self.position.me % m } else { Dice(now.random).below(m) };
        (begin..m).chain(0..begin).find(|peer| !self.dead.contains(peer))
    }

    fn ask(&mut self, peer: Peer, wait: bool, now: Now, out: &mut ToProducers) {
        self.known.on_asked(peer);
        self.asked.push_back((peer, now.ns));
        let (mib_ns, answer_ns) = (self.mib_ns_now(now), self.answer_ns);
        let left_typical = self.known.left_typical(peer, now.ns);
        out.push(peer, ToProducer::Request { mib_ns, answer_ns, left_typical, wait });
    }

    fn has_room(&self) -> bool {
        let HeldPieces { pieces, bytes } = self.held();
        let asked = self.asked.len() as u32;
        let slots = pieces + asked + u32::from(self.waiting != Waiting::No);
        let bytes = bytes + u64::from(asked + 1) * self.piece_bytes_max;
        // The size of pieces is unknown until the first.
        let knows = self.piece_bytes_max > 0 || slots < 2;
        knows
            && slots < self.limits.slots_max
            && (pieces + asked < 2 || bytes <= self.limits.held_bytes_max)
    }

    /// When to send the next request, so that its piece arrives as the others are finished; `None`
    /// to decide when the piece in service is finished.
    fn needs_at(&self, now: Now) -> Option<u64> {
        let nothing_comes = self.held.is_empty() && self.asked.is_empty();
        if let Some(&(_, asked_ns)) = self.asked.back()
            && self.held.is_empty()
            && self.serving.is_none()
        {
            return Some(asked_ns.saturating_add(self.patience_ns()));
        }
        let Some(serving) = self.serving.filter(|_| self.mib_ns > 0) else {
            return nothing_comes.then_some(now.ns);
        };
        let until_ns = serving.began_ns + time_of(serving.piece.bytes, self.mib_ns);
        // An overdue piece shows a slowdown of unknown size.
        if until_ns <= now.ns {
            return nothing_comes.then_some(now.ns);
        }
        let expected = self.held_bytes + self.asked.len() as u64 * self.piece_bytes;
        Some((until_ns + time_of(expected, self.mib_ns)).saturating_sub(self.lead_ns()))
    }

    /// How long an idle consumer waits for an answer before it asks another producer, since a link
    /// may be slow. It grows with each outstanding request, all of which will be answered.
    fn patience_ns(&self) -> u64 {
        let once = OVERDUE_NS_MIN + OVERDUE_ANSWERS * self.answer_least_ns;
        once.saturating_mul(1 << (2 * (self.asked.len() - 1).min(16)))
    }

    /// The lead of a request: two round trips, since the first may be answered with nothing.
    fn lead_ns(&self) -> u64 {
        2 * self.answer_ns
    }

    /// The time of work on 2^20 bytes, raised by an overdue piece.
    fn mib_ns_now(&self, now: Now) -> u64 {
        let overdue = |serving: ServedPiece| speed(now.ns - serving.began_ns, serving.piece.bytes);
        self.mib_ns.max(self.serving.map_or(0, overdue))
    }

    fn check(&self) {
        let pieces = self.held().pieces + self.asked.len() as u32;
        debug_assert!(pieces <= self.limits.slots_max, "more than its slots");
        debug_assert!(self.held.is_empty() == (self.held_bytes == 0));
    }
}

/// The time of 2^20 bytes at the speed of `bytes` in `took_ns`.
fn speed(took_ns: u64, bytes: u64) -> u64 {
    let ns = (u128::from(took_ns) << 20) / u128::from(bytes.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}
