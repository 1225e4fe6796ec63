//! The producer's endpoint of late binding: where to reserve, how much to send, what to recall.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::super::dice::Dice;
use super::super::ledger::{LEFT_UNKNOWN_BYTES, Ledger};
use super::super::protocol::{
    EndpointPosition, Now, Peer, Piece, SHARES, Stock, ToConsumer, ToConsumers, ToProducer,
};
use super::give_rate::GiveRate;
use super::limits::{Limits, MIB, time_of};

/// Waiting consumers, at most; further ones are refused.
const WAITERS_MAX: usize = 64;
/// The first gap before advertising, for a producer that was never asked.
const GAP_FIRST_NS: u64 = 1_000_000;
/// The shortest gap between advertisements.
const GAP_MIN_NS: u64 = 1_000;
/// The longest gap between advertisements.
const GAP_MAX_NS: u64 = 1_000_000_000;
/// A producer lags if it has this many batches more left than the others' mean. With a smaller
/// number nearly all would lag and advertise.
const BEHIND_BATCHES: u64 = 4;
/// The shortest piece, in times of an answer; with shorter ones, requests would dominate the work.
const PIECE_ANSWERS_MIN: u64 = 4;

/// The producer's endpoint under late binding.
#[derive(Clone, Debug)]
pub struct Producer {
    position: EndpointPosition,
    limits: Limits,
    pub(crate) ledger: Ledger,
    /// Consumers on the same machine.
    near: Vec<Peer>,
    /// Whether the batch that was kept for them has timed out.
    is_stale: bool,
    /// Batches that have become ready so far.
    turn: u64,
    waiters: VecDeque<Waiter>,
    dead: BTreeSet<Peer>,
    /// The consumer that has an unanswered recall.
    recalling: Option<Peer>,
    pace: GiveRate,
    answer_ns: u64,
    /// The mean bytes left of other producers, as consumers report it.
    left_typical: u64,
    /// When a consumer last reported it.
    reported_ns: u64,
    /// When a batch last became ready while none was.
    fresh_ns: u64,
    /// When to advertise next, and the gap after that.
    advertise: Option<(u64, u64)>,
    /// Whether it has advertised as the last producer with a batch since the last request.
    hurries: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    peer: Peer,
    mib_ns: u64,
}

/// The position of a producer among all, which decides how much it advertises.
enum Lag {
    Ahead,
    Even,
    Behind,
}

impl Producer {
    pub(crate) fn new(position: EndpointPosition, limits: Limits, ledger: Ledger) -> Producer {
        Producer {
            position,
            limits,
            ledger,
            near: Vec::new(),
            is_stale: false,
            turn: 0,
            waiters: VecDeque::new(),
            dead: BTreeSet::new(),
            recalling: None,
            pace: GiveRate::default(),
            answer_ns: 0,
            left_typical: 0,
            reported_ns: 0,
            fresh_ns: 0,
            advertise: None,
            hurries: false,
        }
    }

