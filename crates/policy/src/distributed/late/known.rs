//! What a consumer remembers of producers: the last word of a few.
//!
//! News grows old: while a producer was not heard of, others were served by it. So what it has
//! left is taken to have become less since, as fast as that of producers that were heard of twice.
//! Without that, the one not heard of for longest would pass for the laggard.

use alloc::vec::Vec;

use super::super::ledger::LEFT_UNKNOWN_BYTES;
use super::super::{Peer, Place, Stock};

/// Producers remembered at least, and at most. More than a handful only brings older news; but
/// where producers are many times as many as consumers, what is forgotten may be found too late.
const KNOWN: [usize; 2] = [32, 128];
/// So many times the producers a consumer has to serve, in between.
const KNOWN_TIMES: u32 = 6;

/// A far producer with so many times as much left lags behind a near one.
const MUCH_MORE: i64 = 2;

/// The last word of some producers.
#[derive(Clone, Debug)]
pub struct Known {
    entries: Vec<Entry>,
    entries_max: usize,
    /// How much less producers had when they were heard of again, and after how long.
    less_bytes: u64,
    age_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    peer: Peer,
    stock: Stock,
    heard_ns: u64,
}

impl Known {
    /// Nobody is known yet.
    pub fn new(place: Place) -> Known {
        let served = place.producers.div_ceil(place.consumers.max(1));
        let entries_max = (served.saturating_mul(KNOWN_TIMES) as usize).clamp(KNOWN[0], KNOWN[1]);
        Known { entries: Vec::new(), entries_max, less_bytes: 0, age_ns: 0 }
    }

    /// A producer said what it has. If there are too many, the one with least is forgotten.
    pub fn on_stock(&mut self, peer: Peer, stock: Stock, now_ns: u64) {
        let entry = Entry { peer, stock, heard_ns: now_ns };
        match self.entries.iter().position(|known| known.peer == peer) {
            Some(at) => {
                self.on_decline(self.entries[at], entry);
                if stock.left == 0 {
                    self.entries.swap_remove(at);
                } else {
                    self.entries[at] = entry;
                }
            }
            None if stock.left == 0 => {}
            None => {
                if self.entries.len() == self.entries_max {
                    self.forget_least(now_ns);
                }
                self.entries.push(entry);
            }
        }
        debug_assert!(self.entries.len() <= self.entries_max);
    }

    /// A producer was asked: it is believed to have one piece less.
    pub fn on_asked(&mut self, peer: Peer) {
        if let Some(known) = self.entries.iter_mut().find(|known| known.peer == peer) {
            known.stock.ready = known.stock.ready.saturating_sub(1);
        }
    }

    /// A producer is gone.
    pub fn forget(&mut self, peer: Peer) {
        self.entries.retain(|known| known.peer != peer);
    }

    /// Of those that are believed to have something ready, the one that has most left; of those
    /// that are near, if it has not much less left than the others.
    pub fn laggard_ready(&self, near: &[Peer], now_ns: u64) -> Option<Peer> {
        let ready = self.entries.iter().filter(|known| known.stock.ready > 0);
        let left = |known: &&Entry| self.left(known, now_ns);
        let laggard = ready.clone().max_by_key(left)?;
        let close = ready.filter(|known| near.contains(&known.peer)).max_by_key(left);
        let close = close.filter(|close| left(&laggard) / MUCH_MORE <= left(close).max(0));
        Some(close.unwrap_or(laggard).peer)
    }

    /// The one that has most left, ready or not, and is not this one; of these, if any are given.
    pub fn laggard(&self, of: &[Peer], but: Option<Peer>, now_ns: u64) -> Option<Peer> {
        let others = self
            .entries
            .iter()
            .filter(|known| Some(known.peer) != but && (of.is_empty() || of.contains(&known.peer)));
        others.max_by_key(|known| self.left(known, now_ns)).map(|known| known.peer)
    }

    /// What those known are believed to have left, in the mean; without this one, which is to be
    /// compared with it.
    pub fn left_typical(&self, but: Peer, now_ns: u64) -> u64 {
        let left = |known: &Entry| known.stock.left.saturating_sub(self.less(known, now_ns));
        let others = self.entries.iter().filter(|known| known.peer != but);
        let sum: u128 = others.clone().map(|known| u128::from(left(known))).sum();
        (sum / others.count().max(1) as u128) as u64
    }

