//! Block-design placement: a disk shares its segments evenly with all other disks.
//!
//! The design is developed cyclically: a *base block* of places on the ring is rotated by one place
//! at a time, so that all disks hold equally many segments. Two disks then share as many segments
//! as the base blocks have differences equal to theirs. Ideally all differences are equally
//! frequent (a difference family); otherwise each step greedily chooses the rarest difference.
//! Where that would put two copies on one worker, two segments exchange their mirrors.

use alloc::vec::Vec;

use super::plan::{DiskPlacement, PlacementError, expect_room};
use super::ring::{is_even, ring};

/// Places the copies of each disk's segments evenly on all other disks. With `segments_per_disk` of
/// half the number of disks or more, every disk shares segments with every other one.
///
/// ```
/// use euphrates_policy::placement::spread;
///
/// let placed = spread(&[0, 1, 2, 3, 4], 2, 2).unwrap();
/// let with_0 = placed.segments.iter().filter(|copies| copies.contains(&0)).flatten();
/// let mut others: Vec<_> = with_0.filter(|disk| **disk != 0).collect();
/// others.sort();
/// assert_eq!(others, [&1, &2, &3, &4], "disk 0 shares a segment with each of them");
/// ```
///
/// # Errors
/// If there are fewer disks than copies, or nothing to place.
pub fn spread(
    workers: &[u32],
    segments_per_disk: usize,
    copies: usize,
) -> Result<DiskPlacement, PlacementError> {
    expect_room(workers.len(), segments_per_disk, copies)?;
    let ring = ring(workers, copies);
    let disks = ring.len();
    // If all workers have equally many disks, two places are on one worker if their difference is a
    // multiple of the number of workers. Otherwise clashes are resolved afterwards.
    let next_same = || (1..disks).find(|&step| workers[ring[0]] == workers[ring[step]]);
    let same = if is_even(workers) { next_same().unwrap_or(disks) } else { disks };
    let mut frequency = alloc::vec![0usize; disks];
    let mut segments = Vec::with_capacity(segments_per_disk * disks);
    for _ in 0..segments_per_disk {
        let block = base_block(&mut frequency, same, copies);
        segments.extend(developed(&block, &ring, workers));
    }
    Ok(DiskPlacement::new(segments, workers))
}

/// Rotates a base block round the ring, exchanging mirrors that would be on one worker.
fn developed(block: &[usize], ring: &[usize], workers: &[u32]) -> Vec<Vec<usize>> {
    let mut segments: Vec<Vec<usize>> = ring.iter().map(|&disk| alloc::vec![disk]).collect();
    for &step in &block[1..] {
        let moved = (0..ring.len()).map(|at| ring[(at + step) % ring.len()]);
        let mut mirrors: Vec<usize> = moved.collect();
        exchange(&segments, &mut mirrors, workers);
        segments.iter_mut().zip(mirrors).for_each(|(segment, mirror)| segment.push(mirror));
    }
    // Where exchanges do not resolve all clashes, a chain may have fewer.
    let chain = (0..ring.len())
        .map(|by| (0..block.len()).map(|copy| ring[(by + copy) % ring.len()]).collect());
    let chain: Vec<Vec<usize>> = chain.collect();
    let clashes = |segments: &[Vec<usize>]| -> usize {
        segments
            .iter()
            .map(|segment| {
                (1..segment.len())
                    .map(|at| clash(&segment[..at], segment[at], workers))
                    .sum::<usize>()
            })
            .sum()
    };
    if clashes(&chain) < clashes(&segments) { chain } else { segments }
}

/// The cost of adding a disk to a segment: copies on the same worker, or worse, the same disk.
fn clash(segment: &[usize], disk: usize, workers: &[u32]) -> usize {
    let with = |&other: &usize| match workers[other] == workers[disk] {
        true if other == disk => workers.len() * workers.len(),
        same => usize::from(same),
    };
    segment.iter().map(with).sum()
}

/// Exchanges the mirrors of two segments where that lowers the number of clashes.
fn exchange(segments: &[Vec<usize>], mirrors: &mut [usize], workers: &[u32]) {
    let clash = |at: usize, mirror: usize| clash(&segments[at], mirror, workers);
    for at in 0..mirrors.len() {
        let now = clash(at, mirrors[at]);
        if now == 0 {
            continue;
        }
        let gain = |&other: &usize| {
            let before = now + clash(other, mirrors[other]);
            before.saturating_sub(clash(at, mirrors[other]) + clash(other, mirrors[at]))
        };
        let others = (1..mirrors.len()).map(|by| (at + by) % mirrors.len());
        if let Some(other) = others.max_by_key(gain).filter(|other| gain(other) > 0) {
            mirrors.swap(at, other);
        }
    }
}

/// Chooses place 0 and `copies - 1` others with the rarest differences so far.
fn base_block(frequency: &mut [usize], same: usize, copies: usize) -> Vec<usize> {
    let disks = frequency.len();
    let mut block = alloc::vec![0];
    while block.len() < copies {
        let cost = |at: usize| -> (usize, usize) {
            let steps = block.iter().map(|&other| (at + disks - other) % disks);
            let on_one = steps.clone().filter(|step| step % same == 0).count();
            // A difference counts in both directions, which coincide half-way round.
            (on_one, steps.map(|step| square(frequency[step], step * 2 == disks)).sum())
        };
        let free = (1..disks).filter(|at| !block.contains(at));
        let at = free.min_by_key(|&at| cost(at)).expect("more disks than copies");
        for &other in &block {
            let step = (at + disks - other) % disks;
            frequency[step] += 1;
            frequency[disks - step] += 1;
        }
        block.push(at);
    }
    block
}

/// Half of the growth of the sum of squares when a difference is used once more.
fn square(frequency: usize, is_half: bool) -> usize {
    if is_half { 2 * frequency + 2 } else { 2 * frequency + 1 }
}
