//! The ideal time of a flow: a lower bound from a fluid model with the rates of busy components.
//!
//! A stage takes the time in which the rates of its members, integrated over time, add up to all of
//! its work; the slowest stage determines the ideal time. Rates are integrated because
//! perturbations change them. Processors are one stage that all others share, and each disk is a
//! stage. A stage that produces no output before it has consumed all input (a pipeline breaker,
//! such as a sort) separates phases, whose times add up. The ideal corresponds to "percent of peak"
//! in River 3, with the observed speeds as the peak.

use alloc::vec::Vec;
use core::ops::Range;

/// The counters of a member in one interval of the history.
///
/// ```
/// use euphrates_policy::ideal::IntervalCounters;
///
/// let one = IntervalCounters { work_in: 60, work_out: 40, busy_ns: 5, cpu_ns: 4 };
/// let mut both = one;
/// both.add(&one);
/// assert_eq!((both.work(), both.busy_ns), (200.0, 10), "bytes in both directions");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalCounters {
    /// Work that came in, in bytes.
    pub work_in: u64,
    /// Work that went out, in bytes.
    pub work_out: u64,
    /// Busy time, in nanoseconds.
    pub busy_ns: u64,
    /// Processor time, in nanoseconds; 0 if it is not known.
    pub cpu_ns: u64,
}

impl IntervalCounters {
    /// Work in both directions, in bytes.
    pub fn work(&self) -> f64 {
        self.work_in as f64 + self.work_out as f64
    }

    /// Adds the counters of another interval or member.
    pub fn add(&mut self, other: &IntervalCounters) {
        self.work_in += other.work_in;
        self.work_out += other.work_out;
        self.busy_ns += other.busy_ns;
        self.cpu_ns += other.cpu_ns;
    }
}

/// A stage: members that share work, with their histories.
#[derive(Clone, Debug, Default)]
pub struct StageHistory {
    /// The members' histories, with one step per interval.
    pub members: Vec<Vec<IntervalCounters>>,
    /// Whether the members take in and give out records of the flow; only such a stage can separate
    /// phases.
    pub flows: bool,
    /// For static division: the fraction of the work that each producer (*dealer*) deals out, in
    /// equal parts to the members of its group; empty if the work is never divided. Dealer `d` has
    /// the members `m` with `m % dealers == d` if there are fewer dealers than members, else only
    /// member `d % members`.
    pub dealers: Vec<f64>,
    /// The stage that feeds it; `None` if it has its own input, or the feed is not known.
    pub feed: Option<StageFeed>,
}

/// The queues through which a stage gets its work from one other stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageFeed {
    /// The index of the feeding stage, which is smaller.
    pub from: usize,
    /// Bytes queued per member of the feeding stage, at most.
    pub bytes_max: f64,
}

impl StageHistory {
    /// Dealers with equal fractions.
    pub fn equal_dealers(number: usize) -> Vec<f64> {
        alloc::vec![1.0 / number as f64; number]
    }

    /// The groups of a static division: members, and the fraction of the work that they share
    /// equally.
    pub fn groups(&self) -> Vec<(Vec<usize>, f64)> {
        let members = self.members.len();
        let groups = self.dealers.len().min(members);
        let parts = |group: usize| self.dealers.iter().skip(group).step_by(groups).sum();
        let group = |group: usize| (group..members).step_by(groups).collect();
        (0..groups).map(|at| (group(at), parts(at))).collect()
    }

    /// The fraction of the work that a static division gives each member.
    ///
    /// ```
    /// use euphrates_policy::ideal::StageHistory;
    ///
    /// // The first of two dealers gives three quarters of the work, to members 0 and 2.
    /// let dealers = vec![0.75, 0.25];
    /// let stage = StageHistory { members: vec![vec![]; 3], dealers, ..StageHistory::default() };
    /// assert_eq!(stage.static_parts(), [0.375, 0.25, 0.375]);
    /// ```
    pub fn static_parts(&self) -> Vec<f64> {
        let equal = 1.0 / self.members.len().max(1) as f64;
        let mut parts = alloc::vec![equal; self.members.len()];
        for (members, part) in self.groups() {
            members.iter().for_each(|member| parts[*member] = part / members.len() as f64);
        }
        parts
    }
}

/// Used and available processors in each interval.
#[derive(Clone, Debug, Default)]
pub struct ProcessorUse {
    /// Processor time used by the flow, in nanoseconds.
    pub used_ns: Vec<u64>,
    /// Processors available to the flow.
    pub available: Vec<f64>,
}

/// The component that decides the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitingComponent {
    /// The stage at this index.
    Stage(usize),
    /// The processors, which all stages share.
    Processors,
}

/// The ideal run, and the component that limits it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ideal {
    /// The time of a perfectly balanced run at these rates, in seconds.
    pub seconds: f64,
    /// The component that decides the longest phase; `None` if no work was done.
    pub bound: Option<LimitingComponent>,
}

