//! Simulation of cooperative caching: workers read every block of a data set once an epoch, in
//! random order, with the policies of `euphrates_policy::caching`.
//!
//! It panics if a worker holds more than it may, if a read finds a block where no change has put
//! it, or if the reads of an epoch are not each block once.

use std::collections::BTreeSet;

use euphrates_policy::caching::cooperative::{CachePlace, Change, CooperativeCache, Scheme};
use euphrates_policy::caching::rendezvous::{homes, identity, worker_of};

use crate::random::Random;

/// Which worker reads a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dealing {
    /// The next free one.
    Late,
    /// The next free one, which takes a block that it holds if any is left, else one that nobody
    /// holds.
    Held,
    /// The one that the block's hash names, in every epoch.
    Hashed,
    /// The next free one, which takes a block of which it is the home if any is left, else any.
    Home,
}

/// Epochs of reads by several workers.
#[derive(Clone, Debug)]
pub struct CachedEpochs {
    /// What workers keep.
    pub scheme: Scheme,
    /// Which worker reads a block.
    pub dealing: Dealing,
    /// Blocks of the data set.
    pub blocks: u64,
    /// Blocks that each worker may hold.
    pub memory: Vec<usize>,
    /// How often the data set is read.
    pub epochs: usize,
    /// Of the orders of blocks, and of the turns of workers.
    pub seed: u64,
}

/// Reads of an epoch, by the place where the block was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochReads {
    /// Reads at the origin.
    pub origin: u64,
    /// Reads from the memory of other workers.
    pub peer: u64,
    /// Reads from the worker's own memory.
    pub local: u64,
}

impl EpochReads {
    /// The shares of origin, peers and own memory, from 0 to 1.
    pub fn shares(&self) -> [f64; 3] {
        let all = (self.origin + self.peer + self.local).max(1) as f64;
        [self.origin, self.peer, self.local].map(|reads| reads as f64 / all)
    }
}

/// Runs all epochs.
///
/// ```
/// use euphrates_policy::caching::cooperative::Scheme;
/// use euphrates_sim::caches::{CachedEpochs, Dealing, run};
///
/// let epochs = run(&CachedEpochs {
///     scheme: Scheme::Pinned,
///     dealing: Dealing::Hashed,
///     blocks: 100,
///     memory: vec![50, 50],
///     epochs: 2,
///     seed: 7,
/// });
/// assert_eq!(epochs[0].origin, 100);
/// assert!(epochs[1].origin < 20 && epochs[1].peer == 0);
/// ```
pub fn run(given: &CachedEpochs) -> Vec<EpochReads> {
    let mut random = Random::new(given.seed);
    let orders: Vec<Vec<u64>> = (0..=given.epochs).map(|_| order(given, &mut random)).collect();
    let blocks: Vec<(u64, u64)> =
        (0..given.blocks).map(|block| (identity(b"", b"", block), 1)).collect();
    let memory: Vec<u64> = given.memory.iter().map(|&blocks| blocks as u64).collect();
    let homes = homes(&blocks, &memory);
    let mut world = SimulatedCaches {
        cache: match given.scheme {
            Scheme::Homes => CooperativeCache::with_homes(&given.memory, homes.clone()),
            other => CooperativeCache::new(other, &given.memory),
        },
        homes,
        held: vec![BTreeSet::new(); given.memory.len()],
        memory: given.memory.clone(),
    };
    (0..given.epochs).map(|epoch| world.epoch(given, &orders, epoch, &mut random)).collect()
}

fn order(given: &CachedEpochs, random: &mut Random) -> Vec<u64> {
    let mut order: Vec<u64> = (0..given.blocks).collect();
    random.shuffle(&mut order);
    order
}

struct SimulatedCaches {
    cache: CooperativeCache,
    /// What each worker holds, by the changes alone.
    held: Vec<BTreeSet<u64>>,
    memory: Vec<usize>,
    /// The home of each block.
    homes: Vec<usize>,
}

impl SimulatedCaches {
    fn epoch(
        &mut self,
        given: &CachedEpochs,
        orders: &[Vec<u64>],
        epoch: usize,
        random: &mut Random,
    ) -> EpochReads {
        let mut left = orders[epoch].clone();
        let mut next = vec![0; given.blocks as usize];
        let mut here = vec![0; given.blocks as usize];
        orders[epoch].iter().enumerate().for_each(|(at, &block)| here[block as usize] = at as u64);
        orders[epoch + 1].iter().enumerate().for_each(|(at, &block)| {
            next[block as usize] = given.blocks + at as u64;
        });
        let mut reads = EpochReads::default();
        let mut is_read = vec![false; given.blocks as usize];
        while !left.is_empty() {
            let worker = random.below(self.memory.len() as u64) as usize;
            let Some(at) = self.deal(given.dealing, worker, &left) else { continue };
            let block = left.remove(at);
            assert!(!std::mem::replace(&mut is_read[block as usize], true), "read twice");
            let use_of = |other: u64| match is_read[other as usize] {
                true => next[other as usize],
                false => here[other as usize],
            };
            let draw = random.next_u64();
            match self.cache.look_up(worker, block, draw) {
                CachePlace::Local => {
                    assert!(self.held[worker].contains(&block));
                    reads.local += 1;
                }
                CachePlace::Peer(peer) => {
                    assert!(peer != worker && self.held[peer].contains(&block));
                    reads.peer += 1;
                }
                CachePlace::Origin => reads.origin += 1,
            }
            let changes = self.cache.on_read(worker, block, &use_of, draw);
            self.apply(&changes);
        }
        reads
    }

    /// The position of the block that a free worker takes of those left.
    fn deal(&self, dealing: Dealing, worker: usize, left: &[u64]) -> Option<usize> {
        match dealing {
            Dealing::Late => Some(0),
            Dealing::Hashed => {
                left.iter().position(|&block| worker_of(block, self.memory.len()) == worker)
            }
            Dealing::Home => {
                let of_home = |&block: &u64| self.homes[block as usize] == worker;
                left.iter().position(of_home).or(Some(0))
            }
            Dealing::Held => {
                let held = || left.iter().position(|block| self.held[worker].contains(block));
                let free = || left.iter().position(|&it| self.cache.holders(it).next().is_none());
                held().or_else(free).or(Some(0))
            }
        }
    }

    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match *change {
                Change::Keep { worker, block } => assert!(self.held[worker].insert(block)),
                Change::Drop { worker, block } => assert!(self.held[worker].remove(&block)),
            }
        }
        let within = self.held.iter().zip(&self.memory).all(|(held, &most)| held.len() <= most);
        assert!(within, "a worker holds more than its memory");
    }
}

#[cfg(test)]
mod tests;
