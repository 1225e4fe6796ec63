//! Sorts integers of 64 bits with vectors of eight (AVX-512).
//!
//! Keys are dealt out to buckets of equal ranges, of about 24 keys each, and a bucket is sorted in
//! registers by a bitonic network. A larger one, of keys whose distribution is not even, is
//! partitioned by pivots (quicksort) until its parts fit the registers. As in Bramas, "A Novel
//! Hybrid Quicksort Algorithm Vectorized using AVX-512", IJACSA 2017; partitioning moves the lanes
//! of a vector by one permutation, from one array to another, so that it is not in place.

use std::arch::x86_64::*;

use super::distribution_sort::{deal, is_spread};

/// Keys of a vector.
const LANES: usize = 8;
/// Keys that are sorted in registers: in 16 of the 32.
const NETWORK_MAX: usize = 16 * LANES;
/// Mean keys of a bucket.
const KEYS_PER_BUCKET: usize = 24;
/// More buckets would be written to more pages than the TLB has entries.
const BUCKETS_MAX: usize = 1 << 14;
/// Fewer keys are not dealt out.
const DEALT_MIN: usize = 512;
/// How often keys are partitioned at most, before the standard library sorts them.
const ROUNDS: u32 = 40;
/// Keys of which the pivot is the median.
const SAMPLES: usize = 16;

/// For each set of lanes, the numbers of the lanes that are not in it, then of those that are.
static ORDERS: [u64; 1 << LANES] = {
    let mut orders = [0; 1 << LANES];
    let mut highs = 0;
    while highs < orders.len() {
        let (mut at, mut pass) = (0, 0);
        while pass < 2 {
            let mut lane = 0;
            while lane < LANES {
                if highs >> lane & 1 == pass {
                    orders[highs] |= (lane as u64) << (8 * at);
                    at += 1;
                }
                lane += 1;
            }
            pass += 1;
        }
        highs += 1;
    }
    orders
};

/// Proof that this processor has the instructions.
#[derive(Clone, Copy)]
pub(super) struct VectorSort(());

impl VectorSort {
    /// The sort, if this processor has the instructions.
    pub(super) fn of_this_processor() -> Option<VectorSort> {
        is_x86_feature_detected!("avx512f").then_some(VectorSort(()))
    }

    /// Sorts keys; the standard library sorts those that have few runs.
    pub(super) fn sort(self, keys: &mut [u64]) {
        if !is_spread(keys, |key| key) {
            return keys.sort();
        }
        // SAFETY: the processor has the instructions, or `self` would not exist.
        unsafe { sort(keys, &mut vec![0; keys.len()]) }
    }
}

#[target_feature(enable = "avx512f")]
fn sort(keys: &mut [u64], spare: &mut [u64]) {
    if keys.len() < DEALT_MIN {
        return quicksort(keys, spare, false, ROUNDS);
    }
    let buckets = (keys.len() / KEYS_PER_BUCKET).min(BUCKETS_MAX);
    let mut start = 0;
    for end in deal(keys, spare, |key| key, buckets) {
        let range = start..end as usize;
        start = range.end;
        let (dealt, keys) = (&mut spare[range.clone()], &mut keys[range]);
        match dealt.len() > NETWORK_MAX && dealt.is_sorted() {
            true => keys.copy_from_slice(dealt),
            false => quicksort(dealt, keys, true, ROUNDS),
        }
    }
}

/// Sorts keys, in place or, if `moves`, to `spare`; what is left at the other place is any.
#[target_feature(enable = "avx512f")]
fn quicksort(keys: &mut [u64], spare: &mut [u64], moves: bool, rounds_left: u32) {
    if keys.len() <= NETWORK_MAX {
        return match moves {
            true => sort_few(keys, spare),
            false => sort_in_place(keys),
        };
    }
    if rounds_left == 0 {
        keys.sort_unstable();
        if moves {
            spare.copy_from_slice(keys);
        }
        return;
    }
    let pivot = pivot(keys);
    let lows = match partition::<false>(keys, spare, pivot) {
        0 => {
            // The pivot is the least key: its equals are in their place.
            let equals = partition::<true>(keys, spare, pivot);
            keys[..equals].fill(pivot);
            equals
        }
        lows => {
            quicksort(&mut spare[..lows], &mut keys[..lows], !moves, rounds_left - 1);
            lows
        }
    };
    quicksort(&mut spare[lows..], &mut keys[lows..], !moves, rounds_left - 1);
}

