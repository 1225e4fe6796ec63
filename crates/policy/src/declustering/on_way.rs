//! What was read for a reader at another machine, and is on its way there.
//!
//! What waits in a slow link can no longer be given by another copy. But one that stands still for
//! a moment takes in much as soon as it goes on, and would find nothing: so as much may be on its
//! way as has come through in half a second of late, however old the oldest of it is.

use alloc::collections::VecDeque;

/// Blocks on their way to one reader, at most.
const BLOCKS_MAX: usize = 16;
/// What is on its way for less is not slow.
const LATE_NS: u64 = 150_000_000;
/// How far back what has come through counts.
const LATELY_NS: u64 = 1_000_000_000;
/// The part of it that may be on its way.
const PART: u64 = 2;

/// The way to one reader.
#[derive(Clone, Debug, Default)]
pub struct OnWay {
    /// The oldest first.
    sent: VecDeque<Block>,
    came: VecDeque<Block>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    at_ns: u64,
    bytes: u64,
}

impl OnWay {
    /// A block was read, and goes off.
    pub fn on_sent(&mut self, bytes: u64, at_ns: u64) {
        self.sent.push_back(Block { at_ns, bytes });
    }

    /// The oldest has come through.
    pub fn on_got(&mut self, at_ns: u64) {
        if let Some(Block { bytes, .. }) = self.sent.pop_front() {
            self.came.push_back(Block { at_ns, bytes });
        }
        while self.came.front().is_some_and(|block| !block.is_of_late(at_ns)) {
            self.came.pop_front();
        }
    }

    /// Whether no more should be begun for this reader for now.
    pub fn is_held_up(&self, now_ns: u64) -> bool {
        let is_late = |oldest: &Block| now_ns.saturating_sub(oldest.at_ns) > LATE_NS;
        if self.sent.len() >= BLOCKS_MAX {
            return true;
        }
        if !self.sent.front().is_some_and(is_late) {
            return false;
        }
        let of_late = self.came.iter().filter(|block| block.is_of_late(now_ns));
        let sent: u64 = self.sent.iter().map(|block| block.bytes).sum();
        sent >= of_late.map(|block| block.bytes).sum::<u64>() / PART
    }
}

impl Block {
    fn is_of_late(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.at_ns) <= LATELY_NS
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MS: u64 = 1_000_000;
    const BLOCK: u64 = 1_000_000;

    /// A disk reads for one reader alone, a block each `read_ms` while it may; one comes through
    /// each `come_ms` while `is_open`. Gives what was read in each second, and the most there was
    /// on the way.
    fn run(
        read_ms: u64,
        come_ms: u64,
        seconds: u64,
        is_open: impl Fn(u64) -> bool,
    ) -> (Vec<u64>, usize) {
        let (mut way, mut read, mut most) = (OnWay::default(), alloc::vec![0; seconds as usize], 0);
        let (mut read_at, mut come_at) = (0, 0);
        for ms in 0..seconds * 1000 {
            if ms >= read_at && !way.is_held_up(ms * MS) {
                way.on_sent(BLOCK, ms * MS);
                read[ms as usize / 1000] += 1;
                read_at = ms + read_ms;
            }
            if is_open(ms) && ms >= come_at && !way.sent.is_empty() {
                way.on_got(ms * MS);
                come_at = ms + come_ms;
            }
            most = most.max(way.sent.len());
        }
        (read, most)
    }

    #[test]
    fn little_waits_in_a_slow_link() {
        let (read, most) = run(100, 800, 20, |_| true);
        assert!(most <= 2, "{most}");
        assert!(read[1..].iter().sum::<u64>() >= 19 * 1000 / 800 - 1, "the link is kept busy");
    }

    #[test]
    fn one_that_stands_still_in_turns_finds_what_its_disk_could_read() {
        let (read, most) = run(100, 5, 20, |ms| ms % 500 >= 400);
        assert!(read[2..].iter().sum::<u64>() >= 18 * 9, "{read:?}");
        assert!(most <= 6, "{most}");
    }

    #[test]
    fn one_that_stands_still_for_long_leaves_the_disk_to_others() {
        let (read, most) = run(10, 5, 10, |ms| ms < 2_000);
        assert_eq!(read[3..].iter().sum::<u64>(), 0, "{read:?}");
        assert_eq!(most, BLOCKS_MAX);
    }
}
