//! Where a running flow stands, and how fast it is at this moment: a flow that merges what it has
//! sorted is in another phase than one that reads, and an average over both would tell of neither.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use euphrates_flow::check::Checked;
use euphrates_flow::metrics::{Counters, State};
use serde::Serialize;

use crate::observe::report::{bytes_of, count, seconds, sum};
use crate::observe::watch::SlowNow;
use crate::run::worker::Worker;

/// Where a running flow stands.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// Seconds since the start.
    pub seconds: f64,
    /// What the module that moves most has moved in the last second, in or out.
    pub bytes_per_second: f64,
    /// The modules, producers before consumers.
    pub modules: Vec<ModuleProgress>,
    /// Instances and disks that are slow now.
    pub slow: Vec<SlowNow>,
}

/// Where a module stands.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleProgress {
    /// Its name in the flow.
    pub id: String,
    /// Number of instances.
    pub count: usize,
    /// What most of its instances are doing: `busy`, `starved`, `blocked`, `ended`.
    pub state: &'static str,
    /// Bytes waiting in its input queues, and their bound.
    pub waiting_bytes: (i64, usize),
    /// Sums over the instances.
    #[serde(flatten)]
    pub counters: Counters,
}

/// What most instances of a module are doing.
pub(crate) fn most_common(states: &[State]) -> &'static str {
    let count = |state: &State| states.iter().filter(|other| *other == state).count();
    states.iter().max_by_key(|state| count(state)).map_or("ended", |state| state.word())
}

impl Progress {
    pub(crate) fn read(
        flow: &Checked,
        (worker, elsewhere): (&Worker, &dyn Fn(usize) -> i64),
        slow: Vec<SlowNow>,
        elapsed: Duration,
        pace: &mut Pace,
    ) -> Progress {
        let module = |node: usize| {
            let metrics = &worker.instances[node].metrics;
            let states: Vec<State> = metrics.iter().map(|metrics| metrics.state()).collect();
            let inputs = flow.edges.iter().zip(&worker.queues).enumerate();
            let fills = inputs.filter(|(_, (edge, _))| edge.to.0 == node).flat_map(
                |(number, (_, queues))| {
                    let here = queues.iter().map(|queue| queue.fill());
                    here.chain([(elsewhere(number), 0)])
                },
            );
            ModuleProgress {
                id: flow.nodes[node].id.clone(),
                count: metrics.len(),
                state: most_common(&states),
                waiting_bytes: fills.fold((0, 0), |sum, fill| (sum.0 + fill.0, sum.1 + fill.1)),
                counters: sum(worker, node),
            }
        };
        let modules: Vec<_> = (0..flow.nodes.len()).map(module).collect();
        let moved = |module: &ModuleProgress| [module.counters.bytes_in, module.counters.bytes_out];
        let bytes_per_second = pace.of(elapsed, modules.iter().flat_map(moved).collect());
        Progress { seconds: elapsed.as_secs_f64(), bytes_per_second, modules, slow }
    }
}

/// Slow ones that a line names.
const NAMED_MAX: usize = 3;

/// One line, what matters first: `12.3 s  4,000,000 rows in, 120,000 out, 98.1 MB/s  busy: sort_1`,
/// with `slow: map_1.2 (4.1x)` before who is busy if somebody is slow.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows_in = self.modules.iter().map(|module| module.counters.rows_in).max();
        // What has reached the end of the flow; a sink that keeps rows puts none out.
        let last = self.modules.last().map(|module| &module.counters);
        let rows_out = last.map(|last| last.rows_in.max(last.rows_out));
        let [rows_in, rows_out] = [rows_in, rows_out].map(|rows| count(rows.unwrap_or(0)));
        let rate = bytes_of(self.bytes_per_second);
        write!(f, "{}  {rows_in} rows in, {rows_out} out, {rate}/s", seconds(self.seconds))?;
        for (position, slow) in self.slow.iter().take(NAMED_MAX).enumerate() {
            write!(f, "{}{slow}", if position == 0 { "  slow: " } else { ", " })?;
        }
        if self.slow.len() > NAMED_MAX {
            write!(f, " and {} more", self.slow.len() - NAMED_MAX)?;
        }
        let busy = self.modules.iter().filter(|module| module.state == State::Busy.word());
        for (position, module) in busy.enumerate() {
            write!(f, "{}{}", if position == 0 { "  busy: " } else { ", " }, module.id)?;
        }
        Ok(())
    }
}

