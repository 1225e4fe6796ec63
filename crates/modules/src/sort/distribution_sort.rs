//! Sorts integers by spreading them over buckets of equal ranges between the least and the largest,
//! with about four integers each, which are sorted by insertion.
//!
//! This is one pass of a distribution sort (Neubert, "The Flashsort1 Algorithm", Dr. Dobb's Journal
//! 1998). Of keys whose distribution is even, it takes half the time of a sort by comparisons,
//! which mispredicts every other branch. A bucket with many keys is spread again; after a few
//! times, it is sorted by comparisons. The sort is stable.

/// Buckets of at most this number of keys are sorted by insertion.
const INSERTION_MAX: usize = 32;
/// Mean keys of a bucket.
const KEYS_PER_BUCKET: usize = 4;
/// More buckets would be written to more pages than the TLB has entries.
const BUCKETS_MAX: usize = 1 << 16;
/// How often keys are spread at most.
const ROUNDS: u32 = 3;
/// Maximum keys spread here, with scratch as large as the keys; the standard library's sort, which
/// sorts more, needs half of that.
const KEYS_MAX: usize = 1 << 20;
/// Keys with at most this many ascending runs are merged.
const RUNS_MAX: usize = 8;
/// Bits that choose a bucket: the highest of the distance from the least key.
const BUCKET_BITS: u32 = 32;

/// An integer of 64 or 128 bits.
pub(crate) trait Word: Copy + Ord + Default {
    const MAX: Self;

    /// How many of the lowest bits of the distance from `low`, which is not greater, to leave out,
    /// so that `BUCKET_BITS` remain.
    fn excess_bits(self, low: Self) -> u32;

    /// The distance from `low` without its lowest `excess` bits.
    fn distance(self, low: Self, excess: u32) -> u64;
}

macro_rules! word {
    ($word:ty) => {
        impl Word for $word {
            const MAX: $word = <$word>::MAX;

            #[inline(always)]
            fn excess_bits(self, low: $word) -> u32 {
                (<$word>::BITS - (self - low).leading_zeros()).saturating_sub(BUCKET_BITS)
            }

            #[inline(always)]
            fn distance(self, low: $word, excess: u32) -> u64 {
                ((self - low) >> excess) as u64
            }
        }
    };
}

word!(u64);
word!(u128);

/// Sorts keys by `by`, which must be monotonic: a greater key must not have a smaller value.
pub(crate) fn distribution_sort<K: Word>(keys: &mut [K], by: impl Fn(K) -> K + Copy) {
    if !is_spread(keys, by) {
        return keys.sort_by_key(|key| by(*key));
    }
    let mut spare = vec![K::default(); keys.len()];
    spread(keys, &mut spare, by, ROUNDS);
}

/// Whether keys are sorted here. The standard library's sort finds runs, in either direction.
pub(super) fn is_spread<K: Word>(keys: &[K], by: impl Fn(K) -> K + Copy) -> bool {
    if keys.len() > KEYS_MAX {
        return false;
    }
    let falls = keys.windows(2).filter(|pair| by(pair[0]) > by(pair[1])).count();
    (RUNS_MAX..=keys.len().saturating_sub(RUNS_MAX)).contains(&falls)
}

fn spread<K: Word>(keys: &mut [K], spare: &mut [K], by: impl Fn(K) -> K + Copy, rounds_left: u32) {
    if keys.len() <= INSERTION_MAX {
        return insertion_sort(keys, by);
    }
    if rounds_left == 0 || keys.is_sorted_by_key(|key| by(*key)) {
        return keys.sort_by_key(|key| by(*key));
    }
    let ends = deal(keys, spare, by, (keys.len() / KEYS_PER_BUCKET).min(BUCKETS_MAX));
    let mut start = 0;
    for end in ends {
        let range = start..end as usize;
        start = range.end;
        spread(&mut spare[range.clone()], &mut keys[range], by, rounds_left - 1);
    }
    keys.copy_from_slice(spare);
}

/// Copies keys to buckets of equal ranges, in order; returns where each bucket ends.
#[inline(always)]
pub(super) fn deal<K: Word>(
    keys: &[K],
    out: &mut [K],
    by: impl Fn(K) -> K + Copy,
    buckets: usize,
) -> Vec<u32> {
    let extend = |(low, high): (K, K), key: &K| (low.min(*key), high.max(*key));
    let (low, high) = keys.iter().fold((K::MAX, K::default()), extend);
    let (low, high) = (by(low), by(high));
    let excess = high.excess_bits(low);
    // Less than 2^32, like the distance from the least key, so that products have 64 bits.
    let scale =
        (((buckets as u64) << BUCKET_BITS) / (high.distance(low, excess) + 1)).min(u32::MAX.into());
    let bucket = |key: K| ((by(key).distance(low, excess) * scale) >> BUCKET_BITS) as usize;

    let mut ends = vec![0u32; buckets];
    keys.iter().for_each(|key| ends[bucket(*key)] += 1);
    let mut start = 0;
    for end in &mut ends {
        (*end, start) = (start, start + *end);
    }
    for key in keys.iter() {
        let end = &mut ends[bucket(*key)];
        out[*end as usize] = *key;
        *end += 1;
    }
    ends
}

#[inline(always)]
fn insertion_sort<K: Word>(keys: &mut [K], by: impl Fn(K) -> K) {
    for end in 1..keys.len() {
        let key = keys[end];
        let mut at = end;
        while at > 0 && by(keys[at - 1]) > by(key) {
            keys[at] = keys[at - 1];
            at -= 1;
        }
        keys[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keys in clusters, in runs, of few or of many values.
    fn keys() -> impl Strategy<Value = Vec<u128>> {
        let key = prop_oneof![
            any::<u128>(),
            any::<u32>().prop_map(u128::from),
            (0_u128..9).prop_map(|few| few << 60),
            (0_u128..9).prop_map(|few| u128::MAX - few),
            (any::<u8>(), 0_u32..128).prop_map(|(bits, shift)| u128::from(bits) << shift),
        ];
        (prop::collection::vec(key, 0..3000), 1_usize..3000).prop_map(|(mut keys, run)| {
            keys.chunks_mut(run).filter(|run| run.len() < 1000).for_each(<[u128]>::sort);
            keys
        })
    }

    proptest! {
        #[test]
        fn order_is_that_of_a_stable_sort(keys in keys(), ignored in 0_u32..99) {
            let by = |key: u128| key >> ignored;
            let (mut spread, mut wanted) = (keys.clone(), keys);
            distribution_sort(&mut spread, by);
            wanted.sort_by_key(|key| by(*key));
            prop_assert_eq!(&spread, &wanted);
            let mut narrow: Vec<u64> = spread.iter().rev().map(|key| *key as u64).collect();
            let mut wanted = narrow.clone();
            let by = |key: u64| key >> (ignored / 2);
            distribution_sort(&mut narrow, by);
            wanted.sort_by_key(|key| by(*key));
            prop_assert_eq!(narrow, wanted);
        }
    }

    #[test]
    fn more_keys_than_are_spread_are_sorted() {
        let mut keys: Vec<u128> = (0..=KEYS_MAX as u128).map(|key| key * 7 % 1_000_003).collect();
        let mut wanted = keys.clone();
        wanted.sort();
        distribution_sort(&mut keys, |key| key);
        assert!(keys == wanted);
    }
}
