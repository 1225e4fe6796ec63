//! Admission and eviction of the cache of remote data in one process: extents of objects, under a
//! bound in bytes.
//!
//! An **epoch** of an object is one flow that reads it. Extents that an epoch has used are pinned
//! for the next one, also if the cache is full: an epoch reads everything once, so the least
//! recently used extent is the one that is read next. An extent can be evicted when a whole epoch
//! of its object has not used it, or when no flow reads its object and another flow has ended
//! since. Objects and flows are numbered by the caller; later flows have greater numbers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Bytes that an extent costs beside its content.
pub const EXTENT_OVERHEAD_BYTES: u64 = 256;

/// An extent that is evicted: its object, and its first byte there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The number of the object.
    pub object: u64,
    /// The first byte of the extent.
    pub start: u64,
}

/// A flow that reads an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The number of the object.
    pub object: u64,
    /// The number of the flow.
    pub flow: u64,
    /// False while the flow is only checked: this begins no epoch.
    pub is_running: bool,
}

/// What becomes of an extent that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Whether it is cached.
    pub is_admitted: bool,
    /// Extents that are evicted; no epoch needs them, whether this one is admitted or not.
    pub evicted: Vec<Victim>,
}

/// The bookkeeping of all extents of a process; it has none of their bytes.
///
/// ```
/// use euphrates_policy::caching::extents_kept::{KeptExtents, Reading};
///
/// let mut kept = KeptExtents::new(2000);
/// let reading = |flow| Reading { object: 7, flow, is_running: true };
/// kept.on_open(7);
/// assert!(kept.admit(reading(1), 0, 1000).is_admitted);
/// assert!(!kept.admit(reading(1), 1000, 1000).is_admitted, "the first is pinned");
/// kept.on_close(7, 1);
/// kept.on_open(7);
/// assert!(!kept.admit(reading(2), 1000, 1000).is_admitted, "it still is");
/// ```
#[derive(Clone, Debug, Default)]
pub struct KeptExtents {
    bytes_max: u64,
    bytes: u64,
    objects: BTreeMap<u64, KeptObject>,
    /// The latest flow that has read something and ended.
    ended: u64,
}

#[derive(Clone, Debug, Default)]
struct KeptObject {
    /// How often it is open.
    readers: usize,
    /// The number of the epoch, and the flow that it is.
    epoch: u64,
    flow: u64,
    /// Bytes and last epoch of each extent, by its first byte.
    extents: BTreeMap<u64, (u64, u64)>,
    /// Last epoch and first byte of each extent.
    by_epoch: BTreeSet<(u64, u64)>,
}

impl KeptExtents {
    /// Nothing is kept, and at most `bytes_max` bytes will be.
    pub fn new(bytes_max: u64) -> KeptExtents {
        KeptExtents { bytes_max, ..KeptExtents::default() }
    }

    /// Bytes of all extents, with [`EXTENT_OVERHEAD_BYTES`] for each.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a flow may read the object.
    pub fn is_open(&self, object: u64) -> bool {
        self.objects.get(&object).is_some_and(|known| known.readers > 0)
    }

    /// Whether a flow may read the object, or something of it is kept.
    pub fn is_known(&self, object: u64) -> bool {
        self.objects.contains_key(&object)
    }

    /// Sets another bound, and gives up what exceeds it.
    pub fn limit(&mut self, bytes_max: u64) -> Vec<Victim> {
        self.bytes_max = bytes_max;
        self.release(self.bytes.saturating_sub(bytes_max))
    }

    /// A flow may read the object from now on, until it is closed as often.
    pub fn on_open(&mut self, object: u64) {
        self.objects.entry(object).or_default().readers += 1;
    }

    /// A flow reads the object no more.
    pub fn on_close(&mut self, object: u64, flow: u64) {
        let Some(known) = self.objects.get_mut(&object) else { return };
        known.readers = known.readers.saturating_sub(1);
        if known.flow == flow {
            self.ended = self.ended.max(flow);
        }
        if known.readers == 0 && known.extents.is_empty() {
            self.objects.remove(&object);
        }
    }

    /// An extent that is kept has been used.
    pub fn on_used(&mut self, reading: Reading, start: u64) {
        let object = self.begun(reading);
        if let Some((_, used)) = object.extents.get_mut(&start) {
            object.by_epoch.remove(&(*used, start));
            *used = object.epoch;
            object.by_epoch.insert((*used, start));
        }
    }

