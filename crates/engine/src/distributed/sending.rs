//! A producer's endpoint: batches stay here until they are finished elsewhere.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use euphrates_flow::Parcel;
use euphrates_policy::distributed::{
    Now, Outbox, Peer, Piece, Place, Policy, Producer, SHARES, ToConsumer, ToProducer,
};

use super::DistributedQueue;
use super::post::{Address, Endpoint};
use super::receiving::ToReceiving;

/// What a consumer says.
pub struct ToSending {
    /// Who says it.
    pub from: Peer,
    /// What.
    pub message: ToProducer,
}

/// The endpoint.
pub struct Sending {
    policy: Producer,
    out: Outbox<ToConsumer>,
    stock: BTreeMap<u64, Stocked>,
    next_batch: u64,
    /// Bytes that its thread waits to put.
    wanted_bytes: Option<u64>,
}

struct Stocked {
    batch: RecordBatch,
    unfinished_shares: u32,
}

impl Sending {
    /// Holds so many bytes that nobody has asked for, or one batch.
    pub fn new(policy: Policy, place: Place, bytes_max: u64) -> Sending {
        Sending {
            policy: Producer::new(policy, place, bytes_max, None),
            out: Outbox::default(),
            stock: BTreeMap::new(),
            next_batch: 0,
            wanted_bytes: None,
        }
    }

    /// Takes a batch, or gives it back if there is no room.
    pub fn put(&mut self, parcel: Parcel, now: Now) -> Option<Parcel> {
        let bytes = parcel.bytes as u64;
        if !self.policy.may_accept(bytes) {
            self.wanted_bytes = Some(bytes);
            return Some(parcel);
        }
        self.wanted_bytes = None;
        let number = self.next_batch;
        self.next_batch += 1;
        self.stock.insert(number, Stocked { batch: parcel.batch, unfinished_shares: SHARES });
        self.policy.on_ready(number, bytes, now, &mut self.out);
        None
    }

    /// No more will be put.
    pub fn on_end(&mut self, now: Now) {
        self.wanted_bytes = None;
        self.policy.on_end(now, &mut self.out);
    }

    /// A consumer is gone.
    pub fn on_death(&mut self, consumer: Peer, now: Now) {
        self.policy.on_death(consumer, now, &mut self.out);
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
}

impl Endpoint for Sending {
    type Letter = ToSending;

    fn read(&mut self, letter: ToSending, now: Now) {
        self.policy.on_message(letter.from, letter.message, now, &mut self.out);
        if let ToProducer::Finished(piece) = letter.message {
            let stocked = self.stock.get_mut(&piece.batch).expect("unfinished batches are kept");
            stocked.unfinished_shares -= piece.to - piece.from;
            if stocked.unfinished_shares == 0 {
                self.stock.remove(&piece.batch);
            }
        }
    }

    fn post(&mut self, queue: &DistributedQueue, me: Peer, due: &mut Vec<Address>) {
        let mut out = std::mem::take(&mut self.out);
        for (to, message) in out.drain() {
            let data = match message {
                ToConsumer::Give { piece, .. } => Some(self.slice(piece)),
                _ => None,
            };
            queue.consumers[to as usize].put(ToReceiving { from: me, message, data });
            due.push(Address::Consumer(to));
        }
        self.out = out;
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.policy.wake_at_ns()
    }

    fn may_go_on(&self) -> bool {
        self.wanted_bytes.is_some_and(|bytes| self.policy.may_accept(bytes))
    }

    fn address(me: Peer) -> Address {
        Address::Producer(me)
    }
}
