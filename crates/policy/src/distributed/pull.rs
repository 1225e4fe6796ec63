//! Runs: a consumer that has time gets a whole run, and its batches in order (River 2.3.2).
//!
//! Who gets a run is decided as for a batch that is never cut ([`Policy::pull`]): to the queue, a
//! run is a piece that is ready when its first batch is. So idle consumers ask, the laggard is
//! asked first, and a run that was given and not begun can still be recalled: the decision that is
//! costly when it is bad is taken at the last moment. What is here is what comes after: the batches
//! of one run flow from its producer to its owner, in order, within a window of bytes.

use super::{Policy, late};

impl Policy {
    /// The policy for queues whose unit is the run.
    pub fn pull() -> Policy {
        Policy::LateBinding(late::Limits { pieces_max: 1, ..late::Limits::default() })
    }
}

/// The producer's end of one run that has been given away.
#[derive(Clone, Debug)]
pub struct RunSender {
    window_bytes_max: u64,
    /// Sent, and not known to be taken.
    sent_bytes: u64,
    ended: bool,
}

impl RunSender {
    /// A run of which at most `window_bytes_max` are on their way or wait at its owner, or one
    /// batch if that is larger.
    pub fn new(window_bytes_max: u64) -> RunSender {
        RunSender { window_bytes_max, sent_bytes: 0, ended: false }
    }

    /// Whether the run's next batch may be sent now.
    pub fn may_send(&self, bytes: u64) -> bool {
        !self.ended && (self.sent_bytes == 0 || self.sent_bytes + bytes <= self.window_bytes_max)
    }

    /// The run's next batch is sent.
    pub fn on_sent(&mut self, bytes: u64) {
        assert!(self.may_send(bytes), "a batch beyond the window, or after the end");
        self.sent_bytes += bytes;
    }

    /// The owner has taken so many bytes in all since it was last heard of.
    pub fn on_taken(&mut self, bytes: u64) {
        assert!(bytes <= self.sent_bytes, "more was taken than was sent");
        self.sent_bytes -= bytes;
    }

    /// The run's last batch has been sent.
    pub fn on_end(&mut self) {
        self.ended = true;
    }
}

/// The owner's end of one run.
#[derive(Clone, Debug)]
pub struct RunReceiver {
    window_bytes_max: u64,
    here_bytes: u64,
    /// Taken, and not told yet.
    taken_bytes: u64,
}

impl RunReceiver {
    /// A run with a window as its sender has it.
    pub fn new(window_bytes_max: u64) -> RunReceiver {
        RunReceiver { window_bytes_max, here_bytes: 0, taken_bytes: 0 }
    }

    /// A batch arrived.
    pub fn on_batch(&mut self, bytes: u64) {
        let alone = self.here_bytes == 0;
        self.here_bytes += bytes;
        debug_assert!(alone || self.here_bytes <= self.window_bytes_max, "beyond the window");
    }

    /// The consumer took a batch. Returns what to tell the sender, if it is time to: with each
    /// half of a window, or when nothing is here and the sender may wait.
    pub fn on_taken(&mut self, bytes: u64) -> Option<u64> {
        self.here_bytes -= bytes;
        self.taken_bytes += bytes;
        let is_due = self.here_bytes == 0 || self.taken_bytes >= self.window_bytes_max / 2;
        is_due.then(|| core::mem::take(&mut self.taken_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dice;
    use super::*;
    use alloc::collections::VecDeque;

    /// Any order of sending, arriving, taking and telling brings all batches over, in order and
    /// within the window.
    #[test]
    fn every_schedule_brings_a_run_over_within_its_window() {
        for seed in 0..2000 {
            let mut dice = Dice(seed);
            let window = u64::from(1 + dice.below(100));
            let (mut sender, mut receiver) = (RunSender::new(window), RunReceiver::new(window));
            let mut unsent: VecDeque<u64> =
                (0..dice.below(30)).map(|_| u64::from(1 + dice.below(40))).collect();
            let (mut link, mut here, mut told) =
                (VecDeque::new(), VecDeque::new(), VecDeque::new());
            let mut steps = 0;
            while !(unsent.is_empty() && link.is_empty() && here.is_empty()) {
                steps += 1;
                assert!(steps < 10_000, "seed {seed} does not end");
                match dice.below(4) {
                    0 if unsent.front().is_some_and(|&bytes| sender.may_send(bytes)) => {
                        let bytes = unsent.pop_front().unwrap_or_default();
                        sender.on_sent(bytes);
                        link.push_back(bytes);
                    }
                    1 => {
                        if let Some(bytes) = link.pop_front() {
                            receiver.on_batch(bytes);
                            here.push_back(bytes);
                        }
                    }
                    2 => told.extend(here.pop_front().and_then(|bytes| receiver.on_taken(bytes))),
                    _ => told.drain(..).for_each(|bytes| sender.on_taken(bytes)),
                }
                let waiting: u64 = link.iter().chain(&here).sum();
                let alone = link.len() + here.len() <= 1;
                assert!(alone || waiting <= window, "seed {seed}");
            }
            sender.on_end();
            assert!(!sender.may_send(1));
        }
    }
}
