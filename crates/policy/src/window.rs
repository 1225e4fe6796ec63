//! A window of bytes: how much may be on its way from one who sends to one who takes.
//!
//! What has been sent and is not known to be taken uses up the window, and what is taken opens it
//! again. So a sender that is faster waits, whatever lies between, and neither end holds more than
//! the window, or one item that is larger. The batches of a run go so to the consumer it was dealt,
//! those of a request to whoever asked, and the blocks of a mirror to the process that keeps it.

/// The end that sends.
#[derive(Clone, Debug)]
pub struct Sender {
    window_bytes_max: u64,
    /// Sent, and not known to be taken.
    under_way_bytes: u64,
}

impl Sender {
    /// At most `window_bytes_max` are on their way or wait at the other end, or one item if that is
    /// larger.
    pub fn new(window_bytes_max: u64) -> Sender {
        Sender { window_bytes_max, under_way_bytes: 0 }
    }

    /// Whether an item of so many bytes may be sent now.
    pub fn may_send(&self, bytes: u64) -> bool {
        self.under_way_bytes == 0 || self.under_way_bytes + bytes <= self.window_bytes_max
    }

    /// An item is sent.
    pub fn on_sent(&mut self, bytes: u64) {
        assert!(self.may_send(bytes), "an item beyond the window");
        self.under_way_bytes += bytes;
    }

    /// Bytes that have been sent, and are not known to be taken.
    pub fn under_way_bytes(&self) -> u64 {
        self.under_way_bytes
    }

    /// The other end has taken so many bytes since it was last heard of.
    pub fn on_taken(&mut self, bytes: u64) {
        assert!(bytes <= self.under_way_bytes, "more was taken than was sent");
        self.under_way_bytes -= bytes;
    }
}

/// The end that takes.
#[derive(Clone, Debug)]
pub struct Receiver {
    window_bytes_max: u64,
    here_bytes: u64,
    /// Taken, and not told yet.
    taken_bytes: u64,
}

impl Receiver {
    /// With a window as its sender has it.
    pub fn new(window_bytes_max: u64) -> Receiver {
        Receiver { window_bytes_max, here_bytes: 0, taken_bytes: 0 }
    }

    /// An item has come.
    pub fn on_come(&mut self, bytes: u64) {
        let alone = self.here_bytes == 0;
        self.here_bytes += bytes;
        debug_assert!(alone || self.here_bytes <= self.window_bytes_max, "beyond the window");
    }

    /// An item is taken. Returns what to tell the sender, if it is time to: with each half of a
    /// window, or when nothing is here and the sender may wait.
    pub fn on_taken(&mut self, bytes: u64) -> Option<u64> {
        self.here_bytes -= bytes;
        self.taken_bytes += bytes;
        let is_due = self.here_bytes == 0 || self.taken_bytes >= self.window_bytes_max / 2;
        is_due.then(|| core::mem::take(&mut self.taken_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::Dice;
    use alloc::collections::VecDeque;

    /// Any order of sending, arriving, taking and telling brings all items over, within the window.
    #[test]
    fn every_schedule_brings_all_over_within_the_window() {
        for seed in 0..2000 {
            let mut dice = Dice(seed);
            let window = u64::from(1 + dice.below(100));
            let (mut sender, mut receiver) = (Sender::new(window), Receiver::new(window));
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
                            receiver.on_come(bytes);
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
            told.drain(..).for_each(|bytes| sender.on_taken(bytes));
            assert_eq!(sender.under_way_bytes(), 0, "seed {seed}: what is taken is told");
        }
    }
}
