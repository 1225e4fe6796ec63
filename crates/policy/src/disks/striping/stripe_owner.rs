//! The writer of a session that assembles a stripe from the pieces of all writers.

/// The owner of a stripe. Of each run of as many stripes as there are writers, every writer owns
/// one. The order is rotated by a hash of the run: writers whose ranges end at regular distances
/// would otherwise give all stripes that they share to one owner.
///
/// ```
/// use euphrates_policy::striping::stripe_owner;
///
/// let mut owners: Vec<usize> = (40..45).map(|stripe| stripe_owner(stripe, 5)).collect();
/// owners.sort();
/// assert_eq!(owners, [0, 1, 2, 3, 4]);
/// ```
pub fn stripe_owner(stripe: u64, writers: usize) -> usize {
    let writers = writers.max(1) as u64;
    // The finaliser of SplitMix64.
    let mut hash = (stripe / writers).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    ((stripe % writers + hash % writers) % writers) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn stripes_at_regular_distances_have_several_owners() {
        for distance in 1..40u64 {
            let mut count = vec![0; 8];
            (0..64).for_each(|at| count[stripe_owner(at * distance, 8)] += 1);
            assert!(count.iter().all(|&owned| owned < 32), "{distance}: {count:?}");
        }
        assert_eq!(stripe_owner(u64::MAX, 1), 0);
    }
}
