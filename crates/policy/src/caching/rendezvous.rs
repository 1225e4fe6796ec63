//! Affinity: the home of a block, which is the worker that caches it, by rendezvous hashing.
//!
//! A worker that joins or leaves moves only its own blocks to or from the others (Thaler and
//! Ravishankar, IEEE/ACM Transactions on Networking 1998). Homes have a share of the bytes as large
//! as their share of the memory: a home that is full passes the block to the next in the order of
//! hashes (Mirrokni et al., SODA 2018, "consistent hashing with bounded loads").

use alloc::vec;
use alloc::vec::Vec;

/// The homes of blocks, given the identity ([`identity`]) and the bytes of each, and the memory of
/// each worker in bytes. Workers without any memory are homes only if no worker has some.
///
/// ```
/// use euphrates_policy::caching::rendezvous::homes;
///
/// let blocks: Vec<(u64, u64)> = (0..100).map(|identity| (identity, 1)).collect();
/// let homes = homes(&blocks, &[30, 0, 10]);
/// assert_eq!(homes.iter().filter(|&&home| home == 0).count(), 75);
/// assert_eq!(homes.iter().filter(|&&home| home == 2).count(), 25);
/// ```
pub fn homes(blocks: &[(u64, u64)], memory: &[u64]) -> Vec<usize> {
    let all: u128 = memory.iter().map(|&bytes| u128::from(bytes)).sum();
    let (memory, all) = match all {
        0 => (vec![1; memory.len()], memory.len() as u128),
        _ => (memory.to_vec(), all),
    };
    let bytes: u128 = blocks.iter().map(|&(_, bytes)| u128::from(bytes)).sum();
    let share = |&memory: &u64| (bytes * u128::from(memory)).div_ceil(all.max(1)) as i128;
    let mut room: Vec<i128> = memory.iter().map(share).collect();
    let home = |&(block, bytes): &(u64, u64)| {
        let bytes = i128::from(bytes);
        let fitting = (0..room.len()).filter(|&worker| memory[worker] > 0 && room[worker] >= bytes);
        let best = fitting.max_by_key(|&worker| weight(block, worker));
        let roomiest = || (0..room.len()).max_by_key(|&worker| room[worker]);
        let home = best.or_else(roomiest).unwrap_or(0);
        room.get_mut(home).into_iter().for_each(|room| *room -= bytes);
        home
    };
    blocks.iter().map(home).collect()
}

/// The worker of a block, from 0 to `workers - 1`: the one whose hash with the block is greatest.
/// `block` identifies object, version and position ([`identity`]).
///
/// ```
/// use euphrates_policy::caching::rendezvous::worker_of;
///
/// let moved = (0..1000).filter(|&block| worker_of(block, 4) != worker_of(block, 5)).count();
/// assert!((150..250).contains(&moved), "a fifth goes to the worker that joined: {moved}");
/// ```
pub fn worker_of(block: u64, workers: usize) -> usize {
    (0..workers).max_by_key(|&worker| weight(block, worker)).unwrap_or(0)
}

/// A number for a position in a version of an object.
///
/// ```
/// use euphrates_policy::caching::rendezvous::identity;
///
/// let of = |version| identity(b"s3://lake/days.parquet", version, 3);
/// assert_ne!(of(b"one"), of(b"two"));
/// ```
pub fn identity(object: &[u8], version: &[u8], position: u64) -> u64 {
    let text = |seed: u64, text: &[u8]| {
        text.iter()
            .fold(mixed(seed ^ text.len() as u64), |hash, &byte| mixed(hash ^ u64::from(byte)))
    };
    mixed(text(text(0, object), version) ^ position)
}

fn weight(block: u64, worker: usize) -> u64 {
    mixed(block ^ mixed(worker as u64 + 1))
}

/// The finalizer of SplitMix64: every bit of the input changes half of the output.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn homes_have_the_share_of_their_memory_to_one_block(
            sizes in prop::collection::vec(0..50u64, 0..200),
            memory in prop::collection::vec(0..1000u64, 1..12),
        ) {
            let blocks: Vec<(u64, u64)> = (7..).zip(sizes).collect();
            let homes = homes(&blocks, &memory);
            prop_assert_eq!(homes.len(), blocks.len());
            let (all, bytes): (u64, u64) =
                (memory.iter().sum(), blocks.iter().map(|(_, bytes)| bytes).sum());
            for (worker, &memory) in memory.iter().enumerate().filter(|_| all > 0) {
                let of_worker = homes.iter().zip(&blocks).filter(|(home, _)| **home == worker);
                let held: u64 = of_worker.map(|(_, (_, bytes))| bytes).sum();
                let share = bytes as f64 * memory as f64 / all as f64;
                prop_assert!(held as f64 <= share + 50.0, "{worker}: {held} of {share}");
            }
        }
    }

    #[test]
    fn blocks_of_a_worker_that_leaves_move_and_few_others() {
        let blocks: Vec<(u64, u64)> =
            (0..1000).map(|position| (identity(b"a", b"1", position), 1)).collect();
        let (before, after) = (homes(&blocks, &[10; 5]), homes(&blocks, &[10, 10, 10, 10, 0]));
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert!((200..300).contains(&moved), "a fifth had to move, {moved} did");
    }

    #[test]
    fn workers_have_even_shares_of_blocks() {
        let mut counts = [0; 4];
        for block in 0..10_000 {
            counts[worker_of(identity(b"https://host/a", b"1", block), 4)] += 1;
        }
        assert!(counts.iter().all(|count| (2300..2700).contains(count)), "{counts:?}");
    }

    #[test]
    fn block_moves_only_to_the_worker_that_joins() {
        for block in 0..1000 {
            let (before, after) = (worker_of(block, 4), worker_of(block, 5));
            assert!(before == after || after == 4, "{block}: {before} to {after}");
        }
    }
}