/// The median of some keys.
#[target_feature(enable = "avx512f")]
fn pivot(keys: &[u64]) -> u64 {
    let step = keys.len() / SAMPLES;
    let mut samples: [u64; SAMPLES] = std::array::from_fn(|at| keys[at * step + step / 2]);
    sort_in_place(&mut samples);
    samples[SAMPLES / 2]
}

/// Copies the keys below the pivot, and its equals if `WITH_EQUALS`, to the start of `out`, and the
/// others to its end. Returns how many there are of the former.
#[target_feature(enable = "avx512f")]
fn partition<const WITH_EQUALS: bool>(keys: &[u64], out: &mut [u64], pivot: u64) -> usize {
    let (mut low, mut high) = (0, keys.len());
    let pivots = _mm512_set1_epi64(pivot as i64);
    let (vectors, rest) = keys.as_chunks::<LANES>();
    for vector in vectors {
        // SAFETY: a chunk has eight keys.
        let vector = unsafe { _mm512_loadu_epi64(vector.as_ptr().cast()) };
        let highs = match WITH_EQUALS {
            true => _mm512_cmpgt_epu64_mask(vector, pivots),
            false => _mm512_cmpge_epu64_mask(vector, pivots),
        };
        let order = _mm_cvtsi64_si128(ORDERS[usize::from(highs)] as i64);
        let vector = _mm512_permutexvar_epi64(_mm512_cvtepu8_epi64(order), vector);
        let count = highs.count_ones() as usize;
        // At least eight places are left, and those behind the lows are written again.
        let places = &mut out[low..high];
        let last = places.len() - LANES;
        // SAFETY: `last` is not negative, so that eight places follow either pointer.
        unsafe {
            _mm512_storeu_epi64(places.as_mut_ptr().cast(), vector);
            let of_highs = (0xff00_u32 >> count) as u8;
            _mm512_mask_storeu_epi64(places[last..].as_mut_ptr().cast(), of_highs, vector);
        }
        low += LANES - count;
        high -= count;
    }
    for key in rest {
        if *key > pivot || (!WITH_EQUALS && *key == pivot) {
            high -= 1;
            out[high] = *key;
        } else {
            out[low] = *key;
            low += 1;
        }
    }
    low
}

#[target_feature(enable = "avx512f")]
fn sort_in_place(keys: &mut [u64]) {
    let mut sorted = [0; NETWORK_MAX];
    let sorted = &mut sorted[..keys.len()];
    sort_few(keys, sorted);
    keys.copy_from_slice(sorted);
}

/// Sorts at most `NETWORK_MAX` keys to `out`, which has as many places.
#[target_feature(enable = "avx512f")]
fn sort_few(keys: &[u64], out: &mut [u64]) {
    match keys.len().div_ceil(LANES) {
        0 => {}
        1 => sort_vectors::<1>(keys, out),
        2 => sort_vectors::<2>(keys, out),
        3..=4 => sort_vectors::<4>(keys, out),
        5..=8 => sort_vectors::<8>(keys, out),
        _ => sort_vectors::<16>(keys, out),
    }
}

/// Sorts at most `N` vectors of keys. Lanes without a key have the largest, and stay the last.
#[target_feature(enable = "avx512f")]
fn sort_vectors<const N: usize>(keys: &[u64], out: &mut [u64]) {
    assert!(keys.len() == out.len() && keys.len() <= N * LANES);
    let lanes = |vector: usize| {
        let count = keys.len().saturating_sub(vector * LANES).min(LANES);
        ((1_u32 << count) - 1) as u8
    };
    let most = _mm512_set1_epi64(-1);
    let mut vectors = [most; N];
    for (at, vector) in vectors.iter_mut().enumerate() {
        let from = keys.as_ptr().wrapping_add(at * LANES).cast();
        // SAFETY: only lanes of keys are read.
        *vector = unsafe { _mm512_mask_loadu_epi64(most, lanes(at), from) };
    }
    network(&mut vectors);
    for (at, vector) in vectors.iter().enumerate() {
        let to = out.as_mut_ptr().wrapping_add(at * LANES).cast();
        // SAFETY: only lanes of keys are written.
        unsafe { _mm512_mask_storeu_epi64(to, lanes(at), *vector) };
    }
}