    /// What a producer is believed to have left now, for the choice of a laggard; below 0 if it is
    /// long since it was heard of. Old news count for less than they would if they were exact:
    /// the largest of many guesses is the one that is most wrong, and who lags is heard.
    fn left(&self, known: &Entry, now_ns: u64) -> i64 {
        let less = self.less(known, now_ns);
        let less = i64::try_from(less.saturating_add(less / 2)).unwrap_or(i64::MAX);
        i64::try_from(known.stock.left).unwrap_or(i64::MAX).saturating_sub(less)
    }

    /// What a producer has given since it was heard of, if it is like the others.
    fn less(&self, known: &Entry, now_ns: u64) -> u64 {
        let age = u128::from(now_ns.saturating_sub(known.heard_ns));
        let less = age * u128::from(self.less_bytes) / u128::from(self.age_ns.max(1));
        u64::try_from(less).unwrap_or(u64::MAX)
    }

    /// Bytes and times are summed apart, and both forgotten: news that come close upon each other
    /// show a step and no slope.
    fn on_decline(&mut self, before: Entry, after: Entry) {
        let less = before.stock.left.saturating_sub(after.stock.left);
        if less > LEFT_UNKNOWN_BYTES / 2 {
            // It has learned what it has left, and given nothing.
            return;
        }
        let age = after.heard_ns.saturating_sub(before.heard_ns);
        self.less_bytes = self.less_bytes - self.less_bytes / 32 + less;
        self.age_ns = self.age_ns - self.age_ns / 32 + age;
    }

    fn forget_least(&mut self, now_ns: u64) {
        let key = |known: &Entry| (known.stock.ready > 0, self.left(known, now_ns));
        let least = (0..self.entries.len()).min_by_key(|&at| key(&self.entries[at]));
        least.map(|at| self.entries.swap_remove(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(producers: u32, consumers: u32) -> Known {
        Known::new(Place { me: 0, producers, consumers })
    }

    #[test]
    fn more_are_remembered_where_more_have_to_be_served() {
        let max = |producers, consumers| known(producers, consumers).entries_max;
        assert_eq!([max(1, 1000), max(32, 4), max(1000, 50), max(u32::MAX, 1)], [32, 48, 120, 128]);
    }

    #[test]
    fn the_laggard_is_asked_first_and_few_are_remembered() {
        let mut known = known(100, 100);
        for peer in 0..100 {
            known.on_stock(peer, Stock { ready: u32::from(peer != 50), left: u64::from(peer) }, 0);
        }
        assert_eq!(known.entries.len(), 32);
        assert_eq!(known.laggard_ready(&[], 0), Some(99));
        known.on_asked(99);
        assert_eq!(
            (known.laggard_ready(&[], 0), known.laggard(&[], None, 0)),
            (Some(98), Some(99))
        );
        known.on_stock(99, Stock { ready: 0, left: 0 }, 0);
        known.forget(98);
        assert_eq!(known.laggard(&[], Some(97), 0), Some(96));
    }

    #[test]
    fn a_near_one_is_asked_first_unless_another_lags_behind_it() {
        let mut known = known(100, 100);
        known.on_stock(1, Stock { ready: 1, left: 60 }, 0);
        known.on_stock(2, Stock { ready: 1, left: 100 }, 0);
        assert_eq!(
            (known.laggard_ready(&[1], 0), known.laggard_ready(&[3], 0)),
            (Some(1), Some(2))
        );
        known.on_stock(1, Stock { ready: 1, left: 40 }, 0);
        assert_eq!(known.laggard_ready(&[1], 0), Some(2));
        known.on_stock(2, Stock { ready: 0, left: 100 }, 0);
        assert_eq!(known.laggard_ready(&[1], 0), Some(1));
    }

    #[test]
    fn old_news_count_for_less() {
        let mut known = known(100, 100);
        known.on_stock(1, Stock { ready: 1, left: 2_000_000 }, 0);
        // The other loses 1,000 bytes in each 2^20 ns.
        let laggard_after = |known: &mut Known, i: u64| {
            known.on_stock(2, Stock { ready: 1, left: 1_990_000 - 1000 * i }, i << 20);
            known.laggard_ready(&[], i << 20)
        };
        assert_eq!(laggard_after(&mut known, 0), Some(1));
        assert!((1..100).all(|i| laggard_after(&mut known, i).is_some()));
        assert_eq!(laggard_after(&mut known, 100), Some(2), "it would have been heard");
    }
}
