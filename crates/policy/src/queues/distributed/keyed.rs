//! Keyed exchanges: over-partitioning, with partitions bound to consumers late.
//!
//! All records of a key must reach one consumer, so a single batch cannot go to any idle one. A
//! partition can: keys are hashed into more partitions than consumers, and a partition is bound to
//! a consumer only when the consumer is idle. The largest goes first, so that the last one is
//! small. The owner of a begun partition has state and keeps it; a partition that is not begun may
//! still be moved to another consumer (River 2.3.2: pull, where a single bad decision is costly).
//! One [`Binder`] per queue decides, in any process. Producers report their bytes to it and send a
//! partition's data to its owner.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::protocol::Peer;

/// A partition of the keys, counted from 0.
pub type Partition = u32;

/// The assignment of partitions to consumers.
///
/// ```
/// use euphrates_policy::distributed::keyed::Binder;
///
/// let mut binder = Binder::new(3, 1);
/// [(0, 10), (1, 30), (2, 20)].map(|(partition, bytes)| binder.on_bytes(partition, bytes));
/// assert_eq!(binder.bind(7, false).map(|bound| bound.partition), Some(1), "the largest first");
/// assert_eq!(binder.bind(7, false), None, "consumer 7 owns one already");
/// ```
#[derive(Clone, Debug)]
pub struct Binder {
    partitions: Vec<State>,
    /// Partitions without an owner and with data, largest last.
    free: BTreeSet<(u64, Partition)>,
    /// Unfinished partitions, by owner.
    owned: BTreeMap<Peer, BTreeSet<Partition>>,
    owned_max: u32,
    ended: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    bytes: u64,
    owner: Option<Peer>,
    begun: bool,
    finished: bool,
}

/// The binding of a partition: producers send its data to `owner` from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The partition that is bound.
    pub partition: Partition,
    /// The consumer that owns it from now on.
    pub owner: Peer,
    /// The previous owner, which had not begun it.
    pub before: Option<Peer>,
}

impl Binder {
    /// An assignment without owners. A consumer may own `owned_max` unfinished partitions, at least
    /// 1.
    pub fn new(partitions: u32, owned_max: u32) -> Binder {
        Binder {
            partitions: alloc::vec![State::default(); partitions as usize],
            free: BTreeSet::new(),
            owned: BTreeMap::new(),
            owned_max: owned_max.max(1),
            ended: false,
        }
    }

    /// A producer has `bytes` more of a partition.
    pub fn on_bytes(&mut self, partition: Partition, bytes: u64) {
        let state = &mut self.partitions[partition as usize];
        assert!(!state.finished && !self.ended, "partition {partition} after its end");
        if state.owner.is_none() {
            self.free.remove(&(state.bytes, partition));
            self.free.insert((state.bytes + bytes, partition));
        }
        state.bytes += bytes;
        self.check(partition);
    }

    /// No producer will have more data.
    pub fn on_end(&mut self) {
        self.ended = true;
    }

    /// Binds a partition to an idle consumer, if there is one for it. If all are bound and
    /// `may_move`, it moves the largest unbegun partition of the consumer with the most unfinished
    /// bytes.
    pub fn bind(&mut self, consumer: Peer, may_move: bool) -> Option<Bound> {
        let count = self.owned.get(&consumer).map_or(0, BTreeSet::len);
        if count >= self.owned_max as usize {
            return None;
        }
        if let Some((_, partition)) = self.free.pop_last() {
            return Some(self.give(partition, consumer, None));
        }
        let (partition, before) = self.movable(consumer).filter(|_| may_move)?;
        self.owned.get_mut(&before)?.remove(&partition);
        Some(self.give(partition, consumer, Some(before)))
    }

    /// The owner begins a partition, which will not be moved any more.
    pub fn on_begun(&mut self, consumer: Peer, partition: Partition) {
        let state = &mut self.partitions[partition as usize];
        assert_eq!(state.owner, Some(consumer), "partition {partition} is begun by its owner");
        state.begun = true;
    }

    /// The owner has finished a partition; no more data of it may come.
    pub fn on_finished(&mut self, consumer: Peer, partition: Partition) {
        assert!(self.ended, "more of partition {partition} may come");
        let state = &mut self.partitions[partition as usize];
        assert!(state.owner == Some(consumer) && !state.finished, "partition {partition}");
        state.finished = true;
        let owned = self.owned.get_mut(&consumer);
        assert!(owned.is_some_and(|owned| owned.remove(&partition)));
    }

    /// A consumer has died. Returns its unfinished partitions, which are free again and must be
    /// sent again from their beginning.
    pub fn on_death(&mut self, consumer: Peer) -> Vec<Partition> {
        let lost: Vec<Partition> = self.owned.remove(&consumer).into_iter().flatten().collect();
        for &partition in &lost {
            let state = &mut self.partitions[partition as usize];
            (state.owner, state.begun) = (None, false);
            self.free.insert((state.bytes, partition));
            self.check(partition);
        }
        lost
    }

