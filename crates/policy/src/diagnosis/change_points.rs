//! Change-point detection in a component's speed, after the run, by optimal partitioning.
//!
//! A history is a sequence of intervals, each with the work done and the work expected at speed 1.
//! A partition into segments of constant speed costs the squared deviation from each segment's
//! mean, in units of the noise between neighbouring intervals, plus `PENALTY` for every segment;
//! dynamic programming finds the cheapest partition exactly (Jackson et al. 2005). Noise is
//! estimated from differences of neighbours, so a change of speed, which is one difference of many,
//! does not count as noise.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// The cost of one more segment, in squared standard deviations of the noise that it must explain.
const PENALTY: f64 = 25.0;

/// Adjacent segments whose speeds differ by less than this fraction of the larger are merged.
const CHANGE_MIN: f64 = 0.15;

/// The least noise of an interval that is assumed, as a fraction of its expected work: counters are
/// read at slightly irregular times.
const NOISE_MIN: f64 = 0.05;

/// The evidence of a segment, at least, in blocks of the scale at which noise is measured.
const BLOCKS_MIN: f64 = 2.5;

/// Block sizes, in intervals, over which noise is measured. Progress in large regular steps is
/// noisy between intervals, and less so between blocks of several.
const SCALES: [usize; 3] = [2, 4, 8];

/// How many times smaller its noise must be for a larger scale to be used, which finds changes
/// later.
const SCALE_GAIN: f64 = 3.0;

/// The noise is at least that between neighbouring intervals divided by this.
const STEP_PART: f64 = 8.0;

/// Pairs of blocks that an estimate of noise needs.
const PAIRS_MIN: usize = 5;

/// Intervals with less than this fraction of the median expected work are no evidence of a speed.
const KNOWN_PART: f64 = 0.2;

/// The work of a component in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IntervalWork {
    /// Work done, in any unit.
    pub work: f64,
    /// Work expected at speed 1 in the time the component was busy; 0 if it was idle.
    pub expected: f64,
}

/// A time of constant speed.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedSegment {
    /// The intervals it covers; segments follow each other without gaps.
    pub intervals: Range<usize>,
    /// Work done over work expected.
    pub speed: f64,
    /// Work expected in all intervals: the evidence for the speed.
    pub expected: f64,
}

/// Segments of constant speed that cover all intervals; none if no work was ever expected.
///
/// ```
/// use euphrates_policy::change_points::{IntervalWork, segments};
/// let speeds = [1.0; 40].into_iter().chain([0.25; 30]);
/// let samples: Vec<IntervalWork> =
///     speeds.map(|speed| IntervalWork { work: 10.0 * speed, expected: 10.0 }).collect();
/// let found = segments(&samples);
/// assert_eq!(found.len(), 2);
/// assert_eq!((found[1].intervals.start, found[1].speed), (40, 0.25));
/// ```
pub fn segments(samples: &[IntervalWork]) -> Vec<SpeedSegment> {
    let known = known(samples);
    if known.is_empty() {
        return vec![];
    }
    let sums = Sums::of(samples, &known);
    let (noise, scale) = noise(&sums);
    let cuts = partition(&sums, noise, BLOCKS_MIN * scale as f64);
    let grain = sums.least_step();
    let mut segments: Vec<SpeedSegment> = vec![];
    for (begin, end) in cuts.iter().zip(&cuts[1..]) {
        // Idle intervals belong to the segment before them.
        let first = if *begin == 0 { 0 } else { known[*begin] };
        let last = known.get(*end).copied().unwrap_or(samples.len());
        let (work, expected) = sums.between(*begin, *end);
        let next = SpeedSegment { intervals: first..last, speed: work / expected, expected };
        match segments.last_mut() {
            Some(before) if is_same(before, &next, grain) => before.extend(&next),
            _ => segments.push(next),
        }
    }
    segments
}

/// The indexes of intervals that are evidence of a speed. One with far less expected work than
/// usual (the first of a run has a millisecond) has a random speed, and such an outlier is more
/// noise than all others together. It belongs to the interval before it, as idle ones do.
fn known(samples: &[IntervalWork]) -> Vec<usize> {
    let mut expected: Vec<f64> =
        samples.iter().map(|sample| sample.expected).filter(|one| *one > 0.0).collect();
    expected.sort_by(f64::total_cmp);
    let usual = expected.get(expected.len() / 2).copied().unwrap_or(0.0);
    let tells = |at: &usize| samples[*at].expected > KNOWN_PART * usual;
    (0..samples.len()).filter(tells).collect()
}

impl SpeedSegment {
    fn extend(&mut self, next: &SpeedSegment) {
        let work = self.speed * self.expected + next.speed * next.expected;
        self.expected += next.expected;
        self.speed = work / self.expected;
        self.intervals.end = next.intervals.end;
    }
}

/// Whether adjacent segments have one speed: they differ by little, or by no more than one step of
/// progress, which may have been counted on either side of the boundary.
fn is_same(a: &SpeedSegment, b: &SpeedSegment, grain: f64) -> bool {
    let differs = (a.speed - b.speed).max(b.speed - a.speed);
    differs < CHANGE_MIN * a.speed.max(b.speed) || differs * a.expected.min(b.expected) <= grain
}

/// Prefix sums of work and expected work over the known intervals.
struct Sums(Vec<(f64, f64)>);

impl Sums {
    fn of(samples: &[IntervalWork], known: &[usize]) -> Sums {
        let (mut work, mut expected) = (0.0, 0.0);
        // Work counted in an idle interval was done in the busy one before it.
        let mut sums = vec![(0.0, 0.0)];
        for (at, begin) in known.iter().enumerate() {
            let begin = if at == 0 { 0 } else { *begin };
            let end = known.get(at + 1).copied().unwrap_or(samples.len());
            work += samples[begin..end].iter().map(|sample| sample.work).sum::<f64>();
            expected += samples[begin..end].iter().map(|sample| sample.expected).sum::<f64>();
            sums.push((work, expected));
        }
        Sums(sums)
    }

