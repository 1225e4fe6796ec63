//! A consumer's endpoint: what it has been given and has not begun.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use euphrates_policy::distributed::{
    Consumer, Now, Outbox, Peer, Piece, Place, Policy, ToConsumer, ToProducer,
};

use super::messages::{ToReceiving, ToSending, Word};
use super::{Address, DistributedQueue};
use crate::queue::mailbox::Endpoint;

/// The endpoint.
pub struct Receiving {
    policy: Consumer,
    out: Outbox<ToProducer>,
    /// What it says besides.
    news: Vec<(Peer, ToSending)>,
    held: BTreeMap<(Peer, Piece), RecordBatch>,
    busy_with: Option<(Peer, Piece)>,
    /// Producers that put no more, and wait to hear that what they put has been begun.
    ended: Vec<bool>,
    /// Producers of which nothing more will come to anybody.
    over: usize,
    is_gone: bool,
}

impl Receiving {
    /// Has nothing yet.
    pub fn new(policy: Policy, (place, near): (Place, Vec<Peer>)) -> Receiving {
        let mut policy = Consumer::new(policy, place);
        policy.set_near(near);
        Receiving {
            policy,
            out: Outbox::default(),
            news: vec![],
            held: BTreeMap::new(),
            busy_with: None,
            ended: vec![false; place.producers as usize],
            over: 0,
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
        self.busy_with = Some((from, piece));
        if self.ended[from as usize] {
            self.news.push((from, ToSending::Begun(piece)));
        }
        let batch = self.held.remove(&(from, piece)).expect("a piece comes with its records");
        Some((piece, batch))
    }

    /// Finishes the piece begun last.
    pub fn finish(&mut self, now: Now) {
        if let Some((from, piece)) = self.busy_with.take() {
            // That it is finished says that it was begun; told behind it, it would count twice.
            self.news.retain(|news| *news != (from, ToSending::Begun(piece)));
            self.policy.on_finished(now, &mut self.out);
        }
    }

    /// Takes no more. What it has not begun is for others, whom its producers will find.
    pub fn leave(&mut self, now: Now) {
        self.finish(now);
        self.is_gone = true;
        self.held.clear();
        self.news.extend((0..self.ended.len()).map(|to| (to as Peer, ToSending::Gone)));
    }

    /// Whether `next` would have something.
    pub fn is_ready(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether nothing will ever come again.
    pub fn is_over(&self) -> bool {
        self.over == self.ended.len()
    }

    /// See [`Consumer::on_wake`].
    pub fn on_wake(&mut self, now: Now) {
        if !self.is_gone {
            self.policy.on_wake(now, &mut self.out);
        }
    }

    fn on_word(&mut self, from: Peer, word: Word) {
        match word {
            Word::Ended => {
                self.ended[from as usize] = true;
                if let Some((_, piece)) = self.busy_with.filter(|(of, _)| *of == from) {
                    self.news.push((from, ToSending::Begun(piece)));
                }
            }
            Word::Over => self.over += 1,
        }
    }
}

impl Endpoint for Receiving {
    type Router = DistributedQueue;
    type Letter = (Peer, ToReceiving);

    fn read(&mut self, (from, letter): (Peer, ToReceiving), now: Now) {
        if self.is_gone {
            return;
        }
        let message = match letter {
            ToReceiving::Word(word) => return self.on_word(from, word),
            ToReceiving::Said(message) => message,
            ToReceiving::Given(message, data) => {
                if let ToConsumer::Give { piece, .. } = message {
                    self.held.insert((from, piece), data);
                }
                message
            }
        };
        self.policy.on_message(from, message, now, &mut self.out);
    }

    fn post(&mut self, queue: &DistributedQueue, me: Peer, due: &mut Vec<Address>) {
        for (to, message) in self.out.drain() {
            if let ToProducer::Returned(piece) = message {
                self.held.remove(&(to, piece));
            }
            queue.to_producer(me, to, ToSending::Said(message), due);
        }
        for (to, letter) in self.news.drain(..) {
            queue.to_producer(me, to, letter, due);
        }
    }

    /// Here an answer comes at once, so nothing need be asked for before it is needed.
    fn wake_at_ns(&self) -> Option<u64> {
        let is_busy = self.busy_with.is_some();
        if is_busy || self.is_gone { None } else { self.policy.wake_at_ns() }
    }

    fn may_go_on(&self) -> bool {
        self.is_ready() || self.is_over()
    }

    fn address(me: Peer) -> Address {
        Address::Consumer(me)
    }
}

#[cfg(test)]
mod tests {
    use euphrates_policy::distributed::{Stock, late};

    use super::*;

    #[test]
    fn a_piece_is_not_said_to_be_begun_behind_the_word_that_it_is_finished() {
        let policy = Policy::LateBinding(late::Limits::default());
        let place = Place { me: 0, producers: 1, consumers: 1 };
        let mut end = Receiving::new(policy, (place, vec![]));
        let (now, piece) = (Now { ns: 1, random: 0 }, Piece::whole(0, 10));
        end.on_start(now);
        let stock = Stock { ready: 0, left: 0 };
        let given = ToConsumer::Give { piece, stock, waited: false };
        let batch = RecordBatch::new_empty(std::sync::Arc::new(arrow::datatypes::Schema::empty()));
        end.read((0, ToReceiving::Given(given, batch)), now);
        assert!(end.next(now).is_some());
        end.read((0, ToReceiving::Word(Word::Ended)), now);
        assert_eq!(end.news, [(0, ToSending::Begun(piece))], "it is being worked on");
        assert!(end.next(now).is_none());
        assert_eq!(end.news, [], "it would be counted twice");
    }
}
