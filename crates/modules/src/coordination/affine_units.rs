//! Dynamic assignment of work units with affinity: a process claims the units of its own list, and
//! then those of others (work stealing).

use euphrates_flow::{Error, Result, Setup};

use crate::coordination::work_units::WorkUnits;

/// Units in lists, one list for each process, as one instance claims them.
///
/// A claim is a ticket, of which there are as many as units, and then a unit of a list. Whoever has
/// a ticket finds a unit: each of the others has taken one at most.
pub(crate) struct AffineUnits<'a, W> {
    setup: &'a Setup,
    name: &'a str,
    tickets: WorkUnits<'a, W>,
    lists: &'a [Vec<usize>],
    /// The list to claim from next; those before it, from the own one on, have no units left.
    at: usize,
}

impl<'a, W: Fn(std::ops::Range<usize>) -> u64> AffineUnits<'a, W> {
    /// The units of these lists, of which `own` is that of this process.
    pub(crate) fn new(
        setup: &'a Setup,
        name: &'a str,
        lists: &'a [Vec<usize>],
        own: usize,
        weigh: W,
    ) -> Self {
        let count = lists.iter().map(Vec::len).sum();
        AffineUnits {
            setup,
            name,
            tickets: WorkUnits::new(setup, name, count, weigh),
            lists,
            at: own,
        }
    }

    /// Claims the next unit. Returns `None` when none is left, or when the other instances would
    /// finish the remaining ones before this instance finishes one more.
    pub(crate) fn claim(&mut self) -> Result<Option<usize>> {
        if self.tickets.claim()?.is_none() {
            return Ok(None);
        }
        for _ in 0..self.lists.len() {
            let list = &self.lists[self.at];
            let next = || self.setup.fetch_add(&format!("{}/{}", self.name, self.at));
            if !list.is_empty()
                && let Some(&unit) = list.get(next()? as usize)
            {
                return Ok(Some(unit));
            }
            self.at = (self.at + 1) % self.lists.len();
        }
        Err(Error::failed("more work was claimed than there is"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::setup;

    fn equal_weights(units: std::ops::Range<usize>) -> u64 {
        units.len() as u64
    }

    proptest! {
        #[test]
        fn each_unit_is_claimed_once_and_own_units_first(
            sizes in prop::collection::vec(0..6usize, 1..6),
            turns in prop::collection::vec(any::<usize>(), 60),
        ) {
            let mut numbers = 0..;
            let lists: Vec<Vec<usize>> =
                sizes.iter().map(|&size| numbers.by_ref().take(size).collect()).collect();
            let count: usize = sizes.iter().sum();
            let setup = setup();
            let mut workers: Vec<_> = (0..lists.len())
                .map(|own| AffineUnits::new(&setup, "units", &lists, own, equal_weights))
                .collect();
            let mut claimed = vec![];
            let turns = turns.into_iter().map(|turn| turn % lists.len());
            for worker in turns.chain((0..lists.len()).cycle().take(lists.len() * (count + 1))) {
                let is_own_left = lists[worker].iter().any(|unit| !claimed.contains(unit));
                if let Some(unit) = workers[worker].claim().unwrap() {
                    prop_assert!(!is_own_left || lists[worker].contains(&unit));
                    claimed.push(unit);
                }
            }
            claimed.sort_unstable();
            prop_assert_eq!(claimed, (0..count).collect::<Vec<_>>());
        }
    }
}
