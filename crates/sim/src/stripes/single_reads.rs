//! Simulation of clients that read random blocks of a striped file, one at a time each.

use euphrates_policy::striping::{SingleRead, SingleReads};

use crate::events::EventQueue;
use crate::random::Random;

/// Disks, clients, and the budget of restored reads; all stripes lie on all disks.
#[derive(Clone, Debug)]
pub struct RandomReads {
    /// The time in which each disk reads a block.
    pub block_ns: Vec<u64>,
    /// Blocks that restore another.
    pub needed: usize,
    /// Clients that read all the time.
    pub clients: usize,
    /// The budget of additional reads, per thousand; `None` reads from the own disk only.
    pub extra_per_mille: Option<u32>,
    /// How long the clients read.
    pub until_ns: u64,
}

/// The blocks that clients have read.
///
/// ```
/// use euphrates_sim::stripes::{RandomReads, read_singly};
///
/// let block_ns = vec![10; 5];
/// let (needed, extra_per_mille, until_ns) = (4, None, 1000);
/// let reads = RandomReads { block_ns, needed, clients: 1, extra_per_mille, until_ns };
/// assert_eq!(read_singly(&reads, 1), 100);
/// ```
pub fn read_singly(reads: &RandomReads, seed: u64) -> u64 {
    let disks = reads.block_ns.len();
    let mut random = Random::new(seed);
    let mut policy = reads.extra_per_mille.map(|extra| SingleReads::new(extra, 64));
    let mut free_ns = vec![0u64; disks];
    let mut events = EventQueue::default();
    (0..reads.clients).for_each(|client| events.push(0, (client, false)));
    let mut done = 0;
    while let Some((client, has_read)) = events.pop() {
        let now_ns = events.now_ns();
        if now_ns > reads.until_ns {
            break;
        }
        done += u64::from(has_read);
        let own = random.below(disks as u64) as usize;
        let wait_ns = |disk: usize| free_ns[disk].max(now_ns) - now_ns + reads.block_ns[disk];
        let others: Vec<(usize, u64)> =
            (0..disks).filter(|&at| at != own).map(|at| (at, wait_ns(at))).collect();
        let choice = match &mut policy {
            Some(policy) => policy.choose(Some(wait_ns(own)), &others, reads.needed),
            None => SingleRead::Direct,
        };
        let from = match choice {
            SingleRead::Direct => vec![own],
            SingleRead::Restore(places) => places,
            SingleRead::Lost => unreachable!("no disk is lost"),
        };
        let mut end_ns = 0;
        for disk in from {
            free_ns[disk] = free_ns[disk].max(now_ns) + reads.block_ns[disk];
            end_ns = end_ns.max(free_ns[disk]);
        }
        events.push(end_ns, (client, true));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Blocks in the time of one block of a fast disk.
    fn rate(slower: u64, clients: usize, extra_per_mille: Option<u32>) -> f64 {
        let mut block_ns = vec![10 * MS; 5];
        block_ns[0] *= slower;
        let until_ns = 20_000 * MS;
        let reads = RandomReads { block_ns, needed: 4, clients, extra_per_mille, until_ns };
        read_singly(&reads, 7) as f64 * (10 * MS) as f64 / until_ns as f64
    }

    #[test]
    fn slow_disk_costs_random_reads_only_what_restoring_takes() {
        for slower in [4, 10] {
            // Each of n disks is asked for equally many blocks, and restoring one takes k reads.
            let best = 5.0 * (1.0 + 1.0 / slower as f64) / 2.0;
            let direct = rate(slower, 64, None);
            let restored = rate(slower, 64, Some(0));
            assert!(restored >= 0.9 * best, "{restored} of {best}, 1/{slower}");
            assert!(restored >= 2.0 * direct, "{restored} and {direct}");
        }
    }

    #[test]
    fn equal_disks_lose_little_to_restored_reads() {
        let direct = rate(1, 64, None);
        let restored = rate(1, 64, Some(100));
        assert!(restored >= 0.88 * direct, "{restored} and {direct}");
    }

    #[test]
    fn few_clients_are_served_sooner_within_the_budget() {
        let (direct, restored) = (rate(4, 2, None), rate(4, 2, Some(1000)));
        assert!(restored >= 1.1 * direct, "{restored} and {direct}");
    }
}
