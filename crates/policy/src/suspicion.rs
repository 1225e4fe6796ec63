//! How long an end that says nothing is waited for.
//!
//! A machine whose processor is taken by others gives its signs of life late, and then later still:
//! it is slow, not dead. So who has been irregular is waited for longer (an accrual failure
//! detector, Hayashibara et al., 2004, of the longest pause instead of a distribution: a few signs
//! of life tell no distribution).

use core::time::Duration;

/// The default limit on silence between two ends on one machine.
pub const WITHIN_MACHINE: Duration = Duration::from_secs(2);
/// The default between machines, where a network may pause for seconds.
pub const BETWEEN_MACHINES: Duration = Duration::from_secs(10);
/// The smallest configurable limit: beats are sent every quarter of a second, and a busy machine
/// may delay several of them.
pub const ASKED_LEAST: Duration = Duration::from_secs(2);
/// The largest configurable limit.
pub const ASKED_MOST: Duration = Duration::from_secs(3600);

/// The limit on silence for an end with regular signs of life.
pub fn borne(is_within_machine: bool, asked: Option<Duration>) -> Duration {
    let usual = if is_within_machine { WITHIN_MACHINE } else { BETWEEN_MACHINES };
    asked.map_or(usual, |asked| asked.clamp(ASKED_LEAST, ASKED_MOST))
}

/// How many pauses as long as the longest of late are borne besides.
const PAUSES: u32 = 4;
/// A pause is remembered for one to two of these.
const MEMORY: Duration = Duration::from_secs(30);

/// What is known of how regularly one end gives signs of life. Times are those of one clock.
#[derive(Clone, Debug)]
pub struct Suspicion {
    regular: Duration,
    most: Duration,
    last: Duration,
    /// When the longest pauses of late, and of the time before, began to be counted.
    turned: Duration,
    longest: [Duration; 2],
}

impl Suspicion {
    /// Of an end that is waited for so long if it is regular, and never longer than `most`.
    pub fn new(regular: Duration, most: Duration, now: Duration) -> Suspicion {
        let most = most.max(regular);
        Suspicion { regular, most, last: now, turned: now, longest: [Duration::ZERO; 2] }
    }

    /// From now on it is waited for so long if it is regular.
    pub fn expect(&mut self, regular: Duration) {
        (self.regular, self.most) = (regular, self.most.max(regular));
    }

    /// It has given a sign of life.
    pub fn on_sign(&mut self, now: Duration) {
        let turns = now.saturating_sub(self.turned).as_secs() / MEMORY.as_secs();
        if turns > 0 {
            let before = if turns == 1 { self.longest[0] } else { Duration::ZERO };
            (self.longest, self.turned) = ([Duration::ZERO, before], now);
        }
        self.longest[0] = self.longest[0].max(now.saturating_sub(self.last));
        self.last = now;
    }

    /// How long it may say nothing.
    pub fn patience(&self) -> Duration {
        let [late, before] = self.longest;
        let longest = late.max(before);
        // A thread may wait as long for a processor that is merely busy.
        if longest * PAUSES <= self.regular {
            return self.regular;
        }
        (self.regular + longest * PAUSES).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn regular() -> Suspicion {
        Suspicion::new(ms(2000), ms(30_000), ms(0))
    }

    #[test]
    fn the_limit_depends_on_the_distance_and_can_be_configured() {
        let seconds = |is_within, asked: Option<u64>| {
            borne(is_within, asked.map(Duration::from_secs)).as_secs()
        };
        assert_eq!([seconds(true, None), seconds(false, None)], [2, 10]);
        assert_eq!([seconds(true, Some(60)), seconds(false, Some(3))], [60, 3]);
        assert_eq!([seconds(true, Some(0)), seconds(false, Some(99_999))], [2, 3600]);
    }

    #[test]
    fn five_seconds_of_silence_between_machines_are_tolerated() {
        let regular = borne(false, None);
        let mut suspicion = Suspicion::new(regular, ms(30_000), ms(0));
        (1..100).for_each(|beat| suspicion.on_sign(ms(beat * 250)));
        assert!(ms(5000) < suspicion.patience());
        suspicion.on_sign(ms(99 * 250 + 5000));
        assert_eq!(suspicion.patience(), ms(30_000), "an irregular end gets more time");
    }

    #[test]
    fn a_regular_end_is_given_up_soon() {
        let mut suspicion = regular();
        (1..1000).for_each(|beat| suspicion.on_sign(ms(beat * 300)));
        assert_eq!(suspicion.patience(), ms(2000));
        suspicion.on_sign(ms(999 * 300 + 600));
        assert_eq!(suspicion.patience(), ms(4400));
    }

    #[test]
    fn an_end_that_becomes_slower_and_slower_is_waited_for() {
        let (mut suspicion, mut now, mut pause) = (regular(), 0, 250);
        while pause < 20_000 {
            assert!(ms(pause) < suspicion.patience(), "{pause} ms");
            now += pause;
            suspicion.on_sign(ms(now));
            pause = pause * 2 + pause / 2;
        }
        assert_eq!(suspicion.patience(), ms(30_000));
    }

    #[test]
    fn an_end_that_asks_for_it_is_waited_for_as_long_as_it_asks() {
        let mut suspicion = regular();
        suspicion.on_sign(ms(250));
        suspicion.expect(ms(20_000));
        assert_eq!(suspicion.patience(), ms(20_000));
        suspicion.on_sign(ms(15_000));
        assert_eq!(suspicion.patience(), ms(30_000));
        let mut suspicion = regular();
        suspicion.expect(ms(20_000));
        suspicion.expect(ms(2000));
        assert_eq!(suspicion.patience(), ms(2000));
    }

    #[test]
    fn what_is_long_past_is_forgotten() {
        let mut suspicion = regular();
        suspicion.on_sign(ms(1500));
        assert_eq!(suspicion.patience(), ms(8000));
        (1..100).for_each(|beat| suspicion.on_sign(ms(1500 + beat * 250)));
        assert_eq!(suspicion.patience(), ms(8000));
        (100..260).for_each(|beat| suspicion.on_sign(ms(1500 + beat * 250)));
        assert_eq!(suspicion.patience(), ms(2000));
        suspicion.on_sign(ms(900_000));
        assert_eq!(suspicion.patience(), ms(30_000));
    }
}