    pub(crate) fn set_near(&mut self, near: Vec<Peer>) {
        self.near = near;
    }

    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        self.advertise.map(|(at_ns, _)| at_ns)
    }

    pub(crate) fn on_ready(&mut self, piece: Piece, now: Now, out: &mut ToConsumers) {
        self.ledger.on_ready(piece);
        self.turn += 1;
        if self.ledger.stock().ready == 1 {
            self.fresh_ns = now.ns;
        }
        self.offer(now, out);
    }

    pub(crate) fn on_end(&mut self, now: Now, out: &mut ToConsumers) {
        self.ledger.on_end();
        self.serve(now, out);
        // Restart the back-off of advertising for the end of the queue.
        self.advertise = None;
        self.plan_advertising(now);
        self.recall(out);
    }

    pub(crate) fn on_message(
        &mut self,
        from: Peer,
        message: ToProducer,
        now: Now,
        out: &mut ToConsumers,
    ) {
        match message {
            ToProducer::Request { mib_ns, answer_ns, left_typical, wait } => {
                self.answer_ns = mean(self.answer_ns, answer_ns);
                self.left_typical = mean(self.left_typical(now), left_typical);
                self.reported_ns = now.ns;
                self.on_request(Waiter { peer: from, mib_ns }, wait, now, out);
            }
            ToProducer::Withdraw => {
                if let Some(at) = self.waiters.iter().position(|waiter| waiter.peer == from) {
                    self.waiters.remove(at);
                    out.push(from, ToConsumer::Dismiss(self.stock_for(from)));
                }
            }
            ToProducer::Finished(piece) => self.ledger.on_finished(from, piece),
            ToProducer::Returned(piece) => {
                self.recalling = None;
                self.ledger.on_returned(from, piece);
                self.offer(now, out);
                self.recall(out);
            }
            ToProducer::Kept(piece) => {
                self.recalling = None;
                self.ledger.on_kept(from, piece);
                self.recall(out);
            }
        }
        self.check();
    }

    pub(crate) fn on_death(&mut self, consumer: Peer, now: Now, out: &mut ToConsumers) {
        self.dead.insert(consumer);
        self.near.retain(|&peer| peer != consumer);
        self.waiters.retain(|waiter| waiter.peer != consumer);
        self.recalling = self.recalling.filter(|&peer| peer != consumer);
        self.ledger.on_death(consumer);
        // Reservations at the dead consumer are lost, with or without pieces.
        self.offer(now, out);
        self.recall(out);
    }

    pub(crate) fn on_wake(&mut self, now: Now, out: &mut ToConsumers) {
        let Some((at_ns, gap_ns)) = self.advertise.filter(|&(at_ns, _)| at_ns <= now.ns) else {
            return;
        };
        self.advertise = None;
        self.is_stale = true;
        self.serve(now, out);
        if self.ledger.next().is_some() {
            let mut dice = Dice(now.random);
            (0..2).for_each(|_| self.reserve(dice.below(self.position.consumers), out));
            // All consumers are idle for the last batch, but the hurry happens once.
            let gap_ns = if self.is_last(now) && !core::mem::replace(&mut self.hurries, true) {
                gap_ns.min(self.gap_last_ns()).max(GAP_MIN_NS)
            } else {
                (gap_ns + gap_ns / 2).min(GAP_MAX_NS)
            };
            self.advertise = Some((at_ns.max(now.ns) + gap_ns, gap_ns));
        }
    }

    /// Serves waiting consumers with ready pieces and reserves the rest.
    fn offer(&mut self, now: Now, out: &mut ToConsumers) {
        self.serve(now, out);
        let ready = self.ledger.stock().ready;
        if ready > 0 {
            self.reserve(self.home(), out);
        }
        if ready > 1 {
            let mut dice = Dice(now.random);
            let more = match self.lag(now) {
                Lag::Ahead => 0,
                Lag::Even => 1,
                Lag::Behind => 2,
            };
            (0..more).for_each(|_| self.reserve(dice.below(self.position.consumers), out));
        }
        self.plan_advertising(now);
        self.check();
    }

    /// Gives ready pieces to waiting consumers, near ones first.
    fn serve(&mut self, now: Now, out: &mut ToConsumers) {
        while self.ledger.next().is_some() {
            let near = self.waiters.iter().position(|waiter| self.near.contains(&waiter.peer));
            let first = near.or((!self.is_kept()).then_some(0));
            let Some(waiter) = first.and_then(|at| self.waiters.remove(at)) else { break };
            self.give(waiter, true, now, out);
        }
    }

    /// Whether the only ready piece is kept for near consumers.
    fn is_kept(&self) -> bool {
        let is_one = self.ledger.stock().ready == 1;
        is_one && !self.near.is_empty() && !self.is_stale && !self.ledger.is_ended()
    }

    /// The stock as a consumer may use it: without a piece that is kept for others.
    fn stock_for(&self, peer: Peer) -> Stock {
        match self.is_kept() && !self.near.contains(&peer) {
            true => Stock { ready: 0, ..self.ledger.stock() },
            false => self.ledger.stock(),
        }
    }

    fn on_request(&mut self, asker: Waiter, wait: bool, now: Now, out: &mut ToConsumers) {
        let is_kept = self.is_kept() && !self.near.contains(&asker.peer);
        if !is_kept {
            self.advertise = None;
            self.hurries = false;
        }
        if self.ledger.next().is_some() && !is_kept {
            self.give(asker, false, now, out);
            return self.plan_advertising(now);
        }
        let hopeless = self.ledger.is_ended() && !self.ledger.may_recall(asker.peer);
        if !wait || hopeless || self.waiters.len() >= WAITERS_MAX {
            return out.push(asker.peer, ToConsumer::None(self.stock_for(asker.peer)));
        }
        self.waiters.push_back(asker);
        out.push(asker.peer, ToConsumer::Wait(self.stock_for(asker.peer)));
        self.recall(out);
    }

    fn give(&mut self, to: Waiter, waited: bool, now: Now, out: &mut ToConsumers) {
        let bytes_max = self.bytes_by_the_end(to.mib_ns, now);
        let piece = self.ledger.give(to.peer, bytes_max);
        self.is_stale = false;
        self.pace.on_give(now.ns, piece.bytes);
        out.push(to.peer, ToConsumer::Give { piece, stock: self.stock_for(to.peer), waited });
    }

    /// The bytes that a consumer of this speed can finish before the queue ends, if that is clearly
    /// less than the next piece. All producers end together, because the laggard is served first,
    /// so a producer can estimate the end of the queue from its own bytes left.
    fn bytes_by_the_end(&self, mib_ns: u64, now: Now) -> Option<u64> {
        let next = self.ledger.next()?;
        if mib_ns == 0 || !self.ledger.knows_left() || self.limits.pieces_max < 2 {
            return None;
        }
        // A piece that is taken as soon as it is ready shows that consumers wait for pieces.
        // Otherwise a piece is sized for half of the estimated time: one too small costs a message,
        // one too large delays the whole queue.
        let is_fresh = now.ns <= self.fresh_ns + PIECE_ANSWERS_MIN * self.answer_ns;
        let (least, parts) = if is_fresh { (next.bytes, 1) } else { (next.bytes / 4, 2) };
        let left_bytes = self.ledger.left_bytes().min(self.left_typical(now).max(least));
        // A producer that was ahead and rarely asked is asked by all once the others have nothing.
        let in_the_mean = self.pace.time_in_the_mean(now.ns, left_bytes)?;
        let left_ns = self.pace.time_to_give(now.ns, left_bytes)?.min(in_the_mean) / parts;
        if left_ns >= time_of(next.bytes, mib_ns) / 4 * 3 {
            return None;
        }
        let bytes_in = |ns: u64| {
            let bytes = u128::from(ns) * u128::from(MIB) / u128::from(mib_ns);
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        let shares = u64::from(next.to - next.from);
        let shares_min = u64::from(SHARES.div_ceil(self.limits.pieces_max));
        let least = (next.bytes * shares_min / shares.max(1))
            .max(bytes_in(PIECE_ANSWERS_MIN * self.answer_ns));
        let bytes = bytes_in(left_ns).max(least);
        // The rest must be worth a request, too.
        (bytes + least <= next.bytes).then_some(bytes)
    }

    /// Recalls an unbegun piece for a waiting consumer, one at a time.
    fn recall(&mut self, out: &mut ToConsumers) {
        if !self.ledger.is_ended() || self.recalling.is_some() {
            return;
        }
        while let Some(waiter) = self.waiters.front().copied() {
            if let Some((peer, piece)) = self.ledger.recall(waiter.peer) {
                self.recalling = Some(peer);
                return out.push(peer, ToConsumer::Recall(piece));
            }
            // All given pieces are begun, so nothing can be recalled.
            self.waiters.pop_front();
            out.push(waiter.peer, ToConsumer::Dismiss(self.stock_for(waiter.peer)));
        }
    }

    /// The home of the latest batch. The batches of all producers, numbered in turn, go round the
    /// consumers, shifted by one after each full round, so that no producer is tied to a consumer.
    /// With near consumers, these in turn.
    fn home(&self) -> Peer {
        let (m, n) = (u64::from(self.position.producers), u64::from(self.position.consumers));
        let turn = self.turn.saturating_sub(1);
        if !self.near.is_empty() {
            return self.near[turn as usize % self.near.len()];
        }
        let period = n / gcd(m, n);
        ((u64::from(self.position.me) + turn % n * (m % n) + turn / period) % n) as Peer
    }

    /// The position of this producer among all, by the reports of consumers.
    fn lag(&self, now: Now) -> Lag {
        let (mine, typical) = (self.ledger.left_bytes(), self.left_typical(now));
        let batch = self.ledger.next().map_or(0, |piece| piece.bytes);
        if mine > typical + BEHIND_BATCHES * batch {
            Lag::Behind
        } else if mine + batch < typical {
            Lag::Ahead
        } else {
            Lag::Even
        }
    }

    /// Whether the queue is ending and other producers are not known to have anything, so that all
    /// consumers are idle.
    fn is_last(&self, now: Now) -> bool {
        let typical = self.left_typical(now);
        let batch = self.ledger.next().map_or(0, |piece| piece.bytes);
        let is_unknown = typical > LEFT_UNKNOWN_BYTES / 2;
        self.answer_ns > 0 && self.ledger.knows_left() && (typical < batch || is_unknown)
    }

    /// The gap before the last producer with a batch advertises.
    fn gap_last_ns(&self) -> u64 {
        16 * self.answer_ns
    }

    /// The estimated mean bytes left of others, which decreases at this producer's mean rate.
    fn left_typical(&self, now: Now) -> u64 {
        let since_ns = now.ns.saturating_sub(self.reported_ns);
        self.left_typical.saturating_sub(self.pace.bytes_in_the_mean(since_ns, self.reported_ns))
    }

    fn reserve(&self, begin: Peer, out: &mut ToConsumers) {
        let n = self.position.consumers;
        let living = (begin..n).chain(0..begin).find(|peer| !self.dead.contains(peer));
        if let Some(peer) = living {
            out.push(peer, ToConsumer::Reserve(self.stock_for(peer)));
        }
    }

    /// Schedules an advertisement of a ready piece, unless one is scheduled.
    fn plan_advertising(&mut self, now: Now) {
        if self.ledger.next().is_none() {
            self.advertise = None;
        } else if self.advertise.is_none() {
            let gap_ns = match self.pace.gap_ns(now.ns) {
                _ if self.is_last(now) => self.gap_last_ns(),
                Some(gap_ns) => {
                    gap_ns.max(self.answer_ns)
                        * match self.lag(now) {
                            Lag::Ahead => 6,
                            Lag::Even => 2,
                            Lag::Behind => 1,
                        }
                }
                None => GAP_FIRST_NS,
            };
            let gap_ns = gap_ns.clamp(GAP_MIN_NS, GAP_MAX_NS);
            self.advertise = Some((now.ns + gap_ns, gap_ns));
        }
    }

    fn check(&self) {
        debug_assert!(self.waiters.len() <= WAITERS_MAX);
        debug_assert!(
            self.waiters.is_empty() || self.ledger.next().is_none() || self.is_kept(),
            "a waiting consumer is served"
        );
        debug_assert!(self.ledger.next().is_none() || self.advertise.is_some());
    }
}

/// A moving average, in which 0 stands for no value.
fn mean(before: u64, new: u64) -> u64 {
    match (before, new) {
        (before, 0) => before,
        (0, new) => new,
        (before, new) => before - before / 4 + new / 4,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
