//! Cooperative caching: the memory of several workers as one cache of blocks of equal size.
//!
//! A directory knows the holders of every block. Blocks never change, so copies need no coherence.
//! The schemes are those of Dahlin et al. (OSDI '94), which NOW used (2.3), and those of training:
//! cached blocks are never evicted (CoorDL's MinIO, VLDB '21; Hoard, 2018).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// How often a last copy is forwarded before it is dropped (N-chance with n = 2).
const CHANCES: u8 = 2;

/// Where a worker finds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePlace {
    /// In its own memory.
    Local,
    /// In the memory of this worker.
    Peer(usize),
    /// At the origin only.
    Origin,
}

/// An admission and eviction scheme of several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Baseline: nothing is kept.
    None,
    /// Baseline: each worker evicts its least recently used block, and asks no other worker.
    Lru,
    /// The same, and workers read the blocks of each other's memory.
    Greedy,
    /// Greedy, but the last copy of a block is forwarded to a peer twice before it is dropped.
    NChance,
    /// A worker keeps blocks that nobody has while it has room; nothing is evicted.
    Pinned,
    /// Pinned, but a worker without room forwards blocks to the peer with most room.
    PinnedForwarding,
    /// Pinned, and a block is kept by its home, whoever has read it.
    Homes,
    /// Bound: evicts the block whose next use is farthest off (Belady, 1966).
    Clairvoyant,
}

/// A change of what a worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields' names say what they are")]
pub enum Change {
    /// This worker keeps the block; it is sent there if another has read it.
    Keep { worker: usize, block: u64 },
    /// This worker drops its copy.
    Drop { worker: usize, block: u64 },
}

/// The memories of all workers, and the directory of what they hold.
///
/// ```
/// use euphrates_policy::caching::cooperative::{CooperativeCache, CachePlace, Scheme};
///
/// let mut cache = CooperativeCache::new(Scheme::Pinned, &[1, 1]);
/// cache.on_read(0, 7, &|_| 0, 0);
/// assert_eq!(cache.look_up(0, 7, 0), CachePlace::Local);
/// assert_eq!(cache.look_up(1, 7, 0), CachePlace::Peer(0));
/// cache.on_read(0, 8, &|_| 0, 0);
/// assert_eq!(cache.look_up(0, 8, 0), CachePlace::Origin, "there is no room, and 7 stays");
/// ```
#[derive(Clone, Debug)]
pub struct CooperativeCache {
    scheme: Scheme,
    workers: Vec<WorkerMemory>,
    holders: BTreeMap<u64, BTreeSet<usize>>,
    /// The home of each block, by its number.
    homes: Vec<usize>,
    clock: u64,
}

#[derive(Clone, Debug, Default)]
struct WorkerMemory {
    blocks_max: usize,
    held: BTreeMap<u64, HeldBlock>,
    /// Use times and blocks, least recent first.
    by_use: BTreeSet<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct HeldBlock {
    used: u64,
    /// Forwards left, if it was forwarded and not used since.
    chances: Option<u8>,
}

impl CooperativeCache {
    /// Empty memories for `blocks_max` blocks each.
    pub fn new(scheme: Scheme, blocks_max: &[usize]) -> CooperativeCache {
        let memory = |&blocks_max| WorkerMemory { blocks_max, ..WorkerMemory::default() };
        let workers = blocks_max.iter().map(memory).collect();
        CooperativeCache { scheme, workers, holders: BTreeMap::new(), homes: Vec::new(), clock: 0 }
    }

    /// Empty memories for `blocks_max` blocks each, and the homes of blocks 0, 1, ….
    pub fn with_homes(blocks_max: &[usize], homes: Vec<usize>) -> CooperativeCache {
        CooperativeCache { homes, ..CooperativeCache::new(Scheme::Homes, blocks_max) }
    }

    /// Where a worker reads a block; `draw` is a random number, to choose between peers.
    pub fn look_up(&self, worker: usize, block: u64, draw: u64) -> CachePlace {
        let Some(holders) = self.holders.get(&block) else { return CachePlace::Origin };
        if holders.contains(&worker) {
            return CachePlace::Local;
        }
        if self.scheme == Scheme::Lru {
            return CachePlace::Origin;
        }
        let peer = holders.iter().nth((draw % holders.len() as u64) as usize);
        peer.map_or(CachePlace::Origin, |&peer| CachePlace::Peer(peer))
    }