    /// The smallest work of an interval with any.
    fn least_step(&self) -> f64 {
        let work = self.0.windows(2).map(|pair| pair[1].0 - pair[0].0);
        work.filter(|work| *work > 0.0).fold(f64::INFINITY, f64::min)
    }

    fn between(&self, begin: usize, end: usize) -> (f64, f64) {
        (self.0[end].0 - self.0[begin].0, self.0[end].1 - self.0[begin].1)
    }
}

/// The variance of work per expected work, and the scale at which it was estimated.
fn noise(sums: &Sums) -> (f64, usize) {
    let known = sums.0.len() - 1;
    let (work, expected) = sums.between(0, known);
    let mean = work / expected;
    let least = NOISE_MIN * NOISE_MIN * mean * mean * expected / known as f64;
    let single = noise_at(sums, 1).unwrap_or(0.0);
    let mut found = (single, 1);
    for scale in SCALES {
        let noise = noise_at(sums, scale).filter(|noise| noise * SCALE_GAIN < found.0);
        found = noise.map_or(found, |noise| (noise, scale));
    }
    // A boundary may lie within a step, however regular the steps are.
    (found.0.max(single / STEP_PART).max(least).max(f64::MIN_POSITIVE), found.1)
}

/// The same, from differences of neighbouring blocks of `scale` intervals.
fn noise_at(sums: &Sums, scale: usize) -> Option<f64> {
    let blocks = (sums.0.len() - 1) / scale;
    if blocks <= PAIRS_MIN {
        return None;
    }
    let speed = |block: usize| {
        let (work, expected) = sums.between(block * scale, (block + 1) * scale);
        (work / expected, expected)
    };
    let (mut squares, mut scales) = (0.0, 0.0);
    for block in 1..blocks {
        let ((before, a), (after, b)) = (speed(block - 1), speed(block));
        squares += (before - after) * (before - after);
        scales += 1.0 / a + 1.0 / b;
    }
    (scales > 0.0).then(|| squares / scales)
}

/// The cheapest partition: indexes into the known intervals at which segments begin, and their
/// number at the end.
fn partition(sums: &Sums, noise: f64, intervals_min: f64) -> Vec<usize> {
    let known = sums.0.len() - 1;
    let least_expected = intervals_min * sums.between(0, known).1 / known as f64;
    let mut best = vec![0.0_f64; known + 1];
    let mut from = vec![0_usize; known + 1];
    for end in 1..=known {
        let mut least = f64::INFINITY;
        for (begin, before) in best[..end].iter().enumerate() {
            let (work, expected) = sums.between(begin, end);
            if expected < least_expected && end - begin < known {
                break;
            }
            let cost = before + PENALTY - work * work / (expected * noise);
            if cost < least {
                (least, from[end]) = (cost, begin);
            }
        }
        best[end] = least;
    }
    let mut cuts = vec![known];
    while let Some(begin) = cuts.last().copied().filter(|end| *end > 0) {
        cuts.push(from[begin]);
    }
    cuts.reverse();
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(speeds: impl Iterator<Item = f64>) -> Vec<IntervalWork> {
        speeds.map(|speed| IntervalWork { work: 100.0 * speed, expected: 100.0 }).collect()
    }

    fn begins(found: &[SpeedSegment]) -> Vec<usize> {
        found.iter().map(|segment| segment.intervals.start).collect()
    }

    #[test]
    fn constant_speed_is_one_segment() {
        let jitter = (0..200).map(|at| if at % 3 == 0 { 1.1 } else { 0.95 });
        assert_eq!(segments(&samples(jitter)).len(), 1);
        assert_eq!(segments(&[]), []);
        assert_eq!(segments(&[IntervalWork::default(); 5]), []);
    }

    #[test]
    fn each_slow_pulse_is_found() {
        let pulses = (0..200).map(|at| if at % 50 < 10 { 0.3 } else { 1.0 });
        let found = segments(&samples(pulses));
        assert_eq!(begins(&found), [0, 10, 50, 60, 100, 110, 150, 160]);
    }

    #[test]
    fn idle_intervals_are_no_change_points() {
        let mut all = samples((0..60).map(|at| if at < 40 { 1.0 } else { 0.25 }));
        (10..20).chain(45..50).for_each(|at| all[at] = IntervalWork::default());
        assert_eq!(begins(&segments(&all)), [0, 40]);
    }

    #[test]
    fn short_first_interval_hides_no_change() {
        // A batch is taken in the first millisecond.
        let moment = IntervalWork { work: 100.0, expected: 1.0 };
        let jitter = |at: usize| 1.0 + if at.is_multiple_of(3) { 0.2 } else { -0.1 };
        let speeds = (0..65).map(|at| jitter(at) * if at < 30 { 1.0 } else { 0.25 });
        let all: Vec<IntervalWork> = [moment].into_iter().chain(samples(speeds)).collect();
        assert_eq!(begins(&segments(&all)), [0, 31]);
    }

    #[test]
    fn large_regular_steps_are_no_change_points() {
        // A batch takes eight intervals, and is counted when it is done.
        let lump = |at: usize| if at.is_multiple_of(8) { 8.0 } else { 0.0 };
        let found = segments(&samples((0..200).map(lump)));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn small_differences_are_one_speed() {
        let found = segments(&samples((0..100).map(|at| if at < 50 { 1.0 } else { 0.9 })));
        assert_eq!(found.len(), 1);
        assert!((found[0].speed - 0.95).abs() < 1e-9);
    }
}