/// Busy time over which a rate is measured, at least: longer than the steps of progress.
const RATE_BUSY_NS: u64 = 500_000_000;

/// The ideal run for a history, given the lengths of its intervals in nanoseconds.
///
/// ```
/// use euphrates_policy::ideal::{ProcessorUse, StageHistory, IntervalCounters, ideal};
///
/// let (second, intervals) = (1_000_000_000, 10);
/// let one = |busy_ns| IntervalCounters { work_in: 100, busy_ns, ..IntervalCounters::default() };
/// let member = |busy_ns| vec![one(busy_ns); intervals];
/// // The second member did the same work in half of the time, and was idle in the other half.
/// let members = vec![member(second), member(second / 2)];
/// let dealers = StageHistory::equal_dealers(1);
/// let stage = StageHistory { members, flows: true, dealers, feed: None };
/// let idle = ProcessorUse { used_ns: vec![0; intervals], available: vec![2.0; intervals] };
/// let ideal = ideal(&vec![second; intervals], &[stage], &idle);
/// assert!((ideal.seconds - 2000.0 / 300.0).abs() < 1e-6, "2000 bytes at 100 and 200 bytes/s");
/// ```
pub fn ideal(walls_ns: &[u64], stages: &[StageHistory], processors: &ProcessorUse) -> Ideal {
    let (mut seconds, mut largest, mut bound) = (0.0, 0.0, None);
    for phase in phases(walls_ns.len(), stages) {
        let walls = &walls_ns[phase.clone()];
        let loads = stages
            .iter()
            .enumerate()
            .map(|(at, stage)| (LimitingComponent::Stage(at), StageLoad::of(stage, phase.clone())));
        let mut all: Vec<(LimitingComponent, StageLoad)> = loads.collect();
        all.push((
            LimitingComponent::Processors,
            StageLoad::of_processors(processors, walls, phase),
        ));
        let mut longest = 0.0_f64;
        for (component, load) in &all {
            let takes = load.together(walls);
            if takes > longest && takes > largest {
                (largest, bound) = (takes, Some(*component));
            }
            longest = longest.max(takes);
        }
        seconds += longest;
    }
    Ideal { seconds, bound }
}

/// Phases: ranges of intervals, separated where some stage had taken in everything and given
/// nothing.
///
/// ```
/// use euphrates_policy::ideal::{IntervalCounters, StageHistory, phases};
///
/// let step = |work_in, work_out| IntervalCounters { work_in, work_out, ..Default::default() };
/// // A sort: it takes in everything during two intervals, and gives it during the next two.
/// let members = vec![vec![step(50, 0), step(50, 0), step(0, 50), step(0, 50)]];
/// let sort = StageHistory { members, flows: true, ..StageHistory::default() };
/// assert_eq!(phases(4, &[sort]), [0..2, 2..4]);
/// ```
pub fn phases(intervals: usize, stages: &[StageHistory]) -> Vec<Range<usize>> {
    let mut cuts: Vec<usize> = stages.iter().filter_map(turn).collect();
    cuts.retain(|cut| *cut > 0 && *cut < intervals);
    cuts.sort_unstable();
    cuts.dedup();
    let begins = core::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(core::iter::once(intervals));
    begins.zip(ends).map(|(begin, end)| begin..end).collect()
}

/// The interval in which a stage begins to give, if it has taken in everything by then.
fn turn(stage: &StageHistory) -> Option<usize> {
    let steps = || stage.members.iter().flat_map(|steps| steps.iter().enumerate());
    let last_in = steps().filter(|(_, step)| step.work_in > 0).map(|(at, _)| at).max()?;
    let first_out = steps().filter(|(_, step)| step.work_out > 0).map(|(at, _)| at).min()?;
    (stage.flows && first_out >= last_in).then_some(first_out)
}

/// The work of a stage in a phase, and the rates of its members per nanosecond.
struct StageLoad {
    work: f64,
    rates: Vec<Vec<f64>>,
}

impl StageLoad {
    fn of(stage: &StageHistory, phase: Range<usize>) -> StageLoad {
        let steps = || stage.members.iter().map(|steps| &steps[phase.clone()]);
        let work = steps().flatten().map(IntervalCounters::work).sum();
        StageLoad { work, rates: steps().map(rates).collect() }
    }

    fn of_processors(processors: &ProcessorUse, walls: &[u64], phase: Range<usize>) -> StageLoad {
        let used = &processors.used_ns[phase.clone()];
        let there = processors.available[phase].iter().zip(used).zip(walls);
        // Used processors were available.
        let rates =
            there.map(|((there, used), wall)| there.max(*used as f64 / (*wall).max(1) as f64));
        let rates = Vec::from([rates.collect()]);
        let work = used.iter().map(|used| *used as f64).sum();
        StageLoad { work, rates }
    }

