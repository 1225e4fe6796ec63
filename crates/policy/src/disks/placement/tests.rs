//! Balance, separation of copies and errors, for all small clusters.

extern crate std;

use alloc::vec::Vec;

use super::*;

fn own_workers(disks: usize) -> Vec<u32> {
    (0..disks as u32).collect()
}

#[test]
fn chain_puts_each_mirror_on_the_next_disk() {
    let placed = chained(&own_workers(4), 1, 2).unwrap();
    assert_eq!(placed.segments, [[0, 1], [1, 2], [2, 3], [3, 0]]);
    assert!(placed.on_one_worker.is_empty());
    let three = chained(&own_workers(5), 2, 3).unwrap();
    assert_eq!((three.segments.len(), &three.segments[9]), (10, &alloc::vec![4, 0, 1]));
}

/// The largest difference in shared segments between two other disks, over all disks.
fn unevenness(placed: &DiskPlacement, disks: usize) -> usize {
    let of_disk = |disk: usize| {
        let mut shared = alloc::vec![0; disks];
        for copies in placed.segments.iter().filter(|copies| copies.contains(&disk)) {
            copies.iter().filter(|&&other| other != disk).for_each(|&other| shared[other] += 1);
        }
        let others = || (0..disks).filter(|&other| other != disk).map(|other| shared[other]);
        others().max().unwrap_or(0) - others().min().unwrap_or(0)
    };
    // The design is cyclic, so two disks stand for all.
    of_disk(0).max(of_disk(disks / 2))
}

#[test]
fn design_spreads_the_load_of_a_dead_disk_evenly() {
    for disks in 2..=64 {
        for copies in 2..=4.min(disks) {
            for segments_per_disk in 1..=disks {
                let placed = spread(&own_workers(disks), segments_per_disk, copies).unwrap();
                assert!(placed.on_one_worker.is_empty());
                let uneven = unevenness(&placed, disks);
                assert!(uneven <= copies, "{uneven}: {disks} disks, {copies} copies");
            }
            let perfect = spread(&own_workers(disks), disks - 1, 2).unwrap();
            assert_eq!(unevenness(&perfect, disks), 0, "{disks} disks, each pair shares two");
        }
    }
}

/// All partitions of `disks` into workers with at most `most` disks each.
fn partitions(disks: usize, most: usize) -> Vec<Vec<usize>> {
    if disks == 0 {
        return alloc::vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in 1..=most.min(disks) {
        for rest in partitions(disks - first, first) {
            all.push([&[first], &rest[..]].concat());
        }
    }
    all
}

fn workers_of(counts: &[usize]) -> Vec<u32> {
    let of = |(worker, &count): (usize, &usize)| core::iter::repeat_n(worker as u32, count);
    counts.iter().enumerate().flat_map(of).collect()
}

#[test]
fn copies_are_on_different_workers_if_possible() {
    let mut broken = Vec::new();
    for disks in 2..=13 {
        for copies in 2..=4.min(disks) {
            for counts in partitions(disks, disks) {
                let workers = workers_of(&counts);
                let can = counts[0] * copies <= disks;
                for (name, placed) in [
                    ("chained", chained(&workers, 1, copies).unwrap()),
                    ("spread", spread(&workers, 3, copies).unwrap()),
                ] {
                    if can && !placed.on_one_worker.is_empty() {
                        broken.push((name, copies, counts.clone()));
                    }
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} {broken:?}", broken.len());
}

#[test]
fn mirrors_on_one_worker_are_reported_not_refused() {
    let placed = chained(&[7, 7], 1, 2).unwrap();
    assert_eq!(placed.on_one_worker, [0, 1]);
    let mostly = spread(&[1, 1, 1, 2], 1, 2).unwrap();
    assert_eq!(mostly.segments.len(), 4);
    assert!(!mostly.on_one_worker.is_empty());
}

#[test]
fn impossible_placements_are_errors() {
    let too_few = PlacementError::TooFewDisks { copies: 3, disks: 2 };
    assert_eq!(chained(&[0, 1], 1, 3), Err(too_few));
    assert_eq!(spread(&[0, 1], 1, 3), Err(too_few));
    for (workers, each, copies) in [(&[][..], 1, 1), (&[0][..], 0, 1), (&[0][..], 1, 0)] {
        assert_eq!(chained(workers, each, copies), Err(PlacementError::Nothing));
        assert_eq!(spread(workers, each, copies), Err(PlacementError::Nothing));
    }
    assert_eq!(chained(&[5], 2, 1).unwrap().segments, [[0], [0]]);
}
