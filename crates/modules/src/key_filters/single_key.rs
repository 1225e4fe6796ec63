//! The filter of one of several keys, for a source that has no columns for the others.
//!
//! The join hashes all its keys together, so the hashes of a single one are gathered aside. More
//! rows match than by all keys, but still few if the build side has few.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow::array::ArrayRef;
use euphrates_flow::{MemoryReservation, Result, Setup};
use euphrates_policy::key_filter::{SENT_HASHES_MAX, gathers_hashes};
use parking_lot::Mutex;

use super::bloom_filter::BloomPart;
use super::publisher::KeyFilterPublisher;
use crate::join::join_keys::JoinKeyEncoder;

/// Makes the filter of one key, for the instances in this process.
pub(super) struct SingleKeyPublisher {
    publisher: KeyFilterPublisher,
    /// The encoder of the build side, for this key.
    build: JoinKeyEncoder,
    /// The position of the key among those of the join.
    key: usize,
    /// The hashes of the rows so far; `None` if there were too many.
    hashes: Mutex<Option<Vec<u64>>>,
    /// The memory of the hashes.
    reservation: MemoryReservation,
    memory_bytes: usize,
    is_sent: AtomicBool,
}

impl SingleKeyPublisher {
    pub(super) fn new(
        publisher: KeyFilterPublisher,
        build: JoinKeyEncoder,
        key: usize,
        setup: &Setup,
    ) -> SingleKeyPublisher {
        SingleKeyPublisher {
            publisher,
            build,
            key,
            hashes: Mutex::new(Some(vec![])),
            reservation: setup.memory.reservation(),
            memory_bytes: setup.memory.limit_bytes(),
            is_sent: AtomicBool::new(false),
        }
    }

    /// Adds rows of the build side by their key columns, as they are compared.
    pub(super) fn add(&self, keys: &[ArrayRef]) -> Result<()> {
        if self.hashes.lock().is_none() {
            return Ok(());
        }
        let more = self.build.hashes(&keys[self.key..self.key + 1])?;
        let mut hashes = self.hashes.lock();
        match &mut *hashes {
            Some(known) if gathers_hashes(known.len() + more.len(), self.memory_bytes) => {
                self.reservation.grow(size_of_val(more.as_slice()));
                known.extend(more);
            }
            _ => self.replace(&mut hashes, None),
        }
        Ok(())
    }

    fn replace(&self, hashes: &mut Option<Vec<u64>>, by: Option<Vec<u64>>) {
        *hashes = by;
        self.reservation.resize(hashes.as_ref().map_or(0, |known| size_of_val(known.as_slice())));
    }

    pub(super) fn key(&self) -> usize {
        self.key
    }

    /// The hashes that this process has gathered, for `gathered`; `None` if they are too many to be
    /// sent. The first caller sends those of its process.
    pub(super) fn sent(&self) -> Option<Vec<u64>> {
        if self.is_sent.swap(true, Relaxed) {
            return Some(vec![]);
        }
        let hashes = self.hashes.lock();
        let mut distinct = HashSet::new();
        for hash in hashes.as_ref()? {
            if distinct.insert(*hash) && distinct.len() > SENT_HASHES_MAX {
                return None;
            }
        }
        Some(distinct.into_iter().collect())
    }

    /// Takes the hashes of all processes; `None` if some are not known.
    pub(super) fn gathered(&self, all: Option<Vec<u64>>) {
        self.replace(&mut self.hashes.lock(), all);
    }

    /// Leaves the filter, which has the keys of all rows of the build side; or says that there is
    /// none.
    pub(super) fn publish(&self) {
        let mut hashes = self.hashes.lock();
        let Some(known) = hashes.take() else { return self.give_up() };
        self.publisher.add_hashes(&known, known.len());
        let parts = self.publisher.blocks(known.len()).map(|blocks| {
            let mut part = BloomPart::new(blocks, 0);
            known.iter().for_each(|hash| part.add(*hash));
            vec![part]
        });
        self.publisher.publish(parts, known.len());
        self.replace(&mut hashes, None);
    }

    /// Says that there is no filter, unless it has been left.
    pub(super) fn give_up(&self) {
        self.publisher.give_up();
    }
}