    /// The workers that hold a block.
    pub fn holders(&self, block: u64) -> impl Iterator<Item = usize> {
        self.holders.get(&block).into_iter().flatten().copied()
    }

    /// A worker has read a block: what changes. `next_use` says when a block is used next, which
    /// only a clairvoyant cache asks; `draw` is a random number.
    pub fn on_read(
        &mut self,
        worker: usize,
        block: u64,
        next_use: &dyn Fn(u64) -> u64,
        draw: u64,
    ) -> Vec<Change> {
        self.clock += 1;
        let place = self.look_up(worker, block, draw);
        let mut changes = Vec::new();
        match (self.scheme, place) {
            (Scheme::None, _) => {}
            (_, CachePlace::Local) => self.touch(worker, block),
            (Scheme::Lru | Scheme::Greedy | Scheme::NChance, _) => {
                self.keep_recent(worker, block, draw, &mut changes);
            }
            (_, CachePlace::Peer(_)) => {}
            (Scheme::Pinned, CachePlace::Origin) => {
                if self.has_room(worker) {
                    self.keep(worker, block, None, &mut changes);
                }
            }
            (Scheme::PinnedForwarding, CachePlace::Origin) => {
                if let Some(at) = self.with_room(worker) {
                    self.keep(at, block, None, &mut changes);
                }
            }
            (Scheme::Homes, CachePlace::Origin) => {
                let home = self.homes.get(block as usize).copied();
                if let Some(home) = home.filter(|&home| self.has_room(home)) {
                    self.keep(home, block, None, &mut changes);
                }
            }
            (Scheme::Clairvoyant, CachePlace::Origin) => {
                self.keep_next(worker, block, next_use, &mut changes);
            }
        }
        self.check();
        changes
    }

    fn touch(&mut self, worker: usize, block: u64) {
        let clock = self.clock;
        let memory = &mut self.workers[worker];
        if let Some(held) = memory.held.get_mut(&block) {
            memory.by_use.remove(&(held.used, block));
            memory.by_use.insert((clock, block));
            *held = HeldBlock { used: clock, chances: None };
        }
    }

    fn has_room(&self, worker: usize) -> bool {
        self.workers[worker].room() > 0
    }

    /// This worker, or the peer with most room.
    fn with_room(&self, worker: usize) -> Option<usize> {
        if self.has_room(worker) { Some(worker) } else { self.idlest_peer(worker) }
    }

    /// The peer with most room, if any has some.
    fn idlest_peer(&self, worker: usize) -> Option<usize> {
        let peers = (0..self.workers.len()).filter(|&peer| peer != worker && self.has_room(peer));
        peers.max_by_key(|&peer| self.workers[peer].room())
    }

    /// Keeps a block in place of the one used least recently.
    fn keep_recent(&mut self, worker: usize, block: u64, draw: u64, changes: &mut Vec<Change>) {
        if self.workers[worker].blocks_max == 0 {
            return;
        }
        if !self.has_room(worker) {
            let oldest = self.workers[worker].by_use.first().copied();
            let (_, victim) = oldest.expect("a full memory has blocks");
            let held = self.give_up(worker, victim, changes);
            let left = held.chances.unwrap_or(CHANCES);
            let is_last = !self.holders.contains_key(&victim);
            if self.scheme == Scheme::NChance && is_last && left > 0 && self.workers.len() > 1 {
                let step = 1 + (draw >> 32) as usize % (self.workers.len() - 1);
                let random = (worker + step) % self.workers.len();
                let peer = self.idlest_peer(worker).unwrap_or(random);
                self.forward(peer, victim, left - 1, changes);
            }
        }
        self.keep(worker, block, None, changes);
    }

    /// Gives a last copy to a peer. To make room, the peer drops a copy that others hold, else a
    /// forwarded one with the fewest chances, else its oldest, and forwards none: forwards do not
    /// cascade.
    fn forward(&mut self, peer: usize, block: u64, left: u8, changes: &mut Vec<Change>) {
        if !self.has_room(peer) {
            let memory = &self.workers[peer];
            let order = || memory.by_use.iter().map(|&(_, block)| block);
            let duplicate = order().find(|block| self.holders(*block).count() > 1);
            let forwarded = || {
                let chances = |block: &u64| memory.held.get(block).and_then(|held| held.chances);
                order().filter(|block| chances(block).is_some()).min_by_key(chances)
            };
            match duplicate.or_else(forwarded).or_else(|| order().next()) {
                Some(victim) => drop(self.give_up(peer, victim, changes)),
                None => return,
            }
        }
        self.keep(peer, block, Some(left), changes);
    }

