//! Sparrow's late binding for data: reservations at random consumers, oldest first.
//!
//! After Ousterhout et al. (SOSP '13): for each batch a producer places reservations of a few bytes
//! at random consumers. A consumer with a free slot requests a batch from the producer of its
//! oldest reservation, which gives one or replies that there is none. The pieces that a consumer
//! holds are bounded for any number of producers. This is the baseline of
//! [`late_binding`](super::late_binding).

use alloc::collections::{BTreeSet, VecDeque};

use super::dice::Dice;
use super::ledger::Ledger;
use super::protocol::{
    EndpointPosition, HeldPieces, Now, Peer, Piece, ToConsumer, ToConsumers, ToProducer,
    ToProducers,
};
use super::push;

/// The producer's endpoint under Sparrow's policy.
#[derive(Clone, Debug)]
pub struct Producer {
    position: EndpointPosition,
    reservations: u32,
    pub(super) ledger: Ledger,
    dead: BTreeSet<Peer>,
}

impl Producer {
    pub(super) fn new(position: EndpointPosition, reservations: u32, ledger: Ledger) -> Producer {
        Producer { position, reservations: reservations.max(1), ledger, dead: BTreeSet::new() }
    }

    pub(super) fn on_ready(&mut self, piece: Piece, now: Now, out: &mut ToConsumers) {
        self.ledger.on_ready(piece);
        self.reserve(1, now, out);
    }

    pub(super) fn on_message(
        &mut self,
        from: Peer,
        message: ToProducer,
        _: Now,
        out: &mut ToConsumers,
    ) {
        match message {
            ToProducer::Request { .. } if self.ledger.next().is_none() => {
                out.push(from, ToConsumer::None(self.ledger.stock()));
            }
            ToProducer::Request { .. } => {
                let piece = self.ledger.give(from, None);
                let stock = self.ledger.stock();
                out.push(from, ToConsumer::Give { piece, stock, waited: false });
            }
            ToProducer::Finished(piece) => self.ledger.on_finished(from, piece),
            ToProducer::Withdraw | ToProducer::Returned(_) | ToProducer::Kept(_) => {}
        }
    }

    /// Reservations at a dead consumer are lost, so everything ready is reserved again.
    pub(super) fn on_death(&mut self, consumer: Peer, now: Now, out: &mut ToConsumers) {
        self.ledger.on_death(consumer);
        self.dead.insert(consumer);
        self.reserve(self.ledger.stock().ready, now, out);
    }

    fn reserve(&mut self, batches: u32, now: Now, out: &mut ToConsumers) {
        let n = self.position.consumers;
        if self.dead.len() as u32 >= n {
            return;
        }
        let mut dice = Dice(now.random);
        for _ in 0..batches * self.reservations.min(n) {
            let begin = dice.below(n);
            let living = (begin..n).chain(0..begin).find(|peer| !self.dead.contains(peer));
            out.push(living.expect("somebody lives"), ToConsumer::Reserve(self.ledger.stock()));
        }
    }
}

/// The consumer's endpoint under Sparrow's policy.
#[derive(Clone, Debug)]
pub struct Consumer {
    slots_max: u32,
    /// Reservations, oldest first, as counts of consecutive ones of one producer.
    reserved: VecDeque<(Peer, u32)>,
    asked: VecDeque<Peer>,
    /// The pieces it holds.
    pieces: push::Consumer,
}

impl Consumer {
    pub(super) fn new(slots_max: u32) -> Consumer {
        Consumer {
            slots_max: slots_max.max(1),
            reserved: VecDeque::new(),
            asked: VecDeque::new(),
            pieces: push::Consumer::default(),
        }
    }

    pub(super) fn on_message(
        &mut self,
        from: Peer,
        message: ToConsumer,
        now: Now,
        out: &mut ToProducers,
    ) {
        match message {
            ToConsumer::Reserve(_) => match self.reserved.back_mut() {
                Some((peer, count)) if *peer == from => *count += 1,
                _ => self.reserved.push_back((from, 1)),
            },
            ToConsumer::Give { .. } => {
                self.on_answer(from);
                self.pieces.on_message(from, message, now, out);
            }
            ToConsumer::None(_) => self.on_answer(from),
            ToConsumer::Wait(_) | ToConsumer::Dismiss(_) => {}
            ToConsumer::Recall(piece) => out.push(from, ToProducer::Kept(piece)),
        }
        self.ask(out);
    }

    pub(super) fn begin(&mut self, now: Now, out: &mut ToProducers) -> Option<(Peer, Piece)> {
        self.pieces.begin(now, out)
    }

    pub(super) fn on_finished(&mut self, now: Now, out: &mut ToProducers) {
        self.pieces.on_finished(now, out);
        self.ask(out);
    }

    pub(super) fn on_death(&mut self, producer: Peer, _: Now, out: &mut ToProducers) {
        self.reserved.retain(|&(peer, _)| peer != producer);
        self.asked.retain(|&peer| peer != producer);
        self.ask(out);
    }

    pub(super) fn held(&self) -> HeldPieces {
        self.pieces.held()
    }

    fn on_answer(&mut self, from: Peer) {
        let at = self.asked.iter().position(|&peer| peer == from).expect("an answer was asked for");
        self.asked.remove(at);
    }

    fn ask(&mut self, out: &mut ToProducers) {
        while self.held().pieces + (self.asked.len() as u32) < self.slots_max {
            let Some((peer, count)) = self.reserved.front_mut() else { break };
            *count -= 1;
            let to = *peer;
            if *count == 0 {
                self.reserved.pop_front();
            }
            self.asked.push_back(to);
            let (mib_ns, answer_ns, left_typical) = (0, 0, 0);
            out.push(to, ToProducer::Request { mib_ns, answer_ns, left_typical, wait: false });
        }
        debug_assert!(self.held().pieces + self.asked.len() as u32 <= self.slots_max);
    }
}
