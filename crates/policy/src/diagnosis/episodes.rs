//! Dating of slow episodes after a run, from the complete history.
//!
//! While a flow runs, [`straggler_detector`](crate::straggler_detector) must name a slow component
//! soon and dates the episode from little evidence. After the run the complete history is known. An
//! episode is then the time in which the component's speed, in segments of constant speed, was
//! below the midpoint between its peers' speed and its own speed during the episode.

use alloc::vec::Vec;
use core::ops::Range;

use crate::ideal::{IntervalCounters, StageHistory};
use crate::speed::SpeedProfile;
use crate::straggler_detector::{COMPUTES, COMPUTES_MIN, MIX, SLOW};

/// The intervals of an episode that was observed as `seen` while the flow ran; `None` if the
/// history has no such episode. `factor` is the slowdown, `None` if the component stood still.
/// Without `peers` it is compared with its own best speed.
pub fn dated(
    own: &SpeedProfile,
    peers: &[&SpeedProfile],
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
    // Without a change of speed at its start, the history does not date the episode; one without
    // any change counts only if it was seen early in the run.
    best.filter(|found| own.segments().iter().any(|one| one.intervals.start == found.start))
        .filter(|found| own.segments().len() > 1 || found.start + UNDATED_MAX >= seen.start)
}

/// Intervals at the start of a run within which an episode counts as one from the start on.
const UNDATED_MAX: usize = 10;

/// An episode at the end of a run that was too short to be observed while it ran.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalEpisode {
    /// The intervals of the episode.
    pub intervals: Range<usize>,
    /// Work that the component did in them.
    pub work: f64,
    /// Work that its peers would have done in its place.
    pub expected: f64,
}

/// The member's last segment of constant speed, if it is slow in the sense of
/// [`straggler_detector`](crate::straggler_detector): far below its peers, on the same kind of
/// work, and not because its work needs more computing. The change of speed in mid-run replaces a
/// long observation as evidence; a member that is slow from the start is observed while the flow
/// runs.
pub fn final_episode(
    stage: &StageHistory,
    speeds: &[SpeedProfile],
    member: usize,
) -> Option<FinalEpisode> {
    let [.., before, last] = speeds[member].segments() else { return None };
    let intervals = last.intervals.clone();
    let others = (0..speeds.len()).filter(|at| *at != member);
    let reference = median(others.clone().map(|at| speeds[at].at(intervals.start)))?;
    let sum = |member: usize, intervals: &Range<usize>| {
        let mut sum = IntervalCounters::default();
        stage.members[member][intervals.clone()].iter().for_each(|step| sum.add(step));
        sum
    };
    let (own, own_before) = (sum(member, &intervals), sum(member, &before.intervals));
    let is_new = before.speed >= SLOW * reference;
    let is_slow = last.speed < SLOW * reference && own.busy_ns >= LATE_BUSY_NS;
    let gives = |step: &IntervalCounters| step.work_out as f64 / step.work().max(1.0);
    // A member that stands still may have finished its batch.
    let is_still = own.work() < STILL * last.expected * reference;
    let is_other_work = (gives(&own) - gives(&own_before)).abs() > MIX && !is_still;
    let computes = |step: &IntervalCounters| step.cpu_ns as f64 / step.busy_ns.max(1) as f64;
    let peers = median(others.map(|at| computes(&sum(at, &intervals)))).unwrap_or(0.0);
    let is_harder = peers >= COMPUTES_MIN && computes(&own) >= COMPUTES * peers;
    let expected = last.expected * reference;
    (is_new && is_slow && !is_other_work && !is_harder).then_some(FinalEpisode {
        work: own.work(),
        expected,
        intervals,
    })
}

/// The busy time of a late episode, at least.
const LATE_BUSY_NS: u64 = 400_000_000;

/// The fraction of its peers' work below which a component counts as standing still.
const STILL: f64 = 0.05;

/// The median; of an even number of speeds, the upper one.
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
    use alloc::vec;

    const INTERVAL: u64 = 100_000_000;

    fn speeds(members: &[Vec<f64>]) -> Vec<SpeedProfile> {
        let step = |speed: &f64| IntervalCounters {
            work_in: (speed * 1e6) as u64,
            work_out: 0,
            busy_ns: INTERVAL,
            cpu_ns: 0,
        };
        let members: Vec<Vec<IntervalCounters>> =
            members.iter().map(|member| member.iter().map(step).collect()).collect();
        let intervals = members[0].len();
        let stage = StageHistory {
            members,
            flows: true,
            dealers: StageHistory::equal_dealers(1),
            feed: None,
        };
        SpeedProfile::of_stage(
            &vec![INTERVAL; intervals],
            &stage,
            core::slice::from_ref(&(0..intervals)),
        )
    }

    #[test]
    fn imprecisely_observed_episode_is_dated_precisely() {
        let slow = [vec![1.0; 40], vec![0.3; 50], vec![1.0; 10]].concat();
        let all = speeds(&[vec![1.0; 100], slow, vec![0.9; 100], vec![1.1; 100]]);
        let peers = [&all[0], &all[2], &all[3]];
        for seen in [1..95, 55..70, 40..90] {
            assert_eq!(dated(&all[1], &peers, Some(3.0), seen), Some(40..90));
        }
        assert_eq!(dated(&all[0], &[&all[2], &all[3]], Some(3.0), 10..50), None);
    }

    #[test]
    fn observed_episode_of_several_is_dated() {
        let slow = (0..100).map(|at| if at % 50 < 20 { 0.2 } else { 1.0 }).collect();
        let all = speeds(&[vec![1.0; 100], slow]);
        assert_eq!(dated(&all[1], &[&all[0]], Some(5.0), 55..80), Some(50..70));
    }

    #[test]
    fn component_without_peers_is_compared_with_its_own_best() {
        let all = speeds(&[[vec![1.0; 60], vec![0.2; 40]].concat()]);
        assert_eq!(dated(&all[0], &[], Some(5.0), 70..100), Some(60..100));
    }
}
