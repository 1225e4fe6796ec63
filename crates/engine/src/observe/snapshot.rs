//! Recent snapshots of a flow's counters, from which `live.rs` computes rates.

use std::collections::VecDeque;
use std::time::Duration;

use euphrates_flow::metrics::Counters;

/// The period over which current rates are measured.
const RATE_PERIOD: Duration = Duration::from_millis(1500);
/// The least time between two snapshots.
const SNAPSHOT_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Snapshots of the recent past; the oldest first.
#[derive(Default)]
pub(crate) struct RecentSnapshots(VecDeque<Snapshot>);

/// The counters of a flow at one moment.
#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub at: Duration,
    /// By module and instance: counters, and busy time.
    pub instances: Vec<Vec<(Counters, Duration)>>,
    /// By queue: rows and bytes that have passed.
    pub passed: Vec<(u64, u64)>,
    pub disks: Vec<(String, Duration)>,
}

impl RecentSnapshots {
    /// The snapshot to compare `now` with, which is then stored; at first, zeros.
    pub fn compared_with(&mut self, now: &Snapshot) -> Snapshot {
        let snapshots = &mut self.0;
        while snapshots
            .get(1)
            .is_some_and(|snapshot| now.at.saturating_sub(snapshot.at) >= RATE_PERIOD)
        {
            snapshots.pop_front();
        }
        // A flow that has begun again may have other instances.
        let same_counts = |snapshot: &&Snapshot| {
            let counts = |snapshot: &Snapshot| -> Vec<usize> {
                snapshot.instances.iter().map(Vec::len).collect()
            };
            counts(snapshot) == counts(now)
        };
        let before = snapshots.front().filter(same_counts).cloned().unwrap_or_else(|| {
            let fresh = |of: &Vec<_>| vec![(Counters::default(), Duration::ZERO); of.len()];
            Snapshot {
                at: Duration::ZERO,
                instances: now.instances.iter().map(fresh).collect(),
                passed: vec![(0, 0); now.passed.len()],
                disks: vec![],
            }
        });
        if snapshots
            .back()
            .is_none_or(|last| now.at.saturating_sub(last.at) >= SNAPSHOT_INTERVAL_MIN)
        {
            snapshots.push_back(now.clone());
        }
        before
    }
}
