//! Bottleneck detection: the module, instance or disk that limits a flow's throughput, if any does.

/// The time of a module, summed over its instances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModuleTime {
    /// Seconds in its own code, without waits.
    pub busy_seconds: f64,
    /// The fraction of its time that these seconds are, from 0 to 1.
    pub busy: f64,
}

/// The finding for a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// The module at this index.
    At(usize),
    /// There was too little work for a finding.
    TooShort,
    /// Several modules were about as busy as the busiest.
    Even,
    /// Every module waited for most of its time, for disks or for its turn.
    Waiting,
}

/// Busy time below which starting threads and opening files dominate the measurement.
const BUSY_SECONDS_MIN: f64 = 0.1;
/// The busy fraction below which a module is no bottleneck: it waits longer than it works.
const BUSY_MIN: f64 = 0.5;
/// The lead that the busiest module must have; with less, the next run may name another.
const MARGIN_MIN: f64 = 0.1;

/// The bottleneck of a run, from the time of each module.
///
/// ```
/// use euphrates_policy::bottleneck::{Bottleneck, ModuleTime, bottleneck};
///
/// let work = |busy_seconds, busy| ModuleTime { busy_seconds, busy };
/// assert_eq!(bottleneck(&[work(2.0, 0.2), work(9.0, 0.9)]), Bottleneck::At(1));
/// assert_eq!(bottleneck(&[work(8.5, 0.85), work(9.0, 0.9)]), Bottleneck::Even);
/// ```
pub fn bottleneck(modules: &[ModuleTime]) -> Bottleneck {
    let all = || modules.iter().enumerate();
    if !all().any(|(_, work)| work.busy_seconds >= BUSY_SECONDS_MIN) {
        return Bottleneck::TooShort;
    }
    let busier = |a: &(usize, &ModuleTime), b: &(usize, &ModuleTime)| a.1.busy.total_cmp(&b.1.busy);
    // A module that did next to nothing was only busy with starting.
    let worked = || all().filter(|(_, work)| work.busy_seconds >= BUSY_SECONDS_MIN / 10.0);
    let Some((busiest, most)) = worked().max_by(busier) else { return Bottleneck::TooShort };
    if most.busy < BUSY_MIN {
        return Bottleneck::Waiting;
    }
    let rival = worked().any(|(at, work)| at != busiest && most.busy - work.busy < MARGIN_MIN);
    if rival { Bottleneck::Even } else { Bottleneck::At(busiest) }
}

/// How a module spent a period: fractions that add up to 1, or to 0 if it did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeShares {
    /// The fraction spent in its own code.
    pub busy: f64,
    /// The fraction spent waiting for input.
    pub starved: f64,
    /// The fraction spent waiting for room in its output (backpressure).
    pub blocked: f64,
}

/// Counters of a period. A wait is counted when it ends, so a current wait is missing, and one that
/// has just ended may have begun before the period.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// The length of the period, in seconds.
    pub seconds: f64,
    /// Seconds in its own code.
    pub busy: f64,
    /// Seconds in ended waits for input.
    pub starved: f64,
    /// Seconds in ended waits for room.
    pub blocked: f64,
    /// The current wait: for room if true, for input if false, none if `None`.
    pub waits_for_room: Option<bool>,
}

/// The fractions of a period, with a current wait counted in.
///
/// ```
/// use euphrates_policy::bottleneck::{Spent, shares};
///
/// let spent = Spent { seconds: 2.0, busy: 0.5, waits_for_room: Some(true), ..Spent::default() };
/// assert_eq!(shares(&spent).blocked, 0.75);
/// ```
pub fn shares(spent: &Spent) -> TimeShares {
    if spent.seconds <= 0.0 {
        return TimeShares::default();
    }
    let busy = (spent.busy / spent.seconds).clamp(0.0, 1.0);
    let waited = 1.0 - busy;
    let (starved, blocked) = (spent.starved / spent.seconds, spent.blocked / spent.seconds);
    let known = starved + blocked;
    let rest = (waited - known).max(0.0);
    let (starved, blocked) = match spent.waits_for_room {
        Some(true) => (starved, blocked + rest),
        Some(false) => (starved + rest, blocked),
        // The module has not begun, or has ended.
        None => (starved, blocked),
    };
    let scale = if known > waited { waited / known } else { 1.0 };
    TimeShares { busy, starved: starved * scale, blocked: blocked * scale }
}

/// The current bottleneck of a running flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentBottleneck {
    /// The module at this index.
    Module(usize),
    /// One slow instance, by its index among the slow instances.
    Instance(usize),
    /// The disk at this index.
    Disk(usize),
}

/// The busy fraction from which a disk counts as the bottleneck, if no module does.
const DISK_BUSY_MIN: f64 = 0.9;

