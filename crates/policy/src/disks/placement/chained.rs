//! Chained declustering: mirrors on the next disks of a ring (River 2.2.3).

use alloc::vec::Vec;

use super::plan::{DiskPlacement, PlacementError, expect_room};
use super::ring::ring;

/// Places the copies of a segment on consecutive disks of a ring in which neighbours are on
/// different workers. `workers` is the worker of each disk.
///
/// ```
/// use euphrates_policy::placement::chained;
///
/// let placed = chained(&[0, 1, 2, 3], 1, 2).unwrap();
/// assert_eq!(placed.segments, [[0, 1], [1, 2], [2, 3], [3, 0]]);
/// ```
///
/// # Errors
/// If there are fewer disks than copies, or nothing to place.
pub fn chained(
    workers: &[u32],
    segments_per_disk: usize,
    copies: usize,
) -> Result<DiskPlacement, PlacementError> {
    expect_room(workers.len(), segments_per_disk, copies)?;
    let ring = ring(workers, copies);
    let mut position = alloc::vec![0; ring.len()];
    ring.iter().enumerate().for_each(|(at, &disk)| position[disk] = at);
    let of_disk = |disk: usize| -> Vec<usize> {
        (0..copies).map(|copy| ring[(position[disk] + copy) % ring.len()]).collect()
    };
    let segments = (0..segments_per_disk * ring.len()).map(|at| of_disk(at % ring.len()));
    Ok(DiskPlacement::new(segments.collect(), workers))
}
