//! Where the copies of a collection's segments go.
//!
//! Every disk holds as many segments, and as many mirrors, as every other. What differs is who
//! shares a disk's load when it is slow or dead:
//! - [`chained`]: its neighbours on a ring, from where the load ripples on (chained declustering,
//!   Hsiao and DeWitt, the work River 2.2.3 builds on).
//! - [`spread`]: all other disks at once, the same for each. It loses data more often: any two
//!   disks that die together share some segment.
//!
//! Copies of a segment are on different workers if the workers' disks allow it.

mod chained;
mod design;
mod ring;

use alloc::vec::Vec;

pub use chained::chained;
pub use design::spread;

/// Segments and their disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// For each segment the disks of its copies, the primary first.
    pub segments: Vec<Vec<usize>>,
    /// Segments of which two copies are on one worker, which takes both with it.
    pub on_one_worker: Vec<usize>,
}

/// What cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no copy without a disk, and no segment without a copy.
    Nothing,
    /// Each copy needs a disk of its own.
    TooFewDisks {
        /// Copies of a segment asked for.
        copies: usize,
        /// Disks there are.
        disks: usize,
    },
}

impl Placement {
    fn new(segments: Vec<Vec<usize>>, workers: &[u32]) -> Placement {
        let is_on_one = |disks: &Vec<usize>| {
            let mut of: Vec<u32> = disks.iter().map(|&disk| workers[disk]).collect();
            of.sort_unstable();
            of.windows(2).any(|pair| pair[0] == pair[1])
        };
        let on_one_worker = (0..segments.len()).filter(|&at| is_on_one(&segments[at])).collect();
        let placement = Placement { segments, on_one_worker };
        placement.check(workers.len());
        placement
    }

    /// For every disk, how many segments it shares with each other one.
    pub fn shared_with(&self, disk: usize, disks: usize) -> Vec<usize> {
        let mut shared = alloc::vec![0; disks];
        for copies in self.segments.iter().filter(|copies| copies.contains(&disk)) {
            copies.iter().filter(|&&other| other != disk).for_each(|&other| shared[other] += 1);
        }
        shared
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

fn expect_room(disks: usize, segments_per_disk: usize, copies: usize) -> Result<(), Error> {
    if copies == 0 || segments_per_disk == 0 || disks == 0 {
        return Err(Error::Nothing);
    }
    if copies > disks {
        return Err(Error::TooFewDisks { copies, disks });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
