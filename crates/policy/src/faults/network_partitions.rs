//! Partial network partitions: which workers a flow excludes when some pairs cannot connect.
//!
//! In a partial network partition every worker is alive and the master reaches all of them, but one
//! flow cannot use both workers of a disconnected pair. A failed connection is retried once,
//! because most failures are transient. Disconnected pairs are remembered for a while. Flows
//! exclude the smallest set of workers such that the remaining ones are pairwise connected.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// A pair with this many strikes is disconnected.
const STRIKES_MAX: u32 = 2;
/// Strikes expire after this time, because networks are repaired.
pub(crate) const MEMORY: Duration = Duration::from_secs(300);
/// Up to this many pairs the smallest set is searched exactly, above it greedily.
const EXACT_MAX: usize = 20;

/// Failed connections between processes. All times are of one clock.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::network_partitions::{Candidate, FailedConnections};
///
/// let mut reach = FailedConnections::default();
/// let now = Duration::from_secs(1);
/// reach.on_lost("w1", "w2", true, now);
/// let workers = [("w1", 8), ("w2", 2)].map(|(name, cores)| Candidate { name, cores });
/// assert_eq!(reach.left_out("master", &workers, now), [1], "the one with fewer cores");
/// ```
#[derive(Clone, Debug, Default)]
pub struct FailedConnections {
    pairs: BTreeMap<(String, String), Lost>,
}

#[derive(Clone, Copy, Debug)]
struct Lost {
    strikes: u32,
    last: Duration,
}

/// A worker that a flow may run on.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The worker's name, as in `FailedConnections::on_lost`.
    pub name: &'a str,
    /// Its cores. Among sets of equal size, the set with the fewest cores is excluded.
    pub cores: usize,
}

impl FailedConnections {
    /// A connection failed. `are_disconnected` says that no new connection could be made either.
    pub fn on_lost(&mut self, one: &str, other: &str, are_parted: bool, now: Duration) {
        self.forget_old(now);
        let lost = self.pairs.entry(pair(one, other)).or_insert(Lost { strikes: 0, last: now });
        lost.strikes = lost.strikes.saturating_add(if are_parted { STRIKES_MAX } else { 1 });
        lost.last = now;
    }

    /// A process was restarted, perhaps elsewhere: its connections may work now.
    pub fn on_restarted(&mut self, name: &str) {
        self.pairs.retain(|(one, other), _| one != name && other != name);
    }

    /// Whether two processes are known to be disconnected.
    pub fn are_disconnected(&self, one: &str, other: &str, now: Duration) -> bool {
        let lost = self.pairs.get(&pair(one, other));
        lost.is_some_and(|lost| {
            lost.strikes >= STRIKES_MAX && now.saturating_sub(lost.last) < MEMORY
        })
    }

