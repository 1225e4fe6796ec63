//! Lent memory (network RAM): how much a worker lends now, what it revokes, and from whom others
//! borrow.
//!
//! Idle memory of other machines is closer than the own disk where a link is faster than that disk
//! (Berkeley NOW, 2.3). A worker lends a fixed number of bytes, and fewer while its machine is
//! short of memory: it admits no more bytes then, and moves the files that it has held longest to
//! its disk, where their readers still find them.

use alloc::vec::Vec;

use crate::caching::pressure::{MemoryLevel, admissible_bytes, release_bytes};

/// Lenders of one borrower, at most: each is asked for its free space while the flow spills.
pub const LENDERS_MAX: usize = 8;

/// What a lender knows of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LendingFacts {
    /// The bytes that it lends at most.
    pub lent_bytes_max: u64,
    /// Bytes of files in its memory.
    pub used_bytes: u64,
    /// The memory of its machine.
    pub level: MemoryLevel,
}

impl LendingFacts {
    /// The bytes that files may still take.
    ///
    /// ```
    /// use euphrates_policy::caching::pressure::MemoryLevel;
    /// use euphrates_policy::lent_memory::LendingFacts;
    ///
    /// let with = |available| LendingFacts {
    ///     lent_bytes_max: 500,
    ///     used_bytes: 100,
    ///     level: MemoryLevel { total: 1600, available },
    /// };
    /// assert_eq!(with(1600).free_bytes(), 400);
    /// assert_eq!(with(250).free_bytes(), 50, "its machine has little left");
    /// assert_eq!(with(50).free_bytes(), 0);
    /// ```
    pub fn free_bytes(&self) -> u64 {
        self.lent_bytes_max.saturating_sub(self.used_bytes).min(admissible_bytes(self.level))
    }

    /// The files to move to disk, by position; `file_bytes` has the bytes of each in memory, oldest
    /// first.
    ///
    /// ```
    /// use euphrates_policy::caching::pressure::MemoryLevel;
    /// use euphrates_policy::lent_memory::LendingFacts;
    ///
    /// let level = MemoryLevel { total: 1600, available: 99 };
    /// let facts = LendingFacts { lent_bytes_max: 500, used_bytes: 300, level };
    /// assert_eq!(facts.revoked(&[0, 60, 60, 180]), [1, 2], "101 bytes are to be released");
    /// ```
    pub fn revoked(&self, file_bytes: &[u64]) -> Vec<usize> {
        let mut left = release_bytes(self.level, self.used_bytes);
        let mut chosen = Vec::new();
        for (at, bytes) in file_bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(*bytes);
            chosen.push(at);
        }
        chosen
    }
}

/// A worker, as one that may lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LendingWorker<'a> {
    /// Its machine.
    pub host: &'a str,
    /// The bytes that it lends at most.
    pub lent_bytes_max: u64,
}

/// The workers from which a worker borrows, by number: those on other machines that lend, at most
/// [`LENDERS_MAX`]. Memory of its own machine is its own already. Neighbours in number begin with
/// different lenders, so that the borrowers of a large cluster are spread over its lenders.
///
/// ```
/// use euphrates_policy::lent_memory::{LendingWorker, lenders_of};
///
/// let of = |host, lent_bytes_max| LendingWorker { host, lent_bytes_max };
/// let workers = [of("a", 9), of("a", 9), of("b", 0), of("c", 9), of("d", 9)];
/// assert_eq!(lenders_of(&workers, 1), [3, 4]);
/// assert_eq!(lenders_of(&workers, 3), [4, 0, 1]);
/// ```
pub fn lenders_of(workers: &[LendingWorker<'_>], me: usize) -> Vec<usize> {
    let Some(own) = workers.get(me) else { return Vec::new() };
    let after = (me + 1..workers.len()).chain(0..me);
    let lends = |at: &usize| workers[*at].lent_bytes_max > 0 && workers[*at].host != own.host;
    after.filter(lends).take(LENDERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    #[test]
    fn revocation_frees_what_pressure_asks_and_at_most_one_file_more() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..2000 {
            let files: Vec<u64> = (0..random(12)).map(|_| random(100)).collect();
            let used_bytes = files.iter().sum();
            let level = MemoryLevel { total: 1600, available: random(300) };
            let facts = LendingFacts { lent_bytes_max: 1000, used_bytes, level };
            let chosen = facts.revoked(&files);
            let freed: u64 = chosen.iter().map(|at| files[*at]).sum();
            let wanted = release_bytes(level, used_bytes);
            assert!(freed >= wanted, "{facts:?}");
            let last = chosen.last().map_or(0, |at| files[*at]);
            assert!(freed == 0 || freed - last < wanted, "{facts:?}");
        }
    }

    #[test]
    fn borrowers_of_a_large_cluster_are_spread_over_its_lenders() {
        let hosts: Vec<String> = (0..40).map(|at| format!("h{at}")).collect();
        let worker = |host: &'static str| LendingWorker { host, lent_bytes_max: 1 };
        assert!(lenders_of(&[worker("a"), worker("a")], 0).is_empty(), "one machine");
        assert!(lenders_of(&[], 0).is_empty());
        let workers: Vec<LendingWorker> =
            hosts.iter().map(|host| LendingWorker { host, lent_bytes_max: 1 }).collect();
        let mut borrowers = [0; 40];
        for me in 0..40 {
            let lenders = lenders_of(&workers, me);
            assert_eq!(lenders.len(), LENDERS_MAX);
            lenders.iter().for_each(|at| borrowers[*at] += 1);
        }
        assert_eq!(borrowers, [LENDERS_MAX; 40]);
    }
}
