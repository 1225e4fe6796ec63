//! Straggler mitigation: an overdue process serves its peers' fetches before it claims new work.
//!
//! Producers keep their output until a consumer claims a partition, and the rows of a partition are
//! distributed over all processes. A slow process therefore has two kinds of work: it serves
//! fetches of its peers, and it claims partitions itself. Fetches block the peers; claims do not,
//! because any free process can claim the partition instead. A requester that has received the rows
//! of all processes but one, and has waited much longer for the last, flags that process as
//! overdue. A flagged process claims no work until it has served its requesters, and for a grace
//! period after that.
//!
//! A process whose overdue episode has lasted half a second is a straggler. Gaps between flags are
//! part of the episode if they are no longer than the episode so far, and no longer than
//! `STRAGGLER_MAX`. A straggler also claims no partitions and runs for a longer time. Peers buffer
//! a few fetched rows of each partition, so they are not blocked as soon as the straggler has
//! caught up; if it claimed new work at that moment, it would soon block all of them again.

use core::time::Duration;

/// The shortest wait after which a process counts as overdue. Scheduling noise causes shorter ones.
pub(crate) const OVERDUE_MIN: Duration = Duration::from_millis(50);
/// How many times as long as the slowest peer that has answered the last process may take.
const OVERDUE_FACTOR: u32 = 2;
/// Maximum grace period after the last requester is served. It covers the gap until the requesters'
/// next fetches arrive.
const GRACE_MAX: Duration = Duration::from_secs(1);
/// The age of an episode, gaps included, from which an overdue process is a straggler; one long
/// block suffices. A shorter episode can be chance, and a process classed as a straggler by chance
/// leaves its disks unused.
const STRAGGLER_AFTER: Duration = Duration::from_millis(500);
/// Maximum time for which a straggler stays classed as one after its last requester is served.
const STRAGGLER_MAX: Duration = Duration::from_secs(4);
/// Maximum claim back-off of a straggler. It must request a run in the end, since every producer
/// that it has not asked might hold one for it.
const CLAIM_BACKOFF_MAX: Duration = Duration::from_secs(10);

/// One round of fetches from several processes, as the requester sees it. All times are of one
/// clock of the requester.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::straggler_throttle::FetchRound;
///
/// let ms = Duration::from_millis;
/// let mut round = FetchRound::new(2, ms(0));
/// round.on_answered(1000, ms(100));
/// assert!(!round.is_overdue(10, ms(150)), "twice the slowest peer's time has not passed");
/// assert!(round.is_overdue(10, ms(200)));
/// assert!(!round.is_overdue(1000, ms(200)), "it has sent as much as its peer");
/// ```
#[derive(Clone, Debug)]
pub struct FetchRound {
    began: Duration,
    asked: usize,
    answered: usize,
    /// Bytes of all complete answers.
    bytes: u64,
    /// When the latest complete answer arrived.
    last: Duration,
}

impl FetchRound {
    /// Starts a round in which `asked` processes are sent a fetch at `now`.
    pub fn new(asked: usize, now: Duration) -> FetchRound {
        FetchRound { began: now, asked, answered: 0, bytes: 0, last: now }
    }

    /// One process has completed its answer, of `bytes` in all.
    pub fn on_answered(&mut self, bytes: u64, now: Duration) {
        assert!(self.answered < self.asked, "more answers than were asked for");
        self.answered += 1;
        self.bytes += bytes;
        self.last = now;
    }

    /// Whether the last process to answer, which has sent `bytes` so far, is overdue: all others
    /// have answered and sent more on average, and at least `OVERDUE_MIN` and twice the time of the
    /// slowest of them have passed. A process without
    /// peers, or whose peers had nothing to send, has no reference and is never overdue.
    pub fn is_overdue(&self, bytes: u64, now: Duration) -> bool {
        let others = self.last.saturating_sub(self.began);
        let waited = now.saturating_sub(self.began);
        self.answered + 1 == self.asked
            && bytes.saturating_mul(self.answered as u64) < self.bytes
            && waited >= (others * OVERDUE_FACTOR).max(OVERDUE_MIN)
    }
}

/// Decides, in the process that serves fetches, whether it may claim work. All times are of one
/// clock of the process.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::straggler_throttle::StragglerThrottle;
///
/// let ms = Duration::from_millis;
/// let mut throttle = StragglerThrottle::default();
/// throttle.on_requester_blocked(ms(100));
/// assert!(!throttle.may_claim(ms(200)), "a peer is blocked on this process");
/// throttle.on_requester_served(ms(200));
/// assert!(throttle.may_claim(ms(300)), "the grace period is as long as the wait was");
/// ```
#[derive(Clone, Debug, Default)]
pub struct StragglerThrottle {
    /// Requesters that are blocked on this process alone.
    blocked: usize,
    /// Episodes that gaps of up to `GRACE_MAX` do not end.
    grace: Episode,
    /// Episodes that gaps of up to `STRAGGLER_MAX` do not end.
    straggling: Episode,
}

/// A time in which requesters were blocked, with gaps no longer than the episode itself.
#[derive(Clone, Debug, Default)]
struct Episode {
    since: Duration,
    /// When it ends unless another requester is blocked before.
    until: Duration,
}

impl Episode {
    fn on_blocked(&mut self, now: Duration) {
        if now >= self.until {
            self.since = now;
        }
    }

