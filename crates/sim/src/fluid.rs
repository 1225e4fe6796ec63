//! The fluid lower bound on completion time: divisible work that any idle capacity can process.

use std::collections::BTreeMap;

use crate::speed::{SECOND_NS, SpeedChange, SpeedCurve};

/// The earliest time at which the last byte can be consumed, in nanoseconds, if every producer has
/// its own bytes and all consumers share them, with unlimited buffers; `None` if never.
///
/// Bytes that are not produced by some time must be consumed after it, which gives a bound for
/// every time. The largest one is the answer. It lies where a speed changes or a producer ends,
/// since both sides are linear in between.
///
/// ```
/// use euphrates_sim::fluid::flow_done_at;
/// use euphrates_sim::speed::{SECOND_NS, SpeedCurve};
///
/// let (fast, slow) = (SpeedCurve::constant(100), SpeedCurve::constant(10));
/// assert_eq!(flow_done_at(&[(&fast, 110)], &[&fast, &slow]), Some(SECOND_NS * 11 / 10));
/// assert_eq!(flow_done_at(&[(&fast, 110)], &[&slow]), Some(11 * SECOND_NS));
/// ```
pub fn flow_done_at(producers: &[(&SpeedCurve, u64)], consumers: &[&SpeedCurve]) -> Option<u64> {
    let bytes: u128 = producers.iter().map(|&(_, bytes)| u128::from(bytes)).sum();
    let ends = producers.iter().map(|(speed, bytes)| speed.done_at(0, *bytes));
    let ends: Vec<u64> = ends.collect::<Option<_>>()?;
    let produced = sum(producers.iter().map(|&(speed, _)| speed).zip(ends.iter().copied()));
    let consumed = sum(consumers.iter().map(|&speed| (speed, u64::MAX)));
    let changes = produced.changes().iter().chain(consumed.changes());
    let mut done_ns = ends.iter().copied().max().unwrap_or(0);
    for from_ns in changes.map(|step| step.from_ns).chain([0]) {
        let work = bytes * u128::from(SECOND_NS);
        let left = work.saturating_sub(produced.work_between(0, from_ns));
        if left > 0 {
            done_ns = done_ns.max(consumed.done_at_exact(from_ns, left)?);
        }
    }
    Some(done_ns)
}

/// The sum of some speeds, each until its end.
fn sum<'a>(servers: impl Iterator<Item = (&'a SpeedCurve, u64)>) -> SpeedCurve {
    let mut changes: BTreeMap<u64, i128> = BTreeMap::new();
    for (speed, until_ns) in servers {
        let mut before = 0;
        let later = speed.changes().iter().map(|step| (step.from_ns, step.bytes_per_second));
        let steps = [(0, speed.first())].into_iter().chain(later);
        for (from_ns, after) in steps.take_while(|&(from_ns, _)| from_ns < until_ns) {
            *changes.entry(from_ns).or_default() += i128::from(after) - before;
            before = i128::from(after);
        }
        if until_ns < u64::MAX {
            *changes.entry(until_ns).or_default() -= before;
        }
    }
    let mut total = 0;
    let steps = changes.into_iter().map(|(from_ns, change)| {
        total += change;
        let bytes_per_second = u64::try_from(total).expect("speeds add up to 64 bits");
        SpeedChange { from_ns, bytes_per_second }
    });
    SpeedCurve::changing(0, &steps.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn slow_from(from_second: u64, fast: u64, slow: u64) -> SpeedCurve {
        let step = SpeedChange { from_ns: from_second * SECOND_NS, bytes_per_second: slow };
        SpeedCurve::changing(fast, &[step])
    }

    /// When servers that share `bytes` of work perfectly are done, in nanoseconds; `None` if never.
    fn shared_done_at(servers: &[&SpeedCurve], bytes: u64) -> Option<u64> {
        sum(servers.iter().map(|&speed| (speed, u64::MAX)))
            .done_at_exact(0, u128::from(bytes) * u128::from(SECOND_NS))
    }

    #[test]
    fn work_is_shared_in_proportion_to_speed() {
        let (fast, slow) = (SpeedCurve::constant(100), SpeedCurve::constant(10));
        assert_eq!(shared_done_at(&[&fast, &slow], 220), Some(2 * SECOND_NS));
        assert_eq!(shared_done_at(&[&slow_from(1, 100, 0), &slow], 140), Some(4 * SECOND_NS));
        assert_eq!(shared_done_at(&[&SpeedCurve::constant(0)], 1), None);
        assert_eq!(shared_done_at(&[], 0), Some(0));
    }

    #[test]
    fn consumption_follows_production_and_is_limited_by_speed() {
        let (one, two) = (SpeedCurve::constant(1), SpeedCurve::constant(2));
        let bound = |producer: &SpeedCurve, consumer: &SpeedCurve| {
            flow_done_at(&[(producer, 10)], &[consumer]).map(|ns| ns / SECOND_NS)
        };
        assert_eq!(bound(&one, &two), Some(10), "the producer's time");
        assert_eq!(bound(&two, &one), Some(10), "the consumer's time");
        assert_eq!(bound(&one, &slow_from(6, 2, 1)), Some(10));
        assert_eq!(bound(&slow_from(5, 1, 5), &two), Some(7), "5 after 5 s at 2 a second");
        let starving = flow_done_at(&[(&one, 10), (&one, 4)], &[&slow_from(4, 9, 1)]);
        assert_eq!(starving, Some(10 * SECOND_NS));
    }

    #[test]
    fn flow_bound_is_at_least_the_bound_of_each_side() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut speeds = |count: u64| -> Vec<SpeedCurve> {
                let mut one = || {
                    let change = random.between(1, 9);
                    let from_ns = random.below(20) * SECOND_NS;
                    let step = SpeedChange { from_ns, bytes_per_second: change };
                    SpeedCurve::changing(random.between(1, 9), &[step])
                };
                (0..count).map(|_| one()).collect()
            };
            let (producers, consumers) = (speeds(3), speeds(4));
            let owned: Vec<_> = producers.iter().map(|speed| (speed, 50)).collect();
            let consumers: Vec<_> = consumers.iter().collect();
            let flow = flow_done_at(&owned, &consumers).unwrap();
            assert!(flow >= shared_done_at(&consumers, 150).unwrap(), "seed {seed}");
            assert!(owned.iter().all(|(p, b)| flow >= p.done_at(0, *b).unwrap()), "seed {seed}");
        }
    }
}