/// Sorts vectors: each by itself, then pairs, fours, … by bitonic merges.
#[inline]
#[target_feature(enable = "avx512f")]
fn network<const N: usize>(vectors: &mut [__m512i; N]) {
    for vector in vectors.iter_mut() {
        *vector = sort_lanes(*vector);
    }
    let mut sorted = 1;
    while sorted < N {
        for vectors in vectors.chunks_exact_mut(2 * sorted) {
            for at in 0..sorted {
                let (a, b) = (vectors[at], reverse(vectors[2 * sorted - 1 - at]));
                vectors[at] = _mm512_min_epu64(a, b);
                vectors[2 * sorted - 1 - at] = _mm512_max_epu64(a, b);
            }
            let mut step = sorted / 2;
            while step > 0 {
                for pair in vectors.chunks_exact_mut(2 * step) {
                    for at in 0..step {
                        let (a, b) = (pair[at], pair[at + step]);
                        pair[at] = _mm512_min_epu64(a, b);
                        pair[at + step] = _mm512_max_epu64(a, b);
                    }
                }
                step /= 2;
            }
            for vector in vectors {
                *vector = merge_lanes(*vector);
            }
        }
        sorted *= 2;
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sort_lanes(vector: __m512i) -> __m512i {
    let vector = exchange(vector, swap_ones(vector), 0b1010_1010);
    let fours = _mm512_permutex_epi64::<0b00_01_10_11>(vector);
    let vector = exchange(vector, fours, 0b1100_1100);
    let vector = exchange(vector, swap_ones(vector), 0b1010_1010);
    merge_fours(exchange(vector, reverse(vector), 0b1111_0000))
}

/// Sorts lanes whose values rise, then fall, or the other way round.
#[inline]
#[target_feature(enable = "avx512f")]
fn merge_lanes(vector: __m512i) -> __m512i {
    let halves = _mm512_shuffle_i64x2::<0b01_00_11_10>(vector, vector);
    merge_fours(exchange(vector, halves, 0b1111_0000))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn merge_fours(vector: __m512i) -> __m512i {
    let twos = _mm512_permutex_epi64::<0b01_00_11_10>(vector);
    let vector = exchange(vector, twos, 0b1100_1100);
    exchange(vector, swap_ones(vector), 0b1010_1010)
}

/// The smaller of both values in each lane, and in those of `highs` the larger.
#[inline]
#[target_feature(enable = "avx512f")]
fn exchange(vector: __m512i, other: __m512i, highs: u8) -> __m512i {
    let larger = _mm512_max_epu64(vector, other);
    _mm512_mask_mov_epi64(_mm512_min_epu64(vector, other), highs, larger)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn swap_ones(vector: __m512i) -> __m512i {
    _mm512_shuffle_epi32::<0b01_00_11_10>(vector)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn reverse(vector: __m512i) -> __m512i {
    let fours = _mm512_permutex_epi64::<0b00_01_10_11>(vector);
    _mm512_shuffle_i64x2::<0b01_00_11_10>(fours, fours)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn order_is_that_of_the_standard_library(
            keys in prop::collection::vec(any::<u64>(), 0..1500), shift in 0_u32..64, moves: bool,
        ) {
            let Some(vectors) = VectorSort::of_this_processor() else { return Ok(()) };
            let keys: Vec<u64> = keys.into_iter().map(|key| key >> shift).collect();
            let mut wanted = keys.clone();
            wanted.sort();
            let mut sorted = keys.clone();
            vectors.sort(&mut sorted);
            prop_assert_eq!(&sorted, &wanted);
            let (mut from, mut spare) = (keys.clone(), vec![0; keys.len()]);
            // SAFETY: the processor has the instructions.
            unsafe { quicksort(&mut from, &mut spare, moves, ROUNDS) };
            prop_assert_eq!(if moves { spare } else { from }, wanted);
        }
    }

    #[test]
    fn distributions_of_any_kind_are_sorted() {
        let Some(vectors) = VectorSort::of_this_processor() else { return };
        let mixed = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let kinds: [fn(u64, u64) -> u64; 6] = [
            |mixed, _| mixed,
            |mixed, _| mixed % 3,
            |mixed, at| ((mixed % 100) << 32) | at,
            |mixed, _| mixed >> (mixed % 61),
            |mixed, at| if at % 1000 == 0 { mixed } else { at % 7 },
            |_, at| u64::MAX - at % 5,
        ];
        for kind in kinds {
            let mut keys: Vec<u64> = (0..70_000).map(|at| kind(mixed(at), at)).collect();
            let mut wanted = keys.clone();
            wanted.sort();
            vectors.sort(&mut keys);
            assert!(keys == wanted);
        }
    }
}
