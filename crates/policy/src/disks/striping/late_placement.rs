//! Late placement: the disks of a stripe are chosen when it is about to be written.
//!
//! A stripe goes to the disks with the shortest expected wait, so a slow disk receives fewer blocks
//! and delays no writer, as long as there are more disks than a stripe has blocks. With equally
//! many, every stripe needs every disk, and writing runs at the pace of the slowest.

use alloc::vec::Vec;

use crate::disks::block_assignment::Backlog;

/// A disk that may receive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeDisk {
    /// The worker that owns the disk: what is lost together.
    pub worker: u32,
    /// Blocks in flight to the disk.
    pub backlog: Backlog,
    /// Whether the disk can be written.
    pub is_usable: bool,
}

/// The error for a stripe with more blocks than there are usable disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewDisks {
    /// Disks that can be written.
    pub usable: usize,
}

/// The disks of the next stripe, which has the number `stripe` and `width` blocks; `None` while too
/// few disks have room. No worker gets more blocks than it must, and the blocks of successive
/// stripes take turns on the chosen disks, so that parity is spread.
///
/// ```
/// use euphrates_policy::block_assignment::Backlog;
/// use euphrates_policy::striping::{StripeDisk, choose_disks};
///
/// let disk = |blocks| StripeDisk {
///     worker: blocks,
///     backlog: Backlog { bytes: 0, blocks, interval_ns: 1_000_000 },
///     is_usable: true,
/// };
/// assert_eq!(choose_disks(&[disk(2), disk(0), disk(1)], 2, 0), Ok(Some(vec![1, 2])));
/// ```
///
/// # Errors
/// If fewer than `width` disks are usable.
pub fn choose_disks(
    disks: &[StripeDisk],
    width: usize,
    stripe: u64,
) -> Result<Option<Vec<usize>>, TooFewDisks> {
    let mut usable: Vec<usize> = (0..disks.len()).filter(|&at| disks[at].is_usable).collect();
    if usable.len() < width {
        return Err(TooFewDisks { usable: usable.len() });
    }
    let each_max = each_worker_max(disks, &usable, width);
    usable.retain(|&at| disks[at].backlog.has_room());
    usable.sort_by_key(|&at| (disks[at].backlog.wait_ns(), disks[at].backlog.blocks, at));
    let mut chosen: Vec<usize> = Vec::with_capacity(width);
    for at in usable {
        let same = chosen.iter().filter(|&&other| disks[other].worker == disks[at].worker);
        if chosen.len() < width && same.count() < each_max {
            chosen.push(at);
        }
    }
    if chosen.len() < width {
        return Ok(None);
    }
    chosen.sort_unstable();
    chosen.rotate_left((stripe % width.max(1) as u64) as usize);
    Ok(Some(chosen))
}

/// The blocks of a stripe that one worker must take, at most, for all of them to have a disk.
fn each_worker_max(disks: &[StripeDisk], usable: &[usize], width: usize) -> usize {
    let mut counts: Vec<(u32, usize)> = Vec::new();
    for &at in usable {
        match counts.iter_mut().find(|(worker, _)| *worker == disks[at].worker) {
            Some((_, count)) => *count += 1,
            None => counts.push((disks[at].worker, 1)),
        }
    }
    let holds = |each: &usize| counts.iter().map(|(_, count)| count.min(each)).sum::<usize>();
    (1..=width).find(|each| holds(each) >= width).unwrap_or(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn disk(worker: u32, blocks: u32, interval_ms: u64) -> StripeDisk {
        let backlog = Backlog {
            bytes: u64::from(blocks) << 20,
            blocks,
            interval_ns: interval_ms * 1_000_000,
        };
        StripeDisk { worker, backlog, is_usable: true }
    }

    #[test]
    fn stripe_goes_to_the_shortest_waits_and_its_blocks_take_turns() {
        let disks = [disk(0, 1, 40), disk(1, 2, 10), disk(2, 0, 10), disk(3, 1, 10)];
        assert_eq!(choose_disks(&disks, 3, 0), Ok(Some(vec![1, 2, 3])));
        assert_eq!(choose_disks(&disks, 3, 1), Ok(Some(vec![2, 3, 1])));
        assert_eq!(choose_disks(&disks, 4, 0), Ok(Some(vec![0, 1, 2, 3])), "all that there are");
        let full = [disk(0, 2, 100), disk(1, 0, 10)];
        assert_eq!(choose_disks(&full, 2, 0), Ok(None), "one has no room");
    }

    #[test]
    fn workers_share_a_stripe_evenly_even_if_one_is_faster() {
        let disks = [disk(0, 0, 1), disk(0, 0, 1), disk(0, 0, 1), disk(1, 1, 40), disk(2, 1, 40)];
        assert_eq!(choose_disks(&disks, 3, 0), Ok(Some(vec![0, 3, 4])), "one each");
        assert_eq!(choose_disks(&disks, 4, 0), Ok(Some(vec![0, 1, 3, 4])));
        assert_eq!(choose_disks(&disks, 5, 0), Ok(Some(vec![0, 1, 2, 3, 4])));
    }

    #[test]
    fn lost_disks_are_left_out_until_too_few_remain() {
        let mut disks = [disk(0, 0, 1), disk(1, 0, 1), disk(2, 0, 1)];
        disks[1].is_usable = false;
        assert_eq!(choose_disks(&disks, 2, 0), Ok(Some(vec![0, 2])));
        assert_eq!(choose_disks(&disks, 3, 0), Err(TooFewDisks { usable: 2 }));
    }
}
