//! Which segment of a parallel collection the next block goes to.
//!
//! A block is bound to a disk when it is about to be written, and not before: it goes to the
//! segment whose disks have least to do, so a slow disk gets fewer blocks and holds up nobody. As
//! long as all keep up, the segments grow alike.
//!
//! What is on its way to a disk is bound to it, and is what all others wait for at the end. So a
//! disk gets ahead by bytes only as far as it is fast, and a slow one by a single block.

/// A segment in the making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growing {
    /// The disks of its copies. A block is written to all of them.
    pub disks: alloc::vec::Vec<usize>,
    /// Bytes dealt to it so far.
    pub dealt_bytes: u64,
}

/// What is on its way to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes of all blocks.
    pub bytes: u64,
    /// Blocks: one that the disk is at, and those that wait for it.
    pub blocks: u32,
    /// From the end of one block to that of the next, lately; 0 before there were any.
    pub interval_ns: u64,
}

/// On its way to a disk at most before it gets no more blocks: what a device takes at once.
pub const BACKLOG_BYTES_MAX: u64 = 4 << 20;
/// The same for a slow disk, which keeps what it is at and one block more.
const BACKLOG_NS_MAX: u64 = 50_000_000;
/// A block that takes so long is the only one: what a disk has to wait for the next is nothing
/// beside it, and what is left to do when all others have ended is.
const ALONE_NS_MIN: u64 = 400_000_000;

impl Backlog {
    fn has_room(&self) -> bool {
        let ns = self.interval_ns.saturating_mul(u64::from(self.blocks));
        match self.blocks {
            0 => true,
            1 => self.bytes < BACKLOG_BYTES_MAX && self.interval_ns < ALONE_NS_MIN,
            _ => self.bytes < BACKLOG_BYTES_MAX && ns < BACKLOG_NS_MAX,
        }
    }
}

/// The segment for the next block, given the backlog of each disk; none as long as every segment
/// has a disk with enough to do.
pub fn deal(segments: &[Growing], backlogs: &[Backlog]) -> Option<usize> {
    let backlogs = |segment: &Growing| -> alloc::vec::Vec<Backlog> {
        segment.disks.iter().map(|&disk| backlogs[disk]).collect()
    };
    let open = segments.iter().enumerate();
    let open = open.filter(|(_, segment)| backlogs(segment).iter().all(Backlog::has_room));
    let keys = open.map(|(at, segment)| {
        let bytes = backlogs(segment).iter().map(|backlog| backlog.bytes).max();
        (bytes.unwrap_or(0), segment.dealt_bytes, at)
    });
    keys.min().map(|(_, _, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn ring() -> Vec<Growing> {
        let ring = [[0, 1], [1, 2], [2, 3], [3, 0]];
        ring.map(|disks| Growing { disks: disks.to_vec(), dealt_bytes: 0 }).to_vec()
    }

    fn mebibytes(backlogs: [u64; 4]) -> [Backlog; 4] {
        let of = |mib| Backlog { bytes: mib << 20, blocks: mib as u32, interval_ns: 1_000_000 };
        backlogs.map(of)
    }

    #[test]
    fn blocks_go_where_there_is_least_to_do_and_else_evenly() {
        let mut segments = ring();
        for _ in 0..400 {
            let at = deal(&segments, &[Backlog::default(); 4]).unwrap();
            segments[at].dealt_bytes += 1;
        }
        assert!(segments.iter().all(|segment| segment.dealt_bytes == 100));
        // The first disk is slow: what it shares waits, all else goes on.
        assert_eq!(deal(&segments, &mebibytes([5, 0, 0, 0])), Some(1));
        assert_eq!(deal(&segments, &mebibytes([5, 3, 2, 1])), Some(2));
        assert_eq!(deal(&segments, &mebibytes([5, 5, 5, 5])), None);
        let busy = deal(&segments, &mebibytes([5, 0, 5, 0]));
        assert_eq!(busy, None, "every segment has a busy disk");
        assert_eq!(deal(&[], &[]), None);
    }

    #[test]
    fn a_slow_disk_has_one_block_waiting_and_no_more() {
        let alone = [Growing { disks: vec![0], dealt_bytes: 0 }];
        let slow = |blocks| Backlog { bytes: 9, blocks, interval_ns: 100_000_000 };
        assert_eq!(deal(&alone, &[slow(1)]), Some(0), "it is never left without");
        assert_eq!(deal(&alone, &[slow(2)]), None);
        let slower = |blocks| Backlog { interval_ns: 500_000_000, ..slow(blocks) };
        assert_eq!(deal(&alone, &[slower(0)]), Some(0));
        assert_eq!(deal(&alone, &[slower(1)]), None);
        let fast = Backlog { interval_ns: 10_000_000, ..slow(4) };
        assert_eq!(deal(&alone, &[fast]), Some(0));
        assert_eq!(deal(&alone, &[Backlog { blocks: 5, ..fast }]), None);
    }
}
