//! What waits at a lane, and what of it goes next. On purpose, a lane can be slower than it could
//! be: held to a rate, it sends one frame after the other, each when those before have had their
//! time. Signs of life are held up by none of it.

use std::time::{Duration, Instant};

use super::{AT_ONCE_BYTES, Next, Out, Outbox, Phase};
use crate::link::Outgoing;

/// The rate that a lane is held to, if it is.
#[derive(Debug, Default)]
pub(super) struct Hold {
    bytes_per_second: Option<u64>,
    /// When what has gone has had its time.
    free_at: Option<Instant>,
}

impl Hold {
    /// Holds to another rate; says whether it is one.
    pub fn set(&mut self, bytes_per_second: Option<u64>) -> bool {
        let before = std::mem::replace(&mut self.bytes_per_second, bytes_per_second);
        if before == bytes_per_second {
            return false;
        }
        self.free_at = None;
        true
    }

    /// How long the next frame has to wait yet.
    pub fn wait(&self) -> Duration {
        let until = self.free_at.filter(|_| self.bytes_per_second.is_some());
        until.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    /// So many bytes go now.
    pub fn go(&mut self, bytes: usize) {
        let Some(rate) = self.bytes_per_second else { return };
        let now = Instant::now();
        let from = self.free_at.map_or(now, |at| at.max(now));
        let lasts = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        self.free_at = Some(from + lasts);
    }
}

impl Outbox {
    /// Whether frames may go on the spot: nothing is before them, and nothing holds them.
    pub(super) fn is_free(&self) -> bool {
        self.frames.is_empty() && self.hold.wait().is_zero()
    }

    /// How long what waits is held. Who hangs up lets go of it: it is for a flow that has ended.
    pub(super) fn held(&self) -> Duration {
        let is_held = self.phase == Phase::Open && !self.frames.is_empty();
        if is_held { self.hold.wait() } else { Duration::ZERO }
    }

    /// What the writing thread does with this, if it is not to wait.
    pub(super) fn next(&mut self, out: &Out, beat: bool) -> Option<Next> {
        let is_held = !self.held().is_zero();
        match self.phase {
            _ if out.rest.is_some() => Some(Next::Rest),
            _ if !self.frames.is_empty() && !is_held => Some(Next::Frames(self.take())),
            Phase::Closing => Some(Next::Bye),
            _ => beat.then_some(Next::Beat),
        }
    }

    /// The first frames: many if they are small.
    fn take(&mut self) -> Vec<Outgoing> {
        let mut bytes = 0;
        let at_once = if self.hold.bytes_per_second.is_some() { 0 } else { AT_ONCE_BYTES };
        let fits = |frame: &&Outgoing| {
            let first = bytes == 0;
            bytes += frame.bytes();
            first || bytes <= at_once
        };
        let count = self.frames.iter().take_while(fits).count();
        let taken: Vec<Outgoing> = self.frames.drain(..count).collect();
        self.hold.go(taken.iter().map(Outgoing::bytes).sum());
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_takes_its_time_and_nothing_does_when_nobody_holds() {
        let mut hold = Hold::default();
        hold.go(1 << 40);
        assert_eq!(hold.wait(), Duration::ZERO);
        assert!(hold.set(Some(1000)) && !hold.set(Some(1000)));
        assert_eq!(hold.wait(), Duration::ZERO);
        hold.go(1_000_000);
        hold.go(1_000_000);
        assert!(
            hold.wait() > Duration::from_secs(1900) && hold.wait() <= Duration::from_secs(2000)
        );
        assert!(hold.set(None));
        assert_eq!(hold.wait(), Duration::ZERO);
    }
}
