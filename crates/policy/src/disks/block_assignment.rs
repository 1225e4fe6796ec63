//! Block assignment: which segment of a parallel collection receives the next block written.
//!
//! A block is assigned to a disk only when it is about to be written, namely to the segment whose
//! disks have the smallest backlog. A slow disk therefore receives fewer blocks and does not delay
//! the flow. If all disks are equally fast, the segments grow evenly.
//!
//! Blocks in flight to a disk cannot be reassigned, and the flow waits for them at the end. The
//! backlog of a disk is therefore bounded in bytes and in time: a slow disk has one block queued,
//! and a very slow one none.

/// A segment that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSegment {
    /// The disks of its copies; a block is written to all of them.
    pub disks: alloc::vec::Vec<usize>,
    /// Bytes assigned to it so far.
    pub assigned_bytes: u64,
}

/// Blocks in flight to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes of all blocks in flight.
    pub bytes: u64,
    /// Blocks in flight: the one being written, and those that wait.
    pub blocks: u32,
    /// The recent time per block, in nanoseconds; 0 before any block has been written.
    pub interval_ns: u64,
}

/// The backlog in bytes from which a disk receives no more blocks: as much as a device takes at
/// once.
pub(crate) const BACKLOG_BYTES_MAX: u64 = 4 << 20;
/// The backlog in time from which a disk with two blocks or more receives no more.
const BACKLOG_NS_MAX: u64 = 50_000_000;
/// The time per block from which a disk has only one in flight: its wait for the next is short
/// beside that time, while a second block would delay the end of the flow.
const ALONE_NS_MIN: u64 = 400_000_000;

impl Backlog {
    /// The expected time until a block more would be written, in nanoseconds.
    pub(crate) fn wait_ns(&self) -> u64 {
        self.interval_ns.saturating_mul(u64::from(self.blocks) + 1)
    }

    pub(crate) fn has_room(&self) -> bool {
        let ns = self.interval_ns.saturating_mul(u64::from(self.blocks));
        match self.blocks {
            0 => true,
            1 => self.bytes < BACKLOG_BYTES_MAX && self.interval_ns < ALONE_NS_MIN,
            _ => self.bytes < BACKLOG_BYTES_MAX && ns < BACKLOG_NS_MAX,
        }
    }
}

/// The index of the segment for the next block, given the backlog of each disk; `None` while every
/// segment has a disk with a full backlog.
///
/// ```
/// use euphrates_policy::block_assignment::{Backlog, OpenSegment, assign};
///
/// let segment = |disk| OpenSegment { disks: vec![disk], assigned_bytes: 0 };
/// let busy = Backlog { bytes: 2 << 20, blocks: 2, interval_ns: 10_000_000 };
/// assert_eq!(assign(&[segment(0), segment(1)], &[busy, Backlog::default()]), Some(1));
/// ```
pub fn assign(segments: &[OpenSegment], backlogs: &[Backlog]) -> Option<usize> {
    let backlogs = |segment: &OpenSegment| -> alloc::vec::Vec<Backlog> {
        segment.disks.iter().map(|&disk| backlogs[disk]).collect()
    };
    let open = segments.iter().enumerate();
    let open = open.filter(|(_, segment)| backlogs(segment).iter().all(Backlog::has_room));
    let keys = open.map(|(at, segment)| {
        let bytes = backlogs(segment).iter().map(|backlog| backlog.bytes).max();
        (bytes.unwrap_or(0), segment.assigned_bytes, at)
    });
    keys.min().map(|(_, _, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn ring() -> Vec<OpenSegment> {
        let ring = [[0, 1], [1, 2], [2, 3], [3, 0]];
        ring.map(|disks| OpenSegment { disks: disks.to_vec(), assigned_bytes: 0 }).to_vec()
    }

    fn mebibytes(backlogs: [u64; 4]) -> [Backlog; 4] {
        let of = |mib| Backlog { bytes: mib << 20, blocks: mib as u32, interval_ns: 1_000_000 };
        backlogs.map(of)
    }

    #[test]
    fn blocks_go_to_the_smallest_backlog_and_else_evenly() {
        let mut segments = ring();
        for _ in 0..400 {
            let at = assign(&segments, &[Backlog::default(); 4]).unwrap();
            segments[at].assigned_bytes += 1;
        }
        assert!(segments.iter().all(|segment| segment.assigned_bytes == 100));
        // The first disk is slow: segments with a copy on it wait, others go on.
        assert_eq!(assign(&segments, &mebibytes([5, 0, 0, 0])), Some(1));
        assert_eq!(assign(&segments, &mebibytes([5, 3, 2, 1])), Some(2));
        assert_eq!(assign(&segments, &mebibytes([5, 5, 5, 5])), None);
        let busy = assign(&segments, &mebibytes([5, 0, 5, 0]));
        assert_eq!(busy, None, "every segment has a busy disk");
        assert_eq!(assign(&[], &[]), None);
    }

    #[test]
    fn slow_disk_has_one_block_waiting() {
        let alone = [OpenSegment { disks: vec![0], assigned_bytes: 0 }];
        let slow = |blocks| Backlog { bytes: 9, blocks, interval_ns: 100_000_000 };
        assert_eq!(assign(&alone, &[slow(1)]), Some(0), "it is never left without");
        assert_eq!(assign(&alone, &[slow(2)]), None);
        let slower = |blocks| Backlog { interval_ns: 500_000_000, ..slow(blocks) };
        assert_eq!(assign(&alone, &[slower(0)]), Some(0));
        assert_eq!(assign(&alone, &[slower(1)]), None);
        let fast = Backlog { interval_ns: 10_000_000, ..slow(4) };
        assert_eq!(assign(&alone, &[fast]), Some(0));
        assert_eq!(assign(&alone, &[Backlog { blocks: 5, ..fast }]), None);
    }
}
