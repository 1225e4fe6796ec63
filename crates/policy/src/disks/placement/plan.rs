//! The result of placement, its invariants, and the errors of impossible requests.

use alloc::vec::Vec;

/// The disks of every segment.
///
/// ```
/// use euphrates_policy::placement::chained;
///
/// let workers = [0, 0, 1];
/// let placement = chained(&workers, 1, 2)?;
/// assert_eq!(placement.segments, [[0, 1], [1, 2], [2, 0]], "each mirror on the next disk");
/// assert_eq!(placement.on_one_worker, [0]);
/// # Ok::<(), euphrates_policy::placement::PlacementError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskPlacement {
    /// The disks of each segment's copies, the primary first.
    pub segments: Vec<Vec<usize>>,
    /// Segments with two copies on one worker, whose failure loses both.
    pub on_one_worker: Vec<usize>,
}

/// The error for a request that cannot be placed.
///
/// ```
/// use euphrates_policy::placement::{PlacementError, spread};
///
/// let two_disks = [0, 1];
/// let error = spread(&two_disks, 1, 3).unwrap_err();
/// assert_eq!(error, PlacementError::TooFewDisks { copies: 3, disks: 2 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// There are no disks, no segments or no copies.
    Nothing,
    /// There are fewer disks than copies of a segment.
    TooFewDisks {
        /// The number of copies that was asked for.
        copies: usize,
        /// The number of disks.
        disks: usize,
    },
}

impl DiskPlacement {
    pub(super) fn new(segments: Vec<Vec<usize>>, workers: &[u32]) -> DiskPlacement {
        let is_on_one = |disks: &Vec<usize>| {
            let mut of: Vec<u32> = disks.iter().map(|&disk| workers[disk]).collect();
            of.sort_unstable();
            of.windows(2).any(|pair| pair[0] == pair[1])
        };
        let on_one_worker = (0..segments.len()).filter(|&at| is_on_one(&segments[at])).collect();
        let placement = DiskPlacement { segments, on_one_worker };
        placement.check(workers.len());
        placement
    }

    fn check(&self, disks: usize) {
        let mut held = alloc::vec![0usize; disks];
        for copies in &self.segments {
            for (at, &disk) in copies.iter().enumerate() {
                assert!(!copies[..at].contains(&disk), "two copies on disk {disk}");
                held[disk] += 1;
            }
        }
        let (least, most) = (held.iter().min(), held.iter().max());
        assert!(least.zip(most).is_none_or(|(least, most)| most - least <= 1), "{held:?}");
    }
}

pub(super) fn expect_room(
    disks: usize,
    segments_per_disk: usize,
    copies: usize,
) -> Result<(), PlacementError> {
    if copies == 0 || segments_per_disk == 0 || disks == 0 {
        return Err(PlacementError::Nothing);
    }
    if copies > disks {
        return Err(PlacementError::TooFewDisks { copies, disks });
    }
    Ok(())
}
