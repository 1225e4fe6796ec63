//! Division of a process's memory between its modules, by what each holds at the moment.
//!
//! A module that holds nothing gets no reservation. A module that begins to hold rows may use what
//! the others leave, and never less than its minimum; the limit of a module above the fair share
//! falls as others grow, which makes it spill at its next check. No call blocks, so the arbiter
//! cannot deadlock.
//!
//! Rows that a module holds usually stay in memory until its consumers have processed its output:
//! the table of a join, for example, while the aggregate after it fills. That memory cannot be
//! reclaimed, so a module gets at most half of the total if a module downstream of it needs memory,
//! too.

use alloc::vec::Vec;

use super::memory::SHARE_BYTES_MIN;

/// The memory of a process and what its modules hold of it.
///
/// ```
/// use euphrates_policy::memory_arbiter::{MemoryArbiter, Position};
///
/// let mut arbiter = MemoryArbiter::new(90 << 20);
/// let join = arbiter.add(2, Position::Feeds);
/// let sort = arbiter.add(2, Position::Last);
/// assert_eq!([join, sort].map(|module| arbiter.limit_bytes(module) >> 20), [45, 90]);
/// arbiter.set(join, 40 << 20);
/// assert_eq!(arbiter.limit_bytes(sort), 45 << 20, "the join may grow to the fair share");
/// arbiter.set(sort, 10 << 20);
/// assert_eq!(arbiter.limit_bytes(join), 45 << 20, "half of the total at most");
/// ```
#[derive(Clone, Debug)]
pub struct MemoryArbiter {
    total_bytes: usize,
    modules: Vec<Account>,
}

/// The position of a module in the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A module downstream of it, directly or not, needs memory, too.
    Feeds,
    /// No module downstream of it needs memory.
    Last,
}

#[derive(Clone, Debug)]
struct Account {
    instances: usize,
    position: Position,
    held_bytes: usize,
}

impl MemoryArbiter {
    /// An arbiter of `total_bytes` for modules that are added later.
    pub fn new(total_bytes: usize) -> MemoryArbiter {
        MemoryArbiter { total_bytes, modules: Vec::new() }
    }

    /// Adds a module with this many instances in the process; returns its number.
    pub fn add(&mut self, instances: usize, position: Position) -> usize {
        self.modules.push(Account { instances, position, held_bytes: 0 });
        self.modules.len() - 1
    }

    /// Bytes that the module's instances hold together.
    pub fn held_bytes(&self, module: usize) -> usize {
        self.modules[module].held_bytes
    }

    /// Bytes that it divides.
    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// Bytes that all modules hold together.
    pub fn all_held_bytes(&self) -> usize {
        self.modules.iter().map(|module| module.held_bytes).sum()
    }

    /// Records what the module's instances hold now.
    pub fn set(&mut self, module: usize, held_bytes: usize) {
        self.modules[module].held_bytes = held_bytes;
    }

    /// Bytes that the module's instances may hold together: what the others leave. Each other
    /// module that holds something keeps it, and may double it up to the fair share: the total
    /// divided by those modules and this one. Each instance is always granted `SHARE_BYTES_MIN`,
    /// or the total if that is less.
    pub fn limit_bytes(&self, module: usize) -> usize {
        let most_bytes = match self.modules[module].position {
            Position::Feeds => self.total_bytes / 2,
            Position::Last => self.total_bytes,
        };
        self.intake_limit_bytes(module).min(most_bytes).max(self.least_bytes(module))
    }

    /// The same for what the instances give up before their first output: the modules downstream
    /// hold nothing until then.
    ///
    /// ```
    /// use euphrates_policy::memory_arbiter::{MemoryArbiter, Position};
    ///
    /// let mut arbiter = MemoryArbiter::new(90 << 20);
    /// let group = arbiter.add(2, Position::Feeds);
    /// assert_eq!(arbiter.limit_bytes(group) >> 20, 45);
    /// assert_eq!(arbiter.intake_limit_bytes(group) >> 20, 90);
    /// ```
    pub fn intake_limit_bytes(&self, module: usize) -> usize {
        let others = self.modules.iter().enumerate().filter(|(number, _)| *number != module);
        let holding = || others.clone().map(|(_, other)| other.held_bytes).filter(|held| *held > 0);
        let fair_bytes = self.total_bytes / (holding().count() + 1);
        let reserved = |held: usize| held.max(held.saturating_mul(2).min(fair_bytes));
        let reserved_bytes: usize = holding().map(reserved).sum();
        self.total_bytes.saturating_sub(reserved_bytes).max(self.least_bytes(module))
    }

