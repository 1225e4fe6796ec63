//! The filter of a join by some of its keys: a set of the keys of the build side, left for the
//! source when all rows are known.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use euphrates_flow::module::KeyFilterSlot;
use euphrates_flow::{MemoryAccount, Setup};
use euphrates_policy::key_filter::{blocks, has_bitmap};
use parking_lot::Mutex;

use super::bloom_filter::{BloomFilter, BloomPart};
use super::build_keys::{BuildKeys, KeySet};
use super::key_bitmap::{KeyBitmap, KeyDomainBounds};
use super::key_ranges::KeyRanges;
use crate::join::join_keys::JoinKeyEncoder;

/// Makes the filter, for the instances in this process.
pub(super) struct KeyFilterPublisher {
    slot: Arc<KeyFilterSlot>,
    /// The encoder of the probe side, for the filter's keys alone.
    probe: JoinKeyEncoder,
    /// The ranges of all keys of the join.
    ranges: Arc<Mutex<KeyRanges>>,
    /// The keys of this filter, by position among those of the join.
    keys: Range<usize>,
    /// The keys, if these are integers of a small range.
    bitmap: OnceLock<Option<Arc<KeyBitmap>>>,
    memory: MemoryAccount,
}

impl KeyFilterPublisher {
    /// Promises the filter for a slot; `None` if no source reads it. The encoder is that of the
    /// probe side, for these keys.
    pub(super) fn new(
        slot: &Arc<KeyFilterSlot>,
        probe: &JoinKeyEncoder,
        ranges: &Arc<Mutex<KeyRanges>>,
        keys: Range<usize>,
        setup: &Setup,
    ) -> Option<KeyFilterPublisher> {
        slot.promise().then(|| KeyFilterPublisher {
            slot: slot.clone(),
            probe: probe.of_keys_alone(),
            ranges: ranges.clone(),
            keys,
            bitmap: OnceLock::new(),
            memory: setup.memory.clone(),
        })
    }

    /// Adds the keys with these hashes to the filter, if they are integers of a small range; else
    /// does nothing, and `blocks` says how large a filter of the hashes is. `rows` are those of the
    /// build side, of which the ranges are known.
    pub(super) fn add_hashes(&self, hashes: &[u64], rows: usize) {
        if let Some(bitmap) = self.bitmap(rows) {
            bitmap.add(hashes);
        }
    }

    fn bitmap(&self, rows: usize) -> Option<&Arc<KeyBitmap>> {
        let bitmap = self.bitmap.get_or_init(|| {
            let ranges = self.known_ranges();
            let [Some(range)] = &ranges[..] else { return None };
            let domain = self.probe.is_one_number().then(|| KeyDomainBounds::of(range))??;
            let is_small = has_bitmap(rows, domain.span, self.memory.limit_bytes());
            is_small.then(|| Arc::new(KeyBitmap::new(domain)))
        });
        bitmap.as_ref()
    }

    fn known_ranges(&self) -> Vec<Option<ArrayRef>> {
        self.ranges.lock().known()[self.keys.clone()].to_vec()
    }

    /// The number of blocks of a filter of these rows' hashes; `None` if there is to be none.
    pub(super) fn blocks(&self, rows: usize) -> Option<usize> {
        match self.bitmap(rows) {
            Some(_) => None,
            None => blocks(rows, self.memory.limit_bytes()),
        }
    }

    /// Leaves the filter, which has the keys of all rows of the build side, as hashes in `parts` or
    /// added before; or says that there is none.
    pub(super) fn publish(&self, parts: Option<Vec<BloomPart>>, rows: usize) {
        let keys = match self.bitmap(rows) {
            Some(keys) => Some(KeySet::Integers(keys.clone())),
            None => parts.map(|parts| KeySet::Hashed(BloomFilter::new(parts))),
        };
        let filter = keys.map(|keys| {
            let reservation = self.memory.reservation();
            reservation.resize(keys.bytes());
            let (encoder, ranges) = (self.probe.clone(), self.known_ranges());
            let is_empty = rows == 0;
            Arc::new(BuildKeys { encoder, keys, ranges, is_empty, reservation }) as _
        });
        self.slot.publish(filter);
    }

    /// Says that there is no filter, unless it has been left: the source need not wait for it.
    pub(super) fn give_up(&self) {
        self.slot.publish(None);
    }
}
