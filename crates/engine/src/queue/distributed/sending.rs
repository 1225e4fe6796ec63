//! A producer's endpoint: batches stay here until they are finished elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Parcel, Result};
use euphrates_policy::distributed::{
    Now, Outbox, Peer, Piece, Place, Policy, Producer, SHARES, ToConsumer, ToProducer,
};

use super::messages::{ToReceiving, ToSending, Word};
use super::{Address, DistributedQueue};
use crate::queue::mailbox::Endpoint;

/// The endpoint.
pub struct Sending {
    policy: Producer,
    out: Outbox<ToConsumer>,
    /// What it says besides, to all consumers.
    news: Vec<Word>,
    stock: BTreeMap<u64, Stocked>,
    next_batch: u64,
    /// Bytes that its thread waits to put.
    wanted_bytes: Option<u64>,
    /// Shares of batches that nobody is known to have begun.
    unbegun: u64,
    /// Pieces that are known to have been begun, and not to be finished.
    begun: BTreeSet<Piece>,
    /// Whether it takes batches, sees the last ones taken, or is done.
    life: Life,
    /// Consumers that are there.
    consumers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    Ended,
    Over,
}

struct Stocked {
    batch: RecordBatch,
    unfinished_shares: u32,
}

impl Sending {
    /// Holds so many bytes that nobody has asked for, or one batch.
    pub fn new(policy: Policy, (place, near): (Place, Vec<Peer>), bytes_max: u64) -> Sending {
        let mut policy = Producer::new(policy, place, bytes_max, None);
        policy.set_near(near);
        Sending {
            policy,
            out: Outbox::default(),
            news: vec![],
            stock: BTreeMap::new(),
            next_batch: 0,
            wanted_bytes: None,
            unbegun: 0,
            begun: BTreeSet::new(),
            life: Life::Open,
            consumers: place.consumers,
        }
    }

    /// Takes a batch, or gives it back if there is no room. Fails when nobody reads any more.
    pub fn put(&mut self, parcel: Parcel, now: Now) -> Result<Option<Parcel>> {
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

    /// Whether it would take a batch now, or say that nobody wants it.
    pub fn has_room(&self, parcel: &Parcel) -> bool {
        self.consumers == 0 || self.policy.may_accept(parcel.bytes as u64)
    }

    /// No more will be put.
    pub fn on_end(&mut self, now: Now) {
        self.wanted_bytes = None;
        self.policy.on_end(now, &mut self.out);
        self.life = Life::Ended;
        if self.unbegun > 0 {
            self.news.push(Word::Ended);
        }
        self.look_for_end();
    }

    /// See [`Producer::on_wake`].
    pub fn on_wake(&mut self, now: Now) {
        self.policy.on_wake(now, &mut self.out);
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
        self.look_for_end();
    }

    fn look_for_end(&mut self) {
        if self.life == Life::Ended && self.unbegun == 0 {
            self.life = Life::Over;
            self.news.push(Word::Over);
        }
    }
}

fn shares(piece: Piece) -> u64 {
    u64::from(piece.to - piece.from)
}

impl Endpoint for Sending {
    type Router = DistributedQueue;
    type Letter = (Peer, ToSending);

    fn read(&mut self, (from, letter): (Peer, ToSending), now: Now) {
        match letter {
            ToSending::Said(message) => {
                self.policy.on_message(from, message, now, &mut self.out);
                if let ToProducer::Finished(piece) = message {
                    self.on_finished(piece);
                }
            }
            ToSending::Begun(piece) => {
                if self.begun.insert(piece) {
                    self.unbegun -= shares(piece);
                }
                self.look_for_end();
            }
            ToSending::Gone => {
                self.consumers -= 1;
                self.policy.on_death(from, now, &mut self.out);
            }
        }
    }

    fn post(&mut self, queue: &DistributedQueue, me: Peer, due: &mut Vec<Address>) {
        let mut out = std::mem::take(&mut self.out);
        for (to, message) in out.drain() {
            let letter = match message {
                ToConsumer::Give { piece, .. } => ToReceiving::Given(message, self.slice(piece)),
                _ => ToReceiving::Said(message),
            };
            queue.to_consumer(me, to, letter, due);
        }
        self.out = out;
        for word in self.news.drain(..) {
            for to in 0..queue.consumers.len() {
                queue.to_consumer(me, to as Peer, ToReceiving::Word(word), due);
            }
        }
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.policy.wake_at_ns()
    }

    fn may_go_on(&self) -> bool {
        let may_put = |bytes| self.consumers == 0 || self.policy.may_accept(bytes);
        self.wanted_bytes.is_some_and(may_put)
    }

    fn address(me: Peer) -> Address {
        Address::Producer(me)
    }
}
