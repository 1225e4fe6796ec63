//! The endpoint of a producer: holds batches until all their pieces are finished at consumers.

use std::collections::{BTreeMap, BTreeSet};

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Parcel, Result};
use euphrates_policy::distributed::{
    EndpointPosition, MessageQueue, Now, Peer, Piece, Policy, Producer, SHARES, ToConsumer,
    ToProducer,
};

use super::messages::{ConsumerMessage, Pieces, ProducerMessage, ProducerState};
use crate::queue::protocol::{DueEndpoints, Endpoint, EndpointAddress, Intake, Router};

/// Gives pieces of its batches to consumers by its policy.
pub struct ProducerEndpoint {
    policy: Producer,
    out: MessageQueue<ToConsumer>,
    /// States to be sent to all consumers.
    states: Vec<ProducerState>,
    stock: BTreeMap<u64, Stocked>,
    next_batch: u64,
    /// Bytes that its thread waits to put.
    wanted_bytes: Option<u64>,
    /// Shares of batches for which no consumer has reported that it has begun them.
    unbegun: u64,
    /// Pieces that consumers have reported as begun and not yet as finished.
    begun: BTreeSet<Piece>,
    life: ProducerPhase,
    /// Consumers that have not left.
    consumers: u32,
    consumers_at_start: u32,
}

/// Whether it takes batches, awaits that the last are begun, or is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProducerPhase {
    Open,
    Ended,
    Drained,
}

struct Stocked {
    batch: RecordBatch,
    unfinished_shares: u32,
}

impl ProducerEndpoint {
    /// Holds up to `bytes_max` that no consumer has asked for, or one batch; `near` are the
    /// consumers it prefers.
    pub fn new(
        policy: Policy,
        (position, near): (EndpointPosition, Vec<Peer>),
        bytes_max: u64,
    ) -> ProducerEndpoint {
        let mut policy = Producer::new(policy, position, bytes_max, None);
        policy.set_near(near);
        ProducerEndpoint {
            policy,
            out: MessageQueue::default(),
            states: vec![],
            stock: BTreeMap::new(),
            next_batch: 0,
            wanted_bytes: None,
            unbegun: 0,
            begun: BTreeSet::new(),
            life: ProducerPhase::Open,
            consumers: position.consumers,
            consumers_at_start: position.consumers,
        }
    }

    fn slice(&self, piece: Piece) -> RecordBatch {
        let batch = &self.stock[&piece.batch].batch;
        let rows = batch.num_rows() as u64;
        let row = |share: u32| (rows * u64::from(share) / u64::from(SHARES)) as usize;
        batch.slice(row(piece.from), row(piece.to) - row(piece.from))
    }

    fn on_finished(&mut self, piece: Piece) {
        if !self.begun.remove(&piece) {
            self.unbegun -= shares(piece);
        }
        let stocked = self.stock.get_mut(&piece.batch).expect("unfinished batches are kept");
        stocked.unfinished_shares -= piece.to - piece.from;
        if stocked.unfinished_shares == 0 {
            self.stock.remove(&piece.batch);
        }
        self.detect_drained();
    }

    fn detect_drained(&mut self) {
        if self.life == ProducerPhase::Ended && self.unbegun == 0 {
            self.life = ProducerPhase::Drained;
            self.states.push(ProducerState::Drained);
        }
    }
}

fn shares(piece: Piece) -> u64 {
    u64::from(piece.to - piece.from)
}

impl Intake for ProducerEndpoint {
    fn put(&mut self, parcel: Parcel, now: Now) -> Result<Option<Parcel>> {
        if self.consumers == 0 {
            return Err(Error::closed());
        }
        let bytes = parcel.bytes as u64;
        if !self.policy.may_accept(bytes) {
            self.wanted_bytes = Some(bytes);
            return Ok(Some(parcel));
        }
        self.wanted_bytes = None;
        let number = self.next_batch;
        self.next_batch += 1;
        self.unbegun += u64::from(SHARES);
        self.stock.insert(number, Stocked { batch: parcel.batch, unfinished_shares: SHARES });
        self.policy.on_ready(number, bytes, now, &mut self.out);
        Ok(None)
    }

    fn has_room(&self, parcel: &Parcel) -> bool {
        self.consumers == 0 || self.policy.may_accept(parcel.bytes as u64)
    }

    fn on_end(&mut self, now: Now) {
        self.wanted_bytes = None;
        self.policy.on_end(now, &mut self.out);
        self.life = ProducerPhase::Ended;
        if self.unbegun > 0 {
            self.states.push(ProducerState::Ended);
        }
        self.detect_drained();
    }
}

impl Endpoint for ProducerEndpoint {
    type Protocol = Pieces;
    type Message = ProducerMessage;

    fn receive(&mut self, from: Peer, message: ProducerMessage, now: Now) {
        match message {
            ProducerMessage::Policy(message) => {
                self.policy.on_message(from, message, now, &mut self.out);
                if let ToProducer::Finished(piece) = message {
                    self.on_finished(piece);
                }
            }
            ProducerMessage::Begun(piece) => {
                if self.begun.insert(piece) {
                    self.unbegun -= shares(piece);
                }
                self.detect_drained();
            }
            ProducerMessage::Gone => {
                self.consumers -= 1;
                self.policy.on_death(from, now, &mut self.out);
            }
        }
    }

    fn flush(&mut self, router: &impl Router<Pieces>, me: Peer, due: &mut DueEndpoints) {
        let mut out = std::mem::take(&mut self.out);
        for (to, message) in out.drain() {
            let message = match message {
                ToConsumer::Give { piece, .. } => ConsumerMessage::Give(message, self.slice(piece)),
                _ => ConsumerMessage::Policy(message),
            };
            router.to_consumer(me, to, message, due);
        }
        self.out = out;
        for state in self.states.drain(..) {
            for to in 0..self.consumers_at_start {
                router.to_consumer(me, to, ConsumerMessage::Producer(state), due);
            }
        }
    }

    fn on_alarm(&mut self, now: Now) {
        self.policy.on_wake(now, &mut self.out);
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.policy.wake_at_ns()
    }

    fn has_work(&self) -> bool {
        let may_put = |bytes| self.consumers == 0 || self.policy.may_accept(bytes);
        self.wanted_bytes.is_some_and(may_put)
    }

    fn address(me: Peer) -> EndpointAddress {
        EndpointAddress::Producer(me)
    }
}