    /// Whether an extent that was read is admitted, and which others are evicted for it. It is not
    /// admitted if it is larger than the cache, or if too many others are pinned.
    pub fn admit(&mut self, reading: Reading, start: u64, bytes: u64) -> Admission {
        self.begun(reading);
        let cost = bytes + EXTENT_OVERHEAD_BYTES;
        let mut evicted = Vec::new();
        while cost <= self.bytes_max && self.bytes + cost > self.bytes_max {
            let Some(victim) = self.unneeded() else { break };
            self.remove(victim);
            evicted.push(victim);
        }
        let is_admitted = self.bytes + cost <= self.bytes_max;
        if is_admitted {
            let object = self.objects.entry(reading.object).or_default();
            let before = object.extents.insert(start, (bytes, object.epoch));
            assert!(before.is_none(), "an extent is admitted once");
            object.by_epoch.insert((object.epoch, start));
            self.bytes += cost;
        }
        self.check();
        Admission { is_admitted, evicted }
    }

    /// Whether an extent of these bytes would be admitted.
    pub fn has_room(&self, bytes: u64) -> bool {
        let cost = bytes.saturating_add(EXTENT_OVERHEAD_BYTES);
        let fits = self.bytes.saturating_add(cost) <= self.bytes_max;
        fits || (cost <= self.bytes_max && self.unneeded().is_some())
    }

    /// Evicts at least these bytes: extents that are not pinned first.
    pub fn release(&mut self, bytes: u64) -> Vec<Victim> {
        let mut victims = Vec::new();
        let left = self.bytes.saturating_sub(bytes);
        while self.bytes > left {
            let Some(victim) = self.unneeded().or_else(|| self.any()) else { break };
            self.remove(victim);
            victims.push(victim);
        }
        self.check();
        victims
    }

    /// Forgets the extents of an object, whose bytes are dropped.
    pub fn forget(&mut self, object: u64) {
        if let Some(known) = self.objects.get_mut(&object) {
            let starts: Vec<u64> = known.extents.keys().copied().collect();
            starts.iter().for_each(|&start| self.remove(Victim { object, start }));
        }
        if self.objects.get(&object).is_some_and(|known| known.readers == 0) {
            self.objects.remove(&object);
        }
    }

    /// The object, in the epoch that the reading flow is.
    fn begun(&mut self, reading: Reading) -> &mut KeptObject {
        let object = self.objects.entry(reading.object).or_default();
        if reading.is_running && reading.flow > object.flow {
            object.flow = reading.flow;
            object.epoch += 1;
        }
        object
    }

    /// The extent that has not been needed for longest.
    fn unneeded(&self) -> Option<Victim> {
        let oldest = |(&object, known): (&u64, &KeptObject)| {
            let &(epoch, start) = known.by_epoch.first()?;
            let age = known.epoch - epoch;
            let is_unneeded = match known.readers == 0 {
                true => known.flow < self.ended,
                false => age >= 2,
            };
            is_unneeded.then_some((known.flow, epoch, Victim { object, start }))
        };
        let found = self.objects.iter().filter_map(oldest);
        found.min_by_key(|&(flow, epoch, _)| (flow, epoch)).map(|(.., victim)| victim)
    }

    fn any(&self) -> Option<Victim> {
        let with_extents = self.objects.iter().filter(|(_, known)| !known.extents.is_empty());
        let (&object, known) = with_extents.min_by_key(|(_, known)| known.flow)?;
        known.by_epoch.first().map(|&(_, start)| Victim { object, start })
    }

    fn remove(&mut self, Victim { object, start }: Victim) {
        let known = self.objects.get_mut(&object).expect("a victim's object is known");
        let (bytes, epoch) = known.extents.remove(&start).expect("a victim is kept");
        known.by_epoch.remove(&(epoch, start));
        self.bytes -= bytes + EXTENT_OVERHEAD_BYTES;
        if known.extents.is_empty() && known.readers == 0 {
            self.objects.remove(&object);
        }
    }

