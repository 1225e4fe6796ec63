//! Which module kept the others waiting, if that can be said.

/// What a module did with its time, over all its instances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Seconds in its own code.
    pub busy_seconds: f64,
    /// The part of its time that these are, from 0 to 1.
    pub busy: f64,
}

/// What can be said of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// The module at this position.
    At(usize),
    /// There was too little work to tell.
    TooShort,
    /// Several modules were as busy as the busiest.
    Even,
    /// Every module waited most of its time, for disks or for its turn.
    Waiting,
}

/// Below this, starting threads and opening files is most of what was measured.
const BUSY_SECONDS_MIN: f64 = 0.1;
/// Who waits longer than he works is nobody's bottleneck.
const BUSY_MIN: f64 = 0.5;
/// What the next one must be less busy, or it could be the bottleneck of the next run.
const MARGIN_MIN: f64 = 0.1;

/// The bottleneck of a flow whose modules did this.
pub fn bottleneck(modules: &[Work]) -> Bottleneck {
    let all = || modules.iter().enumerate();
    if !all().any(|(_, work)| work.busy_seconds >= BUSY_SECONDS_MIN) {
        return Bottleneck::TooShort;
    }
    let busier = |a: &(usize, &Work), b: &(usize, &Work)| a.1.busy.total_cmp(&b.1.busy);
    // A module that did next to nothing was busy with starting.
    let worked = || all().filter(|(_, work)| work.busy_seconds >= BUSY_SECONDS_MIN / 10.0);
    let Some((busiest, most)) = worked().max_by(busier) else { return Bottleneck::TooShort };
    if most.busy < BUSY_MIN {
        return Bottleneck::Waiting;
    }
    let rival = worked().any(|(at, work)| at != busiest && most.busy - work.busy < MARGIN_MIN);
    if rival { Bottleneck::Even } else { Bottleneck::At(busiest) }
}

/// How somebody has spent a stretch of time: parts that add up to 1, or to 0 if it did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// In its own code.
    pub busy: f64,
    /// Waiting for input.
    pub starved: f64,
    /// Waiting for room in its output.
    pub blocked: f64,
}

/// Seconds of a stretch, as far as they are known. A wait is known when it has ended, so one that
/// lasts is missing, and one that has just ended may have begun before the stretch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// The stretch.
    pub seconds: f64,
    /// In its own code.
    pub busy: f64,
    /// In waits for input that have ended.
    pub starved: f64,
    /// In waits for room that have ended.
    pub blocked: f64,
    /// Whether it waits for room at this moment; `None` if it does not wait.
    pub waits_for_room: Option<bool>,
}

/// The shares of a stretch.
pub fn shares(spent: &Spent) -> Shares {
    if spent.seconds <= 0.0 {
        return Shares::default();
    }
    let busy = (spent.busy / spent.seconds).clamp(0.0, 1.0);
    let waited = 1.0 - busy;
    let (starved, blocked) = (spent.starved / spent.seconds, spent.blocked / spent.seconds);
    let known = starved + blocked;
    let rest = (waited - known).max(0.0);
    let (starved, blocked) = match spent.waits_for_room {
        Some(true) => (starved, blocked + rest),
        Some(false) => (starved + rest, blocked),
        // Nothing it could have waited for: it had not begun, or has ended.
        None => (starved, blocked),
    };
    let scale = if known > waited { waited / known } else { 1.0 };
    Shares { busy, starved: starved * scale, blocked: blocked * scale }
}

/// Who holds a flow up at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tight {
    /// The module at this position: others wait for it.
    Module(usize),
    /// One of its instances, which is slow: the instance at this position of those that are slow.
    Instance(usize),
    /// The disk at this position: nobody else works all the time.
    Disk(usize),
}

/// A disk that does nothing else is what modules wait for that are not busy themselves.
const DISK_BUSY_MIN: f64 = 0.9;