/// How far back the present reaches.
const PRESENT: Duration = Duration::from_secs(1);
/// Looks closer together than this are one; so there is a bound to how many are kept.
const APART_MIN: Duration = Duration::from_millis(20);

/// What counters did lately.
#[derive(Default)]
pub(crate) struct Pace {
    /// When, and where the counters stood; the oldest first.
    looks: VecDeque<(Duration, Vec<u64>)>,
}

impl Pace {
    /// The most that any counter rises in a second at present.
    fn of(&mut self, now: Duration, counters: Vec<u64>) -> f64 {
        while self.looks.get(1).is_some_and(|(then, _)| now.saturating_sub(*then) >= PRESENT) {
            self.looks.pop_front();
        }
        let (then, before) = match self.looks.front() {
            Some((then, before)) => (*then, before.clone()),
            None => (Duration::ZERO, vec![0; counters.len()]),
        };
        let most = counters.iter().zip(&before).map(|(now, before)| now.saturating_sub(*before));
        let rate = most.max().unwrap_or(0) as f64 / now.saturating_sub(then).as_secs_f64();
        let last = self.looks.back().map_or(Duration::ZERO, |(last, _)| *last);
        if now.saturating_sub(last) >= APART_MIN {
            self.looks.push_back((now, counters));
        }
        if rate.is_finite() { rate } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_pace_is_that_of_the_phase() {
        let mut pace = Pace::default();
        assert_eq!(pace.of(at(0), vec![0, 0]), 0.0);
        // Reading: ten a millisecond.
        (1..=50).for_each(|n| {
            assert_eq!(pace.of(at(n * 100), vec![n * 1000, 0]).round(), 10_000.0);
        });
        // Merging: what came in stands still, what goes out rises by one a millisecond.
        let merging: Vec<f64> =
            (1..=50).map(|n| pace.of(at(5000 + n * 100), vec![50_000, n * 100]).round()).collect();
        assert_eq!(merging.last(), Some(&1000.0));
        assert!(merging.is_sorted_by(|a, b| a >= b));
        assert!(pace.looks.len() <= 102, "{}", pace.looks.len());
    }

    #[test]
    fn a_line_shows_who_works_within_eighty_columns() {
        let module = |id: &str, state: State, rows_in, rows_out| ModuleProgress {
            id: id.into(),
            count: 2,
            state: state.word(),
            waiting_bytes: (0, 0),
            counters: Counters { rows_in, rows_out, ..Counters::default() },
        };
        let modules = vec![
            module("scan_1", State::Ended, 40_000_000, 40_000_000),
            module("sort_1", State::Busy, 40_000_000, 1_300_000),
            module("save_1", State::Starved, 1_250_000, 1_200_000),
        ];
        let mut progress =
            Progress { seconds: 12.3, bytes_per_second: 114.2e6, modules, slow: vec![] };
        let line = progress.to_string();
        let wanted = "12.30 s  40,000,000 rows in, 1,250,000 out, 114.2 MB/s  busy: sort_1";
        assert_eq!(line, wanted);
        assert!(line.len() < 80);
        let slow = |name: &str, factor| SlowNow { name: name.into(), factor };
        progress.slow = vec![slow("map_1.2", Some(4.13)), slow("map_1.0", None)];
        let line = progress.to_string();
        assert!(line.contains("  slow: map_1.2 (4.1x), map_1.0 (still)  busy: sort_1"), "{line}");
    }
}