    /// The episode goes on for as long as it has lasted, but for `gap_max` at most.
    fn on_served(&mut self, now: Duration, gap_max: Duration) {
        self.until = now + now.saturating_sub(self.since).min(gap_max);
    }
}

impl StragglerThrottle {
    /// A requester reports that it is blocked on this process alone.
    pub fn on_requester_blocked(&mut self, now: Duration) {
        if self.blocked == 0 {
            self.grace.on_blocked(now);
            self.straggling.on_blocked(now);
        }
        self.blocked += 1;
    }

    /// One blocked requester has received all of its answer, or has left the flow.
    pub fn on_requester_served(&mut self, now: Duration) {
        assert!(self.blocked > 0, "nobody waits");
        self.blocked -= 1;
        self.grace.on_served(now, GRACE_MAX);
        self.straggling.on_served(now, STRAGGLER_MAX);
    }

    /// Whether this process may claim a partition: no requester is blocked, and the grace period is
    /// over.
    pub fn may_claim(&self, now: Duration) -> bool {
        self.blocked == 0 && now >= self.grace.until
    }

    /// Whether this process is a straggler, which leaves work that its peers can do to them.
    pub fn is_straggler(&self, now: Duration) -> bool {
        let goes_on = self.blocked > 0 || now < self.straggling.until;
        goes_on && now.saturating_sub(self.straggling.since) >= STRAGGLER_AFTER
    }

    /// Whether this process may request a run, having been idle from `since` on.
    pub fn may_request_run(&self, now: Duration, since: Duration) -> bool {
        !self.is_straggler(now) || now.saturating_sub(since) >= CLAIM_BACKOFF_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn last_answer_is_late_after_twice_the_slowest_peers_time() {
        let mut round = FetchRound::new(3, ms(1000));
        assert!(!round.is_overdue(0, ms(9000)), "nobody has answered");
        round.on_answered(10, ms(1010));
        assert!(!round.is_overdue(0, ms(9000)), "two are left");
        round.on_answered(20, ms(1100));
        assert!(!round.is_overdue(0, ms(1199)));
        assert!(round.is_overdue(0, ms(1200)) && round.is_overdue(14, ms(1200)));
        assert!(!round.is_overdue(15, ms(9000)), "it has more to give");
        round.on_answered(14, ms(1201));
        assert!(!round.is_overdue(14, ms(9000)), "all have answered");
    }

    #[test]
    fn short_waits_and_single_fetches_are_never_late() {
        let mut round = FetchRound::new(2, ms(0));
        round.on_answered(1, ms(1));
        assert!(!round.is_overdue(0, ms(49)) && round.is_overdue(0, ms(50)));
        assert!(!FetchRound::new(1, ms(0)).is_overdue(0, ms(9000)));
    }

    #[test]
    fn process_whose_peers_sent_nothing_is_not_late() {
        let mut round = FetchRound::new(3, ms(0));
        round.on_answered(0, ms(1));
        round.on_answered(0, ms(1));
        assert!(!round.is_overdue(0, ms(9000)));
    }

    #[test]
    fn grace_period_lasts_as_long_as_requesters_were_blocked() {
        let mut throttle = StragglerThrottle::default();
        assert!(throttle.may_claim(ms(0)));
        throttle.on_requester_blocked(ms(100));
        throttle.on_requester_blocked(ms(150));
        throttle.on_requester_served(ms(200));
        assert!(!throttle.may_claim(ms(10_000)), "the other still waits");
        throttle.on_requester_served(ms(300));
        assert!(!throttle.may_claim(ms(499)) && throttle.may_claim(ms(500)));
        // A block within the grace period continues the same episode.
        throttle.on_requester_blocked(ms(450));
        throttle.on_requester_served(ms(460));
        assert!(!throttle.may_claim(ms(819)) && throttle.may_claim(ms(820)));
        // The grace period is bounded.
        throttle.on_requester_blocked(ms(800));
        throttle.on_requester_served(ms(60_000));
        assert!(!throttle.may_claim(ms(60_999)) && throttle.may_claim(ms(61_000)));
    }

    #[test]
    fn straggler_requests_no_runs_for_a_bounded_time() {
        let mut throttle = StragglerThrottle::default();
        let ask = |throttle: &StragglerThrottle, now| throttle.may_request_run(ms(now), ms(now));
        assert!(ask(&throttle, 100));
        throttle.on_requester_blocked(ms(100));
        assert!(ask(&throttle, 599) && !ask(&throttle, 600));
        assert!(!throttle.may_request_run(ms(10_599), ms(600)));
        assert!(throttle.may_request_run(ms(10_600), ms(600)));
        // Straggling lasts as long as the blocked time, across gaps between requests.
        throttle.on_requester_served(ms(2100));
        assert!(!ask(&throttle, 4099) && ask(&throttle, 4100));
        throttle.on_requester_blocked(ms(4000));
        throttle.on_requester_served(ms(4010));
        assert!(!ask(&throttle, 7919) && ask(&throttle, 7920));
        // It is bounded, and the next episode starts from zero.
        throttle.on_requester_blocked(ms(7900));
        throttle.on_requester_served(ms(60_000));
        assert!(!ask(&throttle, 63_999) && ask(&throttle, 64_000));
        throttle.on_requester_blocked(ms(70_000));
        assert!(ask(&throttle, 70_499) && !ask(&throttle, 70_500));
    }
}
