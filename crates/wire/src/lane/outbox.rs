//! The outbox of a lane: queued frames, their rate limit, and which frame is sent next.
//!
//! A perturbation can limit the rate of a lane. It then sends one frame at a time, each when the
//! frames before it have used up their time. The limit does not delay heartbeats.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use euphrates_flow::Error;

use crate::link::{FrameSender, FramesInFlight, Outgoing};
use crate::stream::WriteHalf;

/// Bytes written per turn of the writing thread, at most: enough to fill a socket, little enough
/// that progress counters stay fine-grained.
const AT_ONCE_BYTES: usize = 1 << 20;

/// The queued frames of a lane, and the state of its shutdown.
#[derive(Debug)]
pub(super) struct LaneOutbox {
    pub(super) frames: VecDeque<Outgoing>,
    pub(super) hold: Hold,
    /// The sending half; `None` while a thread writes.
    pub(super) out: Option<FrameWriter>,
    /// When a frame was last sent.
    pub(super) last: Instant,
    /// Whether the writing thread sleeps. Waking one that does not would cost a system call.
    pub(super) idle: bool,
    pub(super) phase: Phase,
    /// Whether the reading thread has ended.
    pub(super) has_read_all: bool,
    /// Why the lane ended, if this end found the cause.
    pub(super) cause: Option<Error>,
    /// A new timeout for writes, which the writing thread has yet to apply.
    pub(super) timeout: Option<Duration>,
}

/// The sending half, and the write that has begun on it.
#[derive(Debug)]
pub(super) struct FrameWriter {
    pub(super) sender: FrameSender<WriteHalf>,
    pub(super) rest: Option<FramesInFlight>,
}

/// The state of a lane's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// No more frames are accepted; Bye follows those that wait.
    Closing,
    /// Bye has been sent.
    ByeSent,
    /// Nothing more is sent.
    Ended,
}

/// What the writing thread does next.
pub(super) enum WriterStep {
    Frames(Vec<Outgoing>),
    Rest,
    Heartbeat,
    Bye,
}

/// The rate limit of a lane, if it has one.
#[derive(Debug, Default)]
pub(super) struct Hold {
    bytes_per_second: Option<u64>,
    /// When the frames sent so far have used up their time.
    free_at: Option<Instant>,
}

impl Hold {
    /// Sets the limit; returns whether it has changed.
    pub fn set(&mut self, bytes_per_second: Option<u64>) -> bool {
        let before = std::mem::replace(&mut self.bytes_per_second, bytes_per_second);
        if before == bytes_per_second {
            return false;
        }
        self.free_at = None;
        true
    }

    /// How long the next frame must wait.
    pub fn wait(&self) -> Duration {
        let until = self.free_at.filter(|_| self.bytes_per_second.is_some());
        until.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    /// Accounts for bytes that are sent now.
    pub fn go(&mut self, bytes: usize) {
        let Some(rate) = self.bytes_per_second else { return };
        let now = Instant::now();
        let from = self.free_at.map_or(now, |at| at.max(now));
        let lasts = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        self.free_at = Some(from + lasts);
    }
}

impl LaneOutbox {
    pub(super) fn new(out: FrameWriter) -> LaneOutbox {
        LaneOutbox {
            frames: VecDeque::new(),
            hold: Hold::default(),
            out: Some(out),
            last: Instant::now(),
            idle: false,
            phase: Phase::Open,
            has_read_all: false,
            cause: None,
            timeout: None,
        }
    }

    /// Whether a frame may go at once: no frame waits, and the rate limit allows it.
    pub(super) fn is_free(&self) -> bool {
        self.frames.is_empty() && self.hold.wait().is_zero()
    }

    /// How long the rate limit delays the waiting frames. A closing lane ignores the limit, which
    /// was set for a flow that has ended.
    pub(super) fn held(&self) -> Duration {
        let is_held = self.phase == Phase::Open && !self.frames.is_empty();
        if is_held { self.hold.wait() } else { Duration::ZERO }
    }

    /// The next step of the writing thread; `None` if it has to wait.
    pub(super) fn next(&mut self, out: &FrameWriter, heartbeat: bool) -> Option<WriterStep> {
        let is_held = !self.held().is_zero();
        match self.phase {
            _ if out.rest.is_some() => Some(WriterStep::Rest),
            _ if !self.frames.is_empty() && !is_held => Some(WriterStep::Frames(self.take())),
            Phase::Closing => Some(WriterStep::Bye),
            _ => heartbeat.then_some(WriterStep::Heartbeat),
        }
    }

    /// Removes the first frames, many if they are small; one if a rate limit is set.
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
    fn rate_limit_delays_frames_and_no_limit_does_not() {
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
