//! Flow control towards a remote reader: blocks in flight are limited by its recent throughput.
//!
//! A block that is queued at a slow link can no longer be read from another copy, so few should be
//! in flight. With too few, however, a reader that has paused for a moment would have no data when
//! it continues. Blocks are therefore limited only once the oldest has been in flight for 150 ms:
//! to half of the bytes that the reader has received in the last second. At most 16 are ever in
//! flight.

use alloc::collections::VecDeque;

/// Blocks in flight to one reader, at most.
const BLOCKS_MAX: usize = 16;
/// The age of the oldest block up to which only `BLOCKS_MAX` limits the blocks in flight.
const LATE_NS: u64 = 150_000_000;
/// The period over which received bytes count.
const LATELY_NS: u64 = 1_000_000_000;
/// The divisor of those bytes that gives the limit.
const PART: u64 = 2;

/// The blocks in flight to one reader.
///
/// ```
/// use euphrates_policy::declustering::BlocksInFlight;
///
/// let ms = 1_000_000;
/// let mut in_flight = BlocksInFlight::default();
/// in_flight.on_sent(1 << 20, 0);
/// assert!(!in_flight.is_held_up(100 * ms), "the block is young");
/// assert!(in_flight.is_held_up(200 * ms), "nothing has been received for 200 ms");
/// in_flight.on_got(200 * ms);
/// assert!(!in_flight.is_held_up(200 * ms));
/// ```
#[derive(Clone, Debug, Default)]
pub struct BlocksInFlight {
    /// Blocks in flight, oldest first.
    sent: VecDeque<SentBlock>,
    received: VecDeque<SentBlock>,
}

#[derive(Clone, Copy, Debug)]
struct SentBlock {
    at_ns: u64,
    bytes: u64,
}

impl BlocksInFlight {
    /// A block has been read and is sent.
    pub fn on_sent(&mut self, bytes: u64, at_ns: u64) {
        self.sent.push_back(SentBlock { at_ns, bytes });
    }

    /// The reader has received the oldest block in flight.
    pub fn on_got(&mut self, at_ns: u64) {
        if let Some(SentBlock { bytes, .. }) = self.sent.pop_front() {
            self.received.push_back(SentBlock { at_ns, bytes });
        }
        while self.received.front().is_some_and(|block| !block.is_of_late(at_ns)) {
            self.received.pop_front();
        }
    }

    /// Whether no more blocks should be begun for this reader now.
    pub fn is_held_up(&self, now_ns: u64) -> bool {
        let is_late = |oldest: &SentBlock| now_ns.saturating_sub(oldest.at_ns) > LATE_NS;
        if self.sent.len() >= BLOCKS_MAX {
            return true;
        }
        if !self.sent.front().is_some_and(is_late) {
            return false;
        }
        let of_late = self.received.iter().filter(|block| block.is_of_late(now_ns));
        let sent: u64 = self.sent.iter().map(|block| block.bytes).sum();
        sent >= of_late.map(|block| block.bytes).sum::<u64>() / PART
    }
}

impl SentBlock {
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

    /// Simulates a disk that reads a block every `read_ms` while it may, and a link that delivers
    /// one every `come_ms` while `is_open`. Returns the blocks read in each second, and the most in
    /// flight.
    fn run(
        read_ms: u64,
        come_ms: u64,
        seconds: u64,
        is_open: impl Fn(u64) -> bool,
    ) -> (Vec<u64>, usize) {
        let (mut in_flight, mut read, mut most) =
            (BlocksInFlight::default(), alloc::vec![0; seconds as usize], 0);
        let (mut read_at, mut come_at) = (0, 0);
        for ms in 0..seconds * 1000 {
            if ms >= read_at && !in_flight.is_held_up(ms * MS) {
                in_flight.on_sent(BLOCK, ms * MS);
                read[ms as usize / 1000] += 1;
                read_at = ms + read_ms;
            }
            if is_open(ms) && ms >= come_at && !in_flight.sent.is_empty() {
                in_flight.on_got(ms * MS);
                come_at = ms + come_ms;
            }
            most = most.max(in_flight.sent.len());
        }
        (read, most)
    }

    #[test]
    fn few_blocks_wait_in_a_slow_link() {
        let (read, most) = run(100, 800, 20, |_| true);
        assert!(most <= 2, "{most}");
        assert!(read[1..].iter().sum::<u64>() >= 19 * 1000 / 800 - 1, "the link is kept busy");
    }

    #[test]
    fn periodically_paused_reader_gets_the_full_rate() {
        let (read, most) = run(100, 5, 20, |ms| ms % 500 >= 400);
        assert!(read[2..].iter().sum::<u64>() >= 18 * 9, "{read:?}");
        assert!(most <= 6, "{most}");
    }

    #[test]
    fn reader_that_pauses_for_long_leaves_the_disk_to_others() {
        let (read, most) = run(10, 5, 10, |ms| ms < 2_000);
        assert_eq!(read[3..].iter().sum::<u64>(), 0, "{read:?}");
        assert_eq!(most, BLOCKS_MAX);
    }
}