/// The current bottleneck, from the latest period. `slow` lists the module of each slow instance,
/// `disks` the busy fraction of each disk. If exactly one of the modules that are about as busy as
/// the busiest has slow instances, the first of those is the bottleneck.
///
/// ```
/// use euphrates_policy::bottleneck::{CurrentBottleneck, ModuleTime, current_bottleneck};
///
/// let work = |busy| ModuleTime { busy_seconds: 1.0, busy };
/// let even = [work(0.90), work(0.95)];
/// let slow = CurrentBottleneck::Instance(0);
/// assert_eq!(current_bottleneck(&even, &[0], &[]), Some(slow), "a slow instance is the cause");
/// assert_eq!(current_bottleneck(&even, &[], &[0.2, 0.99]), Some(CurrentBottleneck::Disk(1)));
/// assert_eq!(current_bottleneck(&even, &[], &[0.2]), None);
/// ```
pub fn current_bottleneck(
    modules: &[ModuleTime],
    slow: &[usize],
    disks: &[f64],
) -> Option<CurrentBottleneck> {
    let slow_of = |module: usize| slow.iter().position(|of| *of == module);
    let found = bottleneck(modules);
    if let Bottleneck::At(module) = found {
        return Some(
            slow_of(module).map_or(CurrentBottleneck::Module(module), CurrentBottleneck::Instance),
        );
    }
    if found == Bottleneck::Even {
        let most = modules.iter().map(|work| work.busy).fold(0.0, f64::max);
        let is_rival = |module: &&usize| most - modules[**module].busy < MARGIN_MIN;
        let mut rivals = slow.iter().filter(is_rival);
        let first = rivals.next();
        if let Some(module) = first.filter(|first| rivals.all(|other| other == *first)) {
            return slow_of(*module).map(CurrentBottleneck::Instance);
        }
    }
    let busiest = disks.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    busiest.filter(|(_, busy)| **busy >= DISK_BUSY_MIN).map(|(at, _)| CurrentBottleneck::Disk(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const N: usize>(modules: [(f64, f64); N]) -> Bottleneck {
        bottleneck(&modules.map(|(busy_seconds, busy)| ModuleTime { busy_seconds, busy }))
    }

    #[test]
    fn busy_module_among_waiting_ones_is_the_bottleneck() {
        assert_eq!(of([(0.2, 0.1), (1.8, 0.9), (0.4, 0.2)]), Bottleneck::At(1));
    }

    #[test]
    fn short_even_and_idle_flows_have_no_bottleneck() {
        assert_eq!(of([]), Bottleneck::TooShort);
        assert_eq!(of([(0.001, 1.0), (0.0005, 0.4)]), Bottleneck::TooShort);
        assert_eq!(of([(1.9, 0.95), (1.8, 0.9), (0.1, 0.1)]), Bottleneck::Even);
        assert_eq!(of([(0.4, 0.2), (0.6, 0.3)]), Bottleneck::Waiting);
    }

    #[test]
    fn shares_include_current_waits_and_never_exceed_the_period() {
        let spent = Spent { seconds: 2.0, busy: 0.5, ..Spent::default() };
        let of = |spent: Spent| {
            let TimeShares { busy, starved, blocked } = shares(&spent);
            [busy, starved, blocked].map(|share| (share * 100.0) as u32)
        };
        assert_eq!(of(Spent { waits_for_room: Some(true), ..spent }), [25, 0, 75]);
        let known = Spent { starved: 0.5, waits_for_room: Some(true), ..spent };
        assert_eq!(of(known), [25, 25, 50]);
        // A wait that began long before the period.
        let long = Spent { starved: 6.0, blocked: 6.0, ..spent };
        assert_eq!(of(long), [25, 37, 37]);
        assert_eq!(of(Spent::default()), [0, 0, 0]);
    }

    #[test]
    fn current_bottleneck_may_be_a_slow_instance_or_a_disk() {
        let works = |modules: [(f64, f64); 3]| {
            modules.map(|(busy_seconds, busy)| ModuleTime { busy_seconds, busy })
        };
        let one = works([(0.2, 0.1), (0.9, 0.9), (0.4, 0.2)]);
        assert_eq!(current_bottleneck(&one, &[], &[1.0]), Some(CurrentBottleneck::Module(1)));
        assert_eq!(current_bottleneck(&one, &[0, 1], &[]), Some(CurrentBottleneck::Instance(1)));
        let even = works([(0.9, 0.9), (0.9, 0.95), (0.4, 0.2)]);
        assert_eq!(current_bottleneck(&even, &[], &[0.5]), None);
        assert_eq!(current_bottleneck(&even, &[2, 0], &[]), Some(CurrentBottleneck::Instance(1)));
        assert_eq!(current_bottleneck(&even, &[1, 0], &[]), None);
        let idle = works([(0.2, 0.2), (0.1, 0.1), (0.1, 0.1)]);
        assert_eq!(current_bottleneck(&idle, &[], &[0.3, 0.97]), Some(CurrentBottleneck::Disk(1)));
    }

    #[test]
    fn module_with_little_work_is_no_rival() {
        assert_eq!(of([(0.001, 1.0), (2.0, 0.8)]), Bottleneck::At(1));
    }
}