    /// The indexes of the workers to exclude: the smallest set, and among those the one with the
    /// fewest cores, such that all others can connect to each other and to `home`, which is never
    /// excluded. Above `EXACT_MAX` disconnected pairs the set is found greedily and may be larger.
    pub fn left_out(&self, home: &str, workers: &[Candidate<'_>], now: Duration) -> Vec<usize> {
        let parted = |one: &str, other: &str| self.are_disconnected(one, other, now);
        let mut out = vec![false; workers.len()];
        for (at, worker) in workers.iter().enumerate() {
            out[at] = parted(home, worker.name);
        }
        let mut edges = vec![];
        for one in 0..workers.len() {
            for other in one + 1..workers.len() {
                if !out[one] && !out[other] && parted(workers[one].name, workers[other].name) {
                    edges.push((one, other));
                }
            }
        }
        let cores: Vec<usize> = workers.iter().map(|worker| worker.cores).collect();
        for worker in cover(&edges, &cores) {
            out[worker] = true;
        }
        (0..workers.len()).filter(|at| out[*at]).collect()
    }

    fn forget_old(&mut self, now: Duration) {
        self.pairs.retain(|_, lost| now.saturating_sub(lost.last) < MEMORY);
    }
}

fn pair(one: &str, other: &str) -> (String, String) {
    let (one, other) = if one <= other { (one, other) } else { (other, one) };
    (one.to_owned(), other.to_owned())
}

/// A minimum vertex cover: the fewest workers, then the fewest cores, with one end of every pair.
fn cover(edges: &[(usize, usize)], cores: &[usize]) -> Vec<usize> {
    let greedy = greedy_cover(edges, cores);
    if edges.len() > EXACT_MAX {
        return greedy;
    }
    let mut best = greedy;
    search(edges, cores, &mut vec![], &mut best);
    best
}

/// Repeatedly takes the worker with the most uncovered pairs.
fn greedy_cover(edges: &[(usize, usize)], cores: &[usize]) -> Vec<usize> {
    let mut left: Vec<(usize, usize)> = edges.to_vec();
    let mut taken = vec![];
    while !left.is_empty() {
        let degree = |at: usize| left.iter().filter(|(a, b)| *a == at || *b == at).count();
        let ends = left.iter().flat_map(|(a, b)| [*a, *b]);
        let most = ends.max_by_key(|at| (degree(*at), core::cmp::Reverse(cores[*at]), *at));
        let Some(most) = most else { break };
        left.retain(|(a, b)| *a != most && *b != most);
        taken.push(most);
    }
    taken.sort_unstable();
    taken
}

/// Branches on the two ends of the first uncovered pair and keeps the best cover.
fn search(
    edges: &[(usize, usize)],
    cores: &[usize],
    taken: &mut Vec<usize>,
    best: &mut Vec<usize>,
) {
    let is_open = |(a, b): &&(usize, usize)| !taken.contains(a) && !taken.contains(b);
    let Some(&(one, other)) = edges.iter().find(is_open) else {
        if cost(taken, cores) < cost(best, cores) {
            *best = taken.clone();
            best.sort_unstable();
        }
        return;
    };
    if taken.len() >= best.len() {
        return;
    }
    for end in [other, one] {
        taken.push(end);
        search(edges, cores, taken, best);
        taken.pop();
    }
}

fn cost(taken: &[usize], cores: &[usize]) -> (usize, usize) {
    (taken.len(), taken.iter().map(|at| cores[*at]).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOME: &str = "master";
    const NAMES: [&str; 7] = ["w0", "w1", "w2", "w3", "w4", "w5", "w6"];

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn workers(cores: &[usize]) -> Vec<Candidate<'static>> {
        cores.iter().zip(NAMES).map(|(cores, name)| Candidate { name, cores: *cores }).collect()
    }

    #[test]
    fn one_failed_connection_excludes_no_worker() {
        let mut reach = FailedConnections::default();
        reach.on_lost("w0", "w1", false, seconds(1));
        assert!(reach.left_out(HOME, &workers(&[1, 1]), seconds(1)).is_empty());
        reach.on_lost("w1", "w0", false, seconds(2));
        assert_eq!(reach.left_out(HOME, &workers(&[1, 1]), seconds(2)), [1]);
    }

    #[test]
    fn a_disconnected_worker_is_excluded_until_expiry_or_restart() {
        let mut reach = FailedConnections::default();
        reach.on_lost("w0", "w1", true, seconds(0));
        assert_eq!(reach.left_out(HOME, &workers(&[1, 4, 1]), seconds(299)), [0]);
        assert!(reach.left_out(HOME, &workers(&[1, 4, 1]), seconds(300)).is_empty());
        reach.on_lost("w0", "w1", true, seconds(400));
        reach.on_restarted("w1");
        assert!(reach.left_out(HOME, &workers(&[1, 4, 1]), seconds(401)).is_empty());
    }

    #[test]
    fn one_isolated_worker_is_excluded_rather_than_all_its_peers() {
        let mut reach = FailedConnections::default();
        for other in ["w0", "w1", "w3"] {
            reach.on_lost("w2", other, true, seconds(0));
        }
        assert_eq!(reach.left_out(HOME, &workers(&[1, 1, 64, 1]), seconds(0)), [2]);
    }

    #[test]
    fn the_master_is_never_excluded() {
        let mut reach = FailedConnections::default();
        reach.on_lost(HOME, "w0", true, seconds(0));
        reach.on_lost("w0", "w1", true, seconds(0));
        assert_eq!(reach.left_out(HOME, &workers(&[9, 1]), seconds(0)), [0]);
    }

    fn brute_force(edges: &[(usize, usize)], cores: &[usize]) -> (usize, usize) {
        let covers = |set: usize| edges.iter().all(|(a, b)| set >> a & 1 == 1 || set >> b & 1 == 1);
        let members = |set: usize| (0..cores.len()).filter(move |at| set >> at & 1 == 1);
        let sets = (0..1_usize << cores.len()).filter(|set| covers(*set));
        sets.map(|set| cost(&members(set).collect::<Vec<_>>(), cores)).min().unwrap()
    }

    proptest! {
        #[test]
        fn the_excluded_set_is_minimal_and_the_rest_is_connected(
            cores in prop::collection::vec(1..9_usize, 2..8),
            pairs in prop::collection::vec((0..7_usize, 0..7_usize), 0..10),
        ) {
            let mut reach = FailedConnections::default();
            let count = cores.len();
            let mut edges: Vec<(usize, usize)> = vec![];
            for (a, b) in pairs {
                let (a, b) = (a % count, b % count);
                if a != b {
                    reach.on_lost(NAMES[a], NAMES[b], true, seconds(1));
                    edges.push((a, b));
                }
            }
            let out = reach.left_out(HOME, &workers(&cores), seconds(2));
            for one in (0..count).filter(|at| !out.contains(at)) {
                for other in (0..count).filter(|at| !out.contains(at)) {
                    prop_assert!(!reach.are_disconnected(NAMES[one], NAMES[other], seconds(2)));
                }
            }
            prop_assert_eq!(cost(&out, &cores), brute_force(&edges, &cores));
            prop_assert!(out.len() < count, "some worker is left");
        }
    }
}
