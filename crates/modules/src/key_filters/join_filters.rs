//! The join's part of filters: gathers the ranges of keys while the build side comes in, and leaves
//! filters for the sources of the probe side when all rows are known.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use euphrates_flow::module::KeyFilterSlot;
use euphrates_flow::{Result, Setup};
use parking_lot::Mutex;

use super::bloom_filter::BloomPart;
use super::key_ranges::KeyRanges;
use super::publisher::KeyFilterPublisher;
use super::single_key::SingleKeyPublisher;
use crate::join::join_keys::JoinKeyEncoder;

/// Makes the filters of a join, for the instances in this process.
pub(crate) struct JoinFilters {
    build: JoinKeyEncoder,
    ranges: Arc<Mutex<KeyRanges>>,
    /// The filter by all keys, if a source in this process reads it.
    of_all: Option<KeyFilterPublisher>,
    /// Those by single keys that are read.
    single: Vec<SingleKeyPublisher>,
}

impl JoinFilters {
    /// Promises the filters for the slots that sources in this process read: that of all keys, and
    /// one for each key if there are several. The encoders are those of the build side and the
    /// probe side.
    pub(crate) fn new(
        slots: &[Arc<KeyFilterSlot>],
        [build, probe]: [&JoinKeyEncoder; 2],
        setup: &Setup,
    ) -> Result<JoinFilters> {
        let keys = build.types().len();
        let ranges = Arc::new(Mutex::new(KeyRanges::new(keys)));
        let of_all = slots.first();
        let of_all =
            of_all.and_then(|slot| KeyFilterPublisher::new(slot, probe, &ranges, 0..keys, setup));
        let mut single = vec![];
        for (key, slot) in slots.iter().skip(1).enumerate() {
            let probe = probe.of_key(key)?;
            let made = KeyFilterPublisher::new(slot, &probe, &ranges, key..key + 1, setup);
            if let Some(made) = made {
                single.push(SingleKeyPublisher::new(made, build.of_key(key)?, key, setup));
            }
        }
        Ok(JoinFilters { build: build.clone(), ranges, of_all, single })
    }

    fn is_read(&self) -> bool {
        self.of_all.is_some() || !self.single.is_empty()
    }

    /// Adds the keys of a batch of the build side, which must not be null.
    pub(crate) fn add(&self, batch: &RecordBatch) -> Result<()> {
        if !self.is_read() {
            return Ok(());
        }
        let keys = self.build.columns(batch)?;
        self.single.iter().try_for_each(|single| single.add(&keys))?;
        let own = KeyRanges::of(&keys)?;
        self.ranges.lock().merge(own)
    }

    /// What this process knows of the keys of its own rows, for `gathered`: their ranges, and for
    /// each key the number of its hashes that follow and one more, or 0 if they are not known.
    pub(crate) fn sent(&self) -> Vec<usize> {
        let keys = self.build.types().len();
        let mut words = match self.is_read() {
            true => self.ranges.lock().encode(),
            false => KeyRanges::unknown(keys).encode(),
        };
        for key in 0..keys {
            let single = self.single.iter().find(|single| single.key() == key);
            let hashes = single.and_then(SingleKeyPublisher::sent);
            words.push(hashes.as_ref().map_or(0, |hashes| hashes.len() + 1));
            words.extend(hashes.into_iter().flatten().map(|hash| hash as usize));
        }
        words
    }

    /// Takes what the instances in all processes have sent.
    pub(crate) fn gathered(&self, all: &[Vec<usize>]) -> Result<()> {
        if !self.is_read() {
            return Ok(());
        }
        let types = self.build.types();
        let of_ranges = KeyRanges::words(types.len());
        *self.ranges.lock() = KeyRanges::of_all(&types, all)?;
        let mut rest: Vec<&[usize]> = all.iter().map(|words| &words[of_ranges..]).collect();
        for key in 0..types.len() {
            let hashes = take_hashes(&mut rest);
            if let Some(single) = self.single.iter().find(|single| single.key() == key) {
                single.gathered(hashes);
            }
        }
        Ok(())
    }

    /// Adds the keys with these hashes to the filter by all keys, if they are integers of a small
    /// range; else does nothing, and `blocks` says how large a filter of the hashes is. `rows` are
    /// those of the build side, of which the ranges are known.
    pub(crate) fn add_hashes(&self, hashes: &[u64], rows: usize) {
        self.of_all.iter().for_each(|filter| filter.add_hashes(hashes, rows));
    }

    /// The number of blocks of a filter of these rows' hashes; `None` if there is to be none.
    pub(crate) fn blocks(&self, rows: usize) -> Option<usize> {
        self.of_all.as_ref().and_then(|filter| filter.blocks(rows))
    }

    /// Leaves the filters. That by all keys has those of all rows of the build side, as hashes in
    /// `parts` or added before.
    pub(crate) fn publish(&self, parts: Option<Vec<BloomPart>>, rows: usize) {
        if let Some(filter) = &self.of_all {
            filter.publish(parts, rows);
        }
        self.single.iter().for_each(SingleKeyPublisher::publish);
    }

    /// Says that there are no filters, unless they have been left: no source need wait for them.
    pub(crate) fn give_up(&self) {
        self.of_all.iter().for_each(KeyFilterPublisher::give_up);
        self.single.iter().for_each(SingleKeyPublisher::give_up);
    }
}

/// Takes the hashes of one key from what each instance has sent; `None` if one does not know them.
fn take_hashes(rest: &mut [&[usize]]) -> Option<Vec<u64>> {
    let mut all = Some(vec![]);
    for words in rest {
        let (count, others) =
            words.split_first().map_or((0, *words), |(count, rest)| (*count, rest));
        let (hashes, others) = others.split_at(count.saturating_sub(1));
        *words = others;
        all = all.filter(|_| count > 0);
        all.iter_mut().for_each(|all| all.extend(hashes.iter().map(|hash| *hash as u64)));
    }
    all
}
