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
    fn a_module_with_next_to_no_work_is_no_rival() {
        assert_eq!(of([(0.001, 1.0), (2.0, 0.8)]), Bottleneck::At(1));
    }
}
