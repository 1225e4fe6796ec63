//! Reads of single blocks: from the block's own disk, or restored from others of its stripe.
//!
//! Restoring a block costs `k` reads instead of one (a degraded read), so it pays in two cases. If
//! the wait at the block's own disk exceeds the sum of the waits at the others, restoring needs
//! less disk time in all, and the total throughput increases. If it exceeds only the longest of
//! them, this read finishes sooner at the cost of other reads: a budget limits how many are
//! restored for that reason.

use alloc::vec::Vec;

/// How to read a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SingleRead {
    /// From its own disk.
    Direct,
    /// From these other blocks of its stripe, by place.
    Restore(Vec<usize>),
    /// Too few blocks are left.
    Lost,
}

/// Decides how single blocks are read, within a budget of additional reads.
///
/// ```
/// use euphrates_policy::striping::{SingleRead, SingleReads};
///
/// let mut reads = SingleReads::new(100, 8);
/// let others = [(1, 10), (2, 10), (3, 10)];
/// assert_eq!(reads.choose(Some(9), &others, 2), SingleRead::Direct);
/// assert_eq!(reads.choose(Some(99), &others, 2), SingleRead::Restore(vec![1, 2]));
/// ```
#[derive(Clone, Debug)]
pub struct SingleReads {
    /// Thousandths of a block that every read adds to the budget.
    earned_milli: u64,
    budget_milli: u64,
    budget_milli_max: u64,
}

impl SingleReads {
    /// A budget of `extra_per_mille` additional blocks per thousand reads, of which `blocks_max`
    /// can be saved.
    pub fn new(extra_per_mille: u32, blocks_max: u32) -> SingleReads {
        let budget_milli_max = u64::from(blocks_max) * 1000;
        SingleReads { earned_milli: extra_per_mille.into(), budget_milli: 0, budget_milli_max }
    }

    /// Chooses for a block whose own disk has an expected wait, the read included; `None` if the
    /// block is lost. `others` has place and wait of each other block of the stripe that is left,
    /// of which `needed` restore the block.
    pub fn choose(
        &mut self,
        own_ns: Option<u64>,
        others: &[(usize, u64)],
        needed: usize,
    ) -> SingleRead {
        self.budget_milli = (self.budget_milli + self.earned_milli).min(self.budget_milli_max);
        let mut others: Vec<(u64, usize)> = others.iter().map(|&(at, ns)| (ns, at)).collect();
        others.sort_unstable();
        let best = &others[..needed.min(others.len())];
        let can_restore = best.len() == needed;
        let restore = || SingleRead::Restore(best.iter().map(|&(_, place)| place).collect());
        let Some(own_ns) = own_ns else {
            return if can_restore { restore() } else { SingleRead::Lost };
        };
        let longest_ns = best.last().map_or(0, |&(ns, _)| ns);
        if !can_restore || own_ns <= longest_ns {
            return SingleRead::Direct;
        }
        let sum_ns = best.iter().fold(0u64, |sum, &(ns, _)| sum.saturating_add(ns));
        if own_ns > sum_ns {
            return restore();
        }
        let cost_milli = 1000 * (needed as u64 - 1);
        if cost_milli > self.budget_milli {
            return SingleRead::Direct;
        }
        self.budget_milli -= cost_milli;
        restore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn restored_reads_that_are_only_sooner_stay_within_the_budget() {
        let mut reads = SingleReads::new(300, 10);
        let others = [(1, 10), (2, 11), (3, 12), (4, 50)];
        let restored = (0..1000)
            .filter(|_| reads.choose(Some(13), &others, 3) == SingleRead::Restore(vec![1, 2, 3]));
        assert_eq!(restored.count(), 150, "two blocks more each, of 300 in all");
        let restored =
            (0..100).filter(|_| reads.choose(Some(34), &others, 3) != SingleRead::Direct);
        assert_eq!(restored.count(), 100, "longer than all three together");
    }

    #[test]
    fn lost_block_is_restored_while_enough_others_are_left() {
        let mut reads = SingleReads::new(0, 0);
        assert_eq!(reads.choose(None, &[(0, 5), (2, 1)], 2), SingleRead::Restore(vec![2, 0]));
        assert_eq!(reads.choose(None, &[(0, 5)], 2), SingleRead::Lost);
        assert_eq!(reads.choose(Some(u64::MAX), &[(0, 5)], 2), SingleRead::Direct);
    }
}
