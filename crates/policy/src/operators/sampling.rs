//! Regular sampling of sorted runs, from which splitters between ranges are chosen.
//!
//! A run is sampled at regular steps (Shi and Schaeffer, 1992), so a splitter is off by one step
//! per run at most, for any distribution. Runs of one input are much alike, however: if all began
//! at the same offset, the samples of all runs would fall on the same keys, and ranges would be far
//! too small or as large as a step of all runs together. Every run therefore begins at another
//! offset within its first step. The offsets of any runs and processes are spread evenly, as a
//! Kronecker sequence (Niederreiter, 1992, 3.3). Each sample stands for a whole step, which is
//! correct on average over all offsets, also at the ends of the keys (systematic sampling; Cochran,
//! 1977, 8).

use crate::sort::RANGE_BYTES_MIN;

/// Rows between two samples of a run, unless `SAMPLES_MAX` requires a longer step.
const STEP_ROWS_MAX: usize = 1024;

/// Samples of one run in the smallest range, at least.
const SAMPLES_IN_RANGE: usize = 8;

/// Samples that all processes send together, at most: enough for ranges within a few percent of
/// even sizes, and negligible beside the data.
const SAMPLES_MAX: usize = 16384;

/// The step of the offset from one run to the next, in units of 2^-64. This and `NEXT_PROCESS` are
/// inverse powers of the plastic number, so that all offsets are spread evenly.
const NEXT_RUN: u64 = 0xc13f_a9a9_02a6_328f;
/// The same between processes.
const NEXT_PROCESS: u64 = 0x91e1_0da5_c79e_7b1d;

/// The sampling of one process's runs.
///
/// ```
/// use euphrates_policy::sampling::Sampling;
///
/// let sampling = Sampling::alone(100);
/// assert_eq!(sampling.step(), 1024);
/// let positions: Vec<usize> = sampling.positions(0, 4096).collect();
/// assert_eq!(positions.len(), 4);
/// assert_ne!(positions, sampling.positions(1, 4096).collect::<Vec<_>>(), "runs have offsets");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    step: usize,
    first: u64,
}

impl Sampling {
    /// The sampling of a single process with rows of about `row_bytes`.
    pub fn alone(row_bytes: usize) -> Sampling {
        let fine = RANGE_BYTES_MIN / SAMPLES_IN_RANGE / row_bytes.max(1);
        Sampling { step: fine.clamp(1, STEP_ROWS_MAX), first: 0 }
    }

    /// The sampling of one of several processes, which has `rows` in all its runs.
    pub fn among(processes: usize, process: usize, rows: usize, row_bytes: usize) -> Sampling {
        let alone = Sampling::alone(row_bytes);
        if processes < 2 {
            return alone;
        }
        let most = (SAMPLES_MAX / processes).max(1);
        let first = NEXT_PROCESS.wrapping_mul(process as u64);
        Sampling { step: alone.step.max(rows.div_ceil(most)), first }
    }

    /// Rows that each sample stands for.
    pub fn step(&self) -> usize {
        self.step
    }

    /// The positions of the samples of a run with `rows`, from its beginning.
    pub fn positions(&self, run: usize, rows: usize) -> impl Iterator<Item = usize> + use<> {
        let part = self.first.wrapping_add(NEXT_RUN.wrapping_mul(run as u64 + 1));
        let first = (u128::from(part) * self.step as u128) >> 64;
        (first as usize..rows).step_by(self.step)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::sort::{RangeSizes, cut};

    #[test]
    fn smallest_range_has_several_samples_at_any_row_size() {
        for row_bytes in [0, 1, 100, 256, 10_000, 100_000, RANGE_BYTES_MIN, 1 << 40] {
            let step = Sampling::alone(row_bytes).step();
            assert!((1..=STEP_ROWS_MAX).contains(&step));
            assert!(step == 1 || step * row_bytes * SAMPLES_IN_RANGE <= RANGE_BYTES_MIN);
        }
        assert_eq!(Sampling::alone(100).step(), STEP_ROWS_MAX);
    }

    /// The bytes of each range, and the bytes asked for, if all runs have the same keys.
    fn ranges(processes: usize, runs: usize, rows: usize, row_bytes: usize) -> Vec<(usize, usize)> {
        let each = (0..processes).flat_map(|process| {
            let own = Sampling::among(processes, process, runs * rows, row_bytes);
            (0..runs).flat_map(move |run| {
                own.positions(run, rows).map(move |position| (position, own.step()))
            })
        });
        let mut samples: Vec<(usize, usize)> = each.collect();
        samples.sort_unstable();
        let steps: Vec<usize> = samples.iter().map(|(_, step)| *step).collect();
        let cuts = cut(&steps, RangeSizes::new(processes, 1 << 30, 0), row_bytes);
        let bytes = |positions: usize| positions * processes * runs * row_bytes;
        let ends = cuts.iter().map(|at| samples[*at].0).chain([rows]);
        let from = [0].into_iter().chain(cuts.clone());
        let to = cuts.iter().copied().chain([samples.len()]);
        let asked = from.zip(to).map(|(from, to)| steps[from..to].iter().sum::<usize>());
        let mut before = 0;
        ends.zip(asked)
            .map(|(end, rows)| {
                let is = bytes(end - before);
                before = end;
                (is, rows * row_bytes)
            })
            .collect()
    }

    #[test]
    fn ranges_of_similar_runs_have_the_requested_size() {
        let cases = [(8, 40, 65_536), (2, 100, 65_536), (16, 3, 800_000), (8, 1, 2_600_000)];
        for (processes, runs, rows) in cases {
            let ranges = ranges(processes, runs, rows, 100);
            // The last range is the remainder.
            for (is, asked) in &ranges[..ranges.len() - 1] {
                let off = is.abs_diff(*asked);
                assert!(off < RANGE_BYTES_MIN / 2, "{processes} of {runs}: {is}, not {asked}");
            }
            let all: usize = ranges.iter().map(|(is, _)| is).sum();
            assert_eq!(all, processes * runs * rows * 100);
        }
    }

    #[test]
    fn samples_stand_for_about_all_rows_and_are_bounded() {
        for (processes, runs, rows) in [(1, 1, 100), (8, 40, 65_536), (300, 500, 1_000_000)] {
            let (mut count, mut sum) = (0, 0);
            for process in 0..processes {
                let own = Sampling::among(processes, process, runs * rows, 100);
                for run in 0..runs {
                    let positions = own.positions(run, rows).count();
                    (count, sum) = (count + positions, sum + positions * own.step());
                }
            }
            let all = processes * runs * rows;
            assert!(sum.abs_diff(all) < all / 100 + STEP_ROWS_MAX, "{sum} of {all}");
            assert!(count <= SAMPLES_MAX + processes, "{count} samples");
        }
    }
}
