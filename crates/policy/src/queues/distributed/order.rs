//! Send order of a keyed exchange: the consumer that a producer serves next.
//!
//! In a keyed exchange every producer has data for every consumer. If all begin with the same
//! consumer, it is a bottleneck and the others wait. Clusterfile's I/O-server scheduling (Isaila et
//! al.) compares three orders without messages; its schedule block is the grain at which a producer
//! goes on to the next consumer.

use super::dice::Dice;
use super::protocol::Peer;

/// The order in which a producer serves consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Consumer 0 first, then 1, and so on: all producers begin at the same one.
    First,
    /// A random consumer, which is sent everything before the next.
    Random,
    /// At step `j`, producer `i` serves consumer `(i + j) mod n`: with equally many producers and
    /// consumers, no two producers collide.
    Hash,
}

/// The send order of one producer.
///
/// ```
/// use euphrates_policy::distributed::order::{Order, Turns};
///
/// let mut turns = Turns::new(Order::Hash, 2, 4);
/// let picks: Vec<_> = (0..4).map(|_| turns.pick(0, |_| true).unwrap()).collect();
/// assert_eq!(picks, [2, 3, 0, 1]);
/// ```
#[derive(Clone, Debug)]
pub struct Turns {
    order: Order,
    consumers: u32,
    /// The consumer of the next step in a cyclic order.
    next: u32,
    /// The consumer that is being served, until it has no more data.
    current: Option<Peer>,
}

impl Turns {
    /// The turns of producer `me`.
    pub fn new(order: Order, me: Peer, consumers: u32) -> Turns {
        let begin = if order == Order::Hash { me % consumers.max(1) } else { 0 };
        Turns { order, consumers: consumers.max(1), next: begin, current: None }
    }

    /// The consumer of the next schedule block, among those for which `has` returns true; `None` if
    /// there is none. `random` is any 64 random bits.
    pub fn pick(&mut self, random: u64, has: impl Fn(Peer) -> bool) -> Option<Peer> {
        let n = self.consumers;
        let round = |begin: u32| (begin..n).chain(0..begin);
        let pick = match self.order {
            Order::First => round(0).find(|&peer| has(peer)),
            Order::Random => self.current.filter(|&peer| has(peer)).or_else(|| {
                // Drawn from the candidates, since the next after a random one favours gaps.
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

    /// Steps until each producer has sent a block to each consumer, which takes one per step.
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
    fn hash_order_never_collides() {
        assert_eq!(steps(Order::Hash, 16), 16);
        let first = steps(Order::First, 16);
        let random = steps(Order::Random, 16);
        assert!(first > 16 && random > 16, "first {first}, random {random}");
    }

    #[test]
    fn exactly_the_consumers_with_data_are_picked() {
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
