//! Push policies: the paper's randomized credit-based queue, and the baselines static
//! division, round robin, and shortest of k.
//!
//! A producer counts its unfinished pieces at each consumer and sends to one that has fewer than
//! `credit_max` (River 2.3.2), which the [`PushChoice`] selects. Every producer may fill its credit
//! at a slow consumer, so the pieces that a consumer holds grow with the number of producers.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use super::dice::Dice;
use super::ledger::Ledger;
use super::protocol::{
    EndpointPosition, HeldPieces, Now, Peer, Piece, ToConsumer, ToConsumers, ToProducer,
    ToProducers,
};

/// The consumer to which a producer sends its next batch.
///
/// ```
/// use euphrates_policy::distributed::push::PushChoice;
/// use euphrates_policy::distributed::{EndpointPosition, MessageQueue, Now, Policy, Producer};
///
/// let policy = Policy::Push(PushChoice::RoundRobin { credit_max: 1 });
/// let position = EndpointPosition { me: 0, producers: 1, consumers: 2 };
/// let mut producer = Producer::new(policy, position, 1 << 20, None);
/// let mut out = MessageQueue::default();
/// (0..3).for_each(|batch| producer.on_ready(batch, 10, Now { ns: 0, random: 7 }, &mut out));
/// let mut peers: Vec<u32> = out.drain().map(|(peer, _)| peer).collect();
/// peers.sort();
/// assert_eq!(peers, [0, 1], "the third batch waits for credit");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushChoice {
    /// A random consumer with credit: the paper's distributed queue (River 2.3.2).
    Credit {
        /// Unfinished batches of one producer at one consumer, at most.
        credit_max: u32,
    },
    /// A fixed set of consumers, in turn: static division.
    Static {
        /// Unfinished batches of one producer at one consumer, at most.
        credit_max: u32,
    },
    /// All consumers in turn, waiting for the next one.
    RoundRobin {
        /// Unfinished batches of one producer at one consumer, at most.
        credit_max: u32,
    },
    /// The one of `k` neighbouring consumers with the fewest unfinished batches of this producer,
    /// as in Flink's adaptive partitioner.
    ShortestOf {
        /// Neighbouring consumers that are compared.
        k: u32,
        /// Unfinished batches of one producer at one consumer, at most.
        credit_max: u32,
    },
}

impl PushChoice {
    fn credit_max(self) -> u32 {
        match self {
            PushChoice::Credit { credit_max }
            | PushChoice::Static { credit_max }
            | PushChoice::RoundRobin { credit_max }
            | PushChoice::ShortestOf { credit_max, .. } => credit_max.max(1),
        }
    }
}

/// Random probes for a consumer with credit, at most; then all are probed in turn.
const PROBES_MAX: u32 = 32;

/// The producer's endpoint under a push policy.
#[derive(Clone, Debug)]
pub struct Producer {
    position: EndpointPosition,
    choice: PushChoice,
    pub(super) ledger: Ledger,
    /// Unfinished pieces, by consumer with any.
    counts: BTreeMap<Peer, u32>,
    full: u32,
    turn: u64,
    dead: BTreeSet<Peer>,
}

impl Producer {
    pub(super) fn new(position: EndpointPosition, choice: PushChoice, ledger: Ledger) -> Producer {
        let (counts, dead) = (BTreeMap::new(), BTreeSet::new());
        Producer { position, choice, ledger, counts, full: 0, turn: u64::from(position.me), dead }
    }

    pub(super) fn on_ready(&mut self, piece: Piece, now: Now, out: &mut ToConsumers) {
        self.ledger.on_ready(piece);
        self.send(now, out);
    }

