//! When a process serves others before itself.
//!
//! What producers have taken in stays with them until somebody who is free takes a partition of it,
//! with a part from every process. Who is slow then has two works: to give the others their parts,
//! and to take partitions too. For the first all others wait, and for the second nobody does, since
//! whoever is free can take its partitions. So those who wait for one process alone, after all
//! others have answered, say so; and that one takes nothing for itself before it has given them
//! what they wait for, nor for a while after that.
//!
//! Who has been waited for again and again is behind. It leaves partitions and runs to the others,
//! and for longer: they have a little of each ready, so that nobody waits for it as soon as it has
//! caught up, and what it would take then makes all of them wait again.

use core::time::Duration;

/// Shorter waits are nobody's fault.
pub const LATE_MIN: Duration = Duration::from_millis(50);
/// The last to answer is late when it has taken so many times as long as the one before: as slow as
/// what is called slow elsewhere.
const LATE_TIMES: u32 = 2;
/// How long who has served others waits for their next requests, at most.
const WHILE_MAX: Duration = Duration::from_secs(1);
/// Who has been waited for so long is behind; before that it may be by chance, and a disk that
/// nobody writes to is lost.
const BEHIND_MIN: Duration = Duration::from_millis(500);
/// How long who was behind leaves work to others after that, at most.
const BEHIND_MAX: Duration = Duration::from_secs(4);
/// How long who is behind asks for no run, at most: all it keeps waiting might have one for it.
const UNASKED_MAX: Duration = Duration::from_secs(10);

/// What several processes were asked for at once, as the asker sees it. Times are those of one
/// clock of its own.
#[derive(Clone, Debug)]
pub struct Asked {
    began: Duration,
    asked: usize,
    answered: usize,
    /// Of all that have answered.
    bytes: u64,
    /// When the last of those came that have answered.
    last: Duration,
}

impl Asked {
    /// So many processes are asked now.
    pub fn new(asked: usize, now: Duration) -> Asked {
        Asked { began: now, asked, answered: 0, bytes: 0, last: now }
    }

    /// One has given all of its answer, which had so many bytes.
    pub fn on_answered(&mut self, bytes: u64, now: Duration) {
        assert!(self.answered < self.asked, "more answers than were asked for");
        self.answered += 1;
        self.bytes += bytes;
        self.last = now;
    }

    /// Whether the one that is left, of which so many bytes have come, keeps the asker waiting: it
    /// has given less than the others did on average. If they had nothing, or there are none, then
    /// there is nothing to compare it with.
    pub fn is_late(&self, bytes: u64, now: Duration) -> bool {
        let others = self.last.saturating_sub(self.began);
        let waited = now.saturating_sub(self.began);
        self.answered + 1 == self.asked
            && bytes.saturating_mul(self.answered as u64) < self.bytes
            && waited >= (others * LATE_TIMES).max(LATE_MIN)
    }
}

/// What others wait for, as the one who serves them sees it. Times are those of one clock of its
/// own.
#[derive(Clone, Debug, Default)]
pub struct Precedence {
    awaited: usize,
    /// With short whiles between, and with longer ones.
    short: Spell,
    long: Spell,
}

/// A time in which others have waited, but for whiles between.
#[derive(Clone, Debug, Default)]
struct Spell {
    since: Duration,
    /// Until when it goes on if nobody waits.
    until: Duration,
}

impl Spell {
    fn on_awaited(&mut self, now: Duration) {
        if now >= self.until {
            self.since = now;
        }
    }

    /// It goes on for as long as it has lasted, at most so long.
    fn on_given(&mut self, now: Duration, most: Duration) {
        self.until = now + now.saturating_sub(self.since).min(most);
    }
}

impl Precedence {
    /// Somebody waits for this process alone.
    pub fn on_awaited(&mut self, now: Duration) {
        if self.awaited == 0 {
            self.short.on_awaited(now);
            self.long.on_awaited(now);
        }
        self.awaited += 1;
    }

    /// One of those who waited has been given all he waits for, or has left.
    pub fn on_given(&mut self, now: Duration) {
        assert!(self.awaited > 0, "nobody waits");
        self.awaited -= 1;
        self.short.on_given(now, WHILE_MAX);
        self.long.on_given(now, BEHIND_MAX);
    }

    /// Whether this process may take something for itself.
    pub fn may_take(&self, now: Duration) -> bool {
        self.awaited == 0 && now >= self.short.until
    }

    /// Whether this process is to leave work to others, if there is work that they can do.
    pub fn is_behind(&self, now: Duration) -> bool {
        let goes_on = self.awaited > 0 || now < self.long.until;
        goes_on && now.saturating_sub(self.long.since) >= BEHIND_MIN
    }

    /// Whether it may ask for a run, having had time for one since then.
    pub fn may_ask(&self, now: Duration, since: Duration) -> bool {
        !self.is_behind(now) || now.saturating_sub(since) >= UNASKED_MAX
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
        assert!(!asked.is_late(0, ms(9000)), "nobody has answered");
        asked.on_answered(10, ms(1010));
        assert!(!asked.is_late(0, ms(9000)), "two are left");
        asked.on_answered(20, ms(1100));
        assert!(!asked.is_late(0, ms(1199)));
        assert!(asked.is_late(0, ms(1200)) && asked.is_late(14, ms(1200)));
        assert!(!asked.is_late(15, ms(9000)), "it has more to give");
        asked.on_answered(14, ms(1201));
        assert!(!asked.is_late(14, ms(9000)), "all have answered");
    }

    #[test]
    fn short_waits_are_nobodys_fault_and_one_alone_has_no_equal() {
        let mut asked = Asked::new(2, ms(0));
        asked.on_answered(1, ms(1));
        assert!(!asked.is_late(0, ms(49)) && asked.is_late(0, ms(50)));
        assert!(!Asked::new(1, ms(0)).is_late(0, ms(9000)));
    }

    #[test]
    fn who_has_all_of_it_keeps_nobody_waiting() {
        let mut asked = Asked::new(3, ms(0));
        asked.on_answered(0, ms(1));
        asked.on_answered(0, ms(1));
        assert!(!asked.is_late(0, ms(9000)));
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

    #[test]
    fn who_is_behind_leaves_work_to_others_but_not_for_ever() {
        let mut precedence = Precedence::default();
        let ask = |precedence: &Precedence, now| precedence.may_ask(ms(now), ms(now));
        assert!(ask(&precedence, 100));
        precedence.on_awaited(ms(100));
        assert!(ask(&precedence, 599) && !ask(&precedence, 600));
        assert!(!precedence.may_ask(ms(10_599), ms(600)));
        assert!(precedence.may_ask(ms(10_600), ms(600)));
        // It is for as long as it was, and between one request and the next.
        precedence.on_given(ms(2100));
        assert!(!ask(&precedence, 4099) && ask(&precedence, 4100));
        precedence.on_awaited(ms(4000));
        precedence.on_given(ms(4010));
        assert!(!ask(&precedence, 7919) && ask(&precedence, 7920));
        // But not for long, and the next time it counts anew.
        precedence.on_awaited(ms(7900));
        precedence.on_given(ms(60_000));
        assert!(!ask(&precedence, 63_999) && ask(&precedence, 64_000));
        precedence.on_awaited(ms(70_000));
        assert!(ask(&precedence, 70_499) && !ask(&precedence, 70_500));
    }
}
