//! A consumer's knowledge of producers: the latest stocks of a few, discounted by age.
//!
//! A producer serves other consumers between two messages, so its bytes left are assumed to have
//! decreased since the last one, at the mean rate of producers that have sent two or more messages.
//! Without the discount, the producer with the oldest message would appear to be the laggard.

use alloc::vec::Vec;

use super::super::ledger::LEFT_UNKNOWN_BYTES;
use super::super::protocol::{EndpointPosition, Peer, Stock};

/// Bounds on the producers remembered. More than a handful only adds older messages, but if there
/// are many times more producers than consumers, a forgotten one may be found too late.
const KNOWN: [usize; 2] = [32, 128];
/// Producers remembered per producer that a consumer has to serve, within the bounds.
const KNOWN_TIMES: u32 = 6;

/// How many times as much a far producer must have left to be asked before a near one.
const MUCH_MORE: i64 = 2;

/// The latest stocks of some producers.
#[derive(Clone, Debug)]
pub struct ProducerStocks {
    entries: Vec<StockEntry>,
    entries_max: usize,
    /// By how much stocks had decreased at the next message, summed with decay.
    less_bytes: u64,
    /// The time between those messages, summed with decay.
    age_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct StockEntry {
    peer: Peer,
    stock: Stock,
    heard_ns: u64,
}

impl ProducerStocks {
    /// Knows no producer yet.
    pub fn new(position: EndpointPosition) -> ProducerStocks {
        let served = position.producers.div_ceil(position.consumers.max(1));
        let entries_max = (served.saturating_mul(KNOWN_TIMES) as usize).clamp(KNOWN[0], KNOWN[1]);
        ProducerStocks { entries: Vec::new(), entries_max, less_bytes: 0, age_ns: 0 }
    }

    /// A producer reports its stock. If too many are known, the one with least is forgotten.
    pub fn on_stock(&mut self, peer: Peer, stock: Stock, now_ns: u64) {
        let entry = StockEntry { peer, stock, heard_ns: now_ns };
        match self.entries.iter().position(|known| known.peer == peer) {
            Some(at) => {
                self.on_decline(self.entries[at], entry);
                if stock.left_bytes == 0 {
                    self.entries.swap_remove(at);
                } else {
                    self.entries[at] = entry;
                }
            }
            None if stock.left_bytes == 0 => {}
            None => {
                if self.entries.len() == self.entries_max {
                    self.forget_least(now_ns);
                }
                self.entries.push(entry);
            }
        }
        debug_assert!(self.entries.len() <= self.entries_max);
    }

    /// A producer has been asked for a piece, and is assumed to have one less.
    pub fn on_asked(&mut self, peer: Peer) {
        if let Some(known) = self.entries.iter_mut().find(|known| known.peer == peer) {
            known.stock.ready = known.stock.ready.saturating_sub(1);
        }
    }

    /// A producer has died.
    pub fn forget(&mut self, peer: Peer) {
        self.entries.retain(|known| known.peer != peer);
    }

    /// The producer with most left among those with a ready piece; a near one, unless a far one has
    /// much more.
    pub fn laggard_ready(&self, near: &[Peer], now_ns: u64) -> Option<Peer> {
        let ready = self.entries.iter().filter(|known| known.stock.ready > 0);
        let left = |known: &&StockEntry| self.left(known, now_ns);
        let laggard = ready.clone().max_by_key(left)?;
        let close = ready.filter(|known| near.contains(&known.peer)).max_by_key(left);
        let close = close.filter(|close| left(&laggard) / MUCH_MORE <= left(close).max(0));
        Some(close.unwrap_or(laggard).peer)
    }

    /// The producer with most left, ready or not, other than `but`, and among `of` unless that is
    /// empty.
    pub fn laggard(&self, of: &[Peer], but: Option<Peer>, now_ns: u64) -> Option<Peer> {
        let others = self
            .entries
            .iter()
            .filter(|known| Some(known.peer) != but && (of.is_empty() || of.contains(&known.peer)));
        others.max_by_key(|known| self.left(known, now_ns)).map(|known| known.peer)
    }

    /// The mean bytes left of the known producers except the one that receives this number and
    /// compares itself with it.
    pub fn left_typical(&self, except: Peer, now_ns: u64) -> u64 {
        let left =
            |known: &StockEntry| known.stock.left_bytes.saturating_sub(self.less(known, now_ns));
        let others = self.entries.iter().filter(|known| known.peer != except);
        let sum: u128 = others.clone().map(|known| u128::from(left(known))).sum();
        (sum / others.count().max(1) as u128) as u64
    }

