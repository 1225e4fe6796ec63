//! When a slow episode began and ended, found again after the run.
//!
//! While a flow runs, [`health`](crate::health) must name a slow component soon, from the little it
//! has seen, and dates the episode's begin by that. Afterwards all of the history is known: an
//! episode is the time in which the component's speed, in segments of constant speed, lay below the
//! middle between its peers' speed and its own during the episode.

use alloc::vec::Vec;
use core::ops::Range;

use crate::static_division::Speed;

/// The intervals of the episode of which `seen` is what was told while the flow ran; `None` if the
/// history has no such episode. `factor` is how many times as long the component took, `None` if it
/// stood still. Without `peers` it is compared with its own speed before.
pub fn dated(
    own: &Speed,
    peers: &[&Speed],
    factor: Option<f64>,
    seen: Range<usize>,
) -> Option<Range<usize>> {
    let middle = (1.0 + factor.map_or(0.0, |factor| 1.0 / factor)) / 2.0;
    let before = own.segments().iter().map(|segment| segment.speed).fold(0.0, f64::max);
    let is_slow = |interval: usize| {
        let reference = median(peers.iter().map(|peer| peer.at(interval))).unwrap_or(before);
        own.at(interval) < middle * reference
    };
    let end = own.segments().last()?.intervals.end;
    let mut best: Option<Range<usize>> = None;
    let mut begin = None;
    for interval in 0..=end {
        match (interval < end && is_slow(interval), begin) {
            (true, None) => begin = Some(interval),
            (false, Some(from)) => {
                let found = from..interval;
                let better =
                    best.as_ref().is_none_or(|best| overlap(&found, &seen) > overlap(best, &seen));
                if better && overlap(&found, &seen) > 0 {
                    best = Some(found);
                }
                begin = None;
            }
            _ => {}
        }
    }
    // Speeds that are not known to have changed when it began do not date it.
    best.filter(|found| own.segments().iter().any(|one| one.intervals.start == found.start))
        .filter(|found| own.segments().len() > 1 || found.start + UNDATED_MAX >= seen.start)
}

/// Intervals after the start of a run within which an episode counts as one from the start on.
const UNDATED_MAX: usize = 10;

/// The middle one; of an even number the faster of the two in the middle.
fn median(speeds: impl Iterator<Item = f64>) -> Option<f64> {
    let mut speeds: Vec<f64> = speeds.collect();
    speeds.sort_by(f64::total_cmp);
    speeds.get(speeds.len() / 2).copied()
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> usize {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal::{Stage, Step};
    use alloc::vec;

    const LOOK: u64 = 100_000_000;

    fn speeds(members: &[Vec<f64>]) -> Vec<Speed> {
        let step = |speed: &f64| Step {
            work_in: (speed * 1e6) as u64,
            work_out: 0,
            busy_ns: LOOK,
            cpu_ns: 0,
        };
        let members: Vec<Vec<Step>> =
            members.iter().map(|member| member.iter().map(step).collect()).collect();
        let intervals = members[0].len();
        let stage = Stage { members, flows: true, dealers: 1 };
        Speed::of_stage(&vec![LOOK; intervals], &stage, core::slice::from_ref(&(0..intervals)))
    }

    #[test]
    fn an_episode_that_was_dated_too_early_or_too_late_is_dated_anew() {
        let slow = [vec![1.0; 40], vec![0.3; 50], vec![1.0; 10]].concat();
        let all = speeds(&[vec![1.0; 100], slow, vec![0.9; 100], vec![1.1; 100]]);
        let peers = [&all[0], &all[2], &all[3]];
        for seen in [1..95, 55..70, 40..90] {
            assert_eq!(dated(&all[1], &peers, Some(3.0), seen), Some(40..90));
        }
        assert_eq!(dated(&all[0], &[&all[2], &all[3]], Some(3.0), 10..50), None);
    }

    #[test]
    fn of_several_episodes_the_one_that_was_seen_is_dated() {
        let slow = (0..100).map(|at| if at % 50 < 20 { 0.2 } else { 1.0 }).collect();
        let all = speeds(&[vec![1.0; 100], slow]);
        assert_eq!(dated(&all[1], &[&all[0]], Some(5.0), 55..80), Some(50..70));
    }

    #[test]
    fn a_component_without_peers_is_compared_with_its_own_best() {
        let all = speeds(&[[vec![1.0; 60], vec![0.2; 40]].concat()]);
        assert_eq!(dated(&all[0], &[], Some(5.0), 70..100), Some(60..100));
    }
}