/// Who holds a flow up whose modules and disks did this in the last moments; `slow` says of which
/// modules instances are slow. Where several modules are as busy as the busiest, the one that has a
/// slow instance is what makes them so.
pub fn tight(modules: &[Work], slow: &[usize], disks: &[f64]) -> Option<Tight> {
    let slow_of = |module: usize| slow.iter().position(|of| *of == module);
    let found = bottleneck(modules);
    if let Bottleneck::At(module) = found {
        return Some(slow_of(module).map_or(Tight::Module(module), Tight::Instance));
    }
    if found == Bottleneck::Even {
        let most = modules.iter().map(|work| work.busy).fold(0.0, f64::max);
        let is_rival = |module: &&usize| most - modules[**module].busy < MARGIN_MIN;
        let mut rivals = slow.iter().filter(is_rival);
        let first = rivals.next();
        if let Some(module) = first.filter(|first| rivals.all(|other| other == *first)) {
            return slow_of(*module).map(Tight::Instance);
        }
    }
    let busiest = disks.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    busiest.filter(|(_, busy)| **busy >= DISK_BUSY_MIN).map(|(at, _)| Tight::Disk(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const N: usize>(modules: [(f64, f64); N]) -> Bottleneck {
        bottleneck(&modules.map(|(busy_seconds, busy)| Work { busy_seconds, busy }))
    }

    #[test]
    fn one_that_works_while_the_others_wait_is_the_bottleneck() {
        assert_eq!(of([(0.2, 0.1), (1.8, 0.9), (0.4, 0.2)]), Bottleneck::At(1));
    }

    #[test]
    fn nothing_is_said_of_short_even_or_idle_flows() {
        assert_eq!(of([]), Bottleneck::TooShort);
        assert_eq!(of([(0.001, 1.0), (0.0005, 0.4)]), Bottleneck::TooShort);
        assert_eq!(of([(1.9, 0.95), (1.8, 0.9), (0.1, 0.1)]), Bottleneck::Even);
        assert_eq!(of([(0.4, 0.2), (0.6, 0.3)]), Bottleneck::Waiting);
    }

    #[test]
    fn shares_count_waits_that_last_and_no_more_than_there_was_time() {
        let spent = Spent { seconds: 2.0, busy: 0.5, ..Spent::default() };
        let of = |spent: Spent| {
            let Shares { busy, starved, blocked } = shares(&spent);
            [busy, starved, blocked].map(|share| (share * 100.0) as u32)
        };
        assert_eq!(of(Spent { waits_for_room: Some(true), ..spent }), [25, 0, 75]);
        let known = Spent { starved: 0.5, waits_for_room: Some(true), ..spent };
        assert_eq!(of(known), [25, 25, 50]);
        // A wait that began long before.
        let long = Spent { starved: 6.0, blocked: 6.0, ..spent };
        assert_eq!(of(long), [25, 37, 37]);
        assert_eq!(of(Spent::default()), [0, 0, 0]);
    }

    #[test]
    fn at_this_moment_a_slow_instance_is_named_and_a_disk_where_nobody_is_busy() {
        let works = |modules: [(f64, f64); 3]| {
            modules.map(|(busy_seconds, busy)| Work { busy_seconds, busy })
        };
        let one = works([(0.2, 0.1), (0.9, 0.9), (0.4, 0.2)]);
        assert_eq!(tight(&one, &[], &[1.0]), Some(Tight::Module(1)));
        assert_eq!(tight(&one, &[0, 1], &[]), Some(Tight::Instance(1)));
        let even = works([(0.9, 0.9), (0.9, 0.95), (0.4, 0.2)]);
        assert_eq!(tight(&even, &[], &[0.5]), None);
        assert_eq!(tight(&even, &[2, 0], &[]), Some(Tight::Instance(1)));
        assert_eq!(tight(&even, &[1, 0], &[]), None);
        let idle = works([(0.2, 0.2), (0.1, 0.1), (0.1, 0.1)]);
        assert_eq!(tight(&idle, &[], &[0.3, 0.97]), Some(Tight::Disk(1)));
    }

    #[test]
    fn a_module_with_next_to_no_work_is_no_rival() {
        assert_eq!(of([(0.001, 1.0), (2.0, 0.8)]), Bottleneck::At(1));
    }
}