    pub(super) fn on_message(
        &mut self,
        from: Peer,
        message: ToProducer,
        now: Now,
        out: &mut ToConsumers,
    ) {
        if let ToProducer::Finished(piece) = message {
            self.ledger.on_finished(from, piece);
            let count = self.counts.get_mut(&from).expect("it was given something");
            self.full -= u32::from(*count == self.choice.credit_max());
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&from);
            }
            self.send(now, out);
        }
    }

    pub(super) fn on_death(&mut self, consumer: Peer, now: Now, out: &mut ToConsumers) {
        self.ledger.on_death(consumer);
        let count = self.counts.remove(&consumer).unwrap_or(0);
        self.full -= u32::from(count == self.choice.credit_max());
        self.dead.insert(consumer);
        self.send(now, out);
    }

    /// Sends ready pieces while a consumer has credit.
    fn send(&mut self, now: Now, out: &mut ToConsumers) {
        let mut dice = Dice(now.random);
        while self.ledger.next().is_some() {
            let Some(to) = self.pick(&mut dice) else { break };
            let piece = self.ledger.give(to, None);
            let count = self.counts.entry(to).or_default();
            *count += 1;
            self.full += u32::from(*count == self.choice.credit_max());
            self.turn += 1;
            out.push(to, ToConsumer::Give { piece, stock: self.ledger.stock(), waited: false });
        }
        self.check();
    }

    fn pick(&self, dice: &mut Dice) -> Option<Peer> {
        let (n, m) = (self.position.consumers, self.position.producers);
        let living = n - self.dead.len() as u32;
        if self.full >= living {
            return None;
        }
        let turn = (self.turn % u64::from(n)) as u32;
        let first_living = |begin: u32, step: u32| {
            let turns = (0..n).map(move |i| (begin + i * step) % n);
            turns.into_iter().find(|peer| !self.dead.contains(peer))
        };
        match self.choice {
            PushChoice::Credit { .. } => self.pick_random(dice),
            PushChoice::RoundRobin { .. } => {
                first_living(turn, 1).filter(|&to| self.has_credit(to))
            }
            PushChoice::Static { .. } => {
                let mine = self.position.me % n;
                // With more consumers than producers, each producer has several of its own.
                let partners = if m < n { (n - mine).div_ceil(m) } else { 1 };
                let turn = ((self.turn - u64::from(self.position.me)) % u64::from(partners)) as u32;
                first_living(mine + turn * m, 1).filter(|&to| self.has_credit(to))
            }
            PushChoice::ShortestOf { k, .. } => (0..n)
                .map(|i| (self.position.me % n + i) % n)
                .filter(|to| !self.dead.contains(to))
                .take(k.max(1) as usize)
                .filter(|&to| self.has_credit(to))
                .min_by_key(|to| self.counts.get(to).copied().unwrap_or(0)),
        }
    }

    fn pick_random(&self, dice: &mut Dice) -> Option<Peer> {
        let n = self.position.consumers;
        let takes = |peer: &Peer| !self.dead.contains(peer) && self.has_credit(*peer);
        let by_chance = (0..PROBES_MAX).map(|_| dice.below(n)).find(takes);
        by_chance.or_else(|| {
            let begin = dice.below(n);
            (begin..n).chain(0..begin).find(takes)
        })
    }

    fn has_credit(&self, consumer: Peer) -> bool {
        self.counts.get(&consumer).is_none_or(|&count| count < self.choice.credit_max())
    }

    fn check(&self) {
        debug_assert!(self.full as usize <= self.counts.len());
    }
}

/// The consumer's endpoint under a push policy: pieces are served in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Consumer {
    waiting: VecDeque<(Peer, Piece)>,
    serving: Option<(Peer, Piece)>,
    bytes: u64,
}

impl Consumer {
    pub(super) fn on_message(
        &mut self,
        from: Peer,
        message: ToConsumer,
        _: Now,
        _: &mut ToProducers,
    ) {
        if let ToConsumer::Give { piece, .. } = message {
            self.bytes += piece.bytes;
            self.waiting.push_back((from, piece));
        }
    }

    pub(super) fn begin(&mut self, _: Now, _: &mut ToProducers) -> Option<(Peer, Piece)> {
        if self.serving.is_some() {
            return None;
        }
        self.serving = self.waiting.pop_front();
        self.serving
    }

    pub(super) fn on_finished(&mut self, _: Now, out: &mut ToProducers) {
        let (from, piece) = self.serving.take().expect("a piece was begun");
        self.bytes -= piece.bytes;
        out.push(from, ToProducer::Finished(piece));
    }

    pub(super) fn on_death(&mut self, _: Peer, _: Now, _: &mut ToProducers) {}

    pub(super) fn held(&self) -> HeldPieces {
        let pieces = self.waiting.len() + usize::from(self.serving.is_some());
        HeldPieces { pieces: pieces as u32, bytes: self.bytes }
    }
}