    fn check(&self) {
        assert!(self.bytes <= self.bytes_max, "more is kept than may be");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const COST: u64 = MIB + EXTENT_OVERHEAD_BYTES;

    /// One flow that reads blocks of a mebibyte of an object; returns how many were kept already.
    fn epoch(kept: &mut KeptExtents, object: u64, flow: u64, blocks: &[u64]) -> usize {
        let reading = Reading { object, flow, is_running: true };
        kept.on_open(object);
        let mut hits = 0;
        for &block in blocks {
            let is_kept = kept.objects[&object].extents.contains_key(&(block * MIB));
            hits += usize::from(is_kept);
            match is_kept {
                true => kept.on_used(reading, block * MIB),
                false => drop(kept.admit(reading, block * MIB, MIB)),
            }
        }
        kept.on_close(object, flow);
        hits
    }

    #[test]
    fn every_later_epoch_finds_what_fits() {
        let mut kept = KeptExtents::new(8 * COST);
        let forward: Vec<u64> = (0..10).collect();
        let backward: Vec<u64> = (0..10).rev().collect();
        let hits: Vec<usize> = (1..6)
            .map(|flow| match flow % 2 {
                0 => epoch(&mut kept, 1, flow, &backward),
                _ => epoch(&mut kept, 1, flow, &forward),
            })
            .collect();
        assert_eq!(hits, [0, 8, 8, 8, 8]);
    }

    #[test]
    fn other_data_gets_the_room_in_its_second_epoch() {
        let mut kept = KeptExtents::new(8 * COST);
        let all: Vec<u64> = (0..8).collect();
        epoch(&mut kept, 1, 1, &all);
        assert_eq!(epoch(&mut kept, 2, 2, &all), 0, "a single scan displaces nothing");
        assert_eq!(epoch(&mut kept, 1, 3, &all), 8);
        let hits: Vec<usize> = (4..7).map(|flow| epoch(&mut kept, 2, flow, &all)).collect();
        assert_eq!(hits, [0, 0, 8]);
    }

    #[test]
    fn other_columns_of_an_object_get_the_room_of_those_no_longer_read() {
        let mut kept = KeptExtents::new(4 * COST);
        epoch(&mut kept, 1, 1, &[0, 1, 2, 3]);
        let hits: Vec<usize> = (2..5).map(|flow| epoch(&mut kept, 1, flow, &[4, 5])).collect();
        assert_eq!(hits, [0, 0, 2]);
    }

    #[test]
    fn checks_of_a_flow_begin_no_epoch() {
        let mut kept = KeptExtents::new(4 * COST);
        epoch(&mut kept, 1, 1, &[0, 1, 2, 3]);
        for flow in 2..9 {
            kept.on_open(1);
            kept.on_used(Reading { object: 1, flow, is_running: false }, 0);
            kept.on_close(1, flow);
        }
        assert_eq!(epoch(&mut kept, 1, 9, &[4, 5, 0, 1, 2, 3]), 4);
    }

    #[test]
    fn bound_holds_in_random_schedules_and_after_each_limit() {
        for seed in 1..200u64 {
            let mut state = seed;
            let mut draw = |below: u64| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % below
            };
            let mut kept = KeptExtents::new(10 * COST);
            let mut held: BTreeSet<(u64, u64)> = BTreeSet::new();
            for step in 0..300 {
                let (object, flow, start) = (draw(4), step / 10 + draw(3), draw(9) * MIB);
                let reading = Reading { object, flow, is_running: draw(4) > 0 };
                let gone = match draw(10) {
                    0 => kept.limit((draw(10) + 1) * COST),
                    1 => kept.release(draw(5) * MIB),
                    2 => {
                        kept.on_open(object);
                        Vec::new()
                    }
                    3 => {
                        kept.on_close(object, flow);
                        Vec::new()
                    }
                    _ if held.contains(&(object, start)) => {
                        kept.on_used(reading, start);
                        Vec::new()
                    }
                    _ => {
                        let Admission { is_admitted, evicted } = kept.admit(reading, start, MIB);
                        evicted.iter().for_each(|gone| {
                            assert!(held.remove(&(gone.object, gone.start)));
                        });
                        if is_admitted {
                            held.insert((object, start));
                        }
                        Vec::new()
                    }
                };
                for Victim { object, start } in gone {
                    assert!(held.remove(&(object, start)), "only cached extents are evicted");
                }
                assert_eq!(kept.bytes(), held.len() as u64 * COST);
            }
        }
    }
}
