//! When a process serves others before itself.
//!
//! What producers have taken in stays with them until somebody who is free takes a partition of it,
//! with a part from every process. Who is slow then has two works: to give the others their parts,
//! and to take partitions too. For the first all others wait, and for the second nobody does, since
//! whoever is free can take its partitions. So those who wait for one process alone, after all
//! others have answered, say so; and that one takes nothing for itself before it has given them
//! what they wait for, nor for a while after that.

use core::time::Duration;

/// Shorter waits are nobody's fault.
pub const LATE_MIN: Duration = Duration::from_millis(50);
/// The last to answer is late when it has taken so many times as long as the one before: as slow as
/// what is called slow elsewhere.
const LATE_TIMES: u32 = 2;
/// How long who has served others waits for their next requests, at most.
const WHILE_MAX: Duration = Duration::from_secs(1);

/// What several processes were asked for at once, as the asker sees it. Times are those of one
/// clock of its own.
#[derive(Clone, Debug)]
pub struct Asked {
    began: Duration,
    asked: usize,
    answered: usize,
    /// When the last of those came that have answered.
    last: Duration,
}

impl Asked {
    /// So many processes are asked now.
    pub fn new(asked: usize, now: Duration) -> Asked {
        Asked { began: now, asked, answered: 0, last: now }
    }

    /// One has given all of its answer.
    pub fn on_answered(&mut self, now: Duration) {
        assert!(self.answered < self.asked, "more answers than were asked for");
        self.answered += 1;
        self.last = now;
    }

    /// Whether the one that is left keeps the asker waiting. If there was only one, there is nobody
    /// to compare it with.
    pub fn is_late(&self, now: Duration) -> bool {
        let others = self.last.saturating_sub(self.began);
        let waited = now.saturating_sub(self.began);
        self.answered > 0
            && self.answered + 1 == self.asked
            && waited >= (others * LATE_TIMES).max(LATE_MIN)
    }
}

/// What others wait for, as the one who serves them sees it. Times are those of one clock of its
/// own.
#[derive(Clone, Debug, Default)]
pub struct Precedence {
    awaited: usize,
    /// Since when somebody has waited, but for short whiles between.
    since: Duration,
    /// Until when nothing is taken, if nobody waits.
    until: Duration,
}

impl Precedence {
    /// Somebody waits for this process alone.
    pub fn on_awaited(&mut self, now: Duration) {
        if self.awaited == 0 && now >= self.until {
            self.since = now;
        }
        self.awaited += 1;
    }

    /// One of those who waited has been given all he waits for, or has left.
    pub fn on_given(&mut self, now: Duration) {
        assert!(self.awaited > 0, "nobody waits");
        self.awaited -= 1;
        self.until = now + now.saturating_sub(self.since).min(WHILE_MAX);
    }

    /// Whether this process may take something for itself.
    pub fn may_take(&self, now: Duration) -> bool {
        self.awaited == 0 && now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_last_is_late_when_it_takes_twice_as_long_as_the_others() {
        let mut asked = Asked::new(3, ms(1000));
        assert!(!asked.is_late(ms(9000)), "nobody has answered");
        asked.on_answered(ms(1010));
        assert!(!asked.is_late(ms(9000)), "two are left");
        asked.on_answered(ms(1100));
        assert!(!asked.is_late(ms(1199)));
        assert!(asked.is_late(ms(1200)));
        asked.on_answered(ms(1201));
        assert!(!asked.is_late(ms(9000)), "all have answered");
    }

    #[test]
    fn short_waits_are_nobodys_fault_and_one_alone_has_no_equal() {
        let mut asked = Asked::new(2, ms(0));
        asked.on_answered(ms(1));
        assert!(!asked.is_late(ms(49)) && asked.is_late(ms(50)));
        assert!(!Asked::new(1, ms(0)).is_late(ms(9000)));
    }

    #[test]
    fn who_has_kept_others_waiting_waits_as_long_for_them() {
        let mut precedence = Precedence::default();
        assert!(precedence.may_take(ms(0)));
        precedence.on_awaited(ms(100));
        precedence.on_awaited(ms(150));
        precedence.on_given(ms(200));
        assert!(!precedence.may_take(ms(10_000)), "the other still waits");
        precedence.on_given(ms(300));
        assert!(!precedence.may_take(ms(499)) && precedence.may_take(ms(500)));
        // Asked again meanwhile, it is the same spell.
        precedence.on_awaited(ms(450));
        precedence.on_given(ms(460));
        assert!(!precedence.may_take(ms(819)) && precedence.may_take(ms(820)));
        // But it is not ruled out for long.
        precedence.on_awaited(ms(800));
        precedence.on_given(ms(60_000));
        assert!(!precedence.may_take(ms(60_999)) && precedence.may_take(ms(61_000)));
    }
}
