//! What a consumer remembers of producers: the last word of a few.

use alloc::vec::Vec;

use super::super::{Peer, Stock};

/// Producers remembered. More than a handful only brings older news.
const KNOWN_MAX: usize = 16;

/// The last word of some producers.
#[derive(Clone, Debug, Default)]
pub struct Known {
    entries: Vec<(Peer, Stock)>,
}

impl Known {
    /// A producer said what it has. If there are too many, the one with least is forgotten.
    pub fn on_stock(&mut self, peer: Peer, stock: Stock) {
        let at = self.entries.iter().position(|&(known, _)| known == peer);
        match at {
            Some(at) if stock.left == 0 => drop(self.entries.swap_remove(at)),
            Some(at) => self.entries[at].1 = stock,
            None if stock.left == 0 => {}
            None => {
                if self.entries.len() == KNOWN_MAX {
                    self.forget_least();
                }
                self.entries.push((peer, stock));
            }
        }
        debug_assert!(self.entries.len() <= KNOWN_MAX);
    }

    /// A producer was asked: it is believed to have one piece less.
    pub fn on_asked(&mut self, peer: Peer) {
        if let Some((_, stock)) = self.entries.iter_mut().find(|(known, _)| *known == peer) {
            stock.ready = stock.ready.saturating_sub(1);
        }
    }

    /// A producer is gone.
    pub fn forget(&mut self, peer: Peer) {
        self.entries.retain(|&(known, _)| known != peer);
    }

    /// Of those that are believed to have something ready, the one that has most left.
    pub fn laggard_ready(&self) -> Option<Peer> {
        let ready = self.entries.iter().filter(|(_, stock)| stock.ready > 0);
        ready.max_by_key(|(_, stock)| stock.left).map(|&(peer, _)| peer)
    }

    /// The one that has most left, ready or not, and is not this one.
    pub fn laggard(&self, but: Option<Peer>) -> Option<Peer> {
        let others = self.entries.iter().filter(|&&(peer, _)| Some(peer) != but);
        others.max_by_key(|(_, stock)| stock.left).map(|&(peer, _)| peer)
    }

    fn forget_least(&mut self) {
        let key = |(_, stock): &(Peer, Stock)| (stock.ready > 0, stock.left);
        let least = (0..self.entries.len()).min_by_key(|&at| key(&self.entries[at]));
        least.map(|at| self.entries.swap_remove(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_laggard_is_asked_first_and_few_are_remembered() {
        let mut known = Known::default();
        for peer in 0..100 {
            known.on_stock(peer, Stock { ready: u32::from(peer != 50), left: u64::from(peer) });
        }
        assert_eq!(known.entries.len(), KNOWN_MAX);
        assert_eq!(known.laggard_ready(), Some(99));
        known.on_asked(99);
        assert_eq!((known.laggard_ready(), known.laggard(None)), (Some(98), Some(99)));
        known.on_stock(99, Stock { ready: 0, left: 0 });
        known.forget(98);
        assert_eq!(known.laggard(Some(97)), Some(96));
    }
}
