//! Affinity: the worker that reads a block in every epoch, by rendezvous hashing.
//!
//! A worker that joins or leaves moves only its own blocks to or from the others (Thaler and
//! Ravishankar, IEEE/ACM Transactions on Networking 1998).

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
    use super::*;

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
