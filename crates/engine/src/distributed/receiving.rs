//! A consumer's endpoint: what it has been given and has not begun.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use euphrates_policy::distributed::{
    Consumer, Now, Outbox, Peer, Piece, Place, Policy, ToConsumer, ToProducer,
};

use super::DistributedQueue;
use super::post::{Address, Endpoint};
use super::sending::ToSending;

/// What a producer says, and sends.
pub struct ToReceiving {
    /// Who says it.
    pub from: Peer,
    /// What.
    pub message: ToConsumer,
    /// The records of a piece that is given.
    pub data: Option<RecordBatch>,
}

/// The endpoint.
pub struct Receiving {
    policy: Consumer,
    out: Outbox<ToProducer>,
    held: BTreeMap<(Peer, Piece), RecordBatch>,
    is_busy: bool,
    is_gone: bool,
}

impl Receiving {
    /// Has nothing yet.
    pub fn new(policy: Policy, place: Place) -> Receiving {
        Receiving {
            policy: Consumer::new(policy, place),
            out: Outbox::default(),
            held: BTreeMap::new(),
            is_busy: false,
            is_gone: false,
        }
    }

    /// It has time.
    pub fn on_start(&mut self, now: Now) {
        self.policy.on_start(now, &mut self.out);
    }

    /// Finishes the piece begun last, and begins the next if there is one.
    pub fn next(&mut self, now: Now) -> Option<(Piece, RecordBatch)> {
        self.finish(now);
        let (from, piece) = self.policy.begin(now, &mut self.out)?;
        self.is_busy = true;
        let batch = self.held.remove(&(from, piece)).expect("a piece comes with its records");
        Some((piece, batch))
    }

    /// Finishes the piece begun last.
    pub fn finish(&mut self, now: Now) {
        if std::mem::take(&mut self.is_busy) {
            self.policy.on_finished(now, &mut self.out);
        }
    }

    /// Takes no more. What it has not begun is for others, whom its producers will find.
    pub fn leave(&mut self, now: Now) {
        self.finish(now);
        self.is_gone = true;
        self.held.clear();
    }

    /// Whether `next` would have something.
    pub fn is_ready(&self) -> bool {
        !self.held.is_empty()
    }

    /// See [`Consumer::on_wake`].
    pub fn on_wake(&mut self, now: Now) {
        if !self.is_gone {
            self.policy.on_wake(now, &mut self.out);
        }
    }
}

impl Endpoint for Receiving {
    type Letter = ToReceiving;

    fn read(&mut self, letter: ToReceiving, now: Now) {
        if self.is_gone {
            return;
        }
        if let (ToConsumer::Give { piece, .. }, Some(data)) = (letter.message, letter.data) {
            self.held.insert((letter.from, piece), data);
        }
        self.policy.on_message(letter.from, letter.message, now, &mut self.out);
    }

    fn post(&mut self, queue: &DistributedQueue, me: Peer, due: &mut Vec<Address>) {
        for (to, message) in self.out.drain() {
            if let ToProducer::Returned(piece) = message {
                self.held.remove(&(to, piece));
            }
            queue.producers[to as usize].put(ToSending { from: me, message });
            due.push(Address::Producer(to));
        }
    }

    /// Here an answer comes at once, so nothing need be asked for before it is needed.
    fn wake_at_ns(&self) -> Option<u64> {
        if self.is_busy || self.is_gone { None } else { self.policy.wake_at_ns() }
    }

    fn may_go_on(&self) -> bool {
        self.is_ready()
    }

    fn address(me: Peer) -> Address {
        Address::Consumer(me)
    }
}
