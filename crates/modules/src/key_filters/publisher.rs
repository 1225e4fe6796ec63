//! The join's part of a filter: gathers the ranges of keys while the build side comes in, and
//! leaves the filter for the source when all rows are known.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use euphrates_flow::module::KeyFilterSlot;
use euphrates_flow::{MemoryAccount, Result, Setup};
use euphrates_policy::key_filter::blocks;
use parking_lot::Mutex;

use super::bloom_filter::{BloomFilter, BloomPart};
use super::hashed_keys::HashedKeys;
use super::key_ranges::KeyRanges;
use crate::join::join_keys::JoinKeyEncoder;

/// Makes the filter of a join, for the instances in this process.
pub(crate) struct KeyFilterPublisher {
    slot: Arc<KeyFilterSlot>,
    build: JoinKeyEncoder,
    probe: JoinKeyEncoder,
    ranges: Mutex<KeyRanges>,
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

    /// The number of blocks of a filter for these rows; `None` if there is to be none.
    pub(crate) fn blocks(&self, rows: usize) -> Option<usize> {
        blocks(rows, self.memory.limit_bytes())
    }

    /// Leaves the filter, whose parts have the hashes of all rows of the build side; or says that
    /// there is none.
    pub(crate) fn publish(&self, parts: Option<Vec<BloomPart>>, rows: usize) {
        let filter = parts.map(|parts| {
            let hashes = BloomFilter::new(parts);
            let reservation = self.memory.reservation();
            reservation.resize(hashes.bytes());
            let (encoder, ranges) = (self.probe.clone(), self.ranges.lock().known());
            let is_empty = rows == 0;
            Arc::new(HashedKeys { encoder, hashes, ranges, is_empty, reservation }) as _
        });
        self.slot.publish(filter);
    }

    /// Says that there is no filter, unless it has been left: the source need not wait for it.
    pub(crate) fn give_up(&self) {
        self.slot.publish(None);
    }
}
