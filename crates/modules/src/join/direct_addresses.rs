//! Addresses of rows by their keys, where these are integers of a small range.
//!
//! The keys of a small table are often numbers from one on. Then a position in an array replaces a
//! probe sequence of hashes. A unique hash is a bijection of its key, so the key is got back from
//! it, and nothing else of the join knows of this.

use super::packed_rows::{NONE, RowAddress};
use crate::partitioning::hashing::unmix;
use crate::prefetch::prefetch;

/// Addresses that stay in the second-level cache, of which nothing is prefetched.
const CACHED_MAX: usize = 1 << 15;
/// Addresses prefetched ahead.
const PREFETCH: usize = 24;

/// The address of each key from the least on, of a row, of a list, or `NONE`.
pub(super) struct DirectAddresses {
    least: u64,
    addresses: Vec<RowAddress>,
}

impl DirectAddresses {
    /// The addresses of these unique hashes; `None` if the keys are farther apart than `max`.
    pub(super) fn new(
        slots: impl Iterator<Item = (u64, RowAddress)> + Clone,
        max: usize,
    ) -> Option<DirectAddresses> {
        let keys = slots.clone().map(|(hash, _)| unmix(hash) as i64);
        let (least, greatest) = keys
            .fold(None, |range: Option<(i64, i64)>, key| {
                let (least, greatest) = range.unwrap_or((key, key));
                Some((least.min(key), greatest.max(key)))
            })
            .filter(|(least, greatest)| greatest.abs_diff(*least) < max as u64)?;
        let mut addresses = vec![NONE; greatest.abs_diff(least) as usize + 1];
        for (hash, address) in slots {
            addresses[unmix(hash).wrapping_sub(least as u64) as usize] = address;
        }
        Some(DirectAddresses { least: least as u64, addresses })
    }

    /// For each hash, the address of its row or of a list, or `NONE`.
    pub(super) fn find(&self, hashes: &[u64], found: &mut Vec<RowAddress>) {
        let at = |hash: u64| unmix(hash).wrapping_sub(self.least) as usize;
        let address = |hash: &u64| self.addresses.get(at(*hash)).copied().unwrap_or(NONE);
        if self.addresses.len() <= CACHED_MAX {
            found.extend(hashes.iter().map(address));
            return;
        }
        for (row, hash) in hashes.iter().enumerate() {
            if let Some(ahead) = hashes.get(row + PREFETCH) {
                prefetch(&self.addresses, at(*ahead));
            }
            found.push(address(hash));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partitioning::hashing::mix;

    fn of(keys: &[i64], max: usize) -> Option<DirectAddresses> {
        let slots = keys.iter().enumerate().map(|(row, key)| (mix(*key as u64), row as u64));
        DirectAddresses::new(slots, max)
    }

    #[test]
    fn keys_of_a_small_range_are_found_and_others_are_not() {
        for keys in [vec![5], vec![-3, 4, 0], vec![i64::MAX, i64::MAX - 7], vec![i64::MIN]] {
            let table = of(&keys, 8).unwrap();
            let others = [i64::MIN + 1, -4, -1, 1, 6, i64::MAX - 3, i64::MAX - 8];
            let hashes = keys.iter().chain(&others).map(|key| mix(*key as u64));
            let mut found = vec![];
            table.find(&hashes.collect::<Vec<u64>>(), &mut found);
            let rows = (0..keys.len() as u64).chain(others.map(|_| NONE));
            assert_eq!(found, rows.collect::<Vec<u64>>(), "{keys:?}");
        }
    }

    #[test]
    fn keys_that_are_far_apart_have_no_array() {
        assert!(of(&[], 8).is_none());
        assert!(of(&[0, 8], 8).is_none() && of(&[0, 7], 8).is_some());
        assert!(of(&[i64::MIN, i64::MAX], usize::MAX).is_none());
    }

    #[test]
    fn array_beyond_the_cache_is_read_alike() {
        let keys: Vec<i64> = (0..CACHED_MAX as i64 + 9).map(|key| key * 2).collect();
        let table = of(&keys, 1 << 20).unwrap();
        let mut found = vec![];
        table.find(&keys.iter().map(|key| mix(*key as u64)).collect::<Vec<u64>>(), &mut found);
        assert!(found.iter().copied().eq(0..keys.len() as u64));
    }
}
