//! Flow control by a window of bytes in flight between a sender and a receiver.
//!
//! Bytes that were sent and not yet acknowledged as consumed count against the window (credit-based
//! flow control). A faster sender therefore waits, and neither end buffers more than the window, or
//! one item that is larger. Three streams use it: the batches of a run to its consumer, the batches
//! of a fetch to its requester, and the blocks of a mirror to the process that stores it.

/// The sending end.
///
/// ```
/// use euphrates_policy::window::{WindowReceiver, WindowSender};
///
/// let (mut sender, mut receiver) = (WindowSender::new(100), WindowReceiver::new(100));
/// sender.on_sent(80);
/// assert!(!sender.may_send(30));
/// receiver.on_come(80);
/// let acknowledged = receiver.on_taken(80).expect("half of the window has been taken");
/// sender.on_taken(acknowledged);
/// assert!(sender.may_send(30));
/// ```
#[derive(Clone, Debug)]
pub struct WindowSender {
    window_bytes_max: u64,
    /// Bytes sent and not acknowledged.
    in_flight_bytes: u64,
}

impl WindowSender {
    /// A sender with at most `window_bytes_max` in flight or waiting at the other end, or one
    /// larger item.
    pub fn new(window_bytes_max: u64) -> WindowSender {
        WindowSender { window_bytes_max, in_flight_bytes: 0 }
    }

    /// Whether an item of `bytes` may be sent now.
    pub fn may_send(&self, bytes: u64) -> bool {
        self.in_flight_bytes == 0 || self.in_flight_bytes + bytes <= self.window_bytes_max
    }

    /// An item has been sent; it must fit the window.
    pub fn on_sent(&mut self, bytes: u64) {
        assert!(self.may_send(bytes), "an item beyond the window");
        self.in_flight_bytes += bytes;
    }

    /// Bytes sent and not acknowledged as taken.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// The receiver acknowledges `bytes` as taken.
    pub fn on_taken(&mut self, bytes: u64) {
        assert!(bytes <= self.in_flight_bytes, "more was taken than was sent");
        self.in_flight_bytes -= bytes;
    }
}

/// The receiving end; see [`WindowSender`].
///
/// ```
/// use euphrates_policy::window::WindowReceiver;
///
/// let mut receiver = WindowReceiver::new(100);
/// [30, 30, 30].map(|bytes| receiver.on_come(bytes));
/// assert_eq!(receiver.on_taken(30), None, "less than half of the window");
/// assert_eq!(receiver.on_taken(30), Some(60));
/// assert_eq!(receiver.on_taken(30), Some(30), "nothing is left");
/// ```
#[derive(Clone, Debug)]
pub struct WindowReceiver {
    window_bytes_max: u64,
    here_bytes: u64,
    /// Bytes taken and not acknowledged yet.
    taken_bytes: u64,
}

impl WindowReceiver {
    /// A receiver with the same window as its sender.
    pub fn new(window_bytes_max: u64) -> WindowReceiver {
        WindowReceiver { window_bytes_max, here_bytes: 0, taken_bytes: 0 }
    }

    /// An item has been received.
    pub fn on_come(&mut self, bytes: u64) {
        let alone = self.here_bytes == 0;
        self.here_bytes += bytes;
        debug_assert!(alone || self.here_bytes <= self.window_bytes_max, "beyond the window");
    }

    /// An item has been taken. Returns the bytes to acknowledge, if it is time to: after half of a
    /// window, or when the receiver is empty and the sender may be waiting.
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
    use crate::distributed::dice::Dice;
    use alloc::collections::VecDeque;

    #[test]
    fn every_schedule_delivers_everything_within_the_window() {
        for seed in 0..2000 {
            let mut dice = Dice(seed);
            let window = u64::from(1 + dice.below(100));
            let (mut sender, mut receiver) =
                (WindowSender::new(window), WindowReceiver::new(window));
            let mut unsent: VecDeque<u64> =
                (0..dice.below(30)).map(|_| u64::from(1 + dice.below(40))).collect();
            let (mut link, mut arrived, mut acknowledged) =
                (VecDeque::new(), VecDeque::new(), VecDeque::new());
            let mut steps = 0;
            while !(unsent.is_empty() && link.is_empty() && arrived.is_empty()) {
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
                            arrived.push_back(bytes);
                        }
                    }
                    2 => acknowledged
                        .extend(arrived.pop_front().and_then(|bytes| receiver.on_taken(bytes))),
                    _ => acknowledged.drain(..).for_each(|bytes| sender.on_taken(bytes)),
                }
                let waiting: u64 = link.iter().chain(&arrived).sum();
                let alone = link.len() + arrived.len() <= 1;
                assert!(alone || waiting <= window, "seed {seed}");
            }
            acknowledged.drain(..).for_each(|bytes| sender.on_taken(bytes));
            assert_eq!(sender.in_flight_bytes(), 0, "seed {seed}: what is taken is told");
        }
    }
}
