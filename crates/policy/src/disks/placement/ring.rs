//! A ring order of disks in which neighbours are on different workers.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Orders the disks round a ring. Any `apart` consecutive disks are on different workers, if no
/// worker has more than one in `apart` of all disks.
pub(super) fn ring(workers: &[u32], apart: usize) -> Vec<usize> {
    let mut of_worker: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (disk, &worker) in workers.iter().enumerate() {
        of_worker.entry(worker).or_default().push(disk);
    }
    let mut groups: Vec<Vec<usize>> = of_worker.into_values().collect();
    if is_even(workers) {
        let each = groups[0].len();
        return (0..each).flat_map(|at| groups.iter().map(move |group| group[at])).collect();
    }
    // The ring is cut into rows of at least `apart` places and filled column by column, the largest
    // worker first, so that its disks are a row apart.
    groups.sort_by_key(|group| core::cmp::Reverse(group.len()));
    let disks = workers.len();
    let rows = (disks / apart).max(1);
    let start = |row: usize| row * (disks / rows) + row.min(disks % rows);
    let column = |at: usize| (0..rows).map(move |row| (row, start(row) + at));
    let positions = (0..=disks / rows).flat_map(column);
    let positions = positions
        .filter(|&(row, position)| position < start(row + 1))
        .map(|(_, position)| position);
    let mut ring = alloc::vec![0; disks];
    for (position, disk) in positions.zip(groups.into_iter().flatten()) {
        ring[position] = disk;
    }
    ring
}

/// Whether all workers have the same number of disks.
pub(super) fn is_even(workers: &[u32]) -> bool {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    workers.iter().for_each(|&worker| *counts.entry(worker).or_default() += 1);
    let mut counts = counts.into_values();
    counts.next().is_none_or(|first| counts.all(|count| count == first))
}
