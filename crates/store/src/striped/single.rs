//! Reads of single blocks: from their own disks, or restored from others of their stripe.
//!
//! `euphrates_policy::striping::SingleReads` decides from the expected waits of the disks.

use std::ops::Range;
use std::sync::mpsc::{Sender, channel};

use arrow::buffer::Buffer;
use euphrates_flow::Result;
use euphrates_flow::sync::Mutex;
use euphrates_policy::striping::{SingleRead, SingleReads};

use super::blocks::{BlockCache, CACHED_BLOCKS_MAX, copy_out, restore};
use super::source::refused;
use super::version::StripedVersion;
use crate::declustering::{BlockRefused, BlockRequest};
use crate::segment::expect_crc;

/// Blocks that may be read in addition per thousand, so that a block comes sooner.
const EXTRA_PER_MILLE: u32 = 200;
/// Such blocks that can be saved up.
const EXTRA_BLOCKS_MAX: u32 = 64;

/// The policy and the memory of a handle's reads of single blocks.
#[derive(Debug)]
pub(super) struct SingleBlocks {
    policy: Mutex<SingleReads>,
    pub cache: Mutex<BlockCache>,
}

impl Default for SingleBlocks {
    fn default() -> SingleBlocks {
        let policy = Mutex::new(SingleReads::new(EXTRA_PER_MILLE, EXTRA_BLOCKS_MAX));
        SingleBlocks { policy, cache: Mutex::default() }
    }
}

type BlockRead = (usize, Result<Buffer, BlockRefused>);

/// The blocks of one stripe that are being read.
struct StripeRead<'a> {
    version: &'a StripedVersion,
    stripe: usize,
    sent: Vec<bool>,
    failed: Vec<bool>,
    pending: usize,
    good: Vec<(usize, Buffer)>,
    done: Sender<BlockRead>,
}

impl SingleBlocks {
    /// Copies a range of a stripe's data; `at` is the offset in the stripe.
    pub fn read(
        &self,
        version: &StripedVersion,
        stripe: usize,
        at: usize,
        to: &mut [u8],
    ) -> Result<()> {
        let entry = &version.map.stripes[stripe];
        if entry.blocks.is_empty() {
            to.fill(0);
            return Ok(());
        }
        let block_bytes = entry.block_bytes as usize;
        let places: Range<usize> = (at / block_bytes).min(version.layout.data)
            ..(at + to.len()).div_ceil(block_bytes).min(version.layout.data);
        let cached: Vec<Option<Buffer>> = {
            let mut cache = self.cache.lock();
            places.clone().map(|place| cache.get((stripe, place))).collect()
        };
        let wanted: Vec<usize> =
            places.clone().filter(|place| cached[place - places.start].is_none()).collect();
        let mut read = self.blocks(version, stripe, &wanted)?.into_iter();
        let mut cache = self.cache.lock();
        for (place, bytes) in wanted.iter().zip(read.as_slice()) {
            cache.put((stripe, *place), bytes.clone());
        }
        drop(cache);
        let all = cached.into_iter().map(|known| known.or_else(|| read.next()));
        let all: Vec<Buffer> = all.flatten().collect();
        copy_out(&all, places.start, block_bytes, at, to);
        Ok(())
    }

    /// Reads those of these data blocks that are not in memory, if they are not too many.
    pub fn warm(&self, version: &StripedVersion, stripe: usize, places: &[usize]) -> Result<()> {
        if places.len() > CACHED_BLOCKS_MAX || version.map.stripes[stripe].blocks.is_empty() {
            return Ok(());
        }
        let wanted: Vec<usize> = {
            let mut cache = self.cache.lock();
            let places = places.iter().copied();
            places.filter(|place| cache.get((stripe, *place)).is_none()).collect()
        };
        let read = self.blocks(version, stripe, &wanted)?;
        let mut cache = self.cache.lock();
        wanted.iter().zip(read).for_each(|(place, bytes)| cache.put((stripe, *place), bytes));
        Ok(())
    }