    /// Seconds until all members together have done the work.
    fn together(&self, walls: &[u64]) -> f64 {
        let mut left = self.work;
        let mut seconds = 0.0;
        for (at, wall) in walls.iter().enumerate() {
            if left <= 0.0 {
                break;
            }
            let rate: f64 = self.rates.iter().map(|rates| rates[at]).sum();
            let can = rate * *wall as f64;
            let part = if can > left { left / can } else { 1.0 };
            seconds += part * *wall as f64 / 1e9;
            left -= can;
        }
        seconds
    }
}

/// A member's rate in every interval, measured over enough busy time to smooth steps of progress.
/// Idle intervals get the rate of the busy time around them.
fn rates(steps: &[IntervalCounters]) -> Vec<f64> {
    let mut rates: Vec<f64> = Vec::with_capacity(steps.len());
    let mut block = IntervalCounters::default();
    for (at, step) in steps.iter().enumerate() {
        block.add(step);
        let rest: u64 = steps[at + 1..].iter().map(|step| step.busy_ns).sum();
        if (block.busy_ns >= RATE_BUSY_NS && rest >= RATE_BUSY_NS) || at + 1 == steps.len() {
            let rate = block.work() / block.busy_ns.max(1) as f64;
            // Work without measured busy time is no evidence of a rate.
            let rate = if block.busy_ns == 0 { 0.0 } else { rate };
            rates.resize(at + 1, rate);
            block = IntervalCounters::default();
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const SECOND: u64 = 1_000_000_000;

    /// A stage that is busy in all intervals of a second, with each member's work per interval.
    fn stage(intervals: usize, works: &[u64]) -> StageHistory {
        let member = |work: &u64| {
            vec![
                IntervalCounters { work_in: *work, work_out: 0, busy_ns: SECOND, cpu_ns: 0 };
                intervals
            ]
        };
        StageHistory {
            members: works.iter().map(member).collect(),
            flows: true,
            dealers: StageHistory::equal_dealers(1),
            feed: None,
        }
    }

    fn idle(intervals: usize) -> ProcessorUse {
        ProcessorUse { used_ns: vec![0; intervals], available: vec![2.0; intervals] }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }

    #[test]
    fn fully_busy_stage_is_ideal() {
        let found = ideal(&[SECOND; 10], &[stage(10, &[100, 100, 100, 25])], &idle(10));
        close(found.seconds, 10.0);
        assert_eq!(found.bound, Some(LimitingComponent::Stage(0)));
    }

    #[test]
    fn idle_time_of_a_member_lowers_the_ideal_time() {
        let mut one = stage(10, &[100, 100]);
        one.members[1].iter_mut().for_each(|step| {
            (step.work_in, step.busy_ns) = (50, SECOND / 2);
        });
        // 1,500 in all, at 200 a second.
        close(ideal(&[SECOND; 10], &[one], &idle(10)).seconds, 7.5);
    }

    #[test]
    fn changing_rates_are_integrated() {
        let mut one = stage(10, &[100, 100]);
        one.members[1][5..].iter_mut().for_each(|step| step.work_in = 10);
        // The second member is idle in the last second, in which it would be slow.
        one.members[1][9] = IntervalCounters::default();
        let found = ideal(&[SECOND; 10], &[one], &idle(10));
        close(found.seconds, 5.0 + 540.0 / 110.0 - 100.0 / 110.0 + 1.0 - 0.0 - 10.0 / 110.0);
    }

    #[test]
    fn processors_bound_the_whole_flow() {
        let processors = ProcessorUse {
            used_ns: vec![SECOND; 10],
            available: [vec![1.0; 5], vec![2.0; 5]].concat(),
        };
        let found = ideal(&[SECOND; 10], &[], &processors);
        close(found.seconds, 7.5);
        assert_eq!(found.bound, Some(LimitingComponent::Processors));
        let nothing = ideal(&[], &[], &ProcessorUse::default());
        assert_eq!((nothing.seconds, nothing.bound), (0.0, None));
    }

    #[test]
    fn blocking_stage_separates_phases_whose_times_add_up() {
        let busy =
            |work_in, work_out, busy_ns| IntervalCounters { work_in, work_out, busy_ns, cpu_ns: 0 };
        let intake = vec![busy(100, 0, SECOND / 2); 4];
        let output = vec![busy(0, 100, SECOND); 4];
        let sort = StageHistory {
            members: vec![[intake, output].concat()],
            flows: true,
            dealers: StageHistory::equal_dealers(1),
            feed: None,
        };
        // Half of the intake time was waiting, none of the output time.
        close(ideal(&[SECOND; 8], core::slice::from_ref(&sort), &idle(8)).seconds, 6.0);
        // A streaming stage has one phase: 800 at rates of 200, then 100.
        let mixed = StageHistory { flows: false, ..sort };
        close(ideal(&[SECOND; 8], &[mixed], &idle(8)).seconds, 4.0);
    }
}
