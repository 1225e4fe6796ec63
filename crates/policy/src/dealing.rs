//! Which segment of a parallel collection the next block goes to.
//!
//! A block is bound to a disk when it is about to be written, and not before: it goes to the
//! segment whose disks have least to do, so a slow disk gets fewer blocks and holds up nobody. As
//! long as all keep up, the segments grow alike.

/// A segment in the making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growing {
    /// The disks of its copies. A block is written to all of them.
    pub disks: alloc::vec::Vec<usize>,
    /// Bytes dealt to it so far.
    pub dealt_bytes: u64,
}

/// The segment for the next block, given the bytes on their way to each disk; none as long as
/// every segment has a disk with `load_bytes_max` or more to do.
pub fn deal(segments: &[Growing], load_bytes: &[u64], load_bytes_max: u64) -> Option<usize> {
    let load = |segment: &Growing| segment.disks.iter().map(|&disk| load_bytes[disk]).max();
    let keys = segments.iter().map(|segment| (load(segment).unwrap_or(0), segment.dealt_bytes));
    let least = keys.enumerate().min_by_key(|&(at, key)| (key, at))?;
    (least.1.0 < load_bytes_max).then_some(least.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn blocks_go_where_there_is_least_to_do_and_else_evenly() {
        let mut segments = vec![vec![0, 1], vec![1, 2], vec![2, 3], vec![3, 0]]
            .into_iter()
            .map(|disks| Growing { disks, dealt_bytes: 0 });
        let mut segments: alloc::vec::Vec<Growing> = segments.by_ref().collect();
        for _ in 0..400 {
            let at = deal(&segments, &[0; 4], 1).unwrap();
            segments[at].dealt_bytes += 1;
        }
        assert!(segments.iter().all(|segment| segment.dealt_bytes == 100));
        // The first disk is slow: what it shares waits, all else goes on.
        assert_eq!(deal(&segments, &[9, 0, 0, 0], 8), Some(1));
        assert_eq!(deal(&segments, &[9, 3, 2, 1], 8), Some(2));
        assert_eq!(deal(&segments, &[9, 9, 9, 9], 8), None);
        assert_eq!(deal(&segments, &[9, 0, 9, 0], 8), None, "every segment has a busy disk");
        assert_eq!(deal(&[], &[], 8), None);
    }
}