    /// Reads blocks of a stripe, data or parity, by place.
    pub fn blocks(
        &self,
        version: &StripedVersion,
        stripe: usize,
        wanted: &[usize],
    ) -> Result<Vec<Buffer>> {
        let (done, completions) = channel();
        let none = vec![false; version.map.width];
        let (sent, failed, good) = (none.clone(), none, vec![]);
        let mut read = StripeRead { version, stripe, sent, failed, pending: 0, good, done };
        match *wanted {
            [one] => match self.choose(version, stripe, one) {
                SingleRead::Direct => read.send(one),
                SingleRead::Restore(places) => places.into_iter().for_each(|at| read.send(at)),
                SingleRead::Lost => {}
            },
            _ => wanted.iter().for_each(|&place| read.send(place)),
        }
        let needed = version.layout.data;
        loop {
            let has = |place: &usize| read.good.iter().any(|(at, _)| at == place);
            if wanted.iter().all(has) || read.good.len() >= needed {
                return restore(&version.code, &read.good, wanted);
            }
            let missing = wanted.iter().filter(|&place| !has(place)).count();
            let coming = wanted.iter().filter(|&&place| read.is_coming(place)).count();
            if coming < missing {
                while read.good.len() + read.pending < needed {
                    let Some(place) = read.next() else { break };
                    read.send(place);
                }
                if read.pending == 0 {
                    return Err(version.too_few_error(stripe));
                }
            }
            let (place, result) = completions.recv().expect("a sender is kept");
            read.on_read(place, result);
        }
    }

    fn choose(&self, version: &StripedVersion, stripe: usize, place: usize) -> SingleRead {
        let wait = |at: usize| {
            let (disk, _) = version.disk_at(stripe, at);
            let is_there = version.request(stripe, at).is_ok();
            is_there.then(|| version.disks[disk].pace.wait_ns())
        };
        let others = (0..version.map.width).filter(|&at| at != place);
        let others: Vec<(usize, u64)> = others.filter_map(|at| Some((at, wait(at)?))).collect();
        self.policy.lock().choose(wait(place), &others, version.layout.data)
    }
}

impl StripeRead<'_> {
    /// Whether the block has been requested, and has not failed or arrived.
    fn is_coming(&self, place: usize) -> bool {
        let is_here = self.good.iter().any(|(at, _)| *at == place);
        self.sent[place] && !self.failed[place] && !is_here
    }

    /// The block to read next in place of one that has failed: that of the shortest wait.
    fn next(&self) -> Option<usize> {
        let unsent = (0..self.sent.len()).filter(|&place| !self.sent[place]);
        unsent.min_by_key(|&place| {
            let (disk, _) = self.version.disk_at(self.stripe, place);
            self.version.disks[disk].pace.wait_ns()
        })
    }

    fn send(&mut self, place: usize) {
        self.sent[place] = true;
        self.pending += 1;
        let (number, disk) = self.version.disk_at(self.stripe, place);
        let request = self.version.request(self.stripe, place);
        let (done, pace) = (self.done.clone(), self.version.disks[number].pace.clone());
        // The file of a request is open, so its disk is.
        let (request, disk) = match (request, disk) {
            (Ok(request), Some(disk)) => (request, disk),
            (Err(refused), _) => return drop(done.send((place, Err(refused)))),
            (Ok(_), None) => unreachable!("an open file on a missing disk"),
        };
        let BlockRequest { file, offset, length, path, crc } = request;
        let began = pace.begin();
        disk.read_then(&file, offset, length, path, move |read| {
            pace.end(began.elapsed());
            let read = read.and_then(|bytes| expect_crc(&bytes, crc).map(|()| bytes));
            drop(done.send((place, read.map_err(|error| refused(&error)))));
        });
    }

    fn on_read(&mut self, place: usize, read: Result<Buffer, BlockRefused>) {
        self.pending -= 1;
        match read {
            Ok(bytes) => self.good.push((place, bytes)),
            Err(BlockRefused { what, .. }) => {
                self.failed[place] = true;
                let damage = self.version.block_damage(self.stripe, place, what);
                self.version.on_damage(damage);
            }
        }
    }
}