    /// The estimated bytes left of a producer, for the choice of a laggard; negative for old
    /// messages. The age is weighted by half more than the mean rate suggests, since the largest of
    /// many estimates is likely to be wrong, and a real laggard advertises itself.
    fn left(&self, known: &StockEntry, now_ns: u64) -> i64 {
        let less = self.less(known, now_ns);
        let less = i64::try_from(less.saturating_add(less / 2)).unwrap_or(i64::MAX);
        i64::try_from(known.stock.left_bytes).unwrap_or(i64::MAX).saturating_sub(less)
    }

    /// The estimated bytes that a producer has given since its message, at the mean rate.
    fn less(&self, known: &StockEntry, now_ns: u64) -> u64 {
        let age = u128::from(now_ns.saturating_sub(known.heard_ns));
        let less = age * u128::from(self.less_bytes) / u128::from(self.age_ns.max(1));
        u64::try_from(less).unwrap_or(u64::MAX)
    }

    /// Updates the mean rate. Bytes and times are summed separately, both with decay, since two
    /// close messages show a step and not a slope.
    fn on_decline(&mut self, before: StockEntry, after: StockEntry) {
        let less = before.stock.left_bytes.saturating_sub(after.stock.left_bytes);
        if less > LEFT_UNKNOWN_BYTES / 2 {
            // The producer has learned its total, and given nothing.
            return;
        }
        let age = after.heard_ns.saturating_sub(before.heard_ns);
        self.less_bytes = self.less_bytes - self.less_bytes / 32 + less;
        self.age_ns = self.age_ns - self.age_ns / 32 + age;
    }

    fn forget_least(&mut self, now_ns: u64) {
        let key = |known: &StockEntry| (known.stock.ready > 0, self.left(known, now_ns));
        let least = (0..self.entries.len()).min_by_key(|&at| key(&self.entries[at]));
        least.map(|at| self.entries.swap_remove(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(producers: u32, consumers: u32) -> ProducerStocks {
        ProducerStocks::new(EndpointPosition { me: 0, producers, consumers })
    }

    #[test]
    fn capacity_grows_with_producers_per_consumer() {
        let max = |producers, consumers| known(producers, consumers).entries_max;
        assert_eq!([max(1, 1000), max(32, 4), max(1000, 50), max(u32::MAX, 1)], [32, 48, 120, 128]);
    }

    #[test]
    fn laggard_is_asked_first_and_few_are_remembered() {
        let mut known = known(100, 100);
        for peer in 0..100 {
            known.on_stock(
                peer,
                Stock { ready: u32::from(peer != 50), left_bytes: u64::from(peer) },
                0,
            );
        }
        assert_eq!(known.entries.len(), 32);
        assert_eq!(known.laggard_ready(&[], 0), Some(99));
        known.on_asked(99);
        assert_eq!(
            (known.laggard_ready(&[], 0), known.laggard(&[], None, 0)),
            (Some(98), Some(99))
        );
        known.on_stock(99, Stock { ready: 0, left_bytes: 0 }, 0);
        known.forget(98);
        assert_eq!(known.laggard(&[], Some(97), 0), Some(96));
    }

    #[test]
    fn near_producer_is_preferred_unless_a_far_one_lags() {
        let mut known = known(100, 100);
        known.on_stock(1, Stock { ready: 1, left_bytes: 60 }, 0);
        known.on_stock(2, Stock { ready: 1, left_bytes: 100 }, 0);
        assert_eq!(
            (known.laggard_ready(&[1], 0), known.laggard_ready(&[3], 0)),
            (Some(1), Some(2))
        );
        known.on_stock(1, Stock { ready: 1, left_bytes: 40 }, 0);
        assert_eq!(known.laggard_ready(&[1], 0), Some(2));
        known.on_stock(2, Stock { ready: 0, left_bytes: 100 }, 0);
        assert_eq!(known.laggard_ready(&[1], 0), Some(1));
    }

    #[test]
    fn old_stocks_are_discounted() {
        let mut known = known(100, 100);
        known.on_stock(1, Stock { ready: 1, left_bytes: 2_000_000 }, 0);
        // The other loses 1,000 bytes in each 2^20 ns.
        let laggard_after = |known: &mut ProducerStocks, i: u64| {
            known.on_stock(2, Stock { ready: 1, left_bytes: 1_990_000 - 1000 * i }, i << 20);
            known.laggard_ready(&[], i << 20)
        };
        assert_eq!(laggard_after(&mut known, 0), Some(1));
        assert!((1..100).all(|i| laggard_after(&mut known, i).is_some()));
        assert_eq!(laggard_after(&mut known, 100), Some(2), "a laggard would have advertised");
    }
}
