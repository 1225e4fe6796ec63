//! The join's part of a filter: gathers the ranges of keys while the build side comes in, and
//! leaves the filter for the source when all rows are known.

use std::sync::{Arc, OnceLock};

use arrow::record_batch::RecordBatch;
use euphrates_flow::module::KeyFilterSlot;
use euphrates_flow::{MemoryAccount, Result, Setup};
use euphrates_policy::key_filter::{blocks, has_bitmap};
use parking_lot::Mutex;

use super::bloom_filter::{BloomFilter, BloomPart};
use super::build_keys::{BuildKeys, KeySet};
use super::key_bitmap::{KeyBitmap, KeyDomainBounds};
use super::key_ranges::KeyRanges;
use crate::join::join_keys::JoinKeyEncoder;

/// Makes the filter of a join, for the instances in this process.
pub(crate) struct KeyFilterPublisher {
    slot: Arc<KeyFilterSlot>,
    build: JoinKeyEncoder,
    probe: JoinKeyEncoder,
    ranges: Mutex<KeyRanges>,
    /// The keys, if these are integers of a small range.
    bitmap: OnceLock<Option<Arc<KeyBitmap>>>,
    memory: MemoryAccount,
}

/// What a process sends of the ranges of keys that it has not gathered.
pub(crate) fn unknown_ranges(keys: &JoinKeyEncoder) -> Vec<usize> {
    KeyRanges::unknown(keys.types().len()).encode()
}

impl KeyFilterPublisher {
    /// Promises the filter for a slot; `None` if no source reads it. The encoders are those of the
    /// build side and the probe side.
    pub(crate) fn new(
        slot: &Arc<KeyFilterSlot>,
        [build, probe]: [&JoinKeyEncoder; 2],
        setup: &Setup,
    ) -> Option<KeyFilterPublisher> {
        slot.promise().then(|| KeyFilterPublisher {
            slot: slot.clone(),
            build: build.clone(),
            probe: probe.of_keys_alone(),
            ranges: Mutex::new(KeyRanges::new(build.types().len())),
            bitmap: OnceLock::new(),
            memory: setup.memory.clone(),
        })
    }

    /// Adds the keys of a batch of the build side, which must not be null.
    pub(crate) fn add(&self, batch: &RecordBatch) -> Result<()> {
        let own = KeyRanges::of(&self.build.columns(batch)?)?;
        self.ranges.lock().merge(own)
    }

    /// The ranges of the keys that this process has taken, for `gathered`.
    pub(crate) fn encoded_ranges(&self) -> Vec<usize> {
        self.ranges.lock().encode()
    }

    /// Takes the ranges of all instances in all processes, each encoded.
    pub(crate) fn gathered(&self, all: &[Vec<usize>]) -> Result<()> {
        *self.ranges.lock() = KeyRanges::of_all(&self.build.types(), all)?;
        Ok(())
    }

    /// Adds the keys with these hashes to the filter, if they are integers of a small range; else
    /// does nothing, and `blocks` tells of the hashes' filter. `rows` are those of the build side,
    /// of which the ranges are known.
    pub(crate) fn add_hashes(&self, hashes: &[u64], rows: usize) {
        if let Some(bitmap) = self.bitmap(rows) {
            bitmap.add(hashes);
        }
    }

    fn bitmap(&self, rows: usize) -> Option<&Arc<KeyBitmap>> {
        let bitmap = self.bitmap.get_or_init(|| {
            let ranges = self.ranges.lock().known();
            let [Some(range)] = &ranges[..] else { return None };
            let domain = self.build.is_one_number().then(|| KeyDomainBounds::of(range))??;
            let is_small = has_bitmap(rows, domain.span, self.memory.limit_bytes());
            is_small.then(|| Arc::new(KeyBitmap::new(domain)))
        });
        bitmap.as_ref()
    }

    /// The number of blocks of a filter of these rows' hashes; `None` if there is to be none.
    pub(crate) fn blocks(&self, rows: usize) -> Option<usize> {
        match self.bitmap(rows) {
            Some(_) => None,
            None => blocks(rows, self.memory.limit_bytes()),
        }
    }

    /// Leaves the filter, which has the keys of all rows of the build side, as hashes in `parts` or
    /// added before; or says that there is none.
    pub(crate) fn publish(&self, parts: Option<Vec<BloomPart>>, rows: usize) {
        let keys = match self.bitmap(rows) {
            Some(keys) => Some(KeySet::Integers(keys.clone())),
            None => parts.map(|parts| KeySet::Hashed(BloomFilter::new(parts))),
        };
        let filter = keys.map(|keys| {
            let reservation = self.memory.reservation();
            reservation.resize(keys.bytes());
            let (encoder, ranges) = (self.probe.clone(), self.ranges.lock().known());
            let is_empty = rows == 0;
            Arc::new(BuildKeys { encoder, keys, ranges, is_empty, reservation }) as _
        });
        self.slot.publish(filter);
    }

    /// Says that there is no filter, unless it has been left: the source need not wait for it.
    pub(crate) fn give_up(&self) {
        self.slot.publish(None);
    }
}
