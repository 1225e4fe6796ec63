//! The one-line progress of a running flow for terminals, and its current rate. The rate is that of
//! the present phase: an average over a phase that reads and one that merges would describe
//! neither.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use euphrates_flow::check::CheckedFlow;
use euphrates_flow::metrics::{Counters, InstanceState};
use serde::Serialize;

use super::format::{bytes_of, count, seconds};
use crate::observe::sampler::SlowNow;
use crate::run::running_part::RunningPart;

/// The progress of a flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowProgress {
    /// Seconds since the start.
    pub seconds: f64,
    /// Bytes in or out within the last second, of the module that moves most.
    pub bytes_per_second: f64,
    /// The modules, producers before consumers.
    pub modules: Vec<ModuleProgress>,
    /// Instances and disks that are slow now.
    pub slow: Vec<SlowNow>,
}

/// The progress of a module.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleProgress {
    /// Its name in the flow.
    pub id: String,
    /// The number of its instances.
    pub count: usize,
    /// The state of most of its instances: `busy`, `starved`, `blocked`, `ended`.
    pub state: &'static str,
    /// Bytes waiting in its input queues, and their bound.
    pub waiting_bytes: (i64, usize),
    /// Sums over the instances.
    #[serde(flatten)]
    pub counters: Counters,
}

/// The state of most instances of a module.
pub(crate) fn most_common(states: &[InstanceState]) -> &'static str {
    let count = |state: &InstanceState| states.iter().filter(|other| *other == state).count();
    states.iter().max_by_key(|state| count(state)).map_or("ended", |state| state.word())
}

impl FlowProgress {
    pub(crate) fn read(
        flow: &CheckedFlow,
        (part, elsewhere): (&RunningPart, &dyn Fn(usize) -> i64),
        slow: Vec<SlowNow>,
        elapsed: Duration,
        rate: &mut RecentRate,
    ) -> FlowProgress {
        let module = |node: usize| {
            let metrics = &part.metrics[node].metrics;
            let states: Vec<InstanceState> =
                metrics.iter().map(|metrics| metrics.state()).collect();
            let inputs = flow.edges.iter().zip(&part.queues).enumerate();
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
                counters: part.metrics[node].counters(),
            }
        };
        let modules: Vec<_> = (0..flow.nodes.len()).map(module).collect();
        let moved = |module: &ModuleProgress| [module.counters.bytes_in, module.counters.bytes_out];
        let bytes_per_second = rate.of(elapsed, modules.iter().flat_map(moved).collect());
        FlowProgress { seconds: elapsed.as_secs_f64(), bytes_per_second, modules, slow }
    }
}

/// The most slow components named in a line.
const NAMED_MAX: usize = 3;

/// One line, the most important first: `12.30 s  4,000,000 rows in, 120,000 out, 98.1 MB/s  busy:
/// sort_1`; `slow: map_1.2 (4.1x)` precedes the busy modules if a component is slow.
impl fmt::Display for FlowProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows_in = self.modules.iter().map(|module| module.counters.rows_in).max();
        // Rows that have reached the end of the flow; a sink that keeps rows puts none out.
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
        let busy = self.modules.iter().filter(|module| module.state == InstanceState::Busy.word());
        for (position, module) in busy.enumerate() {
            write!(f, "{}{}", if position == 0 { "  busy: " } else { ", " }, module.id)?;
        }
        Ok(())
    }
}

/// The period over which the current rate is measured.
const RATE_PERIOD: Duration = Duration::from_secs(1);
/// The least time between two samples, which bounds the number kept.
const SAMPLE_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// Recent samples of counters.
#[derive(Default)]
pub(crate) struct RecentRate {
    /// The time and the counters of each sample; the oldest first.
    samples: VecDeque<(Duration, Vec<u64>)>,
}

impl RecentRate {
    /// The highest current rate of any counter, per second.
    fn of(&mut self, now: Duration, counters: Vec<u64>) -> f64 {
        while self.samples.get(1).is_some_and(|(then, _)| now.saturating_sub(*then) >= RATE_PERIOD)
        {
            self.samples.pop_front();
        }
        let (then, before) = match self.samples.front() {
            Some((then, before)) => (*then, before.clone()),
            None => (Duration::ZERO, vec![0; counters.len()]),
        };
        let most = counters.iter().zip(&before).map(|(now, before)| now.saturating_sub(*before));
        let rate = most.max().unwrap_or(0) as f64 / now.saturating_sub(then).as_secs_f64();
        let last = self.samples.back().map_or(Duration::ZERO, |(last, _)| *last);
        if now.saturating_sub(last) >= SAMPLE_INTERVAL_MIN {
            self.samples.push_back((now, counters));
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
    fn rate_is_that_of_the_phase() {
        let mut rate = RecentRate::default();
        assert_eq!(rate.of(at(0), vec![0, 0]), 0.0);
        // Reading: ten per millisecond.
        (1..=50).for_each(|n| {
            assert_eq!(rate.of(at(n * 100), vec![n * 1000, 0]).round(), 10_000.0);
        });
        // Merging: input stands still, output grows by one per millisecond.
        let merging: Vec<f64> =
            (1..=50).map(|n| rate.of(at(5000 + n * 100), vec![50_000, n * 100]).round()).collect();
        assert_eq!(merging.last(), Some(&1000.0));
        assert!(merging.is_sorted_by(|a, b| a >= b));
        assert!(rate.samples.len() <= 102, "{}", rate.samples.len());
    }

    #[test]
    fn line_names_busy_modules_within_eighty_columns() {
        let module = |id: &str, state: InstanceState, rows_in, rows_out| ModuleProgress {
            id: id.into(),
            count: 2,
            state: state.word(),
            waiting_bytes: (0, 0),
            counters: Counters { rows_in, rows_out, ..Counters::default() },
        };
        let modules = vec![
            module("scan_1", InstanceState::Ended, 40_000_000, 40_000_000),
            module("sort_1", InstanceState::Busy, 40_000_000, 1_300_000),
            module("save_1", InstanceState::Starved, 1_250_000, 1_200_000),
        ];
        let mut progress =
            FlowProgress { seconds: 12.3, bytes_per_second: 114.2e6, modules, slow: vec![] };
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