    /// The current owner of a partition, dead or alive; `None` before it is bound.
    pub fn owner(&self, partition: Partition) -> Option<Peer> {
        self.partitions[partition as usize].owner
    }

    /// Whether all partitions with data are finished and no more data will come.
    pub fn is_finished(&self) -> bool {
        let done = |state: &State| state.finished || state.bytes == 0;
        self.ended && self.partitions.iter().all(done)
    }

    fn give(&mut self, partition: Partition, owner: Peer, before: Option<Peer>) -> Bound {
        self.partitions[partition as usize].owner = Some(owner);
        self.owned.entry(owner).or_default().insert(partition);
        self.check(partition);
        Bound { partition, owner, before }
    }

    /// The largest unbegun partition of the consumer with the most unfinished bytes. A consumer
    /// with a single partition is about to begin it and keeps it.
    fn movable(&self, not_from: Peer) -> Option<(Partition, Peer)> {
        let bytes = |partition: &Partition| self.partitions[*partition as usize].bytes;
        let waiting = |owned: &BTreeSet<Partition>| {
            let idle = owned.iter().filter(|&&p| !self.partitions[p as usize].begun);
            idle.copied().max_by_key(bytes)
        };
        let others =
            self.owned.iter().filter(|&(&peer, owned)| peer != not_from && owned.len() > 1);
        let movable = others.filter_map(|(&peer, owned)| {
            Some((owned.iter().map(bytes).sum::<u64>(), waiting(owned)?, peer))
        });
        movable.max().map(|(_, partition, peer)| (partition, peer))
    }

    fn check(&self, partition: Partition) {
        let state = self.partitions[partition as usize];
        let is_free = self.free.contains(&(state.bytes, partition));
        debug_assert!(is_free == (state.owner.is_none() && state.bytes > 0));
        let is_owned = |owner| self.owned.get(&owner).is_some_and(|all| all.contains(&partition));
        debug_assert!(state.finished || state.owner.is_none_or(is_owned));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn largest_partitions_are_bound_first_to_idle_consumers() {
        let mut binder = Binder::new(4, 2);
        [10, 40, 30, 20].iter().zip(0..).for_each(|(&bytes, at)| binder.on_bytes(at, bytes));
        let bound = |partition, owner| Some(Bound { partition, owner, before: None });
        assert_eq!(binder.bind(7, true), bound(1, 7));
        assert_eq!(binder.bind(8, true), bound(2, 8));
        assert_eq!(binder.bind(7, true), bound(3, 7));
        assert_eq!(binder.bind(7, true), None, "it owns as many as it may");
        assert_eq!(binder.bind(8, true), bound(0, 8));
        binder.on_begun(7, 1);
        assert_eq!(binder.bind(9, false), None);
        assert_eq!(binder.bind(9, true), Some(Bound { partition: 3, owner: 9, before: Some(7) }));
        assert_eq!(binder.bind(9, true), Some(Bound { partition: 2, owner: 9, before: Some(8) }));
    }

    #[test]
    fn every_schedule_finishes_every_partition_once() {
        for seed in 0..3000 {
            let mut dice = crate::distributed::dice::Dice(seed);
            let (partitions, consumers) = (1 + dice.below(20), 1 + dice.below(5));
            let mut binder = Binder::new(partitions, 1 + dice.below(3));
            let mut alive: Vec<bool> = (0..consumers).map(|_| true).collect();
            for step in 0.. {
                assert!(step < 100_000, "seed {seed} does not end");
                if binder.is_finished() {
                    break;
                }
                let consumer = dice.below(consumers);
                match dice.below(8) {
                    0 if step < 100 => binder.on_bytes(dice.below(partitions), 1),
                    1 if step >= 100 => binder.on_end(),
                    2 if alive[1..].contains(&true) && consumer > 0 && dice.below(20) == 0 => {
                        alive[consumer as usize] = false;
                        binder.on_death(consumer);
                    }
                    _ if !alive[consumer as usize] => {}
                    3 | 4 => drop(binder.bind(consumer, dice.below(2) == 0)),
                    _ => {
                        let mine = binder.owned.get(&consumer).into_iter().flatten().next();
                        let Some(&partition) = mine else { continue };
                        binder.on_begun(consumer, partition);
                        if binder.ended {
                            binder.on_finished(consumer, partition);
                        }
                    }
                }
                let owned_max = binder.owned_max as usize;
                assert!(binder.owned.values().all(|all| all.len() <= owned_max), "seed {seed}");
            }
        }
    }
}