    /// What the module's instances are always granted.
    fn least_bytes(&self, module: usize) -> usize {
        self.modules[module].instances.max(1) * self.least_share_bytes()
    }

    /// The share of each instance if all instances of all modules hold the same, for modules that
    /// cannot follow a changing limit.
    ///
    /// ```
    /// use euphrates_policy::memory_arbiter::{MemoryArbiter, Position};
    ///
    /// let mut arbiter = MemoryArbiter::new(60 << 20);
    /// [2, 1].map(|instances| arbiter.add(instances, Position::Last));
    /// assert_eq!(arbiter.even_share_bytes(), 20 << 20);
    /// ```
    pub fn even_share_bytes(&self) -> usize {
        let instances: usize = self.modules.iter().map(|module| module.instances).sum();
        (self.total_bytes / instances.max(1)).max(self.least_share_bytes())
    }

    fn least_share_bytes(&self) -> usize {
        SHARE_BYTES_MIN.min(self.total_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const TOTAL: usize = 256 << 20;
    const LEAST: usize = SHARE_BYTES_MIN;

    /// Takes `more` bytes, and spills all if that exceeds the limit.
    fn take(arbiter: &mut MemoryArbiter, module: usize, more: usize) {
        let held = arbiter.held_bytes(module) + more;
        let is_over = held > arbiter.limit_bytes(module);
        arbiter.set(module, if is_over { 0 } else { held });
    }

    #[test]
    fn module_alone_has_everything_and_idle_modules_reserve_nothing() {
        let mut arbiter = MemoryArbiter::new(TOTAL);
        let all = [1, 4, 2].map(|instances| arbiter.add(instances, Position::Last));
        for module in all {
            assert_eq!(arbiter.limit_bytes(module), TOTAL);
        }
    }

    #[test]
    fn full_module_yields_the_fair_share_to_one_that_grows() {
        let mut arbiter = MemoryArbiter::new(TOTAL);
        let (first, second) = (arbiter.add(1, Position::Last), arbiter.add(1, Position::Last));
        arbiter.set(first, TOTAL);
        assert_eq!(arbiter.limit_bytes(second), LEAST, "it begins while nothing is free");
        let mut grown = vec![];
        for _ in 0..8 {
            arbiter.set(second, arbiter.limit_bytes(second));
            arbiter.set(first, arbiter.limit_bytes(first));
            grown.push(arbiter.held_bytes(second) / LEAST);
        }
        assert_eq!(grown, [1, 2, 4, 8, 16, 32, 32, 32], "it doubles to the half");
    }

    proptest! {
        #[test]
        fn held_bytes_stay_within_the_total_and_the_minimums(
            modules in 1usize..6,
            steps in proptest::collection::vec((0usize..6, 1usize..64 << 20), 1..400),
        ) {
            let mut arbiter = MemoryArbiter::new(TOTAL);
            (0..modules).for_each(|_| { arbiter.add(1, Position::Last); });
            for (module, more) in steps {
                take(&mut arbiter, module % modules, more);
                let held: usize = (0..modules).map(|module| arbiter.held_bytes(module)).sum();
                prop_assert!(held <= TOTAL + modules * LEAST, "{held}");
            }
        }

        #[test]
        fn no_module_starves_while_the_others_follow_their_limits(
            modules in 2usize..6, greedy in proptest::collection::vec(0usize..6, 400),
        ) {
            let mut arbiter = MemoryArbiter::new(TOTAL);
            (0..modules).for_each(|_| { arbiter.add(1, Position::Last); });
            for module in greedy.into_iter().chain(0..12 * modules) {
                let module = module % modules;
                arbiter.set(module, arbiter.limit_bytes(module));
            }
            for module in 0..modules {
                let held = arbiter.held_bytes(module);
                prop_assert!(held >= TOTAL / modules / 2, "{module} of {modules}: {held}");
            }
        }

        #[test]
        fn limit_falls_as_others_hold_more(
            held in proptest::collection::vec(0usize..128 << 20, 3), more in 0usize..64 << 20,
        ) {
            let mut arbiter = MemoryArbiter::new(TOTAL);
            for held in &held {
                let module = arbiter.add(1, Position::Last);
                arbiter.set(module, *held);
            }
            prop_assume!(held[1] > 0);
            let before = arbiter.limit_bytes(0);
            arbiter.set(1, held[1] + more);
            prop_assert!(arbiter.limit_bytes(0) <= before);
        }
    }
}
