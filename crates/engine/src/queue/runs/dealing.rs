//! The dealer's endpoint: it hears who has begun what and who has time.

use std::collections::BTreeSet;

use euphrates_policy::distributed::{Now, Peer};
use euphrates_policy::runs::Dealer;

use super::messages::{ToDealing, ToReceiving, ToSending};
use super::{Address, RunQueue};
use crate::queue::mailbox::Endpoint;

/// The endpoint.
pub struct Dealing {
    policy: Dealer,
    gone: BTreeSet<Peer>,
    is_over: bool,
}

impl Dealing {
    /// Of a queue with so many producers.
    pub fn new(producers: u32) -> Dealing {
        let policy = Dealer::new(producers);
        Dealing { policy, gone: BTreeSet::new(), is_over: false }
    }
}

impl Endpoint for Dealing {
    type Router = RunQueue;
    type Letter = ToDealing;

    fn read(&mut self, letter: ToDealing, _: Now) {
        match letter {
            ToDealing::Begun(run, producer) => self.policy.on_begun(run, producer),
            ToDealing::Full(run) => self.policy.on_full(run),
            ToDealing::Ended => self.policy.on_ended(),
            ToDealing::Idle(consumer) => self.policy.on_idle(consumer),
            ToDealing::Gone(consumer) => {
                self.gone.insert(consumer);
                self.policy.on_gone(consumer);
            }
        }
    }

    fn post(&mut self, queue: &RunQueue, _: Peer, due: &mut Vec<Address>) {
        for dealt in self.policy.deal(|from, to| queue.are_neighbours(from, to)) {
            let letter = ToSending::Dealt(dealt.run, dealt.to);
            queue.to_producer(dealt.to, dealt.from, letter, due);
            // Between the same two ends as the word that nothing more will be dealt, so before it.
            let letter = ToReceiving::Dealt(dealt.run, dealt.from);
            queue.to_consumer(0, dealt.to, letter, due);
        }
        if self.policy.is_over() && !std::mem::replace(&mut self.is_over, true) {
            let over = ToReceiving::Over(self.policy.broken());
            for consumer in 0..queue.consumers.len() {
                queue.to_consumer(0, consumer as Peer, over.clone(), due);
            }
        }
    }

    /// Nobody waits here.
    fn may_go_on(&self) -> bool {
        false
    }

    fn address(_: Peer) -> Address {
        Address::Dealer
    }
}
