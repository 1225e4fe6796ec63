//! Which consumer a producer serves first in a keyed exchange: a policy of its own.
//!
//! In a keyed exchange every producer has something for every consumer. If all begin with the same
//! one, it is a bottleneck and the others wait. Clusterfile's I/O-server scheduling (Isaila et
//! al.) compares three orders that need no messages; its schedule block is the grain at which one
//! goes on to the next consumer.

use super::{Dice, Peer};

/// In what order consumers are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Consumer 0 first, then 1, and so on, as data lie: everybody begins at the same one.
    First,
    /// Each producer picks one by chance, and sends it all it has for it.
    Random,
    /// At step `j`, producer `i` serves consumer `(i + j) mod n`: at no step do two of as many
    /// producers as consumers meet at one.
    Hash,
}

/// Whom one producer serves next.
#[derive(Clone, Debug)]
pub struct Turns {
    order: Order,
    consumers: u32,
    /// The consumer of the next step.
    next: u32,
    /// The one that is being served, until there is nothing for it.
    current: Option<Peer>,
}

impl Turns {
    /// The turns of producer `me`.
    pub fn new(order: Order, me: Peer, consumers: u32) -> Turns {
        let begin = if order == Order::Hash { me % consumers.max(1) } else { 0 };
        Turns { order, consumers: consumers.max(1), next: begin, current: None }
    }

    /// The consumer for which the next schedule block is sent: one for which `has` something, and
    /// nothing if there is none. `random` is any 64 random bits.
    pub fn pick(&mut self, random: u64, has: impl Fn(Peer) -> bool) -> Option<Peer> {
        let n = self.consumers;
        let round = |begin: u32| (begin..n).chain(0..begin);
        let pick = match self.order {
            Order::First => round(0).find(|&peer| has(peer)),
            Order::Random => self.current.filter(|&peer| has(peer)).or_else(|| {
                // A random one of those, not the next after a random one: no gap is favoured.
                let count = (0..n).filter(|&peer| has(peer)).count() as u32;
                let at = Dice(random).below(count.max(1));
                (0..n).filter(|&peer| has(peer)).nth(at as usize)
            }),
            Order::Hash => round(self.next).find(|&peer| has(peer)),
        };
        if let Some(peer) = pick {
            self.next = (peer + 1) % n;
            self.current = pick;
            debug_assert!(peer < n && has(peer));
        }
        pick
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use alloc::vec::Vec;
    use std::vec;

    /// Producers with a block for each consumer, consumers that take one a step: how many steps.
    fn steps(order: Order, nodes: u32) -> u32 {
        let all = || 0..nodes as usize;
        let mut left = vec![vec![true; nodes as usize]; nodes as usize];
        let mut turns: Vec<Turns> = (0..nodes).map(|me| Turns::new(order, me, nodes)).collect();
        let mut wants: Vec<Option<Peer>> = vec![None; nodes as usize];
        for step in 0..nodes * nodes + 1 {
            for me in all() {
                let random = u64::from(step) << 32 | me as u64;
                wants[me] =
                    wants[me].or_else(|| turns[me].pick(random, |to| left[me][to as usize]));
            }
            if wants.iter().all(Option::is_none) {
                return step;
            }
            for consumer in all() {
                let served = all().find(|&me| wants[me] == Some(consumer as Peer));
                if let Some(me) = served {
                    left[me][consumer] = false;
                    wants[me] = None;
                }
            }
        }
        panic!("it does not end");
    }

    #[test]
    fn going_round_from_different_places_never_collides() {
        assert_eq!(steps(Order::Hash, 16), 16);
        let first = steps(Order::First, 16);
        let random = steps(Order::Random, 16);
        assert!(first > 16 && random > 16, "first {first}, random {random}");
    }

    #[test]
    fn all_that_is_there_is_picked_and_nothing_else() {
        for order in [Order::First, Order::Random, Order::Hash] {
            let mut turns = Turns::new(order, 5, 7);
            let mut left = [2, 0, 1, 3, 0, 0, 2];
            for random in 0..8 {
                let peer = turns.pick(random, |peer| left[peer as usize] > 0).unwrap();
                left[peer as usize] -= 1;
            }
            assert_eq!(turns.pick(0, |peer| left[peer as usize] > 0), None, "{order:?}");
        }
    }
}