    /// Keeps a block in place of the one that is used last of all, if it is used before that.
    fn keep_next(
        &mut self,
        worker: usize,
        block: u64,
        next_use: &dyn Fn(u64) -> u64,
        changes: &mut Vec<Change>,
    ) {
        if let Some(at) = self.with_room(worker) {
            return self.keep(at, block, None, changes);
        }
        let held = self.holders.iter().filter_map(|(&block, at)| Some((block, *at.first()?)));
        let last = held.max_by_key(|&(block, _)| next_use(block));
        if let Some((victim, at)) = last.filter(|&(victim, _)| next_use(block) < next_use(victim)) {
            self.give_up(at, victim, changes);
            self.keep(at, block, None, changes);
        }
    }

    fn keep(&mut self, worker: usize, block: u64, chances: Option<u8>, changes: &mut Vec<Change>) {
        let memory = &mut self.workers[worker];
        memory.held.insert(block, HeldBlock { used: self.clock, chances });
        memory.by_use.insert((self.clock, block));
        self.holders.entry(block).or_default().insert(worker);
        changes.push(Change::Keep { worker, block });
    }

    fn give_up(&mut self, worker: usize, block: u64, changes: &mut Vec<Change>) -> HeldBlock {
        let memory = &mut self.workers[worker];
        let held = memory.held.remove(&block).expect("it is held");
        memory.by_use.remove(&(held.used, block));
        let holders = self.holders.get_mut(&block).expect("the directory has all that is held");
        holders.remove(&worker);
        if holders.is_empty() {
            self.holders.remove(&block);
        }
        changes.push(Change::Drop { worker, block });
        held
    }

    fn check(&self) {
        let within = |memory: &WorkerMemory| memory.held.len() <= memory.blocks_max;
        assert!(self.workers.iter().all(within), "a worker holds more blocks than it may");
    }
}

impl WorkerMemory {
    fn room(&self) -> usize {
        self.blocks_max - self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn last_copy_is_forwarded_and_copies_of_others_make_room() {
        let mut cache = CooperativeCache::new(Scheme::NChance, &[1, 2]);
        cache.on_read(0, 1, &|_| 0, 0);
        let changes = cache.on_read(0, 2, &|_| 0, 0);
        let (drop, to_peer) =
            (Change::Drop { worker: 0, block: 1 }, Change::Keep { worker: 1, block: 1 });
        assert_eq!(changes[..2], [drop, to_peer]);
        cache.on_read(1, 2, &|_| 0, 0);
        assert_eq!(cache.holders(2).collect::<Vec<_>>(), [0, 1]);
        // Worker 0 gives up its copy of block 2, which is not the last.
        let changes = cache.on_read(0, 3, &|_| 0, 0);
        assert_eq!(changes[0], Change::Drop { worker: 0, block: 2 });
        // The last copy of block 3 takes the place of a forwarded block.
        cache.on_read(0, 4, &|_| 0, 0);
        assert_eq!(cache.look_up(0, 3, 0), CachePlace::Peer(1));
        assert_eq!(cache.look_up(0, 1, 0), CachePlace::Origin);
    }

    #[test]
    fn pinned_blocks_stay_and_are_kept_once() {
        let mut cache = CooperativeCache::new(Scheme::PinnedForwarding, &[1, 2]);
        for block in 0..5 {
            cache.on_read(0, block, &|_| 0, 0);
        }
        let held: Vec<Vec<usize>> = (0..5).map(|block| cache.holders(block).collect()).collect();
        assert_eq!(held, [vec![0], vec![1], vec![1], vec![], vec![]]);
        assert!(cache.on_read(0, 1, &|_| 0, 0).is_empty(), "a peer has it");
    }

    #[test]
    fn clairvoyant_cache_drops_the_block_used_last() {
        let mut cache = CooperativeCache::new(Scheme::Clairvoyant, &[2]);
        let next = |block: u64| 100 - block;
        (1..=3).for_each(|block| drop(cache.on_read(0, block, &next, 0)));
        let held: Vec<u64> = (1..=3).filter(|&block| cache.holders(block).count() > 0).collect();
        assert_eq!(held, [2, 3]);
    }
}
